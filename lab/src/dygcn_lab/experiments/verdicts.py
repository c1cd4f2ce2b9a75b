"""Claims, each computed from finished cells: asked, found, where it does not hold; of hashed features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.engine.records import Float64
from dygcn_lab.experiments.cells import CellResult, CellStore
from dygcn_lab.experiments.findings import find, results_of, series_of
from dygcn_lab.experiments.plan import Row, read_experiment
from dygcn_lab.experiments.sections import title_of
from dygcn_lab.report.tables import Table, Value

Means = dict[str, dict[str, float]]  # data set -> label -> mean

TIED = 0.005
RETRAINED = "recompute, retrained"  # the exact rule itself, at many times the cost: it has claims of its own
BANK = Row("EdgeBank, recency", "trivial", "edgebank-recency", by="score")
_AUC = "auc.all.uniform"


@dataclass(frozen=True)
class Verdict:
    """One claim."""

    asked: str
    found: str
    holds: bool | None  # None: not all of it was run


def means_of(store: CellStore, name: str, measure: str) -> Means:
    """Return the means of a measure of an experiment."""
    found: Means = {}
    for each in find(read_experiment(name), store):
        if each.measure == measure:
            found.setdefault(each.dataset, {})[each.row.label] = each.mean
    return found


def counted(asked: str, seen: int, lost: Sequence[str], enough: int, sets: int, more: str = "") -> Verdict:
    """Return a claim that has to hold on enough data sets; it waits until all of them were seen.

    Examples
    --------
    >>> counted("best on 2 of 3", 3, ["as-733 (0.8; 0.9)"], 2, 3)
    Verdict(asked='best on 2 of 3', found='2 of 3; not on as-733 (0.8; 0.9)', holds=True)
    """
    found = f"{seen - len(lost)} of {seen}" + (f"; not on {', '.join(lost)}" if lost else "")
    return Verdict(asked, found + more, seen - len(lost) >= enough if seen == sets else None)


def on_the_papers_sets(store: CellStore) -> list[Verdict]:
    """By the cosine, the exact rule is above the other embeddings of Table 2, and above the paper's best."""
    table, means = read_experiment("table2"), means_of(store, "table2", "auc")
    verdicts = []
    for dataset in table.datasets:
        rows = means.get(dataset, {})
        paper = max(row.paper[dataset]["auc"] for row in table.rows if dataset in row.paper)
        asked = f"{title_of(dataset)}: AUC above every other embedding of Table 2"
        asked += f" and above the paper's best ({paper:.3f})"
        if not {row.label for row in table.rows_of(dataset)} <= set(rows):
            verdicts.append(Verdict(asked, "not all methods were run", None))
            continue
        by_cosine = {row.label for row in table.rows if row.by == "cosine"} - {RETRAINED}
        others = {name: rows[name] for name in by_cosine if not name.startswith("exact")}
        rival, best = max(others.items(), key=lambda item: item[1])
        found = f"exact {rows['exact']:.4f}; best other: {rival}, {best:.4f}"
        found += f" (exact, retrained at every step: {rows[RETRAINED]:.4f}{_bank(store, dataset)})"
        verdicts.append(Verdict(asked, found, rows["exact"] > max(best, paper)))
    return verdicts


def _bank(store: CellStore, dataset: str) -> str:
    """Say what a list of pairs gets, where that was asked: most of these edges are there already."""
    results = results_of(store, BANK, dataset)
    if not results:
        return ""
    mean = np.nanmean(series_of(results[0].records[BANK.record], f"score.{_AUC}"))
    return f"; EdgeBank with recency, no embedding: {mean:.4f}"


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
        apart = _series(exact, "exact") - _series(again, "retrained")
        within, near = int((apart >= -TIED).sum()), int((np.abs(apart) <= TIED).sum())
        found = (
            f"{within} of {len(apart)} steps ({near} within, {within - near} above); "
            f"from {apart.min():+.4f} to {apart.max():+.4f}, mean {apart.mean():+.4f}"
        )
        verdicts.append(Verdict(asked, found, within == len(apart)))
    return verdicts


def _series(results: list[CellResult], record: str) -> Float64:
    return series_of(results[0].records[record], f"cosine.{_AUC}")


def hashed_verdicts(store: CellStore) -> list[Verdict]:
    """Return the claims about the exact rule over hashed features, all of them by the cosine."""
    return [*on_the_papers_sets(store), *beside_its_retrained_self(store)]


def verdict_table(verdicts: Iterable[Verdict], caption: str = "") -> Table:
    """Return claims as a table."""
    said = {True: "yes", False: "no", None: "not all was run"}
    rows: list[list[str | Value]] = [[each.asked, each.found, said[each.holds]] for each in verdicts]
    return Table(caption, ["asked", "found", "holds"], rows)
