"""Who aggregates whom: dynamic lists of weighted arcs in one flat pool.

Every node owns a block of the pool, a power of two long, its arcs at the front in no order. A node
with few arcs is searched by looking at all of them; a hub has its arcs in a table beside, so that
no insert, delete or look-up on it costs more than on a leaf.

A weight is an int64 on the grid of the model. Below zero it is the weight of a *ghost*: an edge that
was removed and is remembered (see `memory`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import Book
from dygcn.graph import arcs as loops
from dygcn.graph.ids import grown
from dygcn.graph.pairs import PairTable

if TYPE_CHECKING:
    from dygcn.records import Int32, Int64, Nodes


class Adjacency:
    """The arcs of every node. See the module for how they lie in memory."""

    def __init__(self) -> None:
        self.start = np.empty(0, np.int64)
        self.count = np.empty(0, np.int32)
        self._room = np.empty(0, np.int32)
        self.others = np.empty(0, np.int32)
        self.weights = np.empty(0, np.int64)
        self._hub = np.empty(0, np.int8)
        self._extra = np.empty(0, np.int32)
        self._heads = np.full(32, -1, np.int64)
        self._tail = np.zeros(1, np.int64)
        self._table = PairTable()
        self.arrays: loops.Arcs
        self._arrays_changed()

    def _arrays_changed(self) -> None:
        table = self._table
        blocks = self.start, self.count, self._room, self.others, self.weights, self._hub, self._extra
        self.arrays = *blocks, self._heads, self._tail, table.keys, table.slots, table.used
        self.book = Book(*self.arrays)
        self.lists: tuple[Int64, Int32, Int32, Int64] = self.start, self.count, self.others, self.weights

    def make_room(self, nodes: int) -> None:
        """Grow to so many nodes."""
        for name in ("start", "count", "_room", "_hub", "_extra"):
            setattr(self, name, grown(getattr(self, name), nodes))
        self._arrays_changed()

    def make_room_for_arcs(self, pool: int, entries: int) -> None:
        """Grow the pool and the hubs' table by so much."""
        need = int(self._tail[0]) + pool
        self.others, self.weights = grown(self.others, need), grown(self.weights, need)
        self._table.make_room(entries)
        self._arrays_changed()

    def compact(self) -> None:
        """Leave no gaps: what nodes outgrew while a graph was loaded, a table that was grown in advance."""
        used = loops.pool_of_all(self.count)
        others, weights = np.empty(used + used // 16, np.int32), np.empty(used + used // 16, np.int64)
        blocks = self.start, self.count, self._room, self.others, self.weights
        loops.move_all(*blocks, others, weights)
        self.others, self.weights = others, weights
        self._heads.fill(-1)
        self._tail[0] = used
        self._table.shrink()
        self._arrays_changed()

    def look_up(self, nodes: Nodes, other: Nodes) -> Int64:
        """Return the stored weight of each arc, 0 where there is none."""
        found = np.empty(len(nodes), np.int64)
        loops.look_up(len(nodes), nodes, other, self.arrays, found)
        return found

    def arcs(self, nodes: Nodes) -> tuple[Int32, Int32, Int64]:
        """Return all arcs of the given nodes as (node, other, stored weight)."""
        return loops.list_arcs(nodes, *self.lists)
