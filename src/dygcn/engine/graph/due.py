"""A queue of pairs of nodes by the time at which each is to be looked at again. Loops only.

Equal times are ordered by pair, so that entries of one pair at one time come out behind each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown

if TYPE_CHECKING:
    from typing import Any

    from dygcn.engine.records import Float64, Int64


class DueQueue:
    """A heap. Its arrays never grow or move: a queue with more capacity is another one.

    Parameters
    ----------
    times, keys
        When, and which pair (see `pairs.pair_key`).
    size
        How many entries there are.
    """

    def __init__(self, times: Float64, keys: Int64, size: Int64) -> None:
        self.arrays = times, keys, size
        self.times, self.keys, self.size = times, keys, size

    def __reduce__(self) -> tuple[type[DueQueue], tuple[Any, ...]]:
        return DueQueue, self.arrays

    def __len__(self) -> int:
        return int(self.size[0])


def new_queue(capacity: int = 0) -> DueQueue:
    """Return an empty queue."""
    return DueQueue(np.empty(capacity), np.empty(capacity, np.int64), np.zeros(1, np.int64))


def queue_with_capacity(queue: DueQueue, new: int) -> DueQueue:
    """Return this queue, or a larger copy of it, in which so many more entries fit."""
    times, keys, size = queue.arrays
    need = len(queue) + new
    return queue if need <= len(times) else DueQueue(grown(times, need), grown(keys, need), size.copy())


def keys_due(queue: DueQueue, now: float) -> Int64:
    """Return the pairs whose time has come, each once, and leave them in the queue."""
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
    """Take the pair that is due first out of the queue, which must not be empty."""
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
    """Return how many entries below one of the heap, and with it, are due."""
    if at >= queue.size[0] or queue.times[at] > now:
        return 0
    return 1 + count_due(queue, now, 2 * at + 1) + count_due(queue, now, 2 * at + 2)
