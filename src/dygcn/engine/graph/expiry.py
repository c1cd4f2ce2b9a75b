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

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph import lapses as loops
from dygcn.engine.graph.due import DueQueue, count_due, new_queue, queue_with_capacity
from dygcn.engine.graph.fixed import LOWER
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.lapses import Lapses
from dygcn.engine.graph.outcomes import FOUND

if TYPE_CHECKING:
    from dygcn.engine.graph.pair_buffers import PairBuffers
    from dygcn.engine.graph.staging import NodeEvents
    from dygcn.engine.graph.store import Graph
    from dygcn.engine.records import Float64, Int16, Int64

_NONE, _NO_CODES = np.empty(0, np.int64), np.empty(0, np.int16)
_PLAIN = _NONE, _NONE, _NONE


class Expiry:
    """Which edges leave by the clock, and when.

    Parameters
    ----------
    span
        How long an edge stays after its last contact, in units of `t`.

    Examples
    --------
    >>> from dygcn.engine.events import read_events
    >>> from dygcn.engine.graph import Graph
    >>> graph = Graph("int64", count_half_life=1.0, expire=10.0)
    >>> _ = graph.apply(read_events([(1, 2, 0.0), (2, 3, 5.0)], columns=("src", "dst", "t")))
    >>> [graph.apply(read_events([]), now).old.tolist() and graph.edge_count for now in (9.0, 10.0)]
    [[], 1]
    """

    def __init__(self, span: float) -> None:
        self.span = float(span)
        self.arrays = Lapses(new_queue(), _NONE, _NONE, np.empty(0), _NONE, np.zeros(2, np.int64))

    @property
    def queue(self) -> DueQueue:
        """The queue."""
        queue: DueQueue = self.arrays.arrays[0]
        return queue

    def play(
        self, graph: Graph, events: NodeEvents, codes: Int16 | None = None, seen: Float64 | None = None
    ) -> Int16 | None:
        """Let staged events say which edges leave between them; return the codes of their relations.

        `seen` is the clock at each event, where other parts of a graph may have seen more.
        """
        assert graph.contacts is not None
        if len(self.queue) > 4 * graph.edge_count + 4096:
            self._tidy(graph)
        count, clock, queue = len(events.op), events.contact_clock, self._reserve(2 * len(events.op))
        if self.arrays.arrays[-1][0]:
            loops.release_held(self.arrays, graph.pull.arrays, self.span)
        none_old = len(queue) == 0 or queue.arrays[0][0] > clock
        if none_old and (count == 0 or float(events.t.min()) + self.span > clock):
            return codes
        self._reserve_found(count_due(queue, clock) + count)
        graph.buffers.reserve(count)
        numbers = _PLAIN if codes is None else self._numbers(graph, events, codes)
        src, dst, op, weight, t = events.src, events.dst, events.op, events.weight, events.t
        where, happened = (graph.buffers.arrays, graph.pull.arrays), (t, t if seen is None else seen)
        times = graph.contacts.clock, clock, self.span
        left = loops.find(
            self.arrays, *where, graph.directed, src, dst, op, weight, *happened, *numbers, *times
        )
        if not left:
            return codes
        events.src, events.dst, events.op, events.weight, events.t, more = loops.merged(
            self.arrays, left, src, dst, op, weight, t, _NO_CODES if codes is None else codes
        )
        events.lapsed = left
        return None if codes is None else more

    def note(self, buffers: PairBuffers) -> None:
        """Queue the edges that were just written, as far as that is needed: the buffers still hold them."""
        loops.note(self._reserve(int(buffers.sizes[FOUND])), buffers.arrays, self.span)

    def _tidy(self, graph: Graph) -> None:
        """Queue every edge once, and nothing else: one that flaps would fill the queue."""
        queue = self.queue
        keys = np.unique(queue.arrays[1][: len(queue)])
        weight, last, _ = graph.pull.look_up_contacts(keys >> 32, keys & LOWER)
        there = np.flatnonzero(weight > 0)
        there = there[np.argsort(last[there], kind="stable")]  # what is sorted is a heap
        size = np.array([len(there)])
        self._replace(DueQueue(last[there] + self.span, keys[there], size))

    def _replace(self, queue: DueQueue) -> DueQueue:
        _, at, keys, times, held, counts = self.arrays.arrays
        self.arrays = Lapses(queue, at, keys, times, held, counts)
        return queue

    def _reserve(self, new: int) -> DueQueue:
        """Return the queue, with room for so many more entries and for all that are held."""
        wider = queue_with_capacity(self.queue, new + int(self.arrays.arrays[-1][0]))
        return self.queue if wider is self.queue else self._replace(wider)

    def _reserve_found(self, most: int) -> None:
        """Have room for so many edges that leave."""
        queue, at, keys, times, held, counts = self.arrays.arrays
        wider = grown(held, int(counts[0]) + most)
        if most > len(at) or wider is not held:
            scratch = grown(at, most), grown(keys, most), grown(times, most)
            self.arrays = Lapses(queue, *scratch, wider, counts)

    @staticmethod
    def _numbers(graph: Graph, events: NodeEvents, codes: Int16) -> tuple[Int64, Int64, Int64]:
        """Return what `lapses.find` is to know of what relations add to pairs: see there."""
        assert graph.relations is not None
        _, cell, of, where = graph.relations.cells(graph, events, codes)
        first = np.searchsorted(of, np.arange(int(of.max(initial=-1)) + 2))
        return cell, first, graph.relations.recall(*where)
