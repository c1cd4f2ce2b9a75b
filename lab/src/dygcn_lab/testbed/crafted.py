"""Ids that somebody made to collide: anybody can, since the 64-bit keys of ids are public and invertible."""

from __future__ import annotations

import random
from itertools import product

import numpy as np

from dygcn.engine.graph.ids import IdMap
from dygcn.engine.records import Int64, UInt64

_MASK = (1 << 64) - 1
_FORTH = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BACK = pow(_FORTH[1], -1, 1 << 64), pow(_FORTH[0], -1, 1 << 64)
_PRIME, _BASIS = 0x100000001B3, 0xCBF29CE484222325
# Differences d of twelve states with d[0] P^12 + ... + d[11] P = 0 modulo 2^64, for the prime P of FNV-1a: a
# short vector of that lattice. Twelve bytes that move the states by it leave the hash where it was.
_STEPS = (-1, -8, 2, 4, 10, 6, -14, -2, -18, -13, 15, -17)


def _unshifted(x: int, bits: int) -> int:
    y = x
    for _ in range(64 // bits + 1):
        y = x ^ (y >> bits)
    return y


def ids_of_one_place(count: int, bits: int = 30) -> list[int]:
    """Return int64 ids whose public keys all end with so many zero bits."""
    ids = []
    for i in range(1, count + 1):
        x = _unshifted(i << bits, 31) * _BACK[0] & _MASK
        x = _unshifted(_unshifted(x, 27) * _BACK[1] & _MASK, 30)
        ids.append(x - (1 << 64) if x >> 63 else x)
    return ids


def names_of_one_key(count: int, seed: int = 0) -> list[str]:
    """Return different strings of one length and one public key (FNV-1a over their bytes)."""
    rng, state = random.Random(seed), _BASIS
    blocks: list[tuple[str, str]] = []
    while 1 << len(blocks) < count:
        pair = _colliding_blocks(rng, state)
        blocks.append(pair)
        state = fnv_1a(pair[0].encode(), state)
    return ["".join(chosen) for chosen, _ in zip(product(*blocks), range(count), strict=False)]


def fnv_1a(data: bytes, state: int = _BASIS) -> int:
    """Return the FNV-1a hash of bytes, from a state on."""
    for byte in data:
        state = (state ^ byte) * _PRIME & _MASK
    return state


def _colliding_blocks(rng: random.Random, state: int) -> tuple[str, str]:
    """Return two printable texts that lead from one state to one state."""
    while True:
        block = bytes(rng.randrange(33, 127) for _ in _STEPS)
        other = _moved(block, state)
        if other is not None:
            return block.decode(), other.decode()


def _moved(block: bytes, state: int) -> bytes | None:
    """Return the bytes whose states differ from those of a block by the vector, if they are printable."""
    here = there = state
    other = bytearray()
    for byte, step in zip(block, _STEPS, strict=True):
        # A byte replaces the low byte of the state, so it moves the state by any small number.
        moved = there + ((here ^ byte) - here) + step
        byte_there = (moved ^ there) & _MASK
        if not 33 <= byte_there < 127:
            return None
        other.append(byte_there)
        here, there = (here ^ byte) * _PRIME & _MASK, moved * _PRIME & _MASK
    return bytes(other) if here == there else None


def longest_probe(ids: IdMap) -> int:
    """Return the longest distance of an id from its home position in the table; usually about 20."""
    mask = len(ids._table) - 1
    at = np.flatnonzero(ids._table >= 0)
    home = ids.hashes[ids._table[at]].astype(np.int64) & mask
    return int(((at - home) & mask).max(initial=0))


def pairs_of_one_place(nodes: int, bits: int) -> Int64:
    """Return the pairs (a, b) of nodes, a < b, whose unkeyed mix ends with so many zero bits, (n, 2)."""
    others, found = np.arange(nodes), []
    for a in range(nodes):
        b = others[a + 1 :]
        b = b[_mixed((a << 32) | b) & np.uint64((1 << bits) - 1) == 0]
        found.append(np.stack((np.full_like(b, a), b), axis=1))
    return np.concatenate(found)


def _mixed(values: Int64) -> UInt64:
    """Return what `events.keys.mix` makes of each, where that is not compiled, too, in no time."""
    x = values.view(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FORTH[0])
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_FORTH[1])
    return x ^ (x >> np.uint64(31))
