"""Relations: what an edge is, such as view or buy. A pair weighs the sum of what its relations add to it.

An event names a relation, and replaces or removes what that relation adds. Before a batch is written,
`Relations.play` makes of each such event one that says what the pair weighs then; all below knows pairs only.
What each relation adds (`Parts`) is kept here, and written after the arcs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph import parts as loops
from dygcn.engine.graph.delta import find_pairs
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.outcomes import LAPSE
from dygcn.engine.graph.pairs import new_table, table_with_capacity
from dygcn.engine.graph.parts import PartArrays
from dygcn.engine.records import Parts
from dygcn.errors import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dygcn.engine.graph.staging import NodeEvents
    from dygcn.engine.graph.store import Graph
    from dygcn.engine.records import EventBatch, Int16, Int32, Int64, Nodes


class Relations:
    """The relations of a graph, and what each of them adds to pairs.

    Parameters
    ----------
    weights
        Name -> weight, at least 0. One of weight 0 makes no edge.
    """

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
    def nbytes(self) -> int:
        """Bytes of what is kept of pairs."""
        table, relations, weights, behind, _ = self._arrays.arrays
        kept = relations.nbytes + weights.nbytes + behind.nbytes
        return kept + sum(array.nbytes for array in table.arrays)

    @property
    def known(self) -> str:
        """The relations, for errors."""
        return f"the relations of this model are {listed(self.names)}"

    def codes(self, batch: EventBatch) -> Int16:
        """Return the relation of each event by its number here, -1 for one that is not known."""
        column = batch.relation
        if column is None:  # of no events: others are refused before
            return np.full(len(batch), -1, np.int16)
        own = np.array([self._codes.get(name, -1) for name in column.names], np.int16)
        return own[column.codes] if len(own) else column.codes

    def play(self, graph: Graph, events: NodeEvents, codes: Int16) -> None:
        """Let staged events say what pairs weigh after each of them, and note what relations add then."""
        pair, cell, _, where = self.cells(graph, events, codes)
        found = int(pair.max(initial=-1)) + 1
        total = np.maximum(graph.pull.look_up(graph.buffers.a[:found], graph.buffers.b[:found]), 0)
        value = loops.recall(self._arrays, *where)
        events.src, events.op, events.weight = events.src.copy(), events.op.copy(), events.weight.copy()
        loops.play(pair, cell, events.src, events.op, events.weight, total, value, len(self.names))
        events.parts = *where, value

    def cells(
        self, graph: Graph, events: NodeEvents, codes: Int16
    ) -> tuple[Int32, Int64, Int64, tuple[Nodes, Nodes, Int16]]:
        """Number what the relations add to pairs that events speak of, pair by pair.

        Returns
        -------
        tuple
            Of each event, its pair and the number of what its relation adds; of each number, its pair, and
            its ends and its relation. All relations of a pair that lapses have one, its event the first.
        """
        graph.buffers.reserve(len(codes))
        find_pairs(graph.buffers.arrays, events.src, events.dst, graph.directed)
        pair: Int32 = graph.buffers.pair_of[: len(codes)].copy()
        every = np.int64(max(len(self.names), 1))
        known, lapsed = np.flatnonzero(pair >= 0), pair[events.op == LAPSE] * every
        spoken = pair[known] * every + codes[known]
        cells = np.unique(np.concatenate((spoken, (lapsed[:, None] + np.arange(every)).ravel())))
        cell = np.zeros(len(codes), np.int64)
        cell[known] = np.searchsorted(cells, spoken)
        of, relation = np.divmod(cells, every)
        return pair, cell, of, (graph.buffers.a[of], graph.buffers.b[of], relation.astype(np.int16))

    def recall(self, a: Nodes, b: Nodes, relation: Int16) -> Int64:
        """Return what a relation adds to each pair, 0 where it adds nothing."""
        return loops.recall(self._arrays, a, b, relation)

    def put(self, a: Nodes, b: Nodes, relation: Int16, weight: Int64) -> None:
        """Write what relations add to pairs; 0 is no part."""
        self._reserve(len(a))
        loops.put(self._arrays, a, b, relation, weight)

    def replace(self, a: Nodes, b: Nodes, parts: Parts) -> None:
        """Let pairs have these parts, and no others."""
        loops.drop(self._arrays, a, b)
        self.put(a[parts.pair], b[parts.pair], parts.relation, parts.weight)

    def of(self, a: Nodes, b: Nodes) -> Parts:
        """Return the parts of pairs, sorted by pair and relation."""
        counts = loops.count(self._arrays, a, b)
        found = loops.listed(self._arrays, a, b, int(counts.sum()))
        parts = Parts(np.repeat(np.arange(len(a)), counts), *found)
        return parts.placed(np.arange(len(a)))

    def finish(self, graph: Graph, events: NodeEvents) -> None:
        """After an exception: write what relations add now, if the arcs of these events were written."""
        if events.parts is None:
            return
        a, b, *_ = events.parts
        total, parts = np.zeros(len(a), np.int64), self.of(a, b)
        np.add.at(total, parts.pair, parts.weight)
        if (total != np.maximum(graph.pull.look_up(a, b), 0)).any():
            self.put(*events.parts)

    def _reserve(self, new: int) -> None:
        table, relations, weights, behind, counts = self._arrays.arrays
        slots, wider = int(counts[0]) + new, table_with_capacity(table, new)
        if slots > len(behind) or wider is not table:
            fresh = grown(relations, slots), grown(weights, slots), grown(behind, slots)
            self._arrays = PartArrays(wider, *fresh, counts)
