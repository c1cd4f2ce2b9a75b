"""The page of recommendations, written from results: `recommending_page.md` says by which command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dygcn_lab.report.tables import rows_table

OURS = "dygcn"
_HEAD = Path(__file__).with_name("recommending_page.md")
_MARGIN = -0.005


def page(folder: Path) -> str:
    """Return the page for the files of a folder."""
    found = {
        name: json.loads((folder / f"{name}.json").read_text()) for name in ("quality", "replay", "costs")
    }
    parts = [_HEAD.read_text().rstrip(), "## Beside the best", best(found["quality"])]
    parts += [
        f"## {name}\n\n{about['users']:,} users, at {about['k']}.\n\n{rows(about)}"
        for name, about in found["quality"].items()
    ]
    parts += ["## Ten weeks of a shop, day by day", replay(found["replay"])]
    return "\n\n".join([*parts, "## Costs", costs(found["costs"]["sets"], found["quality"])]) + "\n"


def table(head: str, lines: list[list[str]]) -> str:
    """Return a table in Markdown; the columns of its head are divided by commas."""
    return rows_table(head.split(", "), lines)


def interval(difference: list[float]) -> str:
    """Return a difference with its interval.

    Examples
    --------
    >>> interval([0.01, -0.002, 0.02])
    '+.0100 (-.0020 to +.0200)'
    """
    middle, low, high = (f"{number:+.4f}".replace("0.", ".", 1) for number in difference)
    return f"{middle} ({low} to {high})"


def plain(number: float) -> str:
    """Return a share without its zero."""
    return f"{number:.4f}".replace("0.", ".", 1)


def best(quality: dict[str, Any]) -> str:
    """Return ours beside the best of EASE and ALS on each question, with and without the clock."""
    lines = []
    for name, about in quality.items():
        against = about["ours minus"].get(OURS, {})
        for clock in (False, True):
            able = [one for one in about["rows"] if one in _RIVALS[clock] and one in against]
            if able:
                rival = max(able, key=lambda one: about["rows"][one]["recall"])
                apart = against[rival]["recall"]
                verdict = (
                    "surely above" if apart[1] > 0 else f"above {_MARGIN:g}" if apart[1] > _MARGIN else "no"
                )
                ours, theirs = about["rows"][OURS], about["rows"][rival]
                shown = [f"{plain(row['recall'])} / {plain(row['ndcg'])}" for row in (ours, theirs)]
                lines.append([name, shown[0], rival, shown[1], interval(apart), verdict])
    return table("question, ours: recall / NDCG, rival, its, difference of recall, interval", lines)


_RIVALS = {False: ("EASE", "ALS"), True: ("EASE, clock", "ALS, clock")}


def rows(about: dict[str, Any]) -> str:
    """Return all rows of a question."""
    against, lines = about["ours minus"].get(OURS, {}), []
    for name, row in about["rows"].items():
        apart = interval(against[name]["recall"]) if name in against else ""
        search = str(row.get("cpu s of search", ""))
        costs = [search, str(row["cpu s of fit"]), str(row.get("settings", "")).replace("|", "/")]
        lines.append([name, plain(row["recall"]), plain(row["ndcg"]), apart, *costs])
    return table("row, recall, NDCG, recall of ours minus it, CPU s of search, of fit, settings", lines)


def replay(found: dict[str, Any]) -> str:
    """Return the rows of the replay."""
    (about,) = found.values()
    lines = []
    for name, row in about["rows"].items():
        apart = about["ours minus"].get(f"{OURS}, moment", {}).get(name)
        spent = str(row.get("cpu s of search", "")), str(row["cpu s of fit"])
        shown = plain(row["recall"]), plain(row["ndcg"])
        lines.append([name, *shown, "" if apart is None else interval(apart["recall"]), *spent])
    asked = f"{about['users']:,} questions, at {about['k']}.\n\n"
    return asked + table(
        "row, recall, NDCG, recall of ours of the moment minus it, CPU s of search, of all fits", lines
    )


def costs(sets: dict[str, Any], quality: dict[str, Any]) -> str:
    """Return what a filter costs, and how long a recommendation takes beside implicit."""
    lines = [[name, what, str(value)] for name, found in sets.items() for what, value in found.items()]
    turns = [
        [name, str(one["ours"]), str(one["implicit, 64 factors"])]
        for name, about in quality.items()
        if (one := about.get("us beside implicit", {}).get(OURS))
    ]
    beside = table("question, us a recommendation by turns: ours, implicit with 64 factors", turns)
    return f"{beside}\n\n{table('set, what, measured', lines)}"


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
def command(folder: Path, out: Path) -> None:
    """Write the page."""
    out.write_text(page(folder))


if __name__ == "__main__":
    command()
