"""Weights of events as whole multiples of a graph's grid, and why some cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.graph.store import Graph
    from dygcn.engine.records import Bool, EventBatch, Int64


def units_of(graph: Graph, batch: EventBatch) -> tuple[Int64, Bool]:
    """Return the weights of adds on the grid, 0 for removes, and which of them it cannot carry."""
    weight = np.ones(len(batch)) if batch.weight is None else batch.weight
    with np.errstate(over="ignore"):  # what is too large is off the grid
        units = np.rint(weight / graph.grid)
    good = (units >= 1) & (units < graph.limit)
    if graph.whole:
        good &= units == weight
    bad = ~good & (batch.op > 0)
    return np.where((batch.op > 0) & ~bad, units, 0).astype(np.int64), bad


def off_grid(graph: Graph, batch: EventBatch, rows: Int64) -> dict[int, str]:
    """Return why the weights of rows are refused."""
    weights = [1.0] * len(rows) if batch.weight is None else batch.weight[rows].tolist()
    span = f"from {graph.grid:g} to {graph.limit * graph.grid:g}"
    allowed = (
        f"this model carries whole numbers {span} (it was fitted with whole_weights=True); round the weight, "
        "or fit again without it"
        if graph.whole
        else f"this model carries weights {span} "
        "(the grid follows from the weights it was fitted on; clip outliers or take logarithms)"
    )
    reasons = (f"weight is {weight:g}; {allowed}" for weight in weights)
    return dict(zip(rows.tolist(), reasons, strict=True))
