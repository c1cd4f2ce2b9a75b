"""Room to work in: arrays that one update after the other fills, so that none is made for an event.

What a very large batch took is given back after it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from dygcn._jit import Book, Shelf
from dygcn.graph.ids import grown
from dygcn.records import Int8, Int32, Int64, Nodes

Work: TypeAlias = tuple[Int32, Int32, Int64, Int32, Int32, Int32, Int64, Int64, Int64, Int32, Int32]
Bank: TypeAlias = tuple[Int32, Int64, Int32, Int32]
_WORK = [np.int32, np.int32, np.int64] + [np.int32] * 3 + [np.int64] * 3 + [np.int32] * 2
_FIRST = 1024  # rows to begin with
_KEPT = 64 << 20  # bytes that always stay


class Room:
    """The room of one rule.

    `works` are what `gathering.gather` fills, one for each part of the nodes. `banks` are what an order hands
    to the next: changes of messages, who has one, whose moved, and in which row; the last order hands on no
    messages. `reach` is whom the update moved, and at which order.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.works: list[Work] = []
        self.banks: list[Bank] = []
        self.last: Bank
        self.reach: tuple[Nodes, Int8]
        self.clear()

    def clear(self) -> None:
        """Give everything back."""
        self.works = [_work(_FIRST)]
        self.banks = [_bank(_FIRST, self._width), _bank(_FIRST, self._width)]
        self.last = _bank(_FIRST, self._width)
        self.last = np.empty((0, self._width), np.int32), *self.last[1:]
        self.reach = np.empty(_FIRST, np.int32), np.empty(_FIRST, np.int8)
        self._arrays_changed()

    def work_for(self, pushes: int, parts: int = 1) -> None:
        """Make room for so many pushes to each part of the nodes."""
        while len(self.works) < parts:
            self.works.append(_work(_FIRST))
        for part in range(parts):
            if len(self.works[part][0]) <= pushes:
                self.works[part] = _work(pushes + pushes // 2 + 1)
        self._arrays_changed()

    def bank_for(self, order: int, last: bool, rows: int) -> Bank:
        """Return a place for so many rows of what an order hands on."""
        bank = self.bank(order, last)
        if len(bank[1]) >= rows:
            return bank
        bank = _bank(rows + rows // 2, 0 if last else self._width)
        if last:
            self.last = bank = (np.empty((0, self._width), np.int32), *bank[1:])
        else:
            self.banks[order % 2] = bank
        self._arrays_changed()
        return bank

    def bank(self, order: int, last: bool) -> Bank:
        """Return what an order hands on."""
        return self.last if last else self.banks[order % 2]

    def reach_for(self, nodes: int) -> None:
        """Make room for so many nodes that are reached."""
        if len(self.reach[0]) < nodes:
            self.reach = grown(self.reach[0], nodes), grown(self.reach[1], nodes)
            self._arrays_changed()

    def _arrays_changed(self) -> None:
        groups = (*self.works, *self.banks, self.last, self.reach)
        self.nbytes = sum(array.nbytes for group in groups for array in group)
        self.work_book = Book(*self.works[0])
        self.reach_book = Book(*self.reach)
        self.bank_shelf = Shelf(*(Book(*bank) for bank in (*self.banks, self.last)))

    def tidy(self, allowed: int) -> None:
        """Give back what only a very large batch needs."""
        if self.nbytes > max(_KEPT, allowed):
            self.clear()


def _work(size: int) -> Work:
    arrays = tuple(np.empty(size, kind) for kind in _WORK)
    return arrays  # type: ignore[return-value]


def _bank(rows: int, width: int) -> Bank:
    counts = np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32)
    return np.empty((rows, width), np.int32), *counts
