"""Positions in hash tables under a secret, so that nobody can name ids, or pairs of nodes, that collide.

The 64-bit keys of `events.keys` are public: whoever knows how they are made can make any number of ids with
one key, or with keys that end alike, and a table that is placed by them becomes a list. So ids are placed by
SipHash-1-3 of their bytes. Pairs of nodes are placed by a cheaper hash, since hubs ask for one at each arc: a
sender of events chooses which nodes are paired, but nodes are small numbers and no answer shows where a pair
stands.

A secret is two random words of one table. It stays with the table (a copy has it, too), it is handed to
compiled loops as an argument (a constant would be kept on disk with the machine code), and it is never saved:
folders hold no positions.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import folded, inlined

if TYPE_CHECKING:
    from dygcn.records import Bytes, Integer, UInt64

_INIT_0, _INIT_1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_INIT_2, _INIT_3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_EIGHT_BYTES = np.uint64(8 << 56)  # the last word holds the length
_END = np.uint64(0xFF)
_S13, _S16, _S17, _S21, _S32 = (np.uint64(s) for s in (13, 16, 17, 21, 32))
_S43, _S47, _S48, _S51, _S56 = (np.uint64(s) for s in (43, 47, 48, 51, 56))


def new_secret() -> UInt64:
    """Return random bits as two words, both odd: an even word would be a weak factor."""
    return np.frombuffer(os.urandom(16), np.uint64) | np.uint64(1)


@inlined
def _round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words after a SipRound."""
    v0 = v0 + v1
    v1 = ((v1 << _S13) | (v1 >> _S51)) ^ v0
    v0 = (v0 << _S32) | (v0 >> _S32)
    v2 = v2 + v3
    v3 = ((v3 << _S16) | (v3 >> _S48)) ^ v2
    v0 = v0 + v3
    v3 = ((v3 << _S21) | (v3 >> _S43)) ^ v0
    v2 = v2 + v1
    v1 = ((v1 << _S17) | (v1 >> _S47)) ^ v2
    v2 = (v2 << _S32) | (v2 >> _S32)
    return v0, v1, v2, v3


@inlined
def hash_of_word(value: Integer, first: Integer, second: Integer) -> np.uint64:
    """Return SipHash-1-3 of the eight bytes of an integer, under a secret of two words."""
    k0, k1, word = np.uint64(first), np.uint64(second), np.uint64(value)
    v0, v1, v2, v3 = k0 ^ _INIT_0, k1 ^ _INIT_1, k0 ^ _INIT_2, k1 ^ _INIT_3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v3 = v0 ^ word, v3 ^ _EIGHT_BYTES
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v2 = v0 ^ _EIGHT_BYTES, v2 ^ _END
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined
def hash_of_bytes(data: Bytes, start: Integer, size: Integer, first: Integer, second: Integer) -> np.uint64:
    """Return SipHash-1-3 of some bytes, under a secret of two words."""
    k0, k1 = np.uint64(first), np.uint64(second)
    v0, v1, v2, v3 = k0 ^ _INIT_0, k1 ^ _INIT_1, k0 ^ _INIT_2, k1 ^ _INIT_3
    whole = size // 8
    for i in range(whole):
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(data[start + 8 * i + j]) << np.uint64(8 * j)
        v3 = v3 ^ word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 = v0 ^ word
    word = np.uint64(size) << _S56
    for j in range(size - 8 * whole):
        word |= np.uint64(data[start + 8 * whole + j]) << np.uint64(8 * j)
    v3 = v3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v2 = v0 ^ word, v2 ^ _END
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined
def hash_of_pair(key: Integer, first: Integer, second: Integer) -> np.uint64:
    """Return a hash of a pair of nodes, under a secret of two odd words: two folded multiplications."""
    k0, k1 = np.uint64(first), np.uint64(second)
    return folded(folded(np.uint64(key) ^ k0, k1) ^ k1, k0)
