"""The claims of this project, each computed from finished cells: asked, found, and where it does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.experiments.findings import find, results_of, series_of
from dygcn.experiments.plan import Row, read_experiment
from dygcn.experiments.sections import title_of
from dygcn.report.tables import Table, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.experiments.cells import CellStore
    from dygcn.experiments.plan import Experiment

TIED = 0.005
OURS = ("exact", "exact, its score")
CHOSEN = "exact, width chosen in training, its score"
RETRAINED = "recompute, retrained"  # the exact rule itself, at many times the cost: it has claims of its own
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


def _best_other(rows: dict[str, float], among: Iterable[str] | None = None) -> tuple[str, float]:
    others = {
        label: mean
        for label, mean in rows.items()
        if not label.startswith("exact") and label != RETRAINED and (among is None or label in among)
    }
    return max(others.items(), key=lambda item: item[1])


def _complete(experiment: Experiment, dataset: str, rows: dict[str, float]) -> bool:
    return {row.label for row in experiment.rows_of(dataset)} <= set(rows)


def on_the_papers_sets(store: CellStore) -> list[Verdict]:
    """The exact rule has the best AUC on the paper's three sets, above the paper's best."""
    table = read_experiment("table2")
    means = _means(table, store, "auc")
    by_cosine = {row.label for row in table.rows if row.by == "cosine"}
    verdicts = []
    for dataset in table.datasets:
        rows = means.get(dataset, {})
        whole = _complete(table, dataset, rows)
        paper = max(row.paper[dataset]["auc"] for row in table.rows if dataset in row.paper)
        for label, among, said in (
            ("exact", by_cosine, "by the cosine, as in the paper, best AUC of all methods"),
            (CHOSEN, None, "by whatever score a method has, best AUC of all methods"),
        ):
            asked = f"{title_of(dataset)}: {said}, above the paper's best ({paper:.3f})"
            if not whole:
                verdicts.append(Verdict(asked, "not all methods were run", None))
                continue
            rival, best = _best_other(rows, among)
            plain = "" if label == "exact" else f" ({OURS[1]}: {rows[OURS[1]]:.4f})"
            found = f"{label} {rows[label]:.4f}{plain}; best other: {rival}, {best:.4f}"
            found += f" (exact, retrained at every step: {rows[RETRAINED]:.4f})"
            verdicts.append(Verdict(asked, found, rows[label] > max(best, paper)))
    return verdicts


def beside_its_retrained_self(store: CellStore) -> list[Verdict]:
    """In the long run the exact rule stays within 0.005 of itself, retrained at every step."""
    verdicts = []
    for dataset in read_experiment("figure-longterm").datasets:
        asked = (
            f"{title_of(dataset)}: at every step within {TIED} of its retrained self, or above (AUC, seed 0)"
        )
        exact = results_of(store, Row("exact", "ours", "exact"), dataset)
        again = results_of(store, Row("retrained", "retrained", "retrained"), dataset)
        if not exact or not again:
            verdicts.append(Verdict(asked, "not run", None))
            continue
        apart = series_of(exact[0].records["exact"], _AUC) - series_of(again[0].records["retrained"], _AUC)
        within, near = int((apart >= -TIED).sum()), int((np.abs(apart) <= TIED).sum())
        found = (
            f"{within} of {len(apart)} steps ({near} within, {within - near} above); "
            f"from {apart.min():+.4f} to {apart.max():+.4f}, mean {apart.mean():+.4f}"
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
            if _complete(experiment, dataset, rows):
                seen += 1
                rival, best = _best_other(rows)
                if rows[label] < best - TIED:
                    lost.append(f"{dataset} ({rows[label]:.3f}; {rival} {best:.3f})")
        asked = f"{label}: best or tied (within {TIED}) AUC of all edges on 10 of 12 sets"
        verdicts.append(_counted(asked, seen, lost, 10))
    said = "do nothing, fixed weights, degree product and DynWalks"
    asked = f"live.score on new-warm links beats {said} on 9 of 12"
    verdicts.append(_counted(asked, *_lost_on_new(experiment, fresh, RIVALS), 9))
    everybody = tuple(row.label for row in experiment.rows if not row.label.startswith("exact"))
    asked = (
        "not asked: live.score on new-warm links beats every other row, do nothing by its own score included"
    )
    verdicts.append(_counted(asked, *_lost_on_new(experiment, fresh, everybody), 12))
    return verdicts


def _lost_on_new(
    experiment: Experiment, fresh: dict[str, dict[str, float]], rivals: Iterable[str]
) -> tuple[int, list[str]]:
    lost, seen = [], 0
    for dataset, rows in fresh.items():
        if _complete(experiment, dataset, rows):
            seen += 1
            mine = rows[OURS[1]]
            above = {name: rows[name] for name in rivals if name in rows and rows[name] >= mine}
            if above:
                said = ", ".join(f"{name} {mean:.3f}" for name, mean in above.items())
                lost.append(f"{dataset} ({mine:.3f}; {said})")
    return seen, lost


def _counted(asked: str, seen: int, lost: list[str], enough: int) -> Verdict:
    found = f"{seen - len(lost)} of {seen}" + (f"; not on {', '.join(lost)}" if lost else "")
    return Verdict(asked, found, seen - len(lost) >= enough if seen == 12 else None)


def hashed_verdicts(store: CellStore) -> list[Verdict]:
    """Return the claims about the exact rule over hashed features."""
    return [*on_the_papers_sets(store), *beside_its_retrained_self(store), *on_twelve_sets(store)]


def verdict_table(verdicts: Iterable[Verdict]) -> Table:
    """Return claims as a table."""
    said = {True: "yes", False: "no", None: "not all was run"}
    rows: list[list[str | Value]] = [[each.asked, each.found, said[each.holds]] for each in verdicts]
    return Table("", ["asked", "found", "holds"], rows)


def headline_table(store: CellStore) -> Table:
    """Return the table of the README: AUC of all edges and of new ones."""
    experiment = read_experiment("twelve")
    labels = [row.label for row in experiment.rows if row.only is None]
    everything, fresh = (_means(experiment, store, measure) for measure in ("auc", "new-warm"))
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        if dataset in everything:
            pairs = [(everything[dataset].get(label), fresh[dataset].get(label)) for label in labels]
            tops = [max((pair[i] or 0.0) for pair in pairs) for i in (0, 1)]
            rows.append([title_of(dataset), *(_pair(pair, tops) for pair in pairs)])
    return Table("", ["AUC, all edges / new ones", *labels], rows)


def _pair(pair: tuple[float | None, float | None], tops: list[float]) -> str:
    if pair[0] is None or pair[1] is None:
        return ""
    texts = []
    for value, top in zip(pair, tops, strict=True):
        best = np.round(value or 0.0, 3) >= np.round(top, 3)
        texts.append(f"**{value:.3f}**" if best else f"{value:.3f}")
    return " / ".join(texts)
