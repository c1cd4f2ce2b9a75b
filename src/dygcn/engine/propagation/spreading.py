"""One order of an update, from one frontier to the next, by one thread or by several.

Scratch buffers are arrays that one update after the other fills, so that none is made for an event. What a
very large batch took is given back after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.propagation import gathering, kernels
from dygcn.engine.propagation.gathering import ArcChanges, Arcs, Marks, MessageBuffer, ReachedNodes, Work
from dygcn.engine.propagation.outcomes import SPANS
from dygcn.engine.propagation.pulling import follow_frontier
from dygcn.engine.propagation.sum_rows import SumRows, put_messages
from dygcn.engine.propagation.sums import HeavyMessages, Sums
from dygcn.engine.records import Int8, Int32, Nodes
from dygcn.errors import OptionError

_WORK = [np.int32, np.int32, np.int64] + [np.int32] * 3 + [np.int64] * 3 + [np.int32] * 2
_FIRST = 1024  # rows to begin with
_KEPT = 64 << 20  # bytes that always stay
FEW_ARCS = 128  # of an update in one call


class ScratchBuffers:
    """The scratch buffers of one rule."""

    # works: what `gathering.gather` fills, one for each part of the nodes
    # message_buffers: what an order hands to the next, in turns; the third is the last order's, without rows
    # reached: the nodes that the update changed, and at which order
    # few, start: changed arcs of an update in one call, and the features of their senders

    def __init__(self, width: int) -> None:
        self._width = width
        self.works: list[Work]
        self.message_buffers: list[MessageBuffer]
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
        self.message_buffers = [_message_buffer(_FIRST, self._width, last) for last in (False, False, True)]
        self.reached = ReachedNodes(np.empty(_FIRST, np.int32), np.empty(_FIRST, np.int8))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        groups: tuple[Any, ...] = *self.works, *self.message_buffers, self.reached
        return sum(array.nbytes for group in groups for array in group.arrays)

    def work_for(self, pushes: int, parts: int = 1) -> None:
        """Grow to so many pushes for each part of the nodes."""
        works = [*self.works, *(_work(_FIRST) for _ in range(parts - len(self.works)))]
        for part in range(parts):
            if len(works[part].arrays.node) <= pushes:
                works[part] = _work(pushes + pushes // 2 + 1)
        self.works = works

    def buffer(self, order: int, last: bool, rows: int = 0) -> MessageBuffer:
        """Return the message buffer of an order, grown to so many rows."""
        at = 2 if last else order % 2
        if len(self.message_buffers[at].arrays.has) < rows:
            self.message_buffers[at] = _message_buffer(rows + rows // 2, self._width, last)
        return self.message_buffers[at]

    def tidy(self, allowed: int) -> None:
        """Release memory that only a very large batch needs."""
        if self.nbytes > max(_KEPT, allowed):
            self.clear()


def _work(size: int) -> Work:
    arrays: list[Any] = [np.empty(size, kind) for kind in _WORK]
    arrays.append(np.zeros(SPANS + 1, np.int64))
    return Work(*arrays)


def _message_buffer(rows: int, width: int, last: bool) -> MessageBuffer:
    """Return a buffer for so many rows; the last order's has none for changes of messages."""
    table = np.empty((0 if last else rows, width), np.int32)
    return MessageBuffer(table, np.zeros(rows, np.int64), np.zeros(rows, np.int32), np.zeros(rows, np.int32))


SHARED = 16_384  # pushes; below this other threads cost more than they save


