"""`docs/what-comes-next.md`, written from what was measured and nothing else.

``python -m dygcn_lab.experiments.following_page results/following docs/what-comes-next.md`` reads files of
`following` (``now.json``, ``positions.json``, ``ages.json``), of `unusual` and of `short_and_long`
(``short.json``), and draws two pictures into ``images/following`` beside the page.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from dygcn_lab.evaluation.paired import Paired
from dygcn_lab.experiments.following import LOGIT, OURS
from dygcn_lab.experiments.unusual import KINDS
from dygcn_lab.report.panels import OTHERS, panels, save
from dygcn_lab.report.panels import OURS as BLUE
from dygcn_lab.report.tables import Value, rows_table

SEALED = ("jodie-wikipedia", "chess", "dnc-email", "bitcoin-alpha", "radoslaw-email")
_WELL = 0.9  # AUC that was asked for
NOW, OLD = "state 0 events old", "state 200 events old"
Measured = dict[str, Any]


def verdicts(row: Measured) -> dict[str, str]:
    """Return by rival whether ours is surely better, worse, or tied."""
    return {
        name: Paired(mean, low, high, steps=2).verdict
        for name, (mean, low, high) in row["ours minus"].items()
    }


def rows_of(measured: Measured, state: str) -> Iterator[tuple[str, str, Measured]]:
    """Yield set, candidates and figures."""
    for name, found in measured.items():
        for kind in ASKS:
            if kind in found.get(state, {}):
                yield name, kind, found[state][kind]


def said(row: Measured) -> str:
    """Say in a word how ours stands beside all rivals."""
    found = verdicts(row)
    worse = [name for name, verdict in found.items() if verdict == "worse"]
    tied = [name for name, verdict in found.items() if verdict == "tied"]
    if worse:
        return f"surely below {', '.join(worse)}"
    return f"tied with {', '.join(tied)}" if tied else "surely above all"


def main_table(measured: Measured, state: str) -> str:
    """Return a row for each set and kind of candidates."""
    rows: list[list[str | Value]] = []
    for name, kind, row in rows_of(measured, state):
        means = {other: mean for other, mean in row["mrr"].items() if other != OURS}
        best = max(means, key=lambda other: means[other])
        by_seed = row["by seed"]
        spread = f"{max(by_seed) - min(by_seed):.3f}"
        mine = Value(f"{row['mrr'][OURS]:.3f}", spread=spread, best=row["mrr"][OURS] >= means[best])
        rows.append(
            [
                name + (" (sealed)" if name in SEALED else ""),
                ASKS[kind],
                mine,
                f"{means[best]:.3f} {best}",
                said(row),
                _new(row),
            ]
        )
    columns = [
        "data",
        "candidates",
        "ours",
        "best rival",
        "ours beside all rivals",
        "new pairs: ours, best rival",
    ]
    return rows_table(columns, rows)


def _new(row: Measured) -> str:
    means = dict(row["mrr of new pairs"])
    if means[OURS] is None:
        return "none"
    mine = means.pop(OURS)
    best = max(means, key=lambda other: means[other])
    return f"{mine:.3f}, {means[best]:.3f} {best}"


def rivals_table(measured: Measured, state: str) -> str:
    """Return every rival's figure."""
    names = list(next(iter(rows_of(measured, state)))[2]["mrr"])
    rows: list[list[str | Value]] = []
    for name, kind, row in rows_of(measured, state):
        best = max(row["mrr"].values())
        figures = [Value(f"{row['mrr'][one]:.3f}", best=row["mrr"][one] == best) for one in names]
        rows.append([name, ASKS[kind], *figures])
    return rows_table(["data", "candidates", *names], rows)


def counts(measured: Measured) -> str:
    """Say on how many sets ours is surely above all rivals, tied, surely below one."""
    lines = []
    for label, kinds in (
        ("Random rivals, or all candidates", ("all", "random")),
        ("Historical rivals, or all candidates", ("all", "historical")),
    ):
        found = {name: verdicts(row) for name, kind, row in rows_of(measured, NOW) if kind in kinds}
        plain = {name: {k: v for k, v in each.items() if k != LOGIT} for name, each in found.items()}
        below = [name for name, each in found.items() if "worse" in each.values()]
        lines.append(
            f"- {label}: surely above every rival that learns nothing on {_above(plain)} of {len(found)} "
            f"sets, above the logit on heuristics, too, on {_above(found)}; surely below any of them on "
            f"{', '.join(below) or 'none'}."
        )
    spreads = [max(row["by seed"]) - min(row["by seed"]) for _, _, row in rows_of(measured, NOW)]
    wide = sum(spread > 0.01 for spread in spreads)
    lines.append(
        f"- The greatest minus the least of the seeds: {max(spreads):.3f} at most, above .01 in {wide} of "
        f"{len(spreads)} rows."
    )
    return "\n".join(lines)


