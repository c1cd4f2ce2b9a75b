"""A table from pairs of nodes to small integers, for hubs and for ghosts.

Nodes are numbered in order of arrival, so that whoever sends events can choose the pairs: where a pair stands
is keyed with a secret of the table (see `hashing`). `used` holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.hashing import new_secret

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import prefetch_64, word
    from dygcn.engine.graph.hashing import hash_of_pair

if TYPE_CHECKING:
    from dygcn.engine.records import Int32, Int64

EMPTY = -1


def pair_key(a: int, b: int) -> int:
    """Pack two nodes into one int64."""
    return (word(a) << 32) | word(b)


class PairTable:
    """An open-addressing table. Its arrays never grow or move: a table with more capacity is another one.

    Parameters
    ----------
    keys, slots
        Of one length, a power of two; EMPTY where no key stands, and the number of each key.
    used
        Keys in the table, two words of secret.
    """

    def __init__(self, keys: Int64, slots: Int32, used: Int64) -> None:
        self.arrays = keys, slots, used
        self.keys, self.slots, self.used = keys, slots, used

    def __reduce__(self) -> tuple[type[PairTable], tuple[Int64, Int32, Int64]]:
        return PairTable, self.arrays

    def __len__(self) -> int:
        return int(self.used[0])


def new_table(size: int = 16) -> PairTable:
    """Return an empty table, with a secret of its own."""
    used = np.array([0, *new_secret().view(np.int64)])
    return PairTable(np.full(size, EMPTY, np.int64), np.zeros(size, np.int32), used)


def table_with_capacity(table: PairTable, new: int) -> PairTable:
    """Return this table, or a larger copy of it, in which `new` more keys fit."""
    need = 3 * (len(table) + new) // 2
    return table if need <= len(table.arrays[0]) else _resized(table, 1 << need.bit_length())


def shrunk_table(table: PairTable) -> PairTable:
    """Return this table, or a copy of it that is as small as its keys allow."""
    size = max(16, 1 << (3 * len(table) // 2).bit_length())
    return table if size >= len(table.arrays[0]) else _resized(table, size)


def _resized(table: PairTable, size: int) -> PairTable:
    other = new_table(size)
    copy_table(table, other)
    return other


def pair_home(key: int, mask: int, first: int, second: int) -> int:
    """Return where a key is looked for first, under a secret of two words."""
    return hash_of_pair(key, first, second) & mask


def pair_prefetch(table: PairTable, key: int) -> None:
    """Ask for the place of a key before it is needed."""
    prefetch_64(table.keys, pair_home(key, len(table.keys) - 1, table.used[1], table.used[2]))


def pair_find(table: PairTable, key: int) -> int:
    """Return where the key stands in the table, or -1."""
    mask = len(table.keys) - 1
    at = pair_home(key, mask, table.used[1], table.used[2])
    while table.keys[at] != EMPTY:
        if table.keys[at] == key:
            return at
        at = (at + 1) & mask
    return -1


def pair_slot(table: PairTable, key: int) -> int:
    """Return the number of a key, or -1."""
    at = pair_find(table, key)
    return table.slots[at] if at >= 0 else -1


def pair_put(table: PairTable, key: int, slot: int) -> None:
    """Set the number of a key; the table must have capacity."""
    mask = len(table.keys) - 1
    at = pair_home(key, mask, table.used[1], table.used[2])
    while table.keys[at] != EMPTY and table.keys[at] != key:
        at = (at + 1) & mask
    if table.keys[at] == EMPTY:
        table.keys[at] = key
        table.used[0] += 1
    table.slots[at] = slot


def pair_drop(table: PairTable, key: int) -> None:
    """Remove a key, if it is there, shifting its followers back."""
    mask, first, second = len(table.keys) - 1, table.used[1], table.used[2]
    at = pair_find(table, key)
    if at < 0:
        return
    hole = at
    at = (at + 1) & mask
    while table.keys[at] != EMPTY:
        if ((at - pair_home(table.keys[at], mask, first, second)) & mask) >= ((at - hole) & mask):
            table.keys[hole] = table.keys[at]
            table.slots[hole] = table.slots[at]
            hole = at
        at = (at + 1) & mask
    table.keys[hole] = EMPTY
    table.used[0] -= 1


def copy_table(table: PairTable, other: PairTable) -> None:
    """Put all keys of a table into another one that has capacity."""
    with cython.nogil:
        for i in range(len(table.keys)):
            if table.keys[i] != EMPTY:
                pair_put(other, table.keys[i], table.slots[i])
