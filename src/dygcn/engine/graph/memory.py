"""Ghosts: what a removed edge leaves behind for a while.

A removed edge of weight w keeps ``w * 2**-(1 + floor((clock - t_removed) / half_life))``, until that
factor falls below 0.05. The clock is the greatest `t` seen. So the graph is a function of its edges,
its ghosts ``(w, t_removed)`` and the clock, whatever the order and the batches in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.graph import ghosts as loops
from dygcn.engine.graph.constants import LOWER
from dygcn.engine.graph.ghosts import GhostArrays
from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.graph.pairs import keys_due, new_queue, new_table, queue_with_capacity, table_with_capacity

if TYPE_CHECKING:
    from dygcn.engine.records import Float64, Int64, Nodes

_HELD = ("_table", "_weights", "_times", "_free", "_counts", "_queue")


class Memory:
    """The ghosts of a graph and its clock. The half-life is in units of `t`."""

    def __init__(self, half_life: float) -> None:
        self.half_life = float(half_life)
        self.clock = -np.inf
        self._table = new_table()
        self._weights = np.empty(0, np.int64)
        self._times = np.empty(0, np.float64)
        self._free = np.empty(0, np.int32)
        self._counts = np.zeros(2, np.int64)  # slots ever used, free ones
        self._queue = new_queue()
        self.arrays: GhostArrays  # all of these, for loops
        self._replace()

    def _replace(self, **fresh: Any) -> None:
        """Replace some arrays, and the holder that hands all of them to loops."""
        now = vars(self) | fresh
        replace_together(self, **fresh, arrays=GhostArrays(*(now[name] for name in _HELD)))

    def __len__(self) -> int:
        return len(self._table)

    def take_due(self, clock: float) -> tuple[Nodes, Nodes]:
        """Take from the queue, and return, the pairs whose ghosts may weigh less at this time."""
        due = np.unique(loops.take_due(self.arrays, clock))
        return (due >> 32).astype(np.int32), (due & LOWER).astype(np.int32)

    def look_due(self, clock: float) -> tuple[Nodes, Nodes]:
        """Return the pairs that `take_due` would return; the queue stays."""
        due = keys_due(self._queue, clock)
        a, b = (due >> 32).astype(np.int32), (due & LOWER).astype(np.int32)
        there = self.recall(a, b)[0] != 0
        return a[there], b[there]

    def recall(self, a: Nodes, b: Nodes) -> tuple[Int64, Float64]:
        """Return the full weight and the time of removal of each pair's ghost (0 where there is none)."""
        return loops.recalled(self.arrays, a, b)

    def remember(self, a: Nodes, b: Nodes, weight: Int64, t: Float64) -> None:
        """Write the ghost of each pair; weight 0 means none."""
        if len(self._queue) > 4 * len(self) + 4096:
            self.rebuild_heap()
        self._reserve(len(a))
        loops.remember(self.arrays, a, b, weight, t, self.clock, self.half_life)

    def _reserve(self, new: int) -> None:
        slots, table = int(self._counts[0]) + new, table_with_capacity(self._table, new)
        queue = queue_with_capacity(self._queue, new)
        if slots <= len(self._free) and queue is self._queue and table is self._table:
            return
        fresh = {name: grown(getattr(self, name), slots) for name in ("_weights", "_times", "_free")}
        self._replace(**fresh, _queue=queue, _table=table)

    def rebuild_heap(self) -> None:
        """Rebuild the queue with one entry a ghost: an edge that flaps would fill it."""
        fresh = {"_queue": new_queue(len(self))}
        now = vars(self) | fresh
        loops.queue_all(GhostArrays(*(now[name] for name in _HELD)), self.clock, self.half_life)
        self._replace(**fresh)
