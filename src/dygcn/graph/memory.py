"""Ghosts: what a removed edge leaves behind for a while.

A removed edge of weight w keeps ``w * 2**-(1 + floor((clock - t_removed) / half_life))``, until that
factor falls below 0.05. The clock is the greatest `t` seen. So the graph is a function of its edges,
its ghosts ``(w, t_removed)`` and the clock, whatever the order and the batches in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel
from dygcn.graph.ids import grown, replace_together
from dygcn.graph.pairs import PairTable, pair_drop, pair_find, pair_key, pair_put

if TYPE_CHECKING:
    from dygcn.records import Float64, Int32, Int64, Integer, Nodes

DEEPEST = 4  # 2^-4 is the last factor that is not below 0.05


@inlined
def ghost_weight(weight: int, t: float, clock: float, half_life: float) -> int:
    """Return what is left of a removed edge, 0 when it is forgotten."""
    steps = np.floor((clock - t) / half_life)
    return weight >> (1 + int(steps)) if steps < DEEPEST else 0


@kernel
def weights_left(weight: Int64, t: Float64, clock: float, half_life: float) -> Int64:
    """Return what is left of each removed edge."""
    left = np.empty(len(weight), np.int64)
    for i in range(len(weight)):
        left[i] = ghost_weight(weight[i], t[i], clock, half_life)
    return left


@inlined
def _due(t: float, clock: float, half_life: float) -> float:
    """Return a time not later than the next fall of the weight, and later than the clock."""
    steps = 1.0 + np.floor((clock - t) / half_life)
    due = t + steps * half_life
    due -= 1e-15 * (abs(t) + steps * half_life)  # the floor above may round up a little earlier than this sum
    return float(max(due, np.nextafter(clock, np.inf)))


@kernel
def _heap_push(times: Float64, keys: Int64, size: Integer, t: float, key: Integer) -> None:
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if times[parent] <= t:
            break
        times[at] = times[parent]
        keys[at] = keys[parent]
        at = parent
    times[at] = t
    keys[at] = key


@kernel
def _heap_pop(times: Float64, keys: Int64, size: Integer) -> Integer:
    key: Integer = keys[0]
    last = size - 1
    t, moved = times[last], keys[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and times[child + 1] < times[child]:
            child += 1
        if times[child] >= t:
            break
        times[at] = times[child]
        keys[at] = keys[child]
        at = child
    times[at] = t
    keys[at] = moved
    return key


@kernel
def _take_due(times: Float64, keys: Int64, size: Int64, table: Int64, used: Int64, clock: float) -> Int64:
    """Take from the heap every pair whose time has come and that still is a ghost."""
    due = np.empty(size[0], np.int64)
    found = 0
    while size[0] > 0 and times[0] <= clock:
        key = _heap_pop(times, keys, size[0])
        size[0] -= 1
        if pair_find(table, used, key) >= 0:
            due[found] = key
            found += 1
    return due[:found]


@kernel
def _remember(
    a: Nodes,
    b: Nodes,
    weight: Int64,
    t: Float64,
    clock: float,
    half_life: float,
    keys: Int64,
    slots: Int32,
    used: Int64,
    weights: Int64,
    times: Float64,
    free: Int32,
    counts: Int64,
    heap_times: Float64,
    heap_keys: Int64,
    heap_size: Int64,
) -> None:
    """Write the ghost of each pair; weight 0 means that the pair has none."""
    for i in range(len(a)):
        key = pair_key(a[i], b[i])
        at = pair_find(keys, used, key)
        if weight[i] == 0:
            if at >= 0:
                free[counts[1]] = slots[at]
                counts[1] += 1
                pair_drop(keys, slots, used, key)
            continue
        if at >= 0:
            slot = slots[at]
        elif counts[1] > 0:
            counts[1] -= 1
            slot = free[counts[1]]
            pair_put(keys, slots, used, key, slot)
        else:
            slot = counts[0]
            counts[0] += 1
            pair_put(keys, slots, used, key, slot)
        weights[slot] = weight[i]
        times[slot] = t[i]
        _heap_push(heap_times, heap_keys, heap_size[0], _due(t[i], clock, half_life), key)
        heap_size[0] += 1


@kernel
def _fill_heap(
    pairs: Int64, t: Float64, clock: float, half_life: float, heap_times: Float64, heap_keys: Int64
) -> int:
    for i in range(len(pairs)):
        _heap_push(heap_times, heap_keys, i, _due(t[i], clock, half_life), pairs[i])
    return len(pairs)


@kernel
def _recall(
    a: Nodes, b: Nodes, keys: Int64, slots: Int32, used: Int64, weights: Int64, times: Float64
) -> tuple[Int64, Float64]:
    weight = np.zeros(len(a), np.int64)
    t = np.zeros(len(a), np.float64)
    for i in range(len(a)):
        at = pair_find(keys, used, pair_key(a[i], b[i]))
        if at >= 0:
            weight[i] = weights[slots[at]]
            t[i] = times[slots[at]]
    return weight, t


class Memory:
    """The ghosts of a graph and its clock.

    Parameters
    ----------
    half_life
        In units of `t`.
    """

    def __init__(self, half_life: float) -> None:
        self.half_life = float(half_life)
        self.clock = -np.inf
        self._table = PairTable()
        self._weights = np.empty(0, np.int64)
        self._times = np.empty(0, np.float64)
        self._free = np.empty(0, np.int32)
        self._counts = np.zeros(2, np.int64)  # slots ever used, free ones
        self._heap_times = np.empty(0, np.float64)
        self._heap_keys = np.empty(0, np.int64)
        self._heap_size = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return int(self._table.used[0])

    def take_due(self, clock: float) -> tuple[Nodes, Nodes]:
        """Return the pairs whose ghosts may weigh less at this time than they do now."""
        due = np.unique(
            _take_due(
                self._heap_times,
                self._heap_keys,
                self._heap_size,
                self._table.keys,
                self._table.used,
                float(clock),
            )
        )
        return (due >> 32).astype(np.int32), (due & 0xFFFFFFFF).astype(np.int32)

    def recall(self, a: Nodes, b: Nodes) -> tuple[Int64, Float64]:
        """Return the full weight and the time of removal of each pair's ghost (0 where there is none)."""
        table = self._table
        return _recall(a, b, table.keys, table.slots, table.used, self._weights, self._times)

    def remember(self, a: Nodes, b: Nodes, weight: Int64, t: Float64) -> None:
        """Write the ghost of each pair; weight 0 means that the pair has none."""
        if int(self._heap_size[0]) > 4 * len(self) + 4096:
            self.rebuild_heap()
        self._make_room(len(a))
        _remember(
            a,
            b,
            weight,
            t,
            self.clock,
            self.half_life,
            self._table.keys,
            self._table.slots,
            self._table.used,
            self._weights,
            self._times,
            self._free,
            self._counts,
            self._heap_times,
            self._heap_keys,
            self._heap_size,
        )

    def _make_room(self, new: int) -> None:
        slots, heap = int(self._counts[0]) + new, int(self._heap_size[0]) + new
        fresh = {name: grown(getattr(self, name), slots) for name in ("_weights", "_times", "_free")}
        fresh |= {name: grown(getattr(self, name), heap) for name in ("_heap_times", "_heap_keys")}
        replace_together(self, _table=self._table.with_room(new), **fresh)

    def rebuild_heap(self) -> None:
        """Queue every ghost once, and nothing else: an edge that flaps would fill the queue."""
        known = self._table.keys >= 0
        keys, times = self._table.keys[known], self._times[self._table.slots[known]]
        heap_times, heap_keys = np.empty(len(keys)), np.empty(len(keys), np.int64)
        size = np.array([_fill_heap(keys, times, self.clock, self.half_life, heap_times, heap_keys)])
        replace_together(self, _heap_times=heap_times, _heap_keys=heap_keys, _heap_size=size)
