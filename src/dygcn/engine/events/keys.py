"""64-bit keys of user ids. Part of the saved format: hashed features are drawn from them."""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Bytes, IdColumn, Int64, UInt64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import word


_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MULTIPLY_1 = 0xBF58476D1CE4E5B9
_MULTIPLY_2 = 0x94D049BB133111EB


def mix(x: int) -> int:
    """Mix 64 bits (the finaliser of SplitMix64): every input bit affects every output bit."""
    x = word((x ^ (x >> 30)) * _MULTIPLY_1)
    x = word((x ^ (x >> 27)) * _MULTIPLY_2)
    return x ^ (x >> 31)


def key_of_int(value: int) -> int:
    """Return the key of an int64 id."""
    return mix(word(value))


def key_of_string(data: Bytes, start: int, stop: int) -> int:
    """Return the key of a string id: FNV-1a over its UTF-8 bytes, then mixed."""
    h = _FNV_BASIS
    for j in range(start, stop):
        h = word((h ^ word(data[j])) * _FNV_PRIME)
    return mix(h)


def keys_of_ints(values: Int64) -> UInt64:
    """Return the key of each int64 id."""
    keys = np.empty(len(values), np.uint64)
    out = keys
    with cython.nogil:
        for i in range(len(values)):
            out[i] = key_of_int(values[i])
    return keys


def keys_of_strings(offsets: Int64, data: Bytes) -> UInt64:
    """Return the key of each string id."""
    keys = np.empty(len(offsets) - 1, np.uint64)
    out = keys
    with cython.nogil:
        for i in range(len(out)):
            out[i] = key_of_string(data, offsets[i], offsets[i + 1])
    return keys


def keys_of(ids: IdColumn) -> UInt64:
    """Return the key of each id."""
    return keys_of_ints(ids.values) if ids.data is None else keys_of_strings(ids.values, ids.data)


def salted(keys: UInt64, salt: int) -> UInt64:
    """Return other keys, for a random order of ids that is the same in every process."""
    drawn = np.empty(len(keys), np.uint64)
    out = drawn
    with cython.nogil:
        for i in range(len(keys)):
            out[i] = mix(word(word(keys[i]) + word(salt)))
    return drawn
