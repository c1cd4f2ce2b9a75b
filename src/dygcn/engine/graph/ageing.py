"""Effects of time on a graph: contacts fade, removed edges leave ghosts, and edges expire.

*Contacts*: an event that adds an edge (again) or takes one away. What a node or a pair keeps is the greatest
t of its contacts, and their count as of then: a contact at t was worth one at t, and is worth half a
half-life later. Events are played one by one, so batches do not matter. (But with ghosts a node whose last
ghost is forgotten between two batches is forgotten, and inside one it is not.) Only the score of a link reads
any of it; messages and vectors do not. `last` and `count` are always the two numbers of nodes or of pairs.

*Ghosts*: a removed edge of weight w keeps ``w * 2**-(1 + floor((clock - t_removed) / half_life))``, until
that factor falls below 0.05. The clock is the greatest `t` seen. So the graph is a function of its edges, its
ghosts ``(w, t_removed)`` and the clock, whatever the order and the batches in which they came.

*Expiry*: an edge leaves when the clock reaches the time of its last contact and the span; the clock is the
greatest `t` seen, or `now`. Before an event happens, edges that are due by its clock have left: their
removals stand in the batch as events of their own (`LAPSE`), so that the graph is the same however events are
cut into batches, and all that follows sees plain removals. An edge that leaves is no contact of its ends.

The queue of expiry has an entry of every edge, not later than it is due. Contacts do not touch it: an edge
that was in contact since is queued again when its entry comes up, so that an edge and a contact cost an entry
each at most. The queue follows from the edges, and is not saved. With removals in a refused batch or a trial,
entries may be there twice, or of a pair that is no edge: they are passed over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph import lapses, pairs
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.graph.constants import FOUND, LAPSE, LOWER, NEVER
from dygcn.engine.graph.delta import touch_ends
from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.graph.lapses import Lapses
from dygcn.engine.graph.pairs import DueQueue, GhostArrays, new_queue
from dygcn.engine.graph.staging import NodeEvents, PairBuffers
from dygcn.engine.records import EventBatch, Float32, Float64, Int8, Int16, Int64, Nodes

_NONE = np.empty(0, np.int64)
_PLAIN = _NONE, _NONE, _NONE
_OF_GHOSTS = "_table", "_weights", "_times", "_free", "_counts", "_queue"


class Contacts:
    """Times and fading counts of nodes' contacts, and the greatest time of all: the clock."""

    def __init__(self, half_life: float) -> None:
        self.half_life = float(half_life)
        self.clock = NEVER
        self.times: Float64 = np.empty(0)
        self.counts: Float32 = np.empty(0, np.float32)

    def reserve(self, nodes: int) -> None:
        """Grow to nodes 0..nodes - 1."""
        have = len(self.times)
        if nodes > have:
            times = grown(self.times, nodes)
            times[have:] = NEVER
            replace_together(self, times=times, counts=grown(self.counts, nodes))

    def put(self, nodes: Nodes, last: Float64, count: Float32) -> None:
        """Write last contacts and counts of nodes."""
        self.times[nodes] = last
        self.counts[nodes] = count

    def after(self, src: Nodes, dst: Nodes, t: Float64, mark: Int8) -> tuple[Nodes, Float64, Float32]:
        """Return the nodes that events touch, and their contacts after the events, without writing."""
        rows = np.flatnonzero(mark)
        nodes, places = np.unique(np.concatenate((src[rows], dst[rows])), return_inverse=True)
        last, count = self.times[nodes], self.counts[nodes]
        touch_ends(places[: len(rows)], places[len(rows) :], t[rows], self.half_life, last, count)
        return nodes, last, count

    def clock_after(self, batch: EventBatch, now: float | None) -> float:
        """Return the clock after a batch."""
        latest = float(batch.t.max()) if batch.t is not None and len(batch) else NEVER
        return max(latest, self.clock, self.clock if now is None else float(now))

    def of(self, nodes: Nodes) -> tuple[Float64, Float32]:
        """Return the time of each node's last contact (minus infinity: none), and its count as of then."""
        return self.times[nodes], self.counts[nodes]

    def since(self, nodes: Nodes) -> Float64:
        """Return the time since each node's last contact, infinity where there was none."""
        return self.time_since(self.of(nodes)[0])

    def activity(self, nodes: Nodes) -> Float64:
        """Return the faded count of each node's contacts at the clock."""
        return self.worth(*self.of(nodes))

    def time_since(self, last: Float64) -> Float64:
        """Return the time since contacts, infinity where no time is known."""
        if np.isinf(self.clock):
            return np.full(len(last), np.inf)
        with np.errstate(over="ignore"):  # longer than a number can say is for ever
            return self.clock - last

    def worth(self, last: Float64, count: Float32) -> Float64:
        """Return counts, which hold as of some times, faded to the clock."""
        passed = np.zeros(len(last)) if np.isinf(self.clock) else np.maximum(self.time_since(last), 0.0)
        return count.astype(np.float64) * np.exp2(-passed / self.half_life)