def _above(found: dict[str, dict[str, str]]) -> int:
    return sum(set(each.values()) == {"better"} for each in found.values())


def clock_table(now: Measured, positions: Measured) -> str:
    """Return real times beside positions as times."""
    rows: list[list[str | Value]] = []
    for name, kind, row in rows_of(positions, NOW):
        real = now[name][NOW][kind]
        best = max(mean for other, mean in row["mrr"].items() if other != OURS)
        top = max(mean for other, mean in real["mrr"].items() if other != OURS)
        rows.append(
            [name, ASKS[kind], f"{real['mrr'][OURS]:.3f}, {top:.3f}", f"{row['mrr'][OURS]:.3f}, {best:.3f}"]
        )
    return rows_table(
        ["data", "candidates", "real times: ours, best rival", "positions: ours, best rival"], rows
    )


def unusual_table(measured: Measured) -> str:
    """Return AUC of planted events by surprise, its rank, and the distance that vectors moved."""
    ways = ("surprise", "rank", "distance")
    rows: list[list[str | Value]] = [
        [name, way, *(Value(f"{found[kind][way]:.3f}", best=found[kind][way] >= _WELL) for kind in KINDS)]
        for name, found in measured.items()
        for way in ways
    ]
    return rows_table(["data", "by", "random partner", "popular partner", "another's partner"], rows)


def sums_table(measured: Measured) -> str:
    """Return how far drawn sums are from whole ones."""
    rows = [
        [
            name,
            str(each["events"]),
            f"{each['error, mean']:+.3f}",
            f"{each['error, median size']:.3f}",
            f"{each['error, 90 % of sizes below']:.3f}",
        ]
        for name, each in ((name, found["sums"]) for name, found in measured.items())
    ]
    return rows_table(["data", "events", "mean error", "median size", "90 % below"], rows)


def labels_table(measured: Measured) -> str:
    """Return how well labelled events are found."""
    rows: list[list[str | Value]] = []
    for name, found in measured.items():
        if "labels" in found:
            each = found["labels"]
            rows.append(
                [
                    name,
                    f"{each['labelled']} of {each['of']}",
                    *(f"{each[way]:.3f}" for way in ("surprise", "rank", "few events of the asker")),
                ]
            )
    columns = ["data", "labelled events", "surprise", "rank", "few events of the asker"]
    return rows_table(columns, rows) if rows else "Not run."


def costs_table(measured: Measured) -> str:
    """Return bytes, microseconds an event of each twin, and microseconds a candidate."""
    rows: list[list[str | Value]] = []
    for name, found in measured.items():
        one, many = (found["us an event"][f"batches of {size}"] for size in (1, 100))
        events = [
            f"{each['without']:.0f}, {each['history']:.0f}, {each['surprise']:.0f}" for each in (one, many)
        ]
        scored = found["us a candidate, next"]
        pairs = ", ".join(f"{scored[count]:.1f}" for count in scored)
        sizes = [f"{found['bytes a node']:.0f}", f"{found['bytes a pair']:.0f}"]
        rows.append([name, *sizes, *events, pairs, str(found["products of vectors"])])
    columns = [
        "data",
        "bytes a node",
        "an ordered pair",
        "µs an event, one by one: without, with a history, surprise",
    ]
    columns += ["batches of 100", "µs a candidate, of 1, 100, 1,000", "products of vectors"]
    return rows_table(columns, rows)


def short_table(measured: Measured) -> str:
    """Return whether the short evaluation names what the long one names."""
    rows = [
        [
            name,
            each["sentence"],
            f"{each['long']} (best rival: {each['long, best rival']})",
            "yes" if each["same"] else "no",
            f"{each['seconds']:.0f}",
        ]
        for name, each in measured.items()
    ]
    return rows_table(
        ["data", "`dygcn.evaluate`", "long benchmark, surely better", "the same", "seconds"], rows
    )


