"""Loops over ghosts: their weights, which of them are due, and their table; see `ageing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.constants import DEEPEST

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from numpy import floor, nextafter

    from dygcn.engine._holder import Holder
    from dygcn.engine.graph.pairs import (
        count_due,
        pair_drop,
        pair_find,
        pair_key,
        pair_put,
        pair_slot,
        put_due,
        take_first,
    )

if TYPE_CHECKING:
    from typing import Any

    from dygcn.engine.records import Float64, Int64, Nodes

FOR_EVER = np.inf


class GhostArrays(Holder):
    """The arrays of a `Memory`. They never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # The slot of each pair that has a ghost; of each slot, full weight and time of removal.
        self.table, self.weights, self.times = arrays[:3]
        # Free slots; slots ever used and how many are free.
        self.free, self.counts = arrays[3:5]
        # When pairs are to be looked at again.
        self.queue = arrays[5]


def ghost_weight(weight: int, t: float, clock: float, half_life: float) -> int:
    """Return the weight at `clock` of an edge removed at `t`; 0 when it is forgotten."""
    passed, steps = (float(clock) - float(t)) / half_life, 1
    while steps <= DEEPEST and passed >= steps:
        steps += 1
    return weight >> steps if steps <= DEEPEST else 0


def weights_left(weight: Int64, t: Float64, clock: float, half_life: float) -> Int64:
    """Return the remaining weight of each removed edge."""
    left = np.empty(len(weight), np.int64)
    out = left
    with cython.nogil:
        for i in range(len(weight)):
            out[i] = ghost_weight(weight[i], t[i], clock, half_life)
    return left


def recall(ghosts: GhostArrays, n: int, a: Nodes, b: Nodes, weight: Int64, t: Float64) -> None:
    """Write the full weight and removal time of n pairs' ghosts; 0 where there is none."""
    for i in range(n):
        at = pair_find(ghosts.table, pair_key(a[i], b[i]))
        weight[i] = ghosts.weights[ghosts.table.slots[at]] if at >= 0 else 0
        t[i] = ghosts.times[ghosts.table.slots[at]] if at >= 0 else 0.0


def recalled(ghosts: GhostArrays, a: Nodes, b: Nodes) -> tuple[Int64, Float64]:
    """Return the full weight and removal time of each pair's ghost; 0 where there is none."""
    found = np.empty(len(a), np.int64), np.empty(len(a))
    weight, t = found
    with cython.nogil:
        recall(ghosts, len(a), a, b, weight, t)
    return found


# ---- the queue ---------------------------------------------------------------------------------------------


def _due(t: float, clock: float, half_life: float) -> float:
    """Return a time after the clock, and not after the next loss of weight."""
    steps = 1.0 + floor((clock - t) / half_life)
    due: float = t + steps * half_life
    due -= 1e-15 * (abs(t) + steps * half_life)  # the floor above may round up a little earlier than this sum
    after: float = nextafter(clock, FOR_EVER)
    return max(due, after)


def take_due(ghosts: GhostArrays, clock: float) -> Int64:
    """Remove all due pairs from the queue; return those that still have ghosts."""
    due = np.empty(count_due(ghosts.queue, clock), np.int64)
    out = due
    found = 0
    with cython.nogil:
        while ghosts.queue.size[0] > 0 and ghosts.queue.times[0] <= clock:
            key = take_first(ghosts.queue)
            if pair_find(ghosts.table, key) >= 0:
                out[found] = key
                found += 1
    return due[:found]


def queue_all(ghosts: GhostArrays, clock: float, half_life: float) -> None:
    """Put every ghost of the table into an empty queue."""
    with cython.nogil:
        for at in range(len(ghosts.table.keys)):
            if ghosts.table.keys[at] >= 0:
                t = ghosts.times[ghosts.table.slots[at]]
                put_due(ghosts.queue, _due(t, clock, half_life), ghosts.table.keys[at])


# ---- writing -----------------------------------------------------------------------------------------------


def remember(
    ghosts: GhostArrays, a: Nodes, b: Nodes, weight: Int64, t: Float64, clock: float, half_life: float
) -> None:
    """Write the ghost of each pair; weight 0 removes it. The caller has reserved capacity."""
    with cython.nogil:
        for i in range(len(a)):
            key = pair_key(a[i], b[i])
            if weight[i] == 0:
                _forget(ghosts, key)
            else:
                slot = _slot_for(ghosts, key)
                ghosts.weights[slot] = weight[i]
                ghosts.times[slot] = t[i]
                put_due(ghosts.queue, _due(t[i], clock, half_life), key)


def _forget(ghosts: GhostArrays, key: int) -> None:
    at = pair_find(ghosts.table, key)
    if at >= 0:
        ghosts.free[ghosts.counts[1]] = ghosts.table.slots[at]
        ghosts.counts[1] += 1
        pair_drop(ghosts.table, key)


def _slot_for(ghosts: GhostArrays, key: int) -> int:
    """Return the slot of a pair; a pair without a ghost gets a recycled or a new one."""
    slot: int = pair_slot(ghosts.table, key)
    if slot >= 0:
        return slot
    if ghosts.counts[1] > 0:
        ghosts.counts[1] -= 1
        slot = ghosts.free[ghosts.counts[1]]
    else:
        slot = ghosts.counts[0]
        ghosts.counts[0] += 1
    pair_put(ghosts.table, key, slot)
    return slot