def _ends_of(keys: Int64) -> tuple[Nodes, Nodes]:
    return (keys >> 32).astype(np.int32), (keys & LOWER).astype(np.int32)


class Memory:
    """The ghosts of a graph and its clock. The half-life is in units of `t`."""

    def __init__(self, half_life: float) -> None:
        self.half_life = float(half_life)
        self.clock = -np.inf
        self._table = pairs.new_table()
        self._weights = np.empty(0, np.int64)
        self._times = np.empty(0, np.float64)
        self._free = np.empty(0, np.int32)
        self._counts = np.zeros(2, np.int64)  # slots ever used, free ones
        self._queue = new_queue()
        self.arrays: GhostArrays  # all of these, for loops
        self._replace()

    def _replace(self, **fresh: Any) -> None:
        now = vars(self) | fresh
        replace_together(self, **fresh, arrays=GhostArrays(*(now[name] for name in _OF_GHOSTS)))

    def __len__(self) -> int:
        return len(self._table)

    def take_due(self, clock: float) -> tuple[Nodes, Nodes]:
        """Remove from the queue, and return, the pairs whose ghosts may weigh less at this time."""
        return _ends_of(np.unique(pairs.take_due(self.arrays, clock)))

    def look_due(self, clock: float) -> tuple[Nodes, Nodes]:
        """Return the pairs that `take_due` would return, without removing them."""
        a, b = _ends_of(pairs.keys_due(self._queue, clock))
        there = self.recall(a, b)[0] != 0
        return a[there], b[there]

    def recall(self, a: Nodes, b: Nodes) -> tuple[Int64, Float64]:
        """Return the full weight and the removal time of each pair's ghost; 0 where there is none."""
        return pairs.recalled(self.arrays, a, b)

    def remember(self, a: Nodes, b: Nodes, weight: Int64, t: Float64) -> None:
        """Write the ghost of each pair; weight 0 removes it."""
        if len(self._queue) > 4 * len(self) + 4096:
            self.rebuild_heap()
        self._reserve(len(a))
        pairs.remember(self.arrays, a, b, weight, t, self.clock, self.half_life)

    def _reserve(self, new: int) -> None:
        slots, table = int(self._counts[0]) + new, pairs.table_with_capacity(self._table, new)
        queue = pairs.queue_with_capacity(self._queue, new)
        if slots <= len(self._free) and queue is self._queue and table is self._table:
            return
        fresh = {name: grown(getattr(self, name), slots) for name in ("_weights", "_times", "_free")}
        self._replace(**fresh, _queue=queue, _table=table)

    def rebuild_heap(self) -> None:
        """Rebuild the queue with one entry per ghost: frequent changes of an edge would fill it."""
        fresh = {"_queue": new_queue(len(self))}
        now = vars(self) | fresh
        pairs.queue_all(GhostArrays(*(now[name] for name in _OF_GHOSTS)), self.clock, self.half_life)
        self._replace(**fresh)


