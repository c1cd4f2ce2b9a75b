"""Rows of one table beside each other: their means, and who is surely better."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn_lab.evaluation import compare
from dygcn_lab.experiments.findings import results_of, seed_means, series_by_seed
from dygcn_lab.experiments.plan import read_experiment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn_lab.evaluation import Paired
    from dygcn_lab.experiments.cells import CellStore
    from dygcn_lab.experiments.plan import Row


class Compared:
    """The rows of an experiment, by data set and label, each cell read once."""

    def __init__(self, store: CellStore, name: str) -> None:
        self.experiment = read_experiment(name)
        self.datasets = self.experiment.datasets
        self._rows = {
            (dataset, row.label): (row, results_of(store, row, dataset))
            for dataset in self.datasets
            for row in self.experiment.rows_of(dataset)
        }

    def rows(self, dataset: str) -> list[Row]:
        """Return the rows that a data set has."""
        return self.experiment.rows_of(dataset)

    def means(self, dataset: str, measure: str, labels: Iterable[str]) -> dict[str, float] | None:
        """Return label -> mean over steps and seeds, or None where a row was not run."""
        found = {}
        for label in labels:
            row, results = self._rows[dataset, label]
            means = seed_means(results, row, measure)
            if len(means) == 0:
                return None
            found[label] = float(means.mean())
        return found

    def seeds(self, dataset: str, label: str, measure: str) -> int:
        """Return how many seeds a mean is of."""
        row, results = self._rows[dataset, label]
        return len(seed_means(results, row, measure))

    def against(self, dataset: str, measure: str, ours: str, theirs: str) -> Paired:
        """Return how much greater one row is than another, by a paired bootstrap over the steps."""
        return compare(*(self._series(dataset, measure, label) for label in (ours, theirs)))

    def unbeaten(self, dataset: str, measure: str, labels: Iterable[str]) -> set[str]:
        """Return the row with the greatest mean, and those that it is not surely better than."""
        means = self.means(dataset, measure, labels) or {}
        most = max(means, key=means.__getitem__, default="")
        return {name for name in means if self.against(dataset, measure, most, name).verdict != "better"}

    def _series(self, dataset: str, measure: str, label: str) -> np.ndarray:
        row, results = self._rows[dataset, label]
        series = series_by_seed(results, row, measure)
        return np.empty((1, 0)) if series is None else series
