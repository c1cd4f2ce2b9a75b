"""Expiry: an edge leaves by the clock, as soon as its last contact is so long ago.

An edge leaves when the clock reaches the time of its last contact and the span; the clock is the greatest `t`
seen, or `now`. Before an event happens, whoever is due by its clock has left: what is left in between stands
in the batch as events of its own (`LAPSE`), so that the graph is the same however events are cut into
batches, and all that follows sees plain removals. An edge that leaves is no contact of its ends.

A queue has an entry of every edge, not later than it is due. Contacts do not touch it: an edge that was in
contact since is queued again when its entry comes up, so that an edge and a contact cost an entry each at
most. The queue follows from the edges, and is not saved. With removals in a refused batch or a trial, entries
may be there twice, or of a pair that is no edge: they are passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from dygcn.engine.graph import lapses as loops
from dygcn.engine.graph.constants import FOUND, LAPSE, LOWER
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.lapses import Lapses
from dygcn.engine.graph.pairs import DueQueue, count_due, new_queue, queue_with_capacity

if TYPE_CHECKING:
    from dygcn.engine.graph.adjacency import Adjacency
    from dygcn.engine.graph.batch import GraphArrays
    from dygcn.engine.graph.contacts import Contacts
    from dygcn.engine.graph.relations import Relations
    from dygcn.engine.graph.staging import NodeEvents, PairBuffers
    from dygcn.engine.records import Float64, Int16

_NONE = np.empty(0, np.int64)
_PLAIN = _NONE, _NONE, _NONE


class _Graph(Protocol):
    """What expiry reads of a graph."""

    pull: Adjacency
    buffers: PairBuffers
    edge_count: int
    contacts: Contacts | None
    relations: Relations | None

    @property
    def arrays(self) -> GraphArrays: ...


class Expiry:
    """Finds the edges that leave by the clock: `span` after their last contact."""

    def __init__(self, span: float) -> None:
        self.span = float(span)
        found = _NONE, _NONE, np.empty(0)
        self.arrays = Lapses(new_queue(), self.span, *found, _NONE, np.zeros(2, np.int64))

    @property
    def queue(self) -> DueQueue:
        """The heap of edges by the time when they may leave."""
        queue: DueQueue = self.arrays.arrays[0]
        return queue

    def play(
        self, graph: _Graph, events: NodeEvents, codes: Int16 | None = None, seen: Float64 | None = None
    ) -> Int16 | None:
        """Insert the removals of edges that expire between staged events; return the events' relation codes.

        `seen` is the clock at each event, where other parts of a graph may have seen more.
        """
        assert graph.contacts is not None
        if len(self.queue) > 4 * graph.edge_count + 4096:
            self._tidy(graph.pull)
        count, clock, queue = len(events.op), events.contact_clock, self._reserve(2 * len(events.op))
        if self.arrays.arrays[-1][0]:
            loops.queue_again(self.arrays, graph.pull.arrays)
        none_old = len(queue) == 0 or queue.arrays[0][0] > clock
        if none_old and (count == 0 or float(events.t.min()) + self.span > clock):
            return codes
        self._reserve_found(count_due(queue, clock) + count)
        graph.buffers.reserve(count)
        numbers = _PLAIN
        if codes is not None and graph.relations is not None:
            cells = graph.relations.cells(graph.buffers, events, codes)
            numbers = cells.number, cells.first, graph.relations.recall(*cells.where)
        times = graph.contacts.clock, clock
        left = loops.find(
            self.arrays, graph.arrays, events.arrays, events.t if seen is None else seen, *numbers, *times
        )
        if left:
            codes = self._insert(events, left, codes)
        return codes

    def _insert(self, events: NodeEvents, count: int, codes: Int16 | None) -> Int16 | None:
        """Insert the removals that were found between the events that they precede."""
        at, keys, times = (one[:count] for one in self.arrays.arrays[2:5])
        events.src, events.dst = (
            np.insert(events.src, at, keys >> 32),
            np.insert(events.dst, at, keys & LOWER),
        )
        events.op, events.weight = np.insert(events.op, at, LAPSE), np.insert(events.weight, at, 0)
        events.t, events.lapsed = np.insert(events.t, at, times), count
        return None if codes is None else np.insert(codes, at, 0)

    def note(self, buffers: PairBuffers) -> None:
        """Queue the edges that were just written, where that is needed; the buffers still hold them."""
        self._reserve(int(buffers.sizes[FOUND]))
        loops.note(self.arrays, buffers.arrays)

    def _tidy(self, pull: Adjacency) -> None:
        """Rebuild the queue with one entry an edge: an edge that flaps would fill it."""
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
        wider = queue_with_capacity(self.queue, new + int(self.arrays.arrays[-1][0]))
        return self.queue if wider is self.queue else self._replace(wider)

    def _reserve_found(self, most: int) -> None:
        """Grow the lists of edges that leave to `most` entries."""
        *front, at, keys, times, unqueued, counts = self.arrays.arrays
        wider = grown(unqueued, int(counts[0]) + most)
        if most > len(at) or wider is not unqueued:
            found = grown(at, most), grown(keys, most), grown(times, most)
            self.arrays = Lapses(*front, *found, wider, counts)
