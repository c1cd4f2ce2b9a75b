"""From cells to what a table shows: means over steps and seeds, their spread, the paper's number beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dygcn.engine.records import Float64
from dygcn_lab.evaluation import compare
from dygcn_lab.experiments.cells import CellResult, CellStore, Record
from dygcn_lab.experiments.plan import Experiment, Row, cell_of

FAR = 0.03  # a difference from the paper that wants a sentence
_LINK = {
    "auc": "auc.all.uniform",
    "auc-degree": "auc.all.degree",
    "new-warm": "auc.new-warm.uniform",
    "new-warm-degree": "auc.new-warm.degree",
    "never": "auc.never.uniform",
    "never-degree": "auc.never.degree",
    "f1": "f1.median",
    "f1-trained": "f1.trained",
}
MEASURES = {
    "auc": "AUC",
    "auc-degree": "AUC, degree-matched",
    "new-warm": "AUC, new-warm",
    "new-warm-degree": "AUC, new-warm, degree-matched",
    "never": "AUC, links never seen",
    "never-degree": "AUC, links never seen, degree-matched",
    "f1": "F1",
    "f1-trained": "F1, threshold from training",
    "seconds": "seconds a step",
    "accuracy": "accuracy",
    "accuracy.newcomers": "accuracy, newcomers",
    "accuracy.held-out": "accuracy, labels held out",
    "accuracy.held-out.newcomers": "accuracy, newcomers, fitted on half of the labels",
    "accuracy.majority": "accuracy of the most frequent class, labels held out",
    "accuracy.majority.newcomers": "accuracy of the most frequent class, newcomers",
    "reconstruction": "precision",
    "untouched": "turn of untouched nodes",
    "rewritten": "vectors rewritten an event",
    "rows": "rows a step",
    "unreached": "share of nodes that no row reaches",
    "recall.dot": "recall at 10, dot products",
    "recall.reranked": "recall at 10, the first 100 scored again",
    "recall.with-neighbours": "recall at 10, the first 100 and all neighbours scored again",
}

SERIES = {  # what lines show
    "accuracy": "accuracy",
    "cosine.f1.median": "F1 at the median",
    "cosine.auc.new-warm.uniform": "AUC, new links",
}


@dataclass(frozen=True)
class Finding:
    """One number of a table."""

    dataset: str
    row: Row
    measure: str
    mean: float
    spread: float  # greatest minus least over the seeds
    seeds: int
    paper: float | None
    minutes: float

    @property
    def far(self) -> bool:
        """Whether ours differs from the paper's by more than 0.03; times are never compared."""
        return self.paper is not None and self.measure != "seconds" and abs(self.mean - self.paper) > FAR


def figure_name(row: Row, measure: str) -> str:
    """Return the judge's name of a measure.

    Examples
    --------
    >>> from dygcn_lab.experiments.plan import Row
    >>> figure_name(Row("ours", "ours", "exact", by="score"), "new-warm")
    'score.auc.new-warm.uniform'
    """
    return f"{row.by}.{_LINK[measure]}" if measure in _LINK else measure


def series_of(record: Record, name: str) -> Float64:
    """Return a figure over the steps; NaN where a step had nothing to judge."""
    return np.array([np.nan if value is None else value for value in record.figures[name]], np.float64)


def results_of(store: CellStore, row: Row, dataset: str, quick: bool = False) -> list[CellResult]:
    """Return the finished cells of a row, one for each seed."""
    seeds = range(1 if quick else row.seeds)
    found = (store.read(cell_of(row, dataset, seed, quick)) for seed in seeds)
    return [result for result in found if result is not None and row.record in result.records]


def seed_means(results: list[CellResult], row: Row, measure: str) -> Float64:
    """Return the mean over the steps (of seconds the median), for each seed."""
    means = []
    for result in results:
        record = result.records[row.record]
        name = figure_name(row, measure)
        if name in record.figures:
            series = series_of(record, name)
            series = series[~np.isnan(series)]
            if len(series):
                means.append(np.median(series) if measure == "seconds" else np.mean(series))
    return np.array(means, np.float64)


def find(experiment: Experiment, store: CellStore, quick: bool = False) -> Iterator[Finding]:
    """Yield every number that can be told from finished cells."""
    for dataset in experiment.datasets:
        for row in experiment.rows_of(dataset):
            results = results_of(store, row, dataset, quick)
            minutes = sum(result.minutes for result in results)
            for measure in experiment.measures:
                means = seed_means(results, row, measure)
                if len(means):
                    paper = row.paper.get(dataset, {}).get(measure)
                    yield Finding(
                        dataset,
                        row,
                        measure,
                        float(means.mean()),
                        float(np.ptp(means)),
                        len(means),
                        paper,
                        minutes,
                    )


def series_by_seed(results: list[CellResult], row: Row, measure: str) -> Float64 | None:
    """Return a measure as (seeds, steps), or None where no cell has it."""
    name = figure_name(row, measure)
    records = [result.records[row.record] for result in results]
    series = [series_of(record, name) for record in records if name in record.figures]
    return np.stack(series) if series else None


def unbeaten(experiment: Experiment, store: CellStore, dataset: str, measure: str, quick: bool) -> list[Row]:
    """Return the row with the greatest mean, and those that it is not surely better than.

    Surely: by a paired bootstrap over the steps (`dygcn_lab.evaluation.compare`).
    """
    found = []
    for row in experiment.rows_of(dataset):
        series = series_by_seed(results_of(store, row, dataset, quick), row, measure)
        if series is not None and np.isfinite(series).any():
            found.append((row, series))
    if not found:
        return []
    _, most = max(found, key=lambda item: float(np.nanmean(item[1])))
    return [row for row, series in found if compare(most, series).verdict != "better"]


def mean_series(results: list[CellResult], row: Row, name: str) -> Float64:
    """Return a figure over the steps, averaged over seeds."""
    series = [
        series_of(result.records[row.record], name)
        for result in results
        if name in result.records[row.record].figures
    ]
    return np.mean(series, axis=0) if series else np.empty(0)
