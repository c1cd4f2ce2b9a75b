"""What a page shows of one experiment: tables, and a sentence where the paper's number is far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dygcn_lab.experiments.cells import CellResult, CellStore
from dygcn_lab.experiments.findings import (
    MEASURES,
    SERIES,
    Finding,
    figure_name,
    find,
    mean_series,
    results_of,
    series_of,
    unbeaten,
)
from dygcn_lab.experiments.influence import ORDER_NAMES
from dygcn_lab.experiments.plan import Experiment, Row
from dygcn_lab.report.tables import Table, Value

TITLES = {
    "as-733": "AS (as-733)",
    "hepth-collab": "HEP-TH (hepth-collab)",
    "facebook": "Facebook (Amherst, grown)",
}
_LESS_IS_BETTER = ("seconds", "untouched", "rewritten")
_COSTS = (*_LESS_IS_BETTER, "rows")


@dataclass
class Section:
    """Everything that is shown of one experiment."""

    experiment: Experiment
    tables: list[Table] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)  # of the CSV file, the first one its head
    left_out: list[str] = field(default_factory=list)
    results: list[CellResult] = field(default_factory=list)
    planned: int = 0  # cells

    @property
    def footer(self) -> str:
        """When, with what, and for how long it ran."""
        if not self.results:
            return "Nothing was run."
        dates = sorted({result.date for result in self.results})
        minutes = sum(result.minutes for result in self.results)
        versions: dict[str, set[str]] = {}
        for result in self.results:
            for name, version in result.versions.items():
                versions.setdefault(name, set()).add(version)
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        with_what = ", ".join(f"{name} {' and '.join(sorted(found))}" for name, found in versions.items())
        ran = f"{len(self.results)} of {self.planned} cells (a data set, a group of methods, a seed)"
        return f"{ran}, {minutes:.0f} minutes in all, {when}. Seeds: {self._seeds()}. Versions: {with_what}."

    def _seeds(self) -> str:
        """Say how many seeds each group of methods has, from the fewest to the most over the data sets."""
        counts: dict[str, dict[tuple[str, str], int]] = {}
        for result in self.results:
            key = (result.dataset, str(sorted(result.settings.items())))
            of_group = counts.setdefault(result.group, {})
            of_group[key] = of_group.get(key, 0) + 1
        said = {}
        for group, found in counts.items():
            fewest, most = min(found.values()), max(found.values())
            said[group] = str(most) if fewest == most else f"{fewest} to {most}"
        return ", ".join(f"{group} {seeds}" for group, seeds in said.items())


def title_of(dataset: str) -> str:
    """Return what a data set is called in tables."""
    return TITLES.get(dataset, dataset)


def make_section(experiment: Experiment, store: CellStore, quick: bool = False) -> Section:
    """Return what finished cells say about an experiment."""
    section = Section(experiment)
    cells = experiment.cells(quick)
    read = [store.read(cell) for cell in cells]
    section.results, section.planned = [result for result in read if result is not None], len(cells)
    section.left_out = [
        title_of(name) for name in experiment.datasets if not any(r.dataset == name for r in section.results)
    ]
    if experiment.kind in ("table", "bars", "sweep"):
        _numbers(section, store, quick)
    elif experiment.kind == "lines":
        _lines(section, store, quick)
    elif experiment.kind == "orders":
        _orders(section, store, quick)
    elif experiment.kind == "hops":
        _hops(section, store, quick)
    else:
        _kernels(section, store, quick)
    return section


def plain(value: float, measure: str) -> str:
    """Return a number as tables show it.

    Examples
    --------
    >>> plain(0.94837, "auc"), plain(0.0123456, "seconds"), plain(221.88, "seconds"), plain(1e-5, "seconds")
    ('0.948', '0.012', '222', '<0.001')
    """
    if measure not in _COSTS:
        return f"{value:.3f}"
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _label(row: Row) -> str:
    return row.label if row.x is None else f"{row.label}, {row.x:g}"


def _numbers(section: Section, store: CellStore, quick: bool) -> None:
    experiment = section.experiment
    findings = list(find(experiment, store, quick))
    section.lines = [["dataset", "method", "x", "measure", "ours", "spread", "seeds", "paper"]]
    for found in findings:
        x = "" if found.row.x is None else f"{found.row.x:g}"
        paper = "" if found.paper is None else str(found.paper)
        section.lines.append(
            [
                *(found.dataset, found.row.label, x, found.measure),
                *(f"{found.mean:.5g}", f"{found.spread:.2g}", str(found.seeds), paper),
            ]
        )
    if len(experiment.datasets) > 3:
        section.tables = [
            _by_dataset(experiment, findings, measure, partial(unbeaten, experiment, store, quick=quick))
            for measure in experiment.measures
        ]
    else:
        section.tables = [_by_method(experiment, findings, name) for name in experiment.datasets]
    section.tables = [table for table in section.tables if table.rows]
    section.reasons = _reasons(findings)


def _best(findings: Iterable[Finding], measure: str) -> float | None:
    means = [round(found.mean, 3) for found in findings if found.measure == measure]
    if not means or measure in _COSTS:
        return None
    return max(means)


def _value(found: Finding, best: float | None) -> Value:
    return Value(
        plain(found.mean, found.measure),
        "" if found.paper is None else plain(found.paper, found.measure),
        best is not None and round(found.mean, 3) >= best,
        plain(found.spread, found.measure) if found.seeds > 1 and found.measure not in _COSTS else "",
    )


def _by_method(experiment: Experiment, findings: list[Finding], dataset: str) -> Table:
    here = [found for found in findings if found.dataset == dataset]
    measures = [m for m in experiment.measures if any(found.measure == m for found in here)]
    best = {measure: _best(here, measure) for measure in measures}
    rows: list[list[str | Value]] = []
    for row in experiment.rows_of(dataset):
        mine = {found.measure: found for found in here if found.row is row}
        if mine:
            cells = [_value(mine[m], best[m]) if m in mine else "" for m in measures]
            rows.append([_label(row), *cells])
    return Table(title_of(dataset), ["method", *(MEASURES[m] for m in measures)], rows)


def _by_dataset(
    experiment: Experiment, findings: list[Finding], measure: str, unsure: Callable[[str, str], list[Row]]
) -> Table:
    """Return one measure of all data sets; bold is the best, or (`unsure`) all that may be as good."""
    here = [found for found in findings if found.measure == measure]
    labels = [row for row in experiment.rows if any(found.row is row for found in here)]
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        mine = [found for found in here if found.dataset == dataset]
        best = None if experiment.paired else _best(mine, measure)
        tied = unsure(dataset, measure) if experiment.paired else []
        cells: list[str | Value] = []
        for row in labels:
            found = next((found for found in mine if found.row is row), None)
            bold = -np.inf if row in tied else best
            cells.append("" if found is None else _value(found, bold))
        if mine:
            rows.append([title_of(dataset), *cells])
    return Table(MEASURES[measure], ["data", *(row.label for row in labels)], rows)


def _reasons(findings: list[Finding]) -> list[str]:
    """Return a sentence for every number that is far from the paper's."""
    said = []
    for found in findings:
        if found.far and found.measure == "auc":
            why = found.row.why.get(found.dataset) or found.row.why.get("all", "")
            ours, paper = plain(found.mean, "auc"), plain(found.paper or 0.0, "auc")
            said.append(f"{found.row.label}, {title_of(found.dataset)}: {ours}, paper {paper}. {why}".strip())
    return said


