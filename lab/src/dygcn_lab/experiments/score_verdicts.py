"""What was asked of the score of a link, computed from finished cells: new links, all links."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from dygcn_lab.evaluation import Paired, compare
from dygcn_lab.experiments.cells import CellStore
from dygcn_lab.experiments.findings import results_of, seed_means, series_by_seed
from dygcn_lab.experiments.plan import Row, read_experiment
from dygcn_lab.experiments.verdicts import Verdict, counted

MINE = "score"  # of the rows of `links`
ASKED = {  # AUC of new links by the score, in the mean of the seeds
    "as-733": 0.975,
    "hepth-collab": 0.80,
    "as-caida": 0.98,
    "cit-hepth": 0.97,
    "college-msg": 0.80,
    "sx-mathoverflow": 0.90,
    "email-eu-core-temporal": 0.875,
    "dblp-labelled": 0.86,
    "bitcoin-otc": 0.915,
    "facebook-wall-growth": 0.885,
    "digg-reply": 0.75,
}
SETS = len(ASKED)
NEW, ALL = "new-warm", "auc"
BANK = "EdgeBank, recency"
NEAR = 0.003


def is_trivial(row: Row) -> bool:
    """Return whether a row learns nothing."""
    return row.group == "trivial"


def is_headed(row: Row) -> bool:
    """Return whether a row is another embedding with our score over its vectors."""
    return row.by == "score" and not is_trivial(row) and not row.label.startswith(MINE)


def is_headless(row: Row) -> bool:
    """Return whether a row has no score that was learned: a cosine, or one that learns nothing."""
    return row.by == "cosine" or is_trivial(row)


def score_verdicts(store: CellStore) -> list[Verdict]:
    """Return all that was asked, and what was found."""
    links = Compared(store, "links")
    return [_reached(links), _above_headless(links), _not_below_headed(links), _beside_bank(links)]


def _reached(links: Compared) -> Verdict:
    asked = "new links by the score: " + ", ".join(f"{k} {v:g}" for k, v in ASKED.items())
    found, lost = [], []
    for dataset, least in ASKED.items():
        means = links.means(dataset, NEW, [MINE])
        if means is None:
            continue
        seeds = links.seeds(dataset, MINE, NEW)
        found.append(f"{dataset} {means[MINE]:.3f} ({seeds} seed{'s' if seeds > 1 else ''})")
        if means[MINE] < least:
            lost.append(f"{dataset} ({means[MINE]:.4f}; asked {least:g})")
    said = f"{', '.join(found)}; below on {', '.join(lost) or 'none'}" if found else "not run"
    return Verdict(asked, said, not lost if len(found) == SETS else None)


def _above_headless(links: Compared) -> Verdict:
    """The score is surely above every row without a learned score."""
    asked = "new links: surely above every row without a learned score, on 10 of 11"
    return _beside(links, is_headless, ("tied", "worse"), asked)


def _not_below_headed(links: Compared) -> Verdict:
    """No other embedding with the same score is surely above ours."""
    asked = "new links: not surely below any other embedding with the same score, on 10 of 11"
    return _beside(links, is_headed, ("worse",), asked)


def _beside(links: Compared, kind: Callable[[Row], bool], losses: tuple[str, ...], asked: str) -> Verdict:
    """Compare the score of new links with rows of a kind: a set is lost if a verdict is among the losses."""
    seen, lost = 0, []
    for dataset in links.datasets:
        others = _run(links, dataset, kind)
        means = links.means(dataset, NEW, [MINE, *others])
        if means is None:
            continue
        seen += 1
        verdicts = {name: links.against(dataset, NEW, MINE, name).verdict for name in others}
        ahead = [name for name in others if verdicts[name] in losses]
        if ahead:
            best = max(ahead, key=means.__getitem__)
            lost.append(f"{dataset} ({means[MINE]:.3f}; {best} {means[best]:.3f}: {verdicts[best]})")
    return _with_missing(links, kind, counted(asked, seen, lost, 10, SETS))


def _run(links: Compared, dataset: str, kind: Callable[[Row], bool]) -> list[str]:
    """Return the rows of a kind that were run."""
    rows = [row.label for row in links.rows(dataset) if kind(row)]
    return [label for label in rows if links.seeds(dataset, label, NEW)]


def _with_missing(links: Compared, kind: Callable[[Row], bool], verdict: Verdict) -> Verdict:
    """Return a verdict that names the rows that were not run, and is open as long as there are some."""
    missing: dict[str, list[str]] = {}
    for dataset in links.datasets:
        for row in links.rows(dataset):
            if kind(row) and row.label not in _run(links, dataset, kind):
                missing.setdefault(row.label, []).append(dataset)
    if not missing:
        return verdict
    said = "; ".join(f"{label} on {', '.join(datasets)}" for label, datasets in missing.items())
    return dataclasses.replace(verdict, found=f"{verdict.found}. Not run: {said}", holds=None)


def _beside_bank(links: Compared) -> Verdict:
    seen, lost = 0, []
    for dataset in links.datasets:
        means = links.means(dataset, ALL, [MINE, BANK])
        if means is None:
            continue
        seen += 1
        if means[MINE] < means[BANK] - NEAR:
            lost.append(f"{dataset} ({means[MINE]:.4f}; {means[BANK]:.4f})")
    asked = f"all links: AUC not more than {NEAR:g} below {BANK}, on {SETS} of {SETS}"
    return counted(asked, seen, lost, SETS, SETS)


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