@dataclass(slots=True)
class Frontier:
    """The messages that one order passes to the next."""

    buffer: MessageBuffer
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
        return gathering.note_orders(nodes, len(nodes), order, self.seen, buffers.reached, reached_count)

    def add(self, order: int, arcs: Arcs, frontier: Frontier) -> Frontier:
        """Add a frontier to the sums of an order; return the next frontier.

        Many pushes are gathered and added by one thread for each part of the nodes.
        """
        pushes = arcs.count + gathering.count_pushes(frontier.buffer, arcs.push, self._sums[order - 1].arrays)
        return self._add(order, arcs, frontier, threads() if pushes >= SHARED else 1, pushes)

    def _put_right(self, sums: Sums, work: Work, count: int) -> None:
        arrays, moving = work.arrays, work.arrays.movers[:count]
        nodes = arrays.receivers[moving]
        sums.place(nodes, np.maximum(arrays.before[moving], arrays.after[moving]))
        arrays.slots[moving] = sums.slot[nodes]

    def _add(self, order: int, arcs: Arcs, frontier: Frontier, parts: int, pushes: int) -> Frontier:
        sums, buffers = self._sums[order - 1], self._buffers
        last = order == len(self._sums)
        changed_senders = arcs.changed_senders[:0] if last else arcs.changed_senders
        buffers.work_for(pushes, parts)
        works = buffers.works[:parts]
        state = sums.arrays, self.marks
        gathered = side_by_side(
            [
                partial(
                    gathering.gather_part,
                    frontier.buffer,
                    arcs,
                    _part_of_nodes(part, parts),
                    *state,
                    work,
                    pushes,
                )
                for part, work in enumerate(works)
            ]
        )
        for work, (_, moving) in zip(works, gathered, strict=True):
            if moving:
                self._put_right(sums, work, moving)
        sizes = [found for found, _ in gathered]
        buffer = buffers.buffer(order, last, len(changed_senders) + sum(sizes))
        if len(changed_senders):
            _put_old_messages(sums.arrays, changed_senders, buffer, parts)
        starts, first = np.cumsum([0, *sizes[:-1]]).tolist(), len(changed_senders)
        calls = [
            partial(kernels.add_part, work, sums.arrays, frontier.buffer, buffer, at, first, arcs.pull)
            for work, at in zip(works, starts, strict=True)
        ]
        counts = side_by_side(calls)
        given = buffer.arrays
        some = [slice(at, at + count) for at, count in zip(starts, counts, strict=True)]
        changed, rows = (np.concatenate([part[one] for one in some]) for part in (given.nodes, given.row))
        reached_count = self.note(changed, order, frontier.reached_count)
        buffer = MessageBuffer(given.table, given.has, changed, rows)
        if order == 1:
            follow_frontier(self._heavy.rows, buffer, arcs.push)
        return Frontier(buffer, reached_count, frontier.rows + sum(sizes))


def _put_old_messages(sums: SumRows, changed_senders: Nodes, buffer: MessageBuffer, parts: int) -> None:
    table, has = buffer.arrays.table, buffer.arrays.has

    def put(low: int, high: int) -> None:
        put_messages(sums, changed_senders[low:high], RowBlock(table[low:high]), has[low:high])

    in_ranges(put, len(changed_senders), parts)


@cache
def _part_of_nodes(part: int, parts: int) -> int:
    """Return the bits of one part of the nodes, for one thread; see `EVERYBODY`."""
    return sum(1 << block for block in range(30) if block % parts == part)


# ---- threads: parts of the nodes are disjoint and sums are integers, so bits stay the same -----------------

_R = TypeVar("_R")
_MOST = 8
_pool: ThreadPoolExecutor | None = None
_count: int | None = None


def threads() -> int:
    """Return how many threads a large update uses: `set_threads`, DYGCN_THREADS, or the cores there are."""
    if _count is not None:
        return _count
    wanted = os.environ.get("DYGCN_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return min(
        _MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def set_threads(count: int | None) -> None:
    """Set how many threads a large update may use; None leaves it to DYGCN_THREADS and the machine.

    Examples
    --------
    >>> set_threads(1)
    >>> threads()
    1
    >>> set_threads(None)
    """
    global _count
    if count is not None and (not isinstance(count, int) or count < 1):
        raise OptionError(f"threads is {count!r}; allowed is a whole number, 1 or more, or None")
    _count = count


def side_by_side(calls: Sequence[Callable[[], _R]]) -> list[_R]:
    """Run calls that release the interpreter lock in parallel; the first one in this thread."""
    global _pool
    if len(calls) == 1:
        return [calls[0]()]
    if _pool is None or _pool._max_workers < len(calls) - 1:
        _pool = ThreadPoolExecutor(len(calls) - 1, "dygcn")
    others = [_pool.submit(call) for call in calls[1:]]
    try:
        first = calls[0]()
    finally:  # the caller may not continue while other threads write
        wait(others)
    return [first, *(other.result() for other in others)]


def in_ranges(call: Callable[..., object], count: int, parts: int, *arguments: object) -> None:
    """Run ``call(low, high, *arguments)`` for several ranges of 0..count - 1, in parallel."""
    bounds = [count * part // parts for part in range(parts + 1)]
    side_by_side([partial(call, low, high, *arguments) for low, high in pairwise(bounds)])


def _forget_pool() -> None:
    """Drop the thread pool after a fork: the child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