def _lines(section: Section, store: CellStore, quick: bool) -> None:
    experiment = section.experiment
    section.lines = [["dataset", "method", "step", "figure", "value"]]
    for dataset in experiment.datasets:
        rows: list[list[str | Value]] = []
        for row in experiment.rows_of(dataset):
            results = results_of(store, row, dataset, quick)
            values = mean_series(results, row, experiment.series[dataset])
            if len(values) == 0:
                continue
            first = first_step(row)
            for step, value in enumerate(values, first):
                section.lines.append(
                    [dataset, row.label, str(step), experiment.series[dataset], f"{value:.5g}"]
                )
            auc = mean_series(results, row, figure_name(row, "auc"))
            values, auc = values[2 - first :], auc[2 - first :]  # the steps that every line has
            shown = (values[0], values.mean(), values.min(), values[-1], auc.mean(), auc.min(), auc[-1])
            rows.append([row.label, *(f"{value:.3f}" for value in shown)])
        name = SERIES[experiment.series[dataset]].split(" at ")[0]
        columns = [
            "method",
            f"{name}, first step",
            "mean",
            "worst",
            "last step",
            "AUC, mean",
            "worst",
            "last step",
        ]
        if rows:
            section.tables.append(Table(title_of(dataset), columns, rows))


def first_step(row: Row) -> int:
    """Return the number of a row's first judged step: rolled lines start one step earlier than the others."""
    return 1 if row.record.endswith("long run") else 2


