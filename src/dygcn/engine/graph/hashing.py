"""Positions in hash tables under a secret, so that no sender of events can choose ids or pairs that collide.

The 64-bit keys of `events.keys` are public: anyone can make many ids with one key, and a table placed by keys
becomes a list. So ids are placed by SipHash-1-3 of their bytes. Pairs of nodes are placed by a cheaper hash,
since hubs look one up for each arc: a sender chooses which nodes are paired, but no answer shows positions. A
secret is two random words of one table. Copies of the table share it, and it is never saved.
"""

from __future__ import annotations

import os

import numpy as np

from dygcn.engine.records import Bytes, UInt64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import folded, word


_INIT_0, _INIT_1 = 0x736F6D6570736575, 0x646F72616E646F6D
_INIT_2, _INIT_3 = 0x6C7967656E657261, 0x7465646279746573
_EIGHT_BYTES = 8 << 56  # the last word holds the length
_END = 0xFF


def new_secret() -> UInt64:
    """Return random bits as two words, both odd: an even word would be a weak factor."""
    return np.frombuffer(os.urandom(16), np.uint64) | np.uint64(1)


def _turned(x: int, left: int) -> int:
    return word(x << left) | (x >> (64 - left))


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = word(v0 + v1)
    v1 = _turned(v1, 13) ^ v0
    v0 = _turned(v0, 32)
    v2 = word(v2 + v3)
    v3 = _turned(v3, 16) ^ v2
    v0 = word(v0 + v3)
    v3 = _turned(v3, 21) ^ v0
    v2 = word(v2 + v1)
    v1 = _turned(v1, 17) ^ v2
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


def _finished(v0: int, v1: int, v2: int, v3: int, last: int) -> int:
    """Return the hash after the last word, which holds the length."""
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ last)
    v0, v2 = v0 ^ last, v2 ^ _END
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def hash_of_word(value: int, first: int, second: int) -> int:
    """Return SipHash-1-3 of the eight bytes of an integer, under a secret of two words."""
    k0, k1, text = word(first), word(second), word(value)
    v0, v1, v2, v3 = _round(k0 ^ _INIT_0, k1 ^ _INIT_1, k0 ^ _INIT_2, k1 ^ _INIT_3 ^ text)
    return _finished(v0 ^ text, v1, v2, v3, _EIGHT_BYTES)


def hash_of_bytes(data: Bytes, start: int, size: int, first: int, second: int) -> int:
    """Return SipHash-1-3 of some bytes, under a secret of two words."""
    k0, k1 = word(first), word(second)
    v0, v1, v2, v3 = k0 ^ _INIT_0, k1 ^ _INIT_1, k0 ^ _INIT_2, k1 ^ _INIT_3
    whole = size // 8
    for i in range(whole):
        text = word(0)
        for j in range(8):
            text |= word(data[start + 8 * i + j]) << (8 * j)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ text)
        v0 = v0 ^ text
    text = word(word(size) << 56)
    for j in range(size - 8 * whole):
        text |= word(data[start + 8 * whole + j]) << (8 * j)
    return _finished(v0, v1, v2, v3, text)


def hash_of_pair(key: int, first: int, second: int) -> int:
    """Return a hash of a pair of nodes, under a secret of two odd words: two folded multiplications."""
    k0, k1 = word(first), word(second)
    return folded(folded(word(key) ^ k0, k1) ^ k1, k0)
