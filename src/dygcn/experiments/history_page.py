"""The tables of `docs/history.md`, from finished cells: what harder questions found of hashed features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.evaluation import compare
from dygcn.experiments.cells import Cell
from dygcn.experiments.findings import MEASURES, results_of, series_by_seed, series_of
from dygcn.experiments.plan import read_experiment
from dygcn.experiments.sections import title_of
from dygcn.experiments.shares import SHARES
from dygcn.report.blocks import put_between
from dygcn.report.tables import Table, markdown_table

if TYPE_CHECKING:
    from dygcn.experiments.cells import CellStore
    from dygcn.experiments.plan import Experiment, Row
    from dygcn.records import Float64
    from dygcn.report.tables import Value

MARKS = "<!-- history: written by dygcn reproduce -->", "<!-- end of history -->"
ASKED = ("auc", "never", "mrr-random", "mrr-historical", "mrr-never-random", "mrr-never-historical")
CLASSES = (
    *("accuracy", "accuracy.held-out", "accuracy.majority"),
    *("accuracy.held-out.newcomers", "accuracy.majority.newcomers"),
)
_OURS = ("hashed, its score", "hashed")  # the first one that a data set has
_NOTHING = ("do nothing, its score", "do nothing")
_VERDICTS = ("better", "tied", "worse")


def with_history(text: str, store: CellStore) -> str:
    """Return a page whose tables are those of the cells."""
    experiment = read_experiment("harder")
    trivial = [row.label for row in experiment.rows if row.group == "trivial"]
    tables = (
        _shares(experiment, store),
        _against(experiment, store, trivial, "Hashed features against the best row that learns nothing"),
        _against(experiment, store, list(_NOTHING), "Hashed features, updated, against doing nothing"),
        _classes(experiment, store),
    )
    return put_between(text, MARKS, "\n\n".join(markdown_table(table) for table in tables))


def _shares(experiment: Experiment, store: CellStore) -> Table:
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        result = store.read(Cell(dataset, "shares", 0))
        if result is not None:
            record = result.records["shares"]
            means = [
                np.nanmean(series_of(record, name)) if name in record.figures else None for name in SHARES
            ]
            rows.append([title_of(dataset), *("" if mean is None else f"{mean:.3f}" for mean in means)])
    return Table("What was there before", ["data", *SHARES.values()], rows)


def _rows(experiment: Experiment, dataset: str, labels: list[str]) -> list[Row]:
    return [row for row in experiment.rows_of(dataset) if row.label in labels]


def _ours(experiment: Experiment, dataset: str) -> Row:
    rows = {row.label: row for row in experiment.rows_of(dataset)}
    return next(rows[label] for label in _OURS if label in rows)


def _series(store: CellStore, row: Row, dataset: str, measure: str) -> Float64 | None:
    found = series_by_seed(results_of(store, row, dataset), row, measure)
    return None if found is None or np.isnan(found).all() else found


def _against(experiment: Experiment, store: CellStore, rivals: list[str], caption: str) -> Table:
    """Return ours, the best of some rivals, and whether ours is surely better, for each set and measure.

    Ours is its score, by the cosine where no row may look at times; a rival is one that is scored alike.
    """
    counts = {measure: dict.fromkeys(_VERDICTS, 0) for measure in ASKED}
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        ours = _ours(experiment, dataset)
        others = [
            row for row in _rows(experiment, dataset, rivals) if row.group == "trivial" or row.by == ours.by
        ]
        others.sort(
            key=lambda row: row.record.startswith("edgebank")
        )  # last: where it knows nothing, others do
        cells: list[str | Value] = []
        for measure in ASKED:
            mine = _series(store, ours, dataset, measure)
            found = {row.label: _series(store, row, dataset, measure) for row in others}
            known = {label: series for label, series in found.items() if series is not None}
            if mine is None or not known:
                cells.append("")
                continue
            means = {label: round(float(np.nanmean(series)), 3) for label, series in known.items()}
            best = max(means, key=means.__getitem__)
            verdict = compare(mine, known[best]).verdict
            counts[measure][verdict] += 1
            name = f" {best}" if len(others) > 1 else ""
            shown = f"{np.nanmean(mine):.3f} / {means[best]:.3f}{name}: {verdict}"
            cells.append(f"**{shown}**" if verdict == "better" else shown)
        if any(cells):
            rows.append([title_of(dataset), *cells])
    rows.append([", ".join(_VERDICTS), *(", ".join(map(str, each.values())) for each in counts.values())])
    return Table(caption, ["data", *(MEASURES[measure] for measure in ASKED)], rows)


def _classes(experiment: Experiment, store: CellStore) -> Table:
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        for row in _rows(experiment, dataset, ["hashed", "do nothing"]):
            found = [_series(store, row, dataset, measure) for measure in CLASSES]
            if found[0] is not None:
                cells = ["" if series is None else f"{np.nanmean(series):.3f}" for series in found]
                rows.append([f"{title_of(dataset)}, {row.label}", *cells])
    return Table("Classes", ["data", *(MEASURES[measure] for measure in CLASSES)], rows)
