"""Containers of pairs of nodes: a table from pairs to small integers, a queue of pairs by time, and ghosts.

A sender of events can choose the pairs, so positions are keyed with a secret of the table (see `hashing`).
Equal times of the queue are ordered by pair, so that entries of one pair at one time come out together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.constants import DEEPEST
from dygcn.engine.graph.hashing import new_secret
from dygcn.engine.graph.ids import grown
from dygcn.engine.records import Float64, Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from numpy import floor, nextafter

    from dygcn.engine._holder import Holder
    from dygcn.engine._native import prefetch_64, word
    from dygcn.engine.graph.hashing import hash_of_pair


EMPTY = -1


def pair_key(a: int, b: int) -> int:
    """Pack two nodes into one int64."""
    return (word(a) << 32) | word(b)


class PairTable(Holder):
    """An open-addressing table. Its arrays never grow or move: a larger table is another one."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # Of one length, a power of two: EMPTY where no key stands, and the number of each key.
        self.keys, self.slots = arrays[:2]
        # Keys in the table, two words of secret.
        self.used = arrays[2]

    def __len__(self) -> int:
        return int(self.used[0])


def new_table(size: int = 16) -> PairTable:
    """Return an empty table, with a secret of its own."""
    used = np.array([0, *new_secret().view(np.int64)])
    return PairTable(np.full(size, EMPTY, np.int64), np.zeros(size, np.int32), used)


def table_with_capacity(table: PairTable, new: int) -> PairTable:
    """Return this table, or a larger copy of it, in which `new` more keys fit."""
    need = 3 * (len(table) + new) // 2
    return table if need <= len(table.arrays[0]) else _resized(table, 1 << need.bit_length())


def shrunk_table(table: PairTable) -> PairTable:
    """Return this table, or a copy of it that is as small as its keys allow."""
    size = max(16, 1 << (3 * len(table) // 2).bit_length())
    return table if size >= len(table.arrays[0]) else _resized(table, size)


def _resized(table: PairTable, size: int) -> PairTable:
    other = new_table(size)
    copy_table(table, other)
    return other


def pair_home(key: int, mask: int, first: int, second: int) -> int:
    """Return the home position of a key, under a secret of two words."""
    return hash_of_pair(key, first, second) & mask


def pair_prefetch(table: PairTable, key: int) -> None:
    """Prefetch the home position of a key."""
    prefetch_64(table.keys, pair_home(key, len(table.keys) - 1, table.used[1], table.used[2]))


def pair_find(table: PairTable, key: int) -> int:
    """Return the position of a key in the table, or -1."""
    mask = len(table.keys) - 1
    at = pair_home(key, mask, table.used[1], table.used[2])
    while table.keys[at] != EMPTY:
        if table.keys[at] == key:
            return at
        at = (at + 1) & mask
    return -1


def pair_slot(table: PairTable, key: int) -> int:
    """Return the number of a key, or -1."""
    at = pair_find(table, key)
    return table.slots[at] if at >= 0 else -1


def pair_put(table: PairTable, key: int, slot: int) -> None:
    """Set the number of a key; the table must have capacity."""
    mask = len(table.keys) - 1
    at = pair_home(key, mask, table.used[1], table.used[2])
    while table.keys[at] != EMPTY and table.keys[at] != key:
        at = (at + 1) & mask
    if table.keys[at] == EMPTY:
        table.keys[at] = key
        table.used[0] += 1
    table.slots[at] = slot


def pair_drop(table: PairTable, key: int) -> None:
    """Remove a key, if it is there, shifting its followers back."""
    mask, first, second = len(table.keys) - 1, table.used[1], table.used[2]
    at = pair_find(table, key)
    if at < 0:
        return
    hole = at
    at = (at + 1) & mask
    while table.keys[at] != EMPTY:
        if ((at - pair_home(table.keys[at], mask, first, second)) & mask) >= ((at - hole) & mask):
            table.keys[hole] = table.keys[at]
            table.slots[hole] = table.slots[at]
            hole = at
        at = (at + 1) & mask
    table.keys[hole] = EMPTY
    table.used[0] -= 1


def copy_table(table: PairTable, other: PairTable) -> None:
    """Put all keys of a table into another one that has capacity."""
    with cython.nogil:
        for i in range(len(table.keys)):
            if table.keys[i] != EMPTY:
                pair_put(other, table.keys[i], table.slots[i])


# ---- the queue --------------------------------------------------------------------------------------------


class DueQueue(Holder):
    """A heap of (time, pair key), see `pairs.pair_key`. Its arrays never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.times, self.keys, self.size = arrays

    def __len__(self) -> int:
        return int(self.size[0])


def new_queue(capacity: int = 0) -> DueQueue:
    """Return an empty queue."""
    return DueQueue(np.empty(capacity), np.empty(capacity, np.int64), np.zeros(1, np.int64))


def queue_with_capacity(queue: DueQueue, new: int) -> DueQueue:
    """Return this queue, or a larger copy of it, with capacity for `new` more entries."""
    times, keys, size = queue.arrays
    need = len(queue) + new
    return queue if need <= len(times) else DueQueue(grown(times, need), grown(keys, need), size.copy())


def keys_due(queue: DueQueue, now: float) -> Int64:
    """Return the pairs that are due, each once, without taking them from the queue."""
    times, keys, size = queue.arrays
    found, at = [keys[:0]], np.arange(min(len(queue), 1))
    while len(at):  # down the heap, no further than what is due
        at = at[times[at] <= now]
        found.append(keys[at])
        at = np.concatenate((2 * at + 1, 2 * at + 2))
        at = at[at < size[0]]
    return np.unique(np.concatenate(found))


def _is_before(queue: DueQueue, at: int, t: float, key: int) -> bool:
    earlier: bool = queue.times[at] < t or (queue.times[at] == t and queue.keys[at] <= key)
    return earlier


def put_due(queue: DueQueue, t: float, key: int) -> None:
    """Put a pair into the queue, which must have capacity."""
    at = queue.size[0]
    queue.size[0] += 1
    while at > 0:
        parent = (at - 1) >> 1
        if _is_before(queue, parent, t, key):
            break
        queue.times[at] = queue.times[parent]
        queue.keys[at] = queue.keys[parent]
        at = parent
    queue.times[at] = t
    queue.keys[at] = key


def take_first(queue: DueQueue) -> int:
    """Take the earliest pair from the queue, which must not be empty."""
    first: int = queue.keys[0]
    last = queue.size[0] - 1
    queue.size[0] = last
    t, key, at = queue.times[last], queue.keys[last], 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and _is_before(queue, child + 1, queue.times[child], queue.keys[child]):
            child += 1
        if not _is_before(queue, child, t, key):
            break
        queue.times[at] = queue.times[child]
        queue.keys[at] = queue.keys[child]
        at = child
    queue.times[at] = t
    queue.keys[at] = key
    return first


def count_due(queue: DueQueue, now: float, at: int = 0) -> int:
    """Return how many entries of the heap at and below `at` are due."""
    if at >= queue.size[0] or queue.times[at] > now:
        return 0
    return 1 + count_due(queue, now, 2 * at + 1) + count_due(queue, now, 2 * at + 2)


# ---- ghosts: what is left of removed edges, see `ageing` ---------------------------------------------------

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


# ---- the queue of ghosts -----------------------------------------------------------------------------------


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
