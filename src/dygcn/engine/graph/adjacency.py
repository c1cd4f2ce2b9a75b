"""Adjacency: for each node the arcs over which it aggregates, as dynamic lists in one flat pool.

Every node owns a block of the pool, a power of two long, its arcs at the front in no order, but for one
thing: arcs to heavy nodes of the same tier or a higher one come first (see `tiers`). A node with few arcs is
searched by looking at all of them; a hub has its arcs in a table beside, so that no insert, delete or look-up
on it costs more than on a leaf.

A weight is an int64 on the grid of the model. Below zero it is the weight of a *ghost*: an edge that
was removed and is remembered (see `ageing`).

Beside each weight there may be the last contact of the pair and its count (see `ageing`): they move with
the arc and are forgotten with it, so they need no table. Of an undirected pair they stand beside both arcs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.graph import arcs as loops
from dygcn.engine.graph.arcs import ArcArrays
from dygcn.engine.graph.ids import Allocator, copied, grown, replace_together
from dygcn.engine.graph.pairs import new_table, shrunk_table, table_with_capacity
from dygcn.engine.records import Float32, Float64, Int8, Int32, Int64, Nodes

_OF_NODES = ("start", "count", "_room", "_hub", "_extra", "upper")  # arrays with one value for each node
_READ = ("start", "upper", "others", "weights")  # by other processes, too
_HELD = (
    *("start", "count", "_room", "others", "weights", "_hub", "_extra", "_heads", "_tail"),
    *("_table", "times", "counts", "upper", "tiers"),
)


class Adjacency:
    """The arcs of every node. See the module for how they lie in memory."""

    def __init__(self, contacts: bool = False) -> None:
        self.start = np.empty(0, np.int64)
        self.count = np.empty(0, np.int32)
        self._room = np.empty(0, np.int32)
        self.others = np.empty(0, np.int32)
        self.weights = np.empty(0, np.int64)
        self.times = np.empty(0)
        self.counts = np.empty(0, np.float32)
        self._pools = ("others", "weights", "times", "counts") if contacts else ("others", "weights")
        self._hub = np.empty(0, np.int8)
        self.upper = np.empty(0, np.int32)
        self.tiers = np.empty(0, np.int8)  # the graph's own
        self._extra = np.empty(0, np.int32)
        self._heads = np.full(32, -1, np.int64)
        self._tail = np.zeros(1, np.int64)
        self._table = new_table()
        self._zeros: Allocator | None = None  # where other processes read the arrays, allocates them
        self.arrays: ArcArrays  # all of these, for loops
        self.lists: tuple[Int64, Int32, Int32, Int64]
        self._replace()

    def _replace(self, **fresh: Any) -> None:
        now = vars(self) | fresh
        lists = now["start"], now["count"], now["others"], now["weights"]
        replace_together(self, **fresh, arrays=ArcArrays(*(now[name] for name in _HELD)), lists=lists)

    def reserve(self, nodes: int, tiers: Int8) -> None:
        """Grow to `nodes` nodes; `tiers` is the graph's array of their tiers."""
        self._replace(**{name: self._grown(name, nodes) for name in _OF_NODES}, tiers=tiers)

    def reserve_arcs(self, pool: int, entries: int) -> None:
        """Grow the pool and the hubs' table by these numbers of entries."""
        need = int(self._tail[0]) + pool
        need += need // 16  # after a large batch the next event shall not have to copy the whole pool
        pools = {name: self._grown(name, need) for name in self._pools}
        self._replace(**pools, _table=table_with_capacity(self._table, entries))

    def _grown(self, name: str, size: int) -> NDArray[Any]:
        return grown(getattr(self, name), size, self._zeros if name in _READ else None)

    def share(self, zeros: Allocator) -> None:
        """Move what readers of pulled messages need to shared memory; see `Sums.share`."""
        self._zeros = zeros
        self._replace(**{name: copied(getattr(self, name), zeros) for name in _READ})

    def compact(self) -> None:
        """Close the gaps in the pool and shrink the table."""
        used = loops.pool_of_all(self.arrays)
        size, zeros = used + used // 16, self._zeros or np.zeros
        pools = {name: zeros(size, getattr(self, name).dtype) for name in self._pools}
        blocks = {"start": copied(self.start, zeros), "_room": self._room.copy()}
        free = {"_heads": np.full_like(self._heads, -1), "_tail": np.zeros(1, np.int64)}
        fresh = {**pools, **blocks, **free, "_table": shrunk_table(self._table)}
        now = vars(self) | fresh
        loops.copy_blocks(self.arrays, ArcArrays(*(now[name] for name in _HELD)))
        self._replace(**fresh)

    def forget_needs(self) -> None:
        """Reset the counters of expected arcs, which an exception may have left set."""
        self._extra[:] = 0

    def upper_arcs(self, nodes: Nodes) -> tuple[Int32, Int32, Int64]:
        """Return the arcs of nodes to heavy nodes of no lower tier, as `arcs` does."""
        return loops.list_arcs(self.arrays, _flat(nodes), True)[:3]

    def look_up(self, nodes: Nodes, other: Nodes) -> Int64:
        """Return the stored weight of each arc, 0 where there is none."""
        return loops.look_up_arcs(self.arrays, _flat(nodes), _flat(other), False)[0]

    def look_up_contacts(self, nodes: Nodes, other: Nodes) -> tuple[Int64, Float64, Float32]:
        """Return the stored weight of each arc, its last contact and its count; they must be kept."""
        return loops.look_up_arcs(self.arrays, _flat(nodes), _flat(other), True)

    def degrees(self, nodes: Nodes) -> Int32:
        """Return how many arcs each node has."""
        found: Int32 = self.count[nodes]
        return found

    def arcs(self, nodes: Nodes) -> tuple[Int32, Int32, Int64]:
        """Return all arcs of the given nodes as (node, other, stored weight)."""
        return loops.list_arcs(self.arrays, _flat(nodes))[:3]

    def contacts(self, nodes: Nodes) -> tuple[Float64, Float32]:
        """Return last contacts and counts of all arcs of the given nodes, in the order of `arcs`."""
        return loops.list_arcs(self.arrays, _flat(nodes), False, True)[3:]


def _flat(nodes: Nodes) -> Nodes:
    return np.ascontiguousarray(nodes, np.int32)
