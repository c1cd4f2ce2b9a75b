"""The loop that finds when edges leave by the clock; see `expiry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.fixed import LOWER
from dygcn.engine.graph.outcomes import FOUND, LAPSE

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine.graph.arcs import ArcArrays, look_up, slot_of
    from dygcn.engine.graph.batch import BatchArrays
    from dygcn.engine.graph.delta import number_pairs, seat_of
    from dygcn.engine.graph.due import DueQueue, put_due, take_first
    from dygcn.engine.graph.pairs import pair_key

if TYPE_CHECKING:
    from typing import Any

    from dygcn.engine.records import Float64, Int8, Int16, Int64, Nodes

NEVER = -np.inf
NO_EFFECT = -1


class Lapses:
    """What `find` found, and what it needs for that.

    Parameters
    ----------
    queue
        Of every edge an entry that is not later than its last contact and the span.
    at, keys, times
        Edges that leave, in order: before which event, which pair, when they were due.
    held, counts
        Pairs without an entry that may be edges again, if what is staged is never written; how many there
        are, and how many entries were ever looked at.
    """

    def __init__(
        self, queue: DueQueue, at: Int64, keys: Int64, times: Float64, held: Int64, counts: Int64
    ) -> None:
        self.arrays = queue, at, keys, times, held, counts
        self.queue, self.at, self.keys, self.times, self.held, self.counts = self.arrays

    def __reduce__(self) -> tuple[type[Lapses], tuple[Any, ...]]:
        return Lapses, self.arrays


def note(queue: DueQueue, batch: BatchArrays, span: float) -> None:
    """Queue the edges that were written, if they are new, or their last contact is earlier than it was."""
    with cython.nogil:
        for p in range(batch.sizes[FOUND]):
            if batch.new[p] > 0 and (batch.old[p] <= 0 or batch.last[p] < batch.before[p]):
                put_due(queue, batch.last[p] + span, pair_key(batch.a[p], batch.b[p]))


def release_held(lapses: Lapses, pull: ArcArrays, span: float) -> None:
    """Queue again what is held, as far as it is an edge."""
    with cython.nogil:
        for i in range(lapses.counts[0]):
            key = lapses.held[i]
            slot = slot_of(pull, key >> 32, key & LOWER)
            at = pull.start[key >> 32] + slot
            if slot >= 0 and pull.weights[at] > 0:
                put_due(lapses.queue, pull.times[at] + span, key)
        lapses.counts[0] = 0


def find(
    lapses: Lapses,
    batch: BatchArrays,
    pull: ArcArrays,
    directed: bool,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
    seen: Float64,
    cell: Int64,
    first: Int64,
    value: Int64,
    before: float,
    clock: float,
    span: float,
) -> int:
    """Play events one by one, and note which edges leave between them; return how many do.

    Parameters
    ----------
    seen
        Of each event, the greatest time of all up to it that this graph or another part of it has seen.
    cell, first, value
        With relations: of each event, the number of what it adds to its pair; of each pair its first number,
        and how many there are; what is added before the events. Without, all are empty.
    before, clock
        The clock before the events, and after all.
    """
    now, last_of_all, count = float(before), len(op), 0
    with cython.nogil:
        found = number_pairs(batch, src, dst, directed)
        look_up(pull, found, batch.a, batch.b, batch.old, True, batch.last, batch.count)
        for p in range(found):
            batch.new[p] = max(batch.old[p], 0)
            batch.ghosts[p] = 0  # whether it is held
            batch.table[batch.seat[p]] = p
        for i in range(last_of_all + 1):
            now = max(now, seen[i] if i < last_of_all else clock)
            count = _let_go(lapses, batch, pull, first, value, i, now, span, count)
            if i < last_of_all and batch.pair_of[i] >= 0:
                p = batch.pair_of[i]
                if len(first) > 0:
                    new = _total_after(op[i], weight[i], cell[i], value, batch.new[p])
                else:
                    new = weight[i] if op[i] > 0 else 0
                _happen(lapses.queue, batch, p, new, t[i], clock, span)
        for p in range(found):
            batch.table[batch.seat[p]] = -1
    return count


def _total_after(op: int, weight: int, c: int, value: Int64, total: int) -> int:
    """Return what a pair weighs after an event about a relation, as `parts.play` does."""
    new = weight if op > 0 else 0
    if (op < 0 and value[c] == 0) or (new == 0 and op > 0 and total == 0):
        return NO_EFFECT
    total += new - value[c]
    value[c] = new
    return total


def _happen(
    queue: DueQueue, batch: BatchArrays, p: int, new: int, t: float, clock: float, span: float
) -> None:
    """Let a pair weigh another thing after an event, as `delta.play` does."""
    was = batch.new[p]
    if new == NO_EFFECT:
        return
    batch.new[p] = new
    if new == 0:
        batch.last[p] = NEVER
    elif was > 0:
        batch.last[p] = max(batch.last[p], t)
    else:
        batch.last[p] = t
        if t + span <= clock:  # `note` queues it otherwise
            put_due(queue, t + span, pair_key(batch.a[p], batch.b[p]))


def _let_go(
    lapses: Lapses,
    batch: BatchArrays,
    pull: ArcArrays,
    first: Int64,
    value: Int64,
    i: int,
    now: float,
    span: float,
    count: int,
) -> int:
    """Look at every pair that is due before an event; return how many edges have left then."""
    before, then = -1, NEVER
    while lapses.queue.size[0] > 0 and lapses.queue.times[0] <= now:
        due = lapses.queue.times[0]
        key = take_first(lapses.queue)
        lapses.counts[1] += 1
        if key == before and due == then:
            continue
        before, then = key, due
        p = batch.table[seat_of(batch, key >> 32, key & LOWER)]
        if p >= 0:
            there, end = batch.new[p] > 0, batch.last[p] + span
            if batch.ghosts[p] == 0:
                _hold(lapses, key)
                batch.ghosts[p] = 1
        else:
            slot = slot_of(pull, key >> 32, key & LOWER)
            at = pull.start[key >> 32] + slot
            there = slot >= 0 and pull.weights[at] > 0
            end = pull.times[at] + span if there else NEVER
        if not there or end < due:  # it left, perhaps in this batch
            continue
        if end > due:
            put_due(lapses.queue, end, key)
            continue
        if p >= 0:
            batch.new[p] = 0
            batch.last[p] = NEVER
            if len(first) > 0:
                for c in range(first[p], first[p + 1]):
                    value[c] = 0
        else:
            _hold(lapses, key)
        lapses.at[count] = i
        lapses.keys[count] = key
        lapses.times[count] = due
        count += 1
    return count


def _hold(lapses: Lapses, key: int) -> None:
    lapses.held[lapses.counts[0]] = key
    lapses.counts[0] += 1


def merged(
    lapses: Lapses, count: int, src: Nodes, dst: Nodes, op: Int8, weight: Int64, t: Float64, codes: Int16
) -> tuple[Nodes, Nodes, Int8, Int64, Float64, Int16]:
    """Return events with the edges that leave between them; codes are of relations, or empty."""
    size = len(op) + count
    columns = (
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int8), np.zeros(size, np.int64),
        np.empty(size), np.zeros(size if len(codes) == len(op) else 0, np.int16),
    )  # fmt: skip
    new_src, new_dst, new_op, new_weight, new_t, new_codes = columns
    coded, lapsed = len(new_codes) > 0, 0
    with cython.nogil:
        for i in range(size):
            one = i - lapsed
            if lapsed < count and lapses.at[lapsed] == one:
                new_src[i] = lapses.keys[lapsed] >> 32
                new_dst[i] = lapses.keys[lapsed] & LOWER
                new_op[i] = LAPSE
                new_t[i] = lapses.times[lapsed]
                lapsed += 1
                continue
            new_src[i] = src[one]
            new_dst[i] = dst[one]
            new_op[i] = op[one]
            new_weight[i] = weight[one]
            new_t[i] = t[one]
            if coded:
                new_codes[i] = codes[one]
    return columns