class Expiry:
    """Finds the edges that expire: `span` after their last contact."""

    def __init__(self, span: float) -> None:
        self.span = float(span)
        found = _NONE, _NONE, np.empty(0)
        self.arrays = Lapses(new_queue(), self.span, *found, _NONE, np.zeros(2, np.int64))

    @property
    def queue(self) -> DueQueue:
        """The heap of edges by the earliest time when they may expire."""
        queue: DueQueue = self.arrays.arrays[0]
        return queue

    def play(
        self, graph: Any, events: NodeEvents, codes: Int16 | None = None, seen: Float64 | None = None
    ) -> Int16 | None:
        """Insert removals of expiring edges between staged events; return the events' relation codes.

        `graph` is the `Graph` that has this. `seen` is the clock at each event, where other parts of a graph
        may have seen more.
        """
        if len(self.queue) > 4 * graph.edge_count + 4096:
            self._tidy(graph.pull)
        count, clock, queue = len(events.op), events.contact_clock, self._reserve(2 * len(events.op))
        if self.arrays.arrays[-1][0]:
            lapses.queue_again(self.arrays, graph.pull.arrays)
        none_old = len(queue) == 0 or queue.arrays[0][0] > clock
        if none_old and (count == 0 or float(events.t.min()) + self.span > clock):
            return codes
        self._reserve_found(pairs.count_due(queue, clock) + count)
        graph.buffers.reserve(count)
        numbers = _PLAIN
        if codes is not None and graph.relations is not None:
            cells = graph.relations.cells(graph.buffers, events, codes)
            numbers = cells.number, cells.first, graph.relations.recall(*cells.where)
        times = graph.contacts.clock, clock
        left = lapses.find(
            self.arrays, graph.arrays, events.arrays, events.t if seen is None else seen, *numbers, *times
        )
        if left:
            codes = self._insert(events, left, codes)
        return codes

    def _insert(self, events: NodeEvents, count: int, codes: Int16 | None) -> Int16 | None:
        at, keys, times = (one[:count] for one in self.arrays.arrays[2:5])
        events.src = np.insert(events.src, at, keys >> 32)
        events.dst = np.insert(events.dst, at, keys & LOWER)
        events.op, events.weight = np.insert(events.op, at, LAPSE), np.insert(events.weight, at, 0)
        events.t, events.lapsed = np.insert(events.t, at, times), count
        return None if codes is None else np.insert(codes, at, 0)

    def note(self, buffers: PairBuffers) -> None:
        """Queue the edges that were just written, from the graph's buffers."""
        self._reserve(int(buffers.sizes[FOUND]))
        lapses.note(self.arrays, buffers.arrays)

    def _tidy(self, pull: Adjacency) -> None:
        """Rebuild the queue with one entry per edge: frequent changes of an edge would fill it."""
        queue = self.queue
        keys = np.unique(queue.arrays[1][: len(queue)])
        weight, last, _ = pull.look_up_contacts(keys >> 32, keys & LOWER)
        there = np.flatnonzero(weight > 0)
        there = there[np.argsort(last[there], kind="stable")]  # what is sorted is a heap
        size = np.array([len(there)])
        self._replace(DueQueue(last[there] + self.span, keys[there], size))

    def _replace(self, queue: DueQueue) -> DueQueue:
        self.arrays = Lapses(queue, *self.arrays.arrays[1:])
        return queue

    def _reserve(self, new: int) -> DueQueue:
        """Return the queue, with capacity for `new` more entries and for all pairs without an entry."""
        wider = pairs.queue_with_capacity(self.queue, new + int(self.arrays.arrays[-1][0]))
        return self.queue if wider is self.queue else self._replace(wider)

    def _reserve_found(self, most: int) -> None:
        *front, at, keys, times, unqueued, counts = self.arrays.arrays
        wider = grown(unqueued, int(counts[0]) + most)
        if most > len(at) or wider is not unqueued:
            found = grown(at, most), grown(keys, most), grown(times, most)
            self.arrays = Lapses(*front, *found, wider, counts)