def page(folder: Path) -> str:
    """Return the page."""
    found = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in ("now", "positions", "unusual", "short", "costs")
    }
    text = (importlib.resources.files("dygcn_lab.experiments") / "following_page.md").read_text(
        encoding="utf-8"
    )
    parts = {
        "COUNTS": counts(found["now"]),
        "NOW": main_table(found["now"], NOW),
        "OLD": main_table(found["now"], OLD),
        "RIVALS": rivals_table(found["now"], NOW),
        "CLOCK": clock_table(found["now"], found["positions"]),
        "UNUSUAL": unusual_table(found["unusual"]),
        "SUMS": sums_table(found["unusual"]),
        "LABELS": labels_table(found["unusual"]),
        "SHORT": short_table(found["short"]),
        "COSTS": costs_table(found["costs"]),
    }
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)
    return text


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("out", type=click.Path(path_type=Path))
def main(folder: Path, out: Path) -> None:
    """Write the page and its pictures."""
    pictures = out.parent / "images" / "following"
    pictures.mkdir(parents=True, exist_ok=True)
    draw_ages(json.loads((folder / "ages.json").read_text()), pictures / "ages.png")
    draw_calibration(json.loads((folder / "unusual.json").read_text()), pictures / "calibration.png")
    out.write_text(page(folder), encoding="utf-8")


if __name__ == "__main__":
    main()


ASKS = {"all": "all candidates", "random": "random", "historical": "historical"}
_COLOURS = (BLUE, "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")  # ours, then rivals


def draw_ages(measured: Measured, file: Path) -> None:
    """Draw MRR against the age of the state, a panel a set, and beside it the cost of an event."""
    picture, axes = panels(1, len(measured) + 1)
    for axis, (name, found) in zip(axes[0], measured.items(), strict=False):
        states = {about: each for about, each in found.items() if about.startswith("state")}
        places = np.arange(len(states))
        kind = next(kind for kind in ASKS if kind in next(iter(states.values())))
        names = list(next(iter(states.values()))[kind]["mrr"])
        for other, colour in zip(names, _COLOURS, strict=False):
            means = [each[kind]["mrr"][other] for each in states.values()]
            mine = other == OURS
            axis.plot(places[:-1], means[:-1], "o-", color=colour, lw=2.5 if mine else 1, ms=3, label=other)
            axis.plot(places[-1:], means[-1:], "o", color=colour, ms=5 if mine else 3)  # a day has no number
        axis.set_xticks(places, [_age(about) for about in states])
        axis.set_xlabel("age of the state, events")
        axis.set_ylabel(f"MRR, {ASKS[kind]}")
        axis.set_title(name, fontsize=10)
    axes[0, 0].legend(fontsize=7)
    _draw_costs(axes[0, -1], measured)
    save(picture, file)


def _age(about: str) -> str:
    return "a day" if "midnight" in about else about.split()[1]


def _draw_costs(axis: Any, measured: Measured) -> None:
    """Draw microseconds an event, ours and all rivals together, at each age."""
    for name, found in measured.items():
        states = {about: each for about, each in found.items() if about.startswith("state")}
        for who, style in ((OURS, "o-"), ("rivals", "s--")):
            costs = [each["us an event"][who] for each in states.values()]
            axis.plot(np.arange(len(states)), costs, style, ms=3, lw=1, label=f"{name}, {who}")
        axis.set_xticks(np.arange(len(states)), [_age(about) for about in states])
    axis.set_yscale("log")
    axis.set_xlabel("age of the state, events")
    axis.set_ylabel("µs an event")
    axis.set_title("cost of following", fontsize=10)
    axis.legend(fontsize=7)


def draw_calibration(measured: Measured, file: Path) -> None:
    """Draw how many answers were expected in each bin of P, and how many came."""
    picture, axes = panels(1, len(measured))
    for axis, (name, found) in zip(axes[0], measured.items(), strict=True):
        sums = found["sums"]
        places = np.arange(len(sums["answers"]) - 1)  # none has P above 1
        axis.bar(places - 0.2, sums["expected answers"][:-1], 0.4, color=OTHERS, label="expected")
        axis.bar(places + 0.2, sums["answers"][:-1], 0.4, color=BLUE, label="came")
        axis.set_xticks(
            places,
            [f"{low:.0e}" if low < 0.01 else f"{low:.2f}" for low in sums["P from"][:-1]],
            rotation=60,
            fontsize=7,
        )
        axis.set_xlabel("P of a candidate, at least")
        axis.set_ylabel("answers")
        axis.set_title(name, fontsize=10)
    axes[0, 0].legend(fontsize=8)
    save(picture, file)
