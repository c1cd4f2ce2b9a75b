"""The pictures of a reproduction, one PNG for each experiment. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dygcn_lab.experiments.cells import CellStore, Record
from dygcn_lab.experiments.findings import MEASURES, SERIES, Finding, find, mean_series, results_of
from dygcn_lab.experiments.plan import Experiment, Row
from dygcn_lab.experiments.sections import first_step, title_of
from dygcn_lab.report.panels import OTHERS, OURS, panels, save

_ACROSS = 4  # panels of lines in a row
OUR_ROWS = ("exact", "hashed", "walks", "score", "cosine alone", "whole")
RING_COLOURS = ("tab:red", "tab:blue", "tab:green", "tab:purple")


def draw(experiment: Experiment, store: CellStore, file: Path, quick: bool = False) -> bool:
    """Draw an experiment from finished cells; return whether there was anything to draw."""
    painters: dict[str, Callable[..., Any]] = {
        "table": _bars,
        "bars": _bars,
        "lines": _lines,
        "sweep": _sweep,
        "orders": _orders,
        "hops": _hops,
        "kernels": _kernels,
    }
    picture = painters[experiment.kind](experiment, store, quick)
    if picture is None:
        return False
    save(picture, file)
    return True


def _style(row: Row) -> dict[str, str]:
    """Return colour and line of a style such as ``"tab:blue --"`` or ``"k:"``."""
    words = row.style.split()
    if len(words) == 2:
        return {"color": words[0], "linestyle": words[1]}
    if row.style[:1] in ("k", "r") and len(row.style) > 1:
        return {"color": row.style[0], "linestyle": row.style[1:]}
    return {"color": row.style or "tab:gray", "linestyle": "-"}


def _bars(experiment: Experiment, store: CellStore, quick: bool) -> Any:
    """One panel for each data set: the first measure of every method, the paper's as a mark."""
    measure = experiment.measures[0]
    found = [each for each in find(experiment, store, quick) if each.measure == measure]
    names = [name for name in experiment.datasets if any(each.dataset == name for each in found)]
    if not names:
        return None
    across = min(3, len(names))
    down = -(-len(names) // across)
    most = max(sum(each.dataset == name for each in found) for name in names)
    picture, axes = panels(down, across, 5.2, 0.6 + 0.26 * most)
    for axis in axes.ravel()[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.ravel(), names, strict=False):
        _bar_panel(axis, [each for each in found if each.dataset == name])
        axis.set_title(title_of(name), fontsize=10)
        axis.set_xlabel(MEASURES[measure])
    return picture


def _bar_panel(axis: Any, found: list[Finding]) -> None:
    found = sorted(found, key=lambda each: each.mean)
    places = np.arange(len(found))
    means = np.array([each.mean for each in found])
    colours = [OURS if each.row.label.startswith(OUR_ROWS) else OTHERS for each in found]
    axis.barh(places, means, xerr=[each.spread / 2 for each in found], color=colours, error_kw={"lw": 0.8})
    axis.set_yticks(places, [each.row.label for each in found], fontsize=8)
    papers = [
        (place, each.paper) for place, each in zip(places, found, strict=True) if each.paper is not None
    ]
    if papers:
        axis.plot(
            [paper for _, paper in papers], [place for place, _ in papers], "k|", ms=9, label="the paper's"
        )
        axis.legend(loc="lower right", fontsize=8)
    axis.set_xlim(min(0.5, float(means.min()) - 0.02), max(1.0, float(means.max())))
    axis.grid(axis="x", alpha=0.3)


def _lines(experiment: Experiment, store: CellStore, quick: bool) -> Any:
    names = [
        n
        for n in experiment.datasets
        if any(results_of(store, row, n, quick) for row in experiment.rows_of(n))
    ]
    if not names:
        return None
    across = min(_ACROSS, len(names))
    picture, axes = panels(-(-len(names) // across), across, height=5.0 if len(names) <= _ACROSS else 3.2)
    for axis in axes.ravel()[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes.ravel(), names, strict=False):
        for row in experiment.rows_of(name):
            values = mean_series(results_of(store, row, name, quick), row, experiment.series[name])
            steps = first_step(row) + np.arange(len(values))
            if len(values):
                axis.plot(
                    steps,
                    values,
                    label=row.label,
                    lw=2 if row.label.startswith("exact") else 1.2,
                    **_style(row),
                )
        axis.set(title=title_of(name), xlabel="steps after fitting")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylabel(SERIES[experiment.series[name]])
        axis.grid(alpha=0.3)
    handles, labels = max(
        (axis.get_legend_handles_labels() for axis in axes.ravel()), key=lambda pair: len(pair[0])
    )
    picture.legend(handles, labels, loc="outside lower center", ncol=5, frameon=False, fontsize=9)
    return picture


def _sweep(experiment: Experiment, store: CellStore, quick: bool) -> Any:
    found = list(find(experiment, store, quick))
    names = [name for name in experiment.datasets if any(each.dataset == name for each in found)]
    if not names:
        return None
    measures = experiment.measures
    picture, axes = panels(len(measures), len(names), height=2.8)
    for column, name in enumerate(names):
        for line, measure in enumerate(measures):
            axis = axes[line][column]
            here = [each for each in found if each.dataset == name and each.measure == measure]
            for label in dict.fromkeys(each.row.label for each in here):
                points = sorted((each.row.x or 0, each.mean) for each in here if each.row.label == label)
                style = _style(next(each.row for each in here if each.row.label == label))
                axis.plot(*zip(*points, strict=True), marker="o", label=label, **style)
            axis.set_ylabel(MEASURES[measure])
            axis.set_xticks(sorted({each.row.x or 0 for each in here}))
            if measure == "seconds":
                axis.set_yscale("log")
            axis.grid(alpha=0.3)
        axes[0][column].set_title(title_of(name))
        axes[-1][column].set_xlabel(experiment.axis)
    axes[0][0].legend(fontsize=8)
    return picture


def _first_records(experiment: Experiment, store: CellStore, quick: bool) -> dict[str, Record]:
    """Return, for each data set that was run, what an experiment with one row and one seed found."""
    row = experiment.rows[0]
    found = {name: results_of(store, row, name, quick) for name in experiment.datasets}
    return {name: results[0].records[row.record] for name, results in found.items() if results}


def _orders(experiment: Experiment, store: CellStore, quick: bool) -> Any:
    found = _first_records(experiment, store, quick)
    if not found:
        return None
    picture, axes = panels(1, len(found), height=3.2)
    for axis, (name, record) in zip(axes[0], found.items(), strict=True):
        orders = list(record.figures)
        ours = [np.mean([value or 0.0 for value in record.figures[order]]) for order in orders]
        places = np.arange(len(orders))
        axis.bar(places - 0.2, np.maximum(ours, 0.1), 0.4, label="here", color=OURS)
        paper = [experiment.paper.get(name, {}).get(order, 0.1) for order in orders]
        axis.bar(places + 0.2, paper, 0.4, label="paper", color=OTHERS)
        axis.set_xticks(places, orders)
        axis.set(title=title_of(name), yscale="log", ylabel="nodes a step")
        axis.legend(fontsize=8)
    return picture


def _hops(experiment: Experiment, store: CellStore, quick: bool) -> Any:
    found = _first_records(experiment, store, quick)
    if not found:
        return None
    picture, axes = panels(len(found), 4, 3.4, 3.1)
    for line, (name, record) in zip(axes, found.items(), strict=True):
        for axis, (order, rings) in zip(line, sorted(record.notes.items()), strict=True):
            labels = ("ends of the edge", "neighbours", "two hops", "further")
            for ring, colour, label in reversed(list(zip(rings, RING_COLOURS, labels, strict=True))):
                points = np.array(ring).reshape(-1, 2)
                big = colour == "tab:red"
                axis.scatter(
                    *points.T, s=46 if big else 7, c=colour, alpha=1 if big else 0.5, label=label, lw=0
                )
            axis.set_title(
                f"{title_of(name)}: {'before' if order == '0' else f'after order {order}'}", fontsize=9
            )
            axis.set(xticks=[], yticks=[])
    picture.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncol=4, frameon=False)
    return picture


def _kernels(experiment: Experiment, store: CellStore, quick: bool) -> Any:
    found = _first_records(experiment, store, quick)
    if not found:
        return None
    matrices = found[experiment.datasets[0]].notes
    picture, axes = panels(1, len(matrices), 3.2, 3.4)
    for axis, (name, matrix) in zip(axes[0], matrices.items(), strict=True):
        values = np.array(matrix)
        top = float(np.quantile(np.abs(values), 0.995)) or 1.0
        shown = axis.imshow(values, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
        axis.set_title(f"{name}, scale {top:.2f}", fontsize=10)
        axis.set(xticks=[], yticks=[])
        picture.colorbar(shown, ax=axis, shrink=0.7)
    return picture
