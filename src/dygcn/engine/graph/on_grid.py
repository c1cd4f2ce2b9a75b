"""Converts weights of events to multiples of a graph's grid, and words the refusals.

The weight of an event that names a relation is multiplied by that of the relation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from dygcn.errors import CapacityError, EventError, shown

if TYPE_CHECKING:
    from dygcn.engine.graph.relations import Relations
    from dygcn.engine.records import Bool, EventBatch, Int64


class Grid(Protocol):
    """The part of a `Graph` that weights are checked against."""

    grid: float
    limit: int
    whole: bool
    relations: Relations | None


def units_of(graph: Grid, batch: EventBatch) -> tuple[Int64, Bool]:
    """Return the weights of adds in grid units, 0 for removes, and the rows that must be refused."""
    weight = np.ones(len(batch)) if batch.weight is None else batch.weight
    unknown = without = np.zeros(len(batch), np.bool_)
    if graph.relations is not None:
        codes = graph.relations.codes(batch)
        factor = graph.relations.weights[codes]
        weight, unknown, without = weight * factor, codes < 0, factor == 0
    with np.errstate(over="ignore"):  # what is too large is off the grid
        units = np.rint(weight / graph.grid)
    good = (units >= 1) & (units < graph.limit)
    if graph.whole:
        good &= units == weight
    bad = (~good & ~without & (batch.op > 0)) | unknown
    return np.where((batch.op > 0) & ~bad, units, 0).astype(np.int64), bad


def off_grid(graph: Grid, batch: EventBatch, rows: Int64) -> dict[int, str]:
    """Return why the weight of each of these rows is refused."""
    weights = [1.0] * len(rows) if batch.weight is None else batch.weight[rows].tolist()
    span = f"from {graph.grid:g} to {graph.limit * graph.grid:g}"
    allowed = (
        f"this model carries whole numbers {span} (it was fitted with whole_weights=True); round the weight, "
        "or fit again without it"
        if graph.whole
        else f"this model carries weights {span} "
        "(the grid follows from the weights it was fitted on; clip outliers or take logarithms)"
    )
    reasons = {
        row: f"weight is {weight:g}; {allowed}" for row, weight in zip(rows.tolist(), weights, strict=True)
    }
    if graph.relations is not None and batch.relation is not None:
        codes, column = graph.relations.codes(batch), batch.relation
        for row in rows[codes[rows] < 0].tolist():
            name = shown(column.names[column.codes[row]])
            reasons[row] = f"relation is {name}; {graph.relations.known}: fit again to have another"
    return reasons


def checked_units(graph: Grid, batch: EventBatch) -> Int64:
    """Return the weights of a batch in grid units; raise `EventError` if one is off the grid."""
    units, bad = units_of(graph, batch)
    if bad.any():
        row = int(bad.argmax())
        reason = off_grid(graph, batch, np.array([row]))[row]
        raise (EventError if reason.startswith("relation") else CapacityError)(reason, row)
    return units
