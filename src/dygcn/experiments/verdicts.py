"""The claims of this project, each computed from finished cells: asked, found, and where it does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.experiments.findings import find, results_of, series_of
from dygcn.experiments.plan import Row, read_experiment
from dygcn.experiments.sections import Table, Value, title_of

if TYPE_CHECKING:
    from dygcn.experiments.cells import CellStore
    from dygcn.experiments.plan import Experiment

TIED = 0.005
OURS = ("exact", "exact, its score")
HEADLINE = (
    *("exact, its score", "exact", "do nothing", "recompute, fixed weights"),
    *("FastRP rerun", "Cleora rerun", "DynWalks", "degree product"),
)
RIVALS = ("do nothing", "recompute, fixed weights", "degree product", "DynWalks")
_AUC = "cosine.auc.all.uniform"


@dataclass(frozen=True)
class Verdict:
    """One claim."""

    asked: str
    found: str
    holds: bool | None  # None: not all of it was run


def _means(experiment: Experiment, store: CellStore, measure: str) -> dict[str, dict[str, float]]:
    """Return data set -> label -> mean."""
    found: dict[str, dict[str, float]] = {}
    for each in find(experiment, store):
        if each.measure == measure:
            found.setdefault(each.dataset, {})[each.row.label] = each.mean
    return found


def _best_other(rows: dict[str, float]) -> tuple[str, float]:
    others = {label: mean for label, mean in rows.items() if not label.startswith("exact")}
    return max(others.items(), key=lambda item: item[1])


def on_the_papers_sets(store: CellStore) -> list[Verdict]:
    """The exact rule has the best AUC on the paper's three sets, above the paper's best."""
    table = read_experiment("table2")
    means = _means(table, store, "auc")
    verdicts = []
    for dataset in table.datasets:
        rows = means.get(dataset, {})
        paper = max(row.paper[dataset]["auc"] for row in table.rows if dataset in row.paper)
        wanted = [row.label for row in table.rows_of(dataset)]
        asked = f"{title_of(dataset)}: best AUC of all methods, above the paper's best ({paper:.3f})"
        if "exact" not in rows:
            verdicts.append(Verdict(asked, "not run", None))
            continue
        label, best = _best_other(rows)
        ours = {name: mean for name, mean in rows.items() if name.startswith("exact")}
        said = ", ".join(f"{name} {mean:.4f}" for name, mean in ours.items())
        found = f"{said}; best other: {label}, {best:.4f}"
        whole = set(wanted) <= set(rows)
        holds = max(ours.values()) > max(best, paper) if whole else None
        verdicts.append(Verdict(asked, found, holds))
    return verdicts


def beside_its_retrained_self(store: CellStore) -> list[Verdict]:
    """In the long run the exact rule stays within 0.005 of itself, retrained at every step."""
    verdicts = []
    for dataset in read_experiment("figure-longterm").datasets:
        asked = f"{title_of(dataset)}: at every step within {TIED} of its retrained self (AUC, seed 0)"
        exact = results_of(store, Row("exact", "ours", "exact"), dataset)
        again = results_of(store, Row("retrained", "retrained", "retrained"), dataset)
        if not exact or not again:
            verdicts.append(Verdict(asked, "not run", None))
            continue
        apart = series_of(exact[0].records["exact"], _AUC) - series_of(again[0].records["retrained"], _AUC)
        within = int((apart >= -TIED).sum())
        found = (
            f"{within} of {len(apart)} steps; at worst {apart.min():+.4f}, at best {apart.max():+.4f}, "
            f"mean {apart.mean():+.4f}"
        )
        verdicts.append(Verdict(asked, found, within == len(apart)))
    return verdicts


def on_twelve_sets(store: CellStore) -> list[Verdict]:
    """Best or tied `all` AUC on ten of twelve; `new-warm` above four rivals on nine of twelve."""
    experiment = read_experiment("twelve")
    verdicts = []
    everything, fresh = (_means(experiment, store, measure) for measure in ("auc", "new-warm"))
    for label in OURS:
        lost, seen = [], 0
        for dataset, rows in everything.items():
            if label in rows:
                seen += 1
                rival, best = _best_other(rows)
                if rows[label] < best - TIED:
                    lost.append(f"{dataset} ({rows[label]:.3f}; {rival} {best:.3f})")
        found = f"{seen - len(lost)} of {seen}" + (f"; not on {', '.join(lost)}" if lost else "")
        asked = f"{label}: best or tied (within {TIED}) AUC of all edges on 10 of 12 sets"
        verdicts.append(Verdict(asked, found, seen - len(lost) >= 10 if seen == 12 else None))
    lost, seen = [], 0
    for dataset, rows in fresh.items():
        if all(name in rows for name in (*RIVALS, OURS[1])):
            seen += 1
            above = {name: rows[name] for name in RIVALS if rows[name] >= rows[OURS[1]]}
            if above:
                said = ", ".join(f"{name} {mean:.3f}" for name, mean in above.items())
                lost.append(f"{dataset} ({rows[OURS[1]]:.3f}; {said})")
    found = f"{seen - len(lost)} of {seen}" + (f"; not on {', '.join(lost)}" if lost else "")
    asked = (
        "live.score on new-warm links beats do nothing, fixed weights, degree product and DynWalks on 9 of 12"
    )
    verdicts.append(Verdict(asked, found, seen - len(lost) >= 9 if seen == 12 else None))
    return verdicts


def verdict_table(store: CellStore) -> Table:
    """Return all claims as a table."""
    verdicts = [*on_the_papers_sets(store), *beside_its_retrained_self(store), *on_twelve_sets(store)]
    said = {True: "yes", False: "no", None: "not all was run"}
    rows: list[list[str | Value]] = [[each.asked, each.found, said[each.holds]] for each in verdicts]
    return Table("", ["asked", "found", "holds"], rows)


def headline_table(store: CellStore) -> Table:
    """Return the table of the README: AUC of all edges and of new ones."""
    experiment = read_experiment("twelve")
    everything, fresh = (_means(experiment, store, measure) for measure in ("auc", "new-warm"))
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        if dataset in everything:
            pairs = [(everything[dataset].get(label), fresh[dataset].get(label)) for label in HEADLINE]
            tops = [max((pair[i] or 0.0) for pair in pairs) for i in (0, 1)]
            rows.append([title_of(dataset), *(_pair(pair, tops) for pair in pairs)])
    return Table("", ["AUC, all edges / new ones", *HEADLINE], rows)


def _pair(pair: tuple[float | None, float | None], tops: list[float]) -> str:
    if pair[0] is None or pair[1] is None:
        return ""
    texts = []
    for value, top in zip(pair, tops, strict=True):
        best = np.round(value or 0.0, 3) >= np.round(top, 3)
        texts.append(f"**{value:.3f}**" if best else f"{value:.3f}")
    return " / ".join(texts)
