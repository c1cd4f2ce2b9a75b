"""Rows of features that are not stored by node: drawn from its id, or looked up by the hash of the id.

Both are int8. Hashed features are a part of the saved format.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dygcn.engine.records import Int8, Int32, Int64, UInt64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import folded, prefetch_32, prefetch_words, word
    from dygcn.engine._rows import RowBlock, clear_row, copy_row, prefetch_row, write_signs
    from dygcn.engine.events.keys import mix


_GAMMA = 0x9E3779B97F4A7C15
_SOON, _FAR = 8, 16  # rounds ahead


class UnitTable:
    """A table from which rows are drawn or looked up. It never changes."""

    def __init__(
        self, hashed: bool, seed: int, hashes: UInt64, slots: Int32, rows: Int8, secret: UInt64
    ) -> None:
        self.arrays = hashes, slots, rows, secret
        self.hashed, self.seed = hashed, seed
        self.hashes, self.slots, self.rows, self.secret = hashes, slots, RowBlock(rows), secret

    def __reduce__(self) -> tuple[type[UnitTable], tuple[Any, ...]]:
        return UnitTable, (self.hashed, self.seed, *self.arrays)


def hashed_table(seed: int, width: int) -> UnitTable:
    """Return the table of rows of +1 and -1."""
    nothing = np.empty(0, np.uint64)
    return UnitTable(
        True, seed, nothing, np.empty(0, np.int32), np.empty((0, width), np.int8), np.zeros(2, np.uint64)
    )


def row_table(hashes: UInt64, rows: Int8) -> UnitTable:
    """Return the table of rows with these hashes; of two rows with one hash the first counts."""
    secret = np.frombuffer(os.urandom(16), np.uint64) | np.uint64(1)
    slots = np.full(1 << max((2 * len(hashes)).bit_length(), 1), -1, np.int32)
    table = UnitTable(False, 0, hashes, slots, rows, secret)
    place_rows(table)
    return table


def place_rows(table: UnitTable) -> None:
    """Fill the slots of a table."""
    with cython.nogil:
        for row in range(len(table.hashes)):
            at = _place(table, table.hashes[row])
            if table.slots[at] < 0:
                table.slots[at] = row


def _home(table: UnitTable, wanted: int) -> int:
    """Return the home slot of a hash."""
    return folded(word(wanted) ^ word(table.secret[0]), table.secret[1]) & (len(table.slots) - 1)


def _place(table: UnitTable, wanted: int) -> int:
    """Return the slot of a hash, or the free slot where it belongs."""
    at = _home(table, wanted)
    while table.slots[at] >= 0 and table.hashes[table.slots[at]] != wanted:
        at = (at + 1) & (len(table.slots) - 1)
    return at


def units_of(table: UnitTable, wanted: UInt64) -> tuple[Int8, Int64]:
    """Return the row of each key or hash, zeros if absent; and 1 where it is present."""
    n = len(wanted)
    rows, marks = np.empty((n, table.arrays[2].shape[1]), np.int8), np.empty(n, np.int64)
    block, has = RowBlock(rows), marks
    with cython.nogil:
        find_units(table, wanted, n, block, has)
    return rows, marks


def find_units(table: UnitTable, wanted: UInt64, n: int, out: RowBlock, has: Int64) -> None:
    """Write the rows of the first n keys (where rows are hashed) or hashes (where they are looked up)."""
    if table.hashed:
        for i in range(n):
            _draw(table, wanted[i], out, i)
            has[i] = 1
    else:
        for i in range(n):
            if i + _FAR < n:
                prefetch_32(table.slots, _home(table, wanted[i + _FAR]))
            if i + _SOON < n:
                _ask(table, wanted[i + _SOON])
            row = table.slots[_place(table, wanted[i])]
            has[i] = row >= 0
            if row >= 0:
                copy_row(table.rows, row, out, i)
            else:
                clear_row(out, i)


def _draw(table: UnitTable, key: int, out: RowBlock, to: int) -> None:
    """Write +-1 for a key: column c is bit ``c % 64`` of the key's word ``c // 64``."""
    state = mix(word(key) ^ word(table.seed))
    for start in range(0, out.width, 64):
        state = word(state + _GAMMA)
        write_signs(out, to, start, mix(state))


def _ask(table: UnitTable, wanted: int) -> None:
    """Prefetch the row in the home slot of a hash."""
    row = table.slots[_home(table, wanted)]
    if row >= 0:
        prefetch_words(table.hashes, row)
        prefetch_row(table.rows, row)
