"""One order of an update, from whose message changed to whose changes next: in one call, or in parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.graph.ids import grown
from dygcn.engine.propagation import kernels
from dygcn.engine.propagation.gathering import count_pushes, gather_part, note_orders
from dygcn.engine.propagation.outcomes import DONE, SMALL_TABLE, SMALL_WORK
from dygcn.engine.propagation.pulling import follow_wave
from dygcn.engine.propagation.sum_rows import put_messages
from dygcn.engine.propagation.threads import in_ranges, side_by_side, threads
from dygcn.engine.propagation.work import Arcs, Handoff, Marks, Work
from dygcn.engine.records import Additions, Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.propagation.heavy import HeavyMessages
    from dygcn.engine.propagation.scratch_buffers import ScratchBuffers
    from dygcn.engine.propagation.sum_rows import SumRows
    from dygcn.engine.propagation.sums import Sums
    from dygcn.engine.records import Int8, Int32

SHARED = 16_384  # pushes; below this other threads cost more than they save


@dataclass(slots=True)
class Wave:
    """What one order hands to the next."""

    handoff: Handoff
    senders: int  # how many messages changed
    reached_count: int = 0  # nodes that were reached so far
    rows: int = 0  # rows of state that were added to so far


class Spreading:
    """Takes waves from order to order.

    Parameters
    ----------
    sums
        Of every order; `buffers` is what there is to work in.
    heavy
        Messages that follow the changes of order 1.
    """

    def __init__(self, sums: list[Sums], buffers: ScratchBuffers, heavy: HeavyMessages) -> None:
        self._sums, self._heavy = sums, heavy
        self._buffers = buffers
        nothing = np.empty(0, np.int8)
        self.marks = Marks(np.empty(0, np.int32), nothing, nothing)
        self.watch: Callable[[Additions], None] | None = None

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        place, seen = self.marks.arrays.place, self.marks.arrays.seen
        known = len(seen)
        if nodes > known:
            place, seen = grown(place, nodes), grown(seen, nodes)
            place[known:] = -1
            self.marks = Marks(place, seen, self.marks.arrays.own)

    def add_only_to(self, own: Int8) -> None:
        """Have orders above the first add to these nodes alone: 1 for each that they add to."""
        self.marks = Marks(self.place, self.seen, own)

    @property
    def place(self) -> Int32:
        """-1 for every node, between updates."""
        place: Int32 = self.marks.arrays.place
        return place

    @property
    def seen(self) -> Int8:
        """1 for every node that the update has reached, 0 between updates."""
        seen: Int8 = self.marks.arrays.seen
        return seen

    def note(self, nodes: Nodes, order: int, reached_count: int) -> int:
        """Say that an order reached nodes; return how many were reached so far."""
        self._buffers.reach_for(reached_count + len(nodes))
        return note_orders(nodes, len(nodes), order, self.seen, self._buffers.reach, reached_count)

    def add(self, order: int, arcs: Arcs, wave: Wave) -> Wave:
        """Spread a wave to the sums of an order; return the wave that comes of it."""
        watched = self.watch is not None
        parts = 1 if watched else threads()
        if watched or (parts > 1 and wave.senders + len(arcs.changed_senders) > 64):
            pushes = arcs.count + count_pushes(
                wave.handoff, wave.senders, arcs.push, self._sums[order - 1].arrays
            )
            if watched or pushes >= SHARED:
                return self._in_parts(order, arcs, wave, parts, pushes)
        return self._at_once(order, arcs, wave)

    def _at_once(self, order: int, arcs: Arcs, wave: Wave) -> Wave:
        sums, buffers = self._sums[order - 1], self._buffers
        last = order == len(self._sums)
        changed_senders = 0 if last else len(arcs.changed_senders)
        while True:
            handoff, work = buffers.handoff(order, last), buffers.works[0]
            tools = kernels.Tools(work, self.marks, buffers.reach, self._heavy.rows)
            given = arcs, changed_senders, tools, sums.arrays, handoff, order, wave.reached_count
            done = kernels.order_at_once(wave.handoff, wave.senders, *given)
            status, found, changed, reached_count = done
            if status == DONE:
                break
            if status == SMALL_WORK:
                buffers.work_for(found)
            elif status == SMALL_TABLE:
                buffers.handoff_for(order, last, found)
                buffers.reach_for(wave.reached_count + found)
            else:
                self._put_right(sums, work, changed)
                gathered = arcs, changed_senders, handoff, order, wave.reached_count
                changed, reached_count = kernels.finish_gathered(
                    found, tools, sums.arrays, wave.handoff, *gathered
                )
                break
        return Wave(handoff, changed, reached_count, wave.rows + found)

    def _put_right(self, sums: Sums, work: Work, count: int) -> None:
        """Move rows of gathered receivers to where their degrees want them."""
        arrays = work.arrays
        moving = arrays.movers[:count]
        nodes = arrays.receivers[moving]
        sums.place(nodes, np.maximum(arrays.before[moving], arrays.after[moving]))
        arrays.slots[moving] = sums.slot[nodes]

    def _in_parts(self, order: int, arcs: Arcs, wave: Wave, parts: int, pushes: int) -> Wave:
        """Gather and add with one thread for each part of the nodes."""
        sums, buffers = self._sums[order - 1], self._buffers
        last = order == len(self._sums)
        changed_senders = arcs.changed_senders[:0] if last else arcs.changed_senders
        buffers.work_for(pushes, parts)
        works = buffers.works[:parts]
        ready = wave.handoff, wave.senders, arcs
        state = sums.arrays, self.marks
        gathered = side_by_side(
            [
                partial(gather_part, *ready, _part_of_nodes(part, parts), *state, work, pushes)
                for part, work in enumerate(works)
            ]
        )
        for work, (found, listed, moving) in zip(works, gathered, strict=True):
            if moving:
                self._put_right(sums, work, moving)
            if self.watch is not None:
                self.watch(_additions(order, work, found, listed, wave.handoff))
        sizes = [found for found, _, _ in gathered]
        handoff = buffers.handoff_for(order, last, len(changed_senders) + sum(sizes))
        _put_old_messages(sums.arrays, changed_senders, handoff, parts)
        starts, first = np.cumsum([0, *sizes[:-1]]).tolist(), len(changed_senders)
        calls = [
            partial(kernels.add_part, found, work, sums.arrays, wave.handoff, handoff, at, first, arcs.pull)
            for work, found, at in zip(works, sizes, starts, strict=True)
        ]
        counts = side_by_side(calls)
        given = handoff.arrays
        changed = _joined([given.nodes[at : at + n] for at, n in zip(starts, counts, strict=True)])
        rows = _joined([given.row[at : at + n] for at, n in zip(starts, counts, strict=True)])
        reached_count = self.note(changed, order, wave.reached_count)
        handoff = Handoff(given.table, given.has, changed, rows)
        if order == 1:
            follow_wave(self._heavy.rows, handoff, len(changed), arcs.push)
        return Wave(handoff, len(changed), reached_count, wave.rows + sum(sizes))


def _put_old_messages(sums: SumRows, changed_senders: Nodes, handoff: Handoff, parts: int) -> None:
    """Write the messages that the senders of changed arcs had into the first rows of a table."""
    table, has = handoff.arrays.table, handoff.arrays.has

    def put(low: int, high: int) -> None:
        put_messages(sums, changed_senders[low:high], RowBlock(table[low:high]), has[low:high])

    in_ranges(put, len(changed_senders), parts)


def _part_of_nodes(part: int, parts: int) -> int:
    """Return the bits of one of several parts of the nodes; see `EVERYBODY`."""
    return sum(1 << block for block in range(30) if block % parts == part)


def _joined(parts: list[Nodes]) -> Nodes:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _additions(order: int, work: Work, found: int, pushes: int, wave: Handoff) -> Additions:
    given = work.arrays
    listed = given.sorted_row[:pushes], given.sorted_factor[:pushes]
    return Additions(order, given.receivers[:found], given.first[: found + 1], *listed, wave.arrays.table)
