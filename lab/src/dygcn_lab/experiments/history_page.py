"""Tables of `docs/maintainers/claimed-before.md`, from cells: what was there before, hashed features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn_lab.experiments.cells import Cell
from dygcn_lab.experiments.findings import MEASURES, find, series_of
from dygcn_lab.experiments.plan import read_experiment
from dygcn_lab.experiments.sections import title_of
from dygcn_lab.experiments.shares import SHARES
from dygcn_lab.report.blocks import put_between
from dygcn_lab.report.tables import Table, markdown_table

if TYPE_CHECKING:
    from dygcn_lab.experiments.cells import CellStore
    from dygcn_lab.experiments.plan import Experiment
    from dygcn_lab.report.tables import Value

MARKS = "<!-- history: written by dygcn reproduce -->", "<!-- end of history -->"
CLASSES = (
    *("accuracy.held-out", "accuracy.majority"),
    *("accuracy.held-out.newcomers", "accuracy.majority.newcomers"),
)


def with_history(text: str, store: CellStore) -> str:
    """Return a page whose tables are those of the cells."""
    experiment = read_experiment("harder")
    tables = (_shares(experiment, store), _classes(experiment, store))
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


def _classes(experiment: Experiment, store: CellStore) -> Table:
    found: dict[str, dict[str, float]] = {}
    for each in find(experiment, store):
        if each.measure in CLASSES and each.row.label in ("hashed", "do nothing"):
            name = f"{title_of(each.dataset)}, {each.row.label}"
            found.setdefault(name, {})[each.measure] = each.mean
    rows: list[list[str | Value]] = [
        [name, *(f"{means[each]:.3f}" if each in means else "" for each in CLASSES)]
        for name, means in found.items()
    ]
    return Table("Classes", ["data", *(MEASURES[measure] for measure in CLASSES)], rows)
