"""A table from pairs of nodes to small integers, for hubs and for ghosts.

Nodes are numbered in order of arrival, so that whoever sends events can choose the pairs: where a pair stands
is keyed with a secret of the table (see `hashing`). `used` is always `PairTable.used`, which holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel
from dygcn.graph.hashing import hash_of_pair, new_secret

if TYPE_CHECKING:
    from dygcn.records import Int32, Int64, Integer

EMPTY = -1


@inlined
def pair_key(a: Integer, b: Integer) -> Integer:
    """Pack two nodes into one int64."""
    return (np.int64(a) << np.int64(32)) | np.int64(b)


@inlined
def pair_home(key: Integer, mask: int, first: Integer, second: Integer) -> int:
    """Return where a key is looked for first, under a secret of two words."""
    return int(np.int64(hash_of_pair(key, first, second)) & mask)


@kernel
def pair_find(keys: Int64, used: Int64, key: Integer) -> int:
    """Return where the key stands in the table, or -1."""
    mask = len(keys) - 1
    at = pair_home(key, mask, used[1], used[2])
    while keys[at] != EMPTY:
        if keys[at] == key:
            return at
        at = (at + 1) & mask
    return -1


@kernel
def pair_put(keys: Int64, slots: Int32, used: Int64, key: Integer, slot: Integer) -> None:
    """Set the slot of a key; the table must have room."""
    mask = len(keys) - 1
    at = pair_home(key, mask, used[1], used[2])
    while keys[at] != EMPTY and keys[at] != key:
        at = (at + 1) & mask
    if keys[at] == EMPTY:
        keys[at] = key
        used[0] += 1
    slots[at] = slot


@kernel
def pair_drop(keys: Int64, slots: Int32, used: Int64, key: Integer) -> None:
    """Remove a key, if it is there, shifting its followers back."""
    at = pair_find(keys, used, key)
    if at < 0:
        return
    mask = len(keys) - 1
    hole = at
    at = (at + 1) & mask
    while keys[at] != EMPTY:
        if ((at - pair_home(keys[at], mask, used[1], used[2])) & mask) >= ((at - hole) & mask):
            keys[hole] = keys[at]
            slots[hole] = slots[at]
            hole = at
        at = (at + 1) & mask
    keys[hole] = EMPTY
    used[0] -= 1


@kernel
def _copy(keys: Int64, slots: Int32, new_keys: Int64, new_slots: Int32, used: Int64) -> None:
    for i in range(len(keys)):
        if keys[i] != EMPTY:
            pair_put(new_keys, new_slots, used, keys[i], slots[i])


class PairTable:
    """Flat arrays of an open-addressing table; the loops above work on them."""

    def __init__(self, size: int = 16) -> None:
        self.keys = np.full(size, EMPTY, np.int64)
        self.slots = np.zeros(size, np.int32)
        self.used = np.array([0, *new_secret().view(np.int64)])  # keys in the table, two words of secret

    def with_room(self, new: int) -> PairTable:
        """Return this table, or a larger copy of it, in which `new` more keys fit."""
        need = 3 * (int(self.used[0]) + new) // 2
        return self if need <= len(self.keys) else self._resized(1 << need.bit_length())

    def shrunk(self) -> PairTable:
        """Return this table, or a copy of it that is as small as its keys allow."""
        size = max(16, 1 << (3 * int(self.used[0]) // 2).bit_length())
        return self if size >= len(self.keys) else self._resized(size)

    def _resized(self, size: int) -> PairTable:
        other = PairTable(size)
        _copy(self.keys, self.slots, other.keys, other.slots, other.used)
        return other
