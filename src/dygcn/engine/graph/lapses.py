"""The loop that finds when edges expire; see `ageing.Expiry`."""

from __future__ import annotations

from typing import Any

from dygcn.engine.graph.constants import FOUND, LOWER, NEVER
from dygcn.engine.records import Float64, Int64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine.graph.arcs import ArcArrays, slot_of
    from dygcn.engine.graph.delta import BatchArrays, EventArrays, GraphArrays, find_stored, seat_of
    from dygcn.engine.graph.pairs import pair_key, put_due, take_first

NO_EFFECT = -1


class Lapses(Holder):
    """Inputs and outputs of `find`."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # An entry for every edge, not later than `span` after its last contact.
        self.queue, self.span = arrays[:2]
        # Edges that leave, in order: before which event, which pair, when they were due.
        self.at, self.keys, self.times = arrays[2:5]
        # Pairs without an entry that may be edges again, if what is staged is never written.
        self.unqueued = arrays[5]
        # How many these are; how many entries were ever looked at.
        self.counts = arrays[6]


def note(lapses: Lapses, batch: BatchArrays) -> None:
    """Queue the written edges that are new, or whose last contact became earlier."""
    with cython.nogil:
        for p in range(batch.sizes[FOUND]):
            if batch.new[p] > 0 and (batch.old[p] <= 0 or batch.last[p] < batch.before[p]):
                put_due(lapses.queue, batch.last[p] + lapses.span, pair_key(batch.a[p], batch.b[p]))


def queue_again(lapses: Lapses, pull: ArcArrays) -> None:
    """Queue again the edges whose pairs lost their entry."""
    with cython.nogil:
        for i in range(lapses.counts[0]):
            key = lapses.unqueued[i]
            slot = slot_of(pull, key >> 32, key & LOWER)
            at = pull.start[key >> 32] + slot
            if slot >= 0 and pull.weights[at] > 0:
                put_due(lapses.queue, pull.times[at] + lapses.span, key)
        lapses.counts[0] = 0


def find(
    lapses: Lapses,
    graph: GraphArrays,
    events: EventArrays,
    seen: Float64,
    cell: Int64,
    first: Int64,
    value: Int64,
    before: float,
    clock: float,
) -> int:
    """Play events one by one; list the edges that expire between them, and return their number.

    `seen` is, for each event, the greatest time that any part of the graph has seen by then. With relations,
    `cell` is the number of an event's (pair, relation), `first` the first number of each pair, and `value`
    what each adds before the events; without, all three are empty. `before` and `clock` are the clock before
    the events and after all.
    """
    now, last_of_all, count = float(before), len(events.op), 0
    with cython.nogil:
        found = find_stored(graph, events)
        _begin(graph.batch, found)
        for i in range(last_of_all + 1):
            now = max(now, seen[i] if i < last_of_all else clock)
            count = _let_go(lapses, graph, first, value, i, now, count)
            if i < last_of_all and graph.batch.pair_of[i] >= 0:
                p = graph.batch.pair_of[i]
                if len(first) > 0:
                    new = _total_after(events.op[i], events.weight[i], cell[i], value, graph.batch.new[p])
                else:
                    new = events.weight[i] if events.op[i] > 0 else 0
                _happen(lapses, graph.batch, p, new, events.t[i], clock)
        for p in range(found):
            graph.batch.table[graph.batch.seat[p]] = -1
    return count


def _begin(batch: BatchArrays, found: int) -> None:
    for p in range(found):
        batch.new[p] = max(batch.old[p], 0)
        batch.ghosts[p] = 0
        batch.table[batch.seat[p]] = p


def _total_after(op: int, weight: int, c: int, value: Int64, total: int) -> int:
    """Return the weight of a pair after an event about a relation, as `parts.play` does."""
    new = weight if op > 0 else 0
    if (op < 0 and value[c] == 0) or (new == 0 and op > 0 and total == 0):
        return NO_EFFECT
    total += new - value[c]
    value[c] = new
    return total


def _happen(lapses: Lapses, batch: BatchArrays, p: int, new: int, t: float, clock: float) -> None:
    """Set the weight of a pair after an event, as `delta.play` does."""
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
        if t + lapses.span <= clock:  # `note` queues it otherwise
            put_due(lapses.queue, t + lapses.span, pair_key(batch.a[p], batch.b[p]))


def _let_go(
    lapses: Lapses, graph: GraphArrays, first: Int64, value: Int64, i: int, now: float, count: int
) -> int:
    """Visit every pair that is due before event i; return the number of edges expired by then."""
    before, then = -1, NEVER
    while lapses.queue.size[0] > 0 and lapses.queue.times[0] <= now:
        due = lapses.queue.times[0]
        key = take_first(lapses.queue)
        lapses.counts[1] += 1
        if key == before and due == then:
            continue
        before, then = key, due
        p = graph.batch.table[seat_of(graph.batch, key >> 32, key & LOWER)]
        if p >= 0:
            there, end = graph.batch.new[p] > 0, graph.batch.last[p] + lapses.span
            if graph.batch.ghosts[p] == 0:
                _note_unqueued(lapses, key)
                graph.batch.ghosts[p] = 1
        else:
            slot = slot_of(graph.pull, key >> 32, key & LOWER)
            at = graph.pull.start[key >> 32] + slot
            there = slot >= 0 and graph.pull.weights[at] > 0
            end = graph.pull.times[at] + lapses.span if there else NEVER
        if not there or end < due:  # it left, perhaps in this batch
            continue
        if end > due:
            put_due(lapses.queue, end, key)
            continue
        if p >= 0:
            graph.batch.new[p] = 0
            graph.batch.last[p] = NEVER
            if len(first) > 0:
                for c in range(first[p], first[p + 1]):
                    value[c] = 0
        else:
            _note_unqueued(lapses, key)
        lapses.at[count] = i
        lapses.keys[count] = key
        lapses.times[count] = due
        count += 1
    return count


def _note_unqueued(lapses: Lapses, key: int) -> None:
    lapses.unqueued[lapses.counts[0]] = key
    lapses.counts[0] += 1
