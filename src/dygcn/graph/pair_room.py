"""Room for the pairs of one batch: arrays that the next batch fills again."""

from __future__ import annotations

import numpy as np

from dygcn._jit import Book
from dygcn.graph.delta import Pairs
from dygcn.graph.hashing import new_secret
from dygcn.graph.ids import replace_together
from dygcn.graph.writing import Written

_FIRST = 64
_KEPT = 1 << 18  # rows that stay after a batch


class PairRoom:
    """The arrays that `delta` and `writing` work in; see there for what they hold."""

    def __init__(self) -> None:
        self.needed = np.zeros(4, np.int64)
        self.sizes = np.zeros(9, np.int64)
        self.secret = new_secret().view(np.int64)  # of the table of pairs
        self._size: int
        self.arrays: Pairs
        self.written: Written
        self.book: Book
        self._make(_FIRST)

    def _make(self, size: int) -> None:
        ends = np.empty(size, np.int32), np.empty(size, np.int32)
        weights = np.empty(size, np.int64), np.empty(size, np.int64)
        numbers = np.empty(size, np.int32), np.empty(size, np.int32)
        table = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
        contacts = np.empty(size, np.float32), np.empty(size, np.int8)
        arrays = *ends, *weights, np.empty(size), *numbers, table, *contacts
        written = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64)
        book = Book(*arrays, *written, self.needed, self.sizes, self.secret)
        replace_together(self, _size=size, arrays=arrays, written=written, book=book)

    def make_room(self, events: int) -> None:
        """Have room for so many events."""
        if events > self._size:
            self._make(events + events // 2)

    def tidy(self) -> None:
        """Give back what only a very large batch needs."""
        if self._size > _KEPT:
            self._make(_FIRST)