def _orders(section: Section, store: CellStore, quick: bool) -> None:
    section.lines = [["dataset", "what", *ORDER_NAMES]]
    columns = ["nodes influenced", *ORDER_NAMES, "nodes"]
    for dataset in section.experiment.datasets:
        for result in results_of(store, section.experiment.rows[0], dataset, quick):
            record = result.records["influence"]
            mean = [series_of(record, name).mean() for name in ORDER_NAMES]
            alone = [record.notes["one_edge"][name] for name in ORDER_NAMES]
            paper = section.experiment.paper.get(dataset, {})
            lines = {
                "a step": mean,
                "a single edge": alone,
                "paper": [paper.get(n, 0.0) for n in ORDER_NAMES],
            }
            for what, values in lines.items():
                section.lines.append([dataset, what, *(f"{value:.2f}" for value in values)])
            section.tables.append(
                Table(
                    title_of(dataset),
                    columns,
                    [
                        [
                            what,
                            *(f"{v:,.1f}" for v in values),
                            f"{record.notes['nodes']:,}"
                            if what != "paper"
                            else f"{paper.get('nodes', 0):,.0f}",
                        ]
                        for what, values in lines.items()
                    ],
                )
            )


def _hops(section: Section, store: CellStore, quick: bool) -> None:
    section.lines = [["dataset", "ring", "before", "order 1", "order 2", "order 3"]]
    for dataset in section.experiment.datasets:
        for result in results_of(store, section.experiment.rows[0], dataset, quick):
            figures = result.records["hops"].figures
            rows: list[list[str | Value]] = []
            for ring, values in figures.items():
                shown = ["" if value is None else f"{value:.4f}" for value in values]
                rows.append([ring, *shown])
                section.lines.append([dataset, ring, *shown])
            caption = (
                f"{title_of(dataset)}: mean cosine with the two ends of the edge (ends: with each other)"
            )
            section.tables.append(
                Table(caption, ["ring", "before", "after order 1", "order 2", "order 3"], rows)
            )


def _kernels(section: Section, store: CellStore, quick: bool) -> None:
    section.lines = [["dataset", "matrix", "norm", "diagonal", "off_diagonal"]]
    for dataset in section.experiment.datasets:
        for result in results_of(store, section.experiment.rows[0], dataset, quick):
            rows: list[list[str | Value]] = []
            for name, matrix in result.records["kernels"].notes.items():
                norm, diagonal, others = _shape(matrix)
                rows.append([name, f"{norm:.2f}", f"{diagonal:.4f}", f"{others:.4f}"])
                section.lines.append([dataset, *(str(item) for item in rows[-1])])
            columns = ["matrix", "Frobenius norm", "mean of the diagonal", "mean size off it"]
            section.tables.append(Table(title_of(dataset), columns, rows))


def _shape(matrix: list[list[float]]) -> tuple[float, float, float]:
    count = len(matrix)
    diagonal = sum(matrix[i][i] for i in range(count)) / count
    whole = sum(value * value for line in matrix for value in line) ** 0.5
    others = sum(abs(matrix[i][j]) for i in range(count) for j in range(count) if i != j) / (
        count * (count - 1)
    )
    return whole, diagonal, others
