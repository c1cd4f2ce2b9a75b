"""One order of an update, from one frontier to the next, by one thread or by several.

Scratch buffers are arrays that one update after the other fills, so that none is made for an event. What a
very large batch took is given back after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.propagation import kernels
from dygcn.engine.propagation.gathering import (
    ArcChanges,
    Arcs,
    Marks,
    MessageBuffer,
    ReachedNodes,
    Work,
    count_pushes,
    gather_part,
    note_orders,
)
from dygcn.engine.propagation.outcomes import SPANS
from dygcn.engine.propagation.pulling import follow_frontier
from dygcn.engine.propagation.sum_rows import SumRows, put_messages
from dygcn.engine.propagation.sums import HeavyMessages, Sums
from dygcn.engine.propagation.threads import in_ranges, side_by_side, threads
from dygcn.engine.records import Int8, Int32, Nodes

_WORK = [np.int32, np.int32, np.int64] + [np.int32] * 3 + [np.int64] * 3 + [np.int32] * 2
_FIRST = 1024  # rows to begin with
_KEPT = 64 << 20  # bytes that always stay
FEW_ARCS = 128  # of an update in one call


class ScratchBuffers:
    """The scratch buffers of one rule."""

    # works: what `gathering.gather` fills, one for each part of the nodes
    # message_buffers: what an order hands to the next; `last`: the last order hands on no messages
    # reached: the nodes that the update changed, and at which order
    # few, start: changed arcs of an update in one call, and the features of their senders

    def __init__(self, width: int) -> None:
        self._width = width
        self.works: list[Work]
        self.message_buffers: list[MessageBuffer]
        self.last: MessageBuffer
        self.reached: ReachedNodes
        ends = (np.empty(FEW_ARCS, np.int32) for _ in range(3))
        self.few = ArcChanges(next(ends), next(ends), np.empty(FEW_ARCS, np.int64), next(ends))
        features, none = np.empty((FEW_ARCS, width), np.int8), np.empty(0, np.int32)
        self.start = MessageBuffer(features, np.empty(FEW_ARCS, np.int64), none, none)
        self.wanted = np.empty(FEW_ARCS, np.uint64)
        self.clear()

    def clear(self) -> None:
        """Release all memory."""
        self.works = [_work(_FIRST)]
        self.message_buffers = [_message_buffer(_FIRST, self._width), _message_buffer(_FIRST, self._width)]
        self.last = _message_buffer(_FIRST, self._width, last=True)
        self.reached = ReachedNodes(np.empty(_FIRST, np.int32), np.empty(_FIRST, np.int8))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        groups: tuple[Any, ...] = *self.works, *self.message_buffers, self.last, self.reached
        return sum(array.nbytes for group in groups for array in group.arrays)

    def work_for(self, pushes: int, parts: int = 1) -> None:
        """Grow to so many pushes for each part of the nodes."""
        works = [*self.works, *(_work(_FIRST) for _ in range(parts - len(self.works)))]
        for part in range(parts):
            if len(works[part].arrays.node) <= pushes:
                works[part] = _work(pushes + pushes // 2 + 1)
        self.works = works

    def buffer_for(self, order: int, last: bool, rows: int) -> MessageBuffer:
        """Return a buffer for so many rows of an order's messages."""
        buffer = self.last if last else self.message_buffers[order % 2]
        if len(buffer.arrays.has) >= rows:
            return buffer
        buffer = _message_buffer(rows + rows // 2, self._width, last)
        if last:
            self.last = buffer
        else:
            self.message_buffers[order % 2] = buffer
        return buffer

    def buffer(self, order: int, last: bool) -> MessageBuffer:
        """Return the message buffer of an order."""
        return self.last if last else self.message_buffers[order % 2]

    def tidy(self, allowed: int) -> None:
        """Release memory that only a very large batch needs."""
        if self.nbytes > max(_KEPT, allowed):
            self.clear()


def _work(size: int) -> Work:
    arrays: list[Any] = [np.empty(size, kind) for kind in _WORK]
    arrays.append(np.zeros(SPANS + 1, np.int64))
    return Work(*arrays)


def _message_buffer(rows: int, width: int, last: bool = False) -> MessageBuffer:
    """Return a buffer for so many rows; the last order's has none for changes of messages."""
    table = np.empty((0 if last else rows, width), np.int32)
    return MessageBuffer(table, np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32))


SHARED = 16_384  # pushes; below this other threads cost more than they save


@dataclass(slots=True)
class Frontier:
    """The messages that one order passes to the next."""

    buffer: MessageBuffer
    senders: int  # how many messages changed
    reached_count: int = 0  # nodes that were reached so far
    rows: int = 0  # rows of state that were added to so far


