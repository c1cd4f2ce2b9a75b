"""Room to work in: arrays that one update after the other fills, so that none is made for an event.

What a very large batch took is given back after it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dygcn._jit import Book, Shelf
from dygcn.graph.ids import grown, replace_together
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
        self.works: list[Work]
        self.banks: list[Bank]
        self.last: Bank
        self.reach: tuple[Nodes, Int8]
        self.nbytes: int
        self.work_book: Book
        self.reach_book: Book
        self.bank_shelf: Shelf
        self.clear()

    def clear(self) -> None:
        """Give everything back."""
        last = np.empty((0, self._width), np.int32), *_bank(_FIRST, 0)[1:]
        self._replace(
            works=[_work(_FIRST)],
            banks=[_bank(_FIRST, self._width), _bank(_FIRST, self._width)],
            last=last,
            reach=(np.empty(_FIRST, np.int32), np.empty(_FIRST, np.int8)),
        )

    def work_for(self, pushes: int, parts: int = 1) -> None:
        """Make room for so many pushes to each part of the nodes."""
        works = [*self.works, *(_work(_FIRST) for _ in range(parts - len(self.works)))]
        for part in range(parts):
            if len(works[part][0]) <= pushes:
                works[part] = _work(pushes + pushes // 2 + 1)
        self._replace(works=works)

    def bank_for(self, order: int, last: bool, rows: int) -> Bank:
        """Return a place for so many rows of what an order hands on."""
        bank = self.bank(order, last)
        if len(bank[1]) >= rows:
            return bank
        bank = _bank(rows + rows // 2, 0 if last else self._width)
        if last:
            bank = (np.empty((0, self._width), np.int32), *bank[1:])
            self._replace(last=bank)
        else:
            banks = list(self.banks)
            banks[order % 2] = bank
            self._replace(banks=banks)
        return bank

    def bank(self, order: int, last: bool) -> Bank:
        """Return what an order hands on."""
        return self.last if last else self.banks[order % 2]

    def reach_for(self, nodes: int) -> None:
        """Make room for so many nodes that are reached."""
        if len(self.reach[0]) < nodes:
            self._replace(reach=(grown(self.reach[0], nodes), grown(self.reach[1], nodes)))

    def _replace(self, **fresh: Any) -> None:
        """Put arrays in the place of others, together with the books that say where they lie."""
        now = vars(self) | fresh
        works, banks, reach = now["works"], (*now["banks"], now["last"]), now["reach"]
        replace_together(
            self,
            **fresh,
            nbytes=sum(array.nbytes for group in (*works, *banks, reach) for array in group),
            work_book=Book(*works[0]),
            reach_book=Book(*reach),
            bank_shelf=Shelf(*(Book(*bank) for bank in banks)),
        )

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
