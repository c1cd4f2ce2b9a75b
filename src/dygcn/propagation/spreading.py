"""One order of an update, from whose message changed to whose changes next: in one call, or in parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import Book
from dygcn.graph.ids import grown, replace_together
from dygcn.propagation import kernels
from dygcn.propagation.gathering import count_pushes, gather, note_orders
from dygcn.propagation.threads import side_by_side, threads
from dygcn.records import Additions, Int32, Int64, Nodes, Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.graph.adjacency import Adjacency
    from dygcn.propagation.room import Bank, Room, Work
    from dygcn.propagation.sums import Sums
    from dygcn.propagation.withholding import Withheld
    from dygcn.records import Int8

SHARED = 16_384  # pushes; below this other threads cost more than they save


@dataclass(frozen=True, slots=True)
class Arcs:
    """What all orders of an update share."""

    changed: tuple[Nodes, Int32, Int64]  # receiver, row of the sender in every table, change of the weight
    structural: Nodes  # the senders of changed arcs
    push: Adjacency  # who is aggregated by whom
    shift: int  # every weight is a multiple of 2 to this


@dataclass(slots=True)
class Wave:
    """What one order hands to the next."""

    senders: Nodes  # whose message changed
    sender_row: Int32  # by how much: rows of the table
    table: Stored  # old messages of `structural`, then the changes
    has: Int64  # for each row of the table: 1 where there is a message; +1, -1 or 0 for a change
    noted: int = 0  # nodes that were reached so far
    rows: int = 0  # rows of state that were added to so far


class Spreading:
    """Takes waves from order to order.

    Parameters
    ----------
    sums
        Of every order; `room` is what there is to work in.
    """

    def __init__(self, sums: list[Sums], room: Room) -> None:
        self._sums = sums
        self._room = room
        self.place: Int32 = np.empty(0, np.int32)  # -1 between updates
        self.seen: Int8 = np.empty(0, np.int8)  # 0 between updates
        self.marks = Book(self.place, self.seen)
        self.watch: Callable[[Additions], None] | None = None
        self.withheld: list[Withheld] = []  # of orders 1..K - 1, if anything may be
        self.allowed = 0.0  # length of what may be withheld, on the grid

    def make_room(self, nodes: int) -> None:
        """Grow to so many nodes."""
        known = len(self.seen)
        if nodes > known:
            seen, place = grown(self.seen, nodes), grown(self.place, nodes)
            place[known:] = -1
            replace_together(self, seen=seen, place=place, marks=Book(place, seen))

    def note(self, nodes: Nodes, order: int, noted: int) -> int:
        """Say that an order reached nodes; return how many were reached so far."""
        self._room.reach_for(noted + len(nodes))
        return note_orders(nodes, order, self.seen, *self._room.reach, noted)

    def step(self, order: int, arcs: Arcs, wave: Wave) -> Wave:
        """Spread a wave to the sums of an order; return the wave that comes of it."""
        wave = self.add(order, arcs, wave)
        if self.withheld and order < len(self._sums):
            withheld = self.withheld[order - 1]
            withheld.make_room(len(self.seen), 0)
            wave = withheld.pass_on(arcs.structural, wave, self.allowed)
        return wave

    def add(self, order: int, arcs: Arcs, wave: Wave) -> Wave:
        """Spread a wave to the sums of an order, withholding nothing."""
        if self.watch is not None:
            return self._in_parts(order, arcs, wave, 1)
        parts = threads()
        if parts > 1 and len(wave.senders) + len(arcs.structural) > 64:
            pushes = len(arcs.changed[0]) + count_pushes(wave.senders, arcs.push.lists[1])
            if pushes >= SHARED:
                return self._in_parts(order, arcs, wave, parts)
        return self._at_once(order, arcs, wave)

    def _at_once(self, order: int, arcs: Arcs, wave: Wave) -> Wave:
        sums, room = self._sums[order - 1], self._room
        last = order == len(self._sums)
        structural = arcs.structural[:0] if last else arcs.structural
        while True:
            status, found, moved, noted = kernels.order_at_once(
                wave.senders,
                wave.sender_row,
                *arcs.changed,
                wave.has,
                wave.table,
                structural,
                arcs.push.book.pages,
                room.work_book.pages,
                sums.book.pages,
                sums.arrays[4],
                room.bank_shelf.pages[2 if last else order % 2],
                self.marks.pages,
                room.reach_book.pages,
                arcs.shift,
                sums.limit,
                sums.scale,
                order,
                wave.noted,
            )
            if status == kernels.DONE:
                break
            if status == kernels.SMALL_WORK:
                room.work_for(found)
            elif status == kernels.SMALL_TABLE:
                room.bank_for(order, last, found)
                room.reach_for(wave.noted + found)
            else:
                self._put_right(sums, room.works[0], moved)
                rest = structural, room.bank(order, last), order, self.seen, room.reach, wave.noted
                moved, noted = kernels.finish_order(
                    found, room.works[0], sums.arrays, sums.scale, wave.table, *rest
                )
                break
        return self.wave_after(order, moved, noted, wave.rows + found)

    def wave_after(self, order: int, moved: int, noted: int, rows: int) -> Wave:
        """Return the wave that an order left in the room."""
        table, has, nodes, row = self._room.bank(order, order == len(self._sums))
        return Wave(nodes[:moved], row[:moved], table, has, noted, rows)

    def _put_right(self, sums: Sums, work: Work, count: int) -> None:
        """Move rows of gathered receivers to where their degrees want them."""
        receivers, before, after, slots = work[3], work[7], work[8], work[9]
        movers = work[10][:count]
        nodes = receivers[movers]
        sums.settle(nodes, np.maximum(before[movers], after[movers]))
        slots[movers] = sums.slot[nodes]

    def _in_parts(self, order: int, arcs: Arcs, wave: Wave, parts: int) -> Wave:
        """Gather and add with one thread for each part of the nodes."""
        sums, room = self._sums[order - 1], self._room
        last = order == len(self._sums)
        structural = arcs.structural[:0] if last else arcs.structural
        room.work_for(len(arcs.changed[0]) + count_pushes(wave.senders, arcs.push.lists[1]), parts)
        works = room.works[:parts]
        ready = wave.senders, wave.sender_row, arcs.changed, arcs.push.lists, arcs.shift
        state = wave.has, sums.degree, sums.slot, sums.limit, self.place
        gathered = side_by_side(
            [partial(gather, *ready, part, parts, *state, work) for part, work in enumerate(works)]
        )
        for work, (found, pushes, moving) in zip(works, gathered, strict=True):
            if moving:
                self._put_right(sums, work, moving)
            if self.watch is not None:
                self.watch(_additions(order, work, found, pushes, wave.table))
        sizes = [found for found, _, _ in gathered]
        bank = room.bank_for(order, last, len(structural) + sum(sizes))
        degree, slot, narrow, wide, _, _ = sums.arrays
        kernels.write_messages(structural, degree, narrow, wide, slot, sums.scale, bank[0], bank[1])
        starts = np.cumsum([0, *sizes[:-1]])
        calls = [
            partial(_add_part, sums, found, work, wave.table, bank, int(at), len(structural))
            for work, found, at in zip(works, sizes, starts, strict=True)
        ]
        counts = side_by_side(calls)
        moved = _joined([bank[2][at : at + n] for at, n in zip(starts, counts, strict=True)])
        row = _joined([bank[3][at : at + n] for at, n in zip(starts, counts, strict=True)])
        noted = self.note(moved, order, wave.noted)
        return Wave(moved, row, bank[0], bank[1], noted, wave.rows + sum(sizes))


def _add_part(sums: Sums, found: int, work: Work, table: Stored, bank: Bank, at: int, base: int) -> int:
    degree, _, narrow, wide, narrow_before, wide_before = sums.arrays
    out, has, moved, row = bank
    return kernels.add_up(
        found,
        work,
        degree,
        narrow,
        wide,
        sums.scale,
        table,
        out,
        base + at,
        has,
        moved[at:],
        row[at:],
        np.empty_like(narrow_before),
        np.empty_like(wide_before),
    )


def _joined(parts: list[Nodes]) -> Nodes:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _additions(order: int, work: Work, found: int, pushes: int, table: Stored) -> Additions:
    return Additions(order, work[3][:found], work[4][: found + 1], work[5][:pushes], work[6][:pushes], table)