class Spreading:
    """Propagates frontiers from order to order."""

    def __init__(self, sums: list[Sums], buffers: ScratchBuffers, heavy: HeavyMessages) -> None:
        self._sums, self._heavy = sums, heavy
        self._buffers = buffers
        # place: -1 for every node between updates; scratch for numbering nodes.
        # seen: 1 for every node that the update has reached, 0 between updates.
        self.place: Int32
        self.seen: Int8
        self.marks: Marks  # both, and the nodes whose sums are added to, for loops
        self._mark(np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int8))

    def _mark(self, place: Int32, seen: Int8, own: Int8) -> None:
        replace_together(self, place=place, seen=seen, marks=Marks(place, seen, own))

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        known = len(self.seen)
        if nodes > known:
            place = grown(self.place, nodes)
            place[known:] = -1
            self._mark(place, grown(self.seen, nodes), self.marks.arrays.own)

    def add_only_to(self, own: Int8) -> None:
        """Restrict orders above the first to these nodes: 1 for each node whose sums they add to."""
        if self.marks.arrays.own is not own:
            self._mark(self.place, self.seen, own)

    def note(self, nodes: Nodes, order: int, reached_count: int) -> int:
        """Record nodes that an order reached; return the number of nodes reached so far."""
        buffers, count = self._buffers, reached_count + len(nodes)
        reached = buffers.reached.arrays
        if len(reached.nodes) < count:
            buffers.reached = ReachedNodes(grown(reached.nodes, count), grown(reached.orders, count))
        return note_orders(nodes, len(nodes), order, self.seen, buffers.reached, reached_count)

    def add(self, order: int, arcs: Arcs, frontier: Frontier) -> Frontier:
        """Add a frontier to the sums of an order; return the next frontier.

        Many pushes are gathered and added by one thread for each part of the nodes.
        """
        sums, senders = self._sums[order - 1].arrays, frontier.senders
        pushes = arcs.count + count_pushes(frontier.buffer, senders, arcs.push, sums)
        return self._add(order, arcs, frontier, threads() if pushes >= SHARED else 1, pushes)

    def _put_right(self, sums: Sums, work: Work, count: int) -> None:
        """Move rows of gathered receivers to the width that their degrees need."""
        arrays = work.arrays
        moving = arrays.movers[:count]
        nodes = arrays.receivers[moving]
        sums.place(nodes, np.maximum(arrays.before[moving], arrays.after[moving]))
        arrays.slots[moving] = sums.slot[nodes]

    def _add(self, order: int, arcs: Arcs, frontier: Frontier, parts: int, pushes: int) -> Frontier:
        sums, buffers = self._sums[order - 1], self._buffers
        last = order == len(self._sums)
        changed_senders = arcs.changed_senders[:0] if last else arcs.changed_senders
        buffers.work_for(pushes, parts)
        works = buffers.works[:parts]
        ready = frontier.buffer, frontier.senders, arcs
        state = sums.arrays, self.marks
        gathered = side_by_side(
            [
                partial(gather_part, *ready, _part_of_nodes(part, parts), *state, work, pushes)
                for part, work in enumerate(works)
            ]
        )
        for work, (_, _, moving) in zip(works, gathered, strict=True):
            if moving:
                self._put_right(sums, work, moving)
        sizes = [found for found, _, _ in gathered]
        buffer = buffers.buffer_for(order, last, len(changed_senders) + sum(sizes))
        if len(changed_senders):
            _put_old_messages(sums.arrays, changed_senders, buffer, parts)
        starts, first = np.cumsum([0, *sizes[:-1]]).tolist(), len(changed_senders)
        calls = [
            partial(kernels.add_part, found, work, sums.arrays, frontier.buffer, buffer, at, first, arcs.pull)
            for work, found, at in zip(works, sizes, starts, strict=True)
        ]
        counts = side_by_side(calls)
        given = buffer.arrays
        some = [slice(at, at + count) for at, count in zip(starts, counts, strict=True)]
        changed, rows = (np.concatenate([part[one] for one in some]) for part in (given.nodes, given.row))
        reached_count = self.note(changed, order, frontier.reached_count)
        buffer = MessageBuffer(given.table, given.has, changed, rows)
        if order == 1:
            follow_frontier(self._heavy.rows, buffer, len(changed), arcs.push)
        return Frontier(buffer, len(changed), reached_count, frontier.rows + sum(sizes))


def _put_old_messages(sums: SumRows, changed_senders: Nodes, buffer: MessageBuffer, parts: int) -> None:
    """Write the old messages of changed arcs' senders into the first rows of a table."""
    table, has = buffer.arrays.table, buffer.arrays.has

    def put(low: int, high: int) -> None:
        put_messages(sums, changed_senders[low:high], RowBlock(table[low:high]), has[low:high])

    in_ranges(put, len(changed_senders), parts)


@cache
def _part_of_nodes(part: int, parts: int) -> int:
    """Return the bits of one part of the nodes, for one thread; see `EVERYBODY`."""
    return sum(1 << block for block in range(30) if block % parts == part)
