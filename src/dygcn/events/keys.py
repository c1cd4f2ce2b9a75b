"""64-bit keys of user ids. Part of the saved format: hashed features are drawn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel

if TYPE_CHECKING:
    from dygcn.records import Bytes, Int64, Integer, UInt64

_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


@inlined
def mix(x: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of SplitMix64): every input bit reaches every output bit."""
    x = (x ^ (x >> _S30)) * _MULTIPLY_1
    x = (x ^ (x >> _S27)) * _MULTIPLY_2
    return x ^ (x >> _S31)


@inlined
def key_of_int(value: Integer) -> np.uint64:
    """Return the key of an int64 id."""
    return mix(np.uint64(value))


@inlined
def key_of_string(data: Bytes, start: Integer, stop: Integer) -> np.uint64:
    """Return the key of a string id: FNV-1a over its UTF-8 bytes, then mixed."""
    h = _FNV_BASIS
    for j in range(start, stop):
        h = (h ^ np.uint64(data[j])) * _FNV_PRIME
    return mix(h)


@kernel
def keys_of_ints(values: Int64) -> UInt64:
    """Return the key of each int64 id."""
    keys = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        keys[i] = key_of_int(values[i])
    return keys


@kernel
def salted(keys: UInt64, salt: int) -> UInt64:
    """Return other keys, so that ids can be drawn at random and the same way wherever they are stored."""
    out = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):
        out[i] = mix(keys[i] + np.uint64(salt))
    return out
