"""Relations: types of edges, such as view or buy. A pair weighs the sum over its relations.

An event names a relation, and replaces or removes what that relation adds. Before a batch is written,
`Relations.play` turns each such event into one with the new weight of the pair; everything below knows pairs
only. What each relation adds (`Parts`) is kept here, and written after the arcs.

The weight of an event is multiplied by that of its relation, and then must be a multiple of a graph's grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dygcn.engine.graph import parts as loops
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.graph.constants import LAPSE
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.pairs import new_table, table_with_capacity
from dygcn.engine.graph.parts import PartArrays
from dygcn.engine.graph.staging import NodeEvents, PairBuffers
from dygcn.engine.records import Bool, EventBatch, Int16, Int32, Int64, Nodes, Parts
from dygcn.errors import CapacityError, EventError, listed, shown


@dataclass(slots=True)
class Cells:
    """The distinct (pair, relation) of a batch, numbered pair by pair."""

    pair: Int32  # of each event: its pair, below 0 if it names none
    number: Int64  # of each event: its cell; of a pair that lapses the first of its cells, one a relation
    first: Int64  # of each pair: its first cell; and behind the last pair, how many cells there are
    where: tuple[Nodes, Nodes, Int16]  # of each cell: ends of the pair, relation


class Relations:
    """The relations of a graph (name -> weight; weight 0 makes no edge), and their share of each pair."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.names = tuple(sorted(weights))
        self.weights = np.array([weights[name] for name in self.names])
        self._codes = {name: code for code, name in enumerate(self.names)}
        arrays = np.empty(0, np.int16), np.empty(0, np.int64), np.empty(0, np.int32)
        self._arrays = PartArrays(new_table(), *arrays, np.array([0, -1]))

    @property
    def by_name(self) -> dict[str, float]:
        """The weight of each relation."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))

    @property
    def known(self) -> str:
        """The names of the relations as text, for errors."""
        return f"the relations of this model are {listed(self.names)}"

    def codes(self, batch: EventBatch) -> Int16:
        """Return the number of each event's relation, -1 for an unknown one."""
        column = batch.relation
        if column is None:  # of no events: others are refused before
            return np.full(len(batch), -1, np.int16)
        own = np.array([self._codes.get(name, -1) for name in column.names], np.int16)
        return own[column.codes] if len(own) else column.codes

    def play(self, pull: Adjacency, buffers: PairBuffers, events: NodeEvents, codes: Int16) -> None:
        """Turn staged events into events about pairs; stage the new parts of relations."""
        cells = self.cells(buffers, events, codes)
        found = len(cells.first) - 1
        total = np.maximum(pull.look_up(buffers.a[:found], buffers.b[:found]), 0)
        value = self.recall(*cells.where)
        events.src, events.op, events.weight = events.src.copy(), events.op.copy(), events.weight.copy()
        changed = events.src, events.op, events.weight
        loops.play(cells.pair, cells.number, *changed, total, value, len(self.names))
        events.parts = *cells.where, value

    def cells(self, buffers: PairBuffers, events: NodeEvents, codes: Int16) -> Cells:
        """Number the distinct (pair, relation) of events; the buffers hold their pairs."""
        buffers.number(events.src, events.dst)
        pair: Int32 = buffers.pair_of[: len(codes)].copy()
        every = np.int64(max(len(self.names), 1))
        known, lapsed = np.flatnonzero(pair >= 0), pair[events.op == LAPSE] * every
        named = pair[known] * every + codes[known]
        cells = np.unique(np.concatenate((named, (lapsed[:, None] + np.arange(every)).ravel())))
        number = np.zeros(len(codes), np.int64)
        number[known] = np.searchsorted(cells, named)
        of, relation = np.divmod(cells, every)
        first = np.searchsorted(of, np.arange(int(pair.max(initial=-1)) + 2))
        return Cells(pair, number, first, (buffers.a[of], buffers.b[of], relation.astype(np.int16)))

    def recall(self, a: Nodes, b: Nodes, relation: Int16) -> Int64:
        """Return the weight of a relation in each pair; 0 where it has none."""
        return loops.recall(self._arrays, a, b, relation)

    def put(self, a: Nodes, b: Nodes, relation: Int16, weight: Int64) -> None:
        """Write the weights of relations in pairs; 0 removes a part."""
        self._reserve(len(a))
        loops.put(self._arrays, a, b, relation, weight)

    def replace(self, a: Nodes, b: Nodes, parts: Parts) -> None:
        """Replace all parts of pairs by these."""
        loops.drop(self._arrays, a, b)
        self.put(a[parts.pair], b[parts.pair], parts.relation, parts.weight)

    def of(self, a: Nodes, b: Nodes) -> Parts:
        """Return the parts of pairs, sorted by pair and relation."""
        counts = loops.count(self._arrays, a, b)
        found = loops.listed(self._arrays, a, b, int(counts.sum()))
        parts = Parts(np.repeat(np.arange(len(a)), counts), *found)
        return parts.placed(np.arange(len(a)))

    def finish(self, pull: Adjacency, events: NodeEvents) -> None:
        """After an exception: write the staged parts if the arcs of these events were written."""
        if events.parts is None:
            return
        a, b, *_ = events.parts
        total, parts = np.zeros(len(a), np.int64), self.of(a, b)
        np.add.at(total, parts.pair, parts.weight)
        if (total != np.maximum(pull.look_up(a, b), 0)).any():
            self.put(*events.parts)

    def _reserve(self, new: int) -> None:
        table, relations, weights, behind, counts = self._arrays.arrays
        slots, wider = int(counts[0]) + new, table_with_capacity(table, new)
        if slots > len(behind) or wider is not table:
            fresh = grown(relations, slots), grown(weights, slots), grown(behind, slots)
            self._arrays = PartArrays(wider, *fresh, counts)


# ---- weights of events ------------------------------------------------------------------------------------


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
