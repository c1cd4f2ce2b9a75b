"""The loops of the id table: open addressing with linear probing, deletion by shifting back.

A node stands in the table where `hashes`, the keyed hash of its id (see `hashing`), puts it. The public
`keys` only serve those who draw features from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.constants import FAR
from dygcn.engine.records import Bytes, Int8, Int32, Int64, Nodes, UInt64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._native import prefetch_32, word
    from dygcn.engine.events.keys import key_of_int, key_of_string
    from dygcn.engine.graph.hashing import hash_of_bytes, hash_of_word


class IdArrays(Holder):
    """The arrays of an id table. They never grow or move: a larger table has other ones."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # Nodes at or after the position of their hash, -1 elsewhere; a power of two long.
        self.table = arrays[0]
        # Public key and keyed hash of each node's id.
        self.keys, self.hashes = arrays[1:3]
        # The ids; of texts where their bytes start in the arena, how many they are, and the arena.
        self.values, self.lengths, self.arena = arrays[3:6]
        # Stack of nodes that were given back; nodes ever given out, free ones, bytes in the arena.
        self.free, self.counts = arrays[6:8]
        # 1 for a node that belongs to an id; the two words that hashes are keyed with.
        self.alive, self.secret = arrays[8:]


def has_capacity(ids: IdArrays, new: int, new_bytes: int) -> bool:
    """Return whether `new` more ids fit, with the table at most half full."""
    high: int = ids.counts[0]
    live = high - ids.counts[1]
    return (
        high + new <= len(ids.alive)
        and 2 * (live + new) <= len(ids.table)
        and ids.counts[2] + new_bytes <= len(ids.arena)
    )


def keys_at(ids: IdArrays, nodes: Nodes, n: int, out: UInt64) -> None:
    """Write the public keys of the first n of the nodes."""
    for i in range(n):
        out[i] = ids.keys[nodes[i]]


def hashes_at(ids: IdArrays, nodes: Nodes, n: int, out: UInt64) -> None:
    """Write the keyed hashes of the first n of the nodes."""
    for i in range(n):
        out[i] = ids.hashes[nodes[i]]


# ---- one id --------------------------------------------------------------------------------------------


def _hash_int(ids: IdArrays, value: int) -> int:
    return hash_of_word(value, ids.secret[0], ids.secret[1])


def _hash_string(ids: IdArrays, data: Bytes, start: int, size: int) -> int:
    return hash_of_bytes(data, start, size, ids.secret[0], ids.secret[1])


def _place_of_int(ids: IdArrays, hashed: int, value: int) -> int:
    """Return the position of an id in the table, or the free position where it belongs."""
    mask = len(ids.table) - 1
    at = hashed & mask
    while ids.table[at] >= 0 and ids.values[ids.table[at]] != value:
        at = (at + 1) & mask
    return at


def _place_of_string(ids: IdArrays, hashed: int, data: Bytes, start: int, size: int) -> int:
    """Return the position of an id in the table, or the free position where it belongs."""
    mask = len(ids.table) - 1
    at = hashed & mask
    while ids.table[at] >= 0:
        node = ids.table[at]
        # Nobody can make two ids of one keyed hash, so bytes are compared with those of the same id only.
        if ids.hashes[node] == hashed and ids.lengths[node] == size:  # noqa: SIM102 - cheap tests first
            if _has_bytes(ids, ids.values[node], data, start, size):
                break
        at = (at + 1) & mask
    return at


def _has_bytes(ids: IdArrays, at: int, data: Bytes, start: int, size: int) -> bool:
    if at + size > len(ids.arena):  # another process is giving the node to another id
        return False
    for j in range(size):  # noqa: SIM110 - all() is not for compiled loops
        if ids.arena[at + j] != data[start + j]:
            return False
    return True


def _next_node(ids: IdArrays, at: int, hashed: int) -> int:
    if ids.counts[1] > 0:
        ids.counts[1] -= 1
        node: int = ids.free[ids.counts[1]]
    else:
        node = ids.counts[0]
        ids.counts[0] += 1
    ids.table[at] = node
    ids.hashes[node] = hashed
    ids.alive[node] = 1
    return node


def _intern_int(ids: IdArrays, value: int, hashed: int) -> int:
    at = _place_of_int(ids, hashed, value)
    node: int = ids.table[at]
    if node < 0:
        node = _next_node(ids, at, hashed)
        ids.keys[node] = key_of_int(value)
        ids.values[node] = value
    return node


def _intern_string(ids: IdArrays, data: Bytes, start: int, size: int) -> int:
    hashed = _hash_string(ids, data, start, size)
    at = _place_of_string(ids, hashed, data, start, size)
    node: int = ids.table[at]
    if node < 0:
        node = _next_node(ids, at, hashed)
        ids.keys[node] = key_of_string(data, start, start + size)
        end = ids.counts[2]
        for j in range(size):
            ids.arena[end + j] = data[start + j]
        ids.values[node], ids.lengths[node] = end, size
        ids.counts[2] = end + size
    return node


def _find_int(ids: IdArrays, value: int) -> int:
    node: int = ids.table[_place_of_int(ids, _hash_int(ids, value), value)]
    return node


def find_int(ids: IdArrays, value: int) -> int:
    """Return the node of one id, or -1."""
    return int(_find_int(ids, value))


def _find_string(ids: IdArrays, data: Bytes, start: int, size: int) -> int:
    node: int = ids.table[_place_of_string(ids, _hash_string(ids, data, start, size), data, start, size)]
    return node


def find_string(ids: IdArrays, data: bytes) -> int:
    """Return the node of one id, or -1."""
    return int(_find_string(ids, data, 0, len(data)))  # type: ignore[arg-type]  # loops read bytes as they are


# ---- many ids ------------------------------------------------------------------------------------------


# Ids are integers, and `data` is None; or texts, and `values` are the offsets of their bytes in `data`.


def hash_ids(ids: IdArrays, values: Int64, data: Any) -> UInt64:
    """Return the keyed hash of each id."""
    texts = data is not None
    hashes = np.empty(len(values) - texts, np.uint64)
    out = hashes
    with cython.nogil:
        for i in range(len(out)):
            if texts:
                out[i] = _hash_string(ids, data, values[i], values[i + 1] - values[i])
            else:
                out[i] = _hash_int(ids, values[i])
    return hashes


def find_ids(ids: IdArrays, values: Int64, data: Any, new: bool) -> Nodes:
    """Return the node of each id. An id never seen gets a recycled node or the next one if `new`, else -1."""
    texts = data is not None
    nodes = np.empty(len(values) - texts, np.int32)
    out = nodes
    with cython.nogil:
        for i in range(len(out)):
            if texts and new:
                out[i] = _intern_string(ids, data, values[i], values[i + 1] - values[i])
            elif texts:
                out[i] = _find_string(ids, data, values[i], values[i + 1] - values[i])
            elif new:
                out[i] = _intern_int(ids, values[i], _hash_int(ids, values[i]))
            else:
                out[i] = _find_int(ids, values[i])
    return nodes


def resolve(ids: IdArrays, src: Int64, src_data: Any, dst: Int64, dst_data: Any, op: Int8) -> Nodes:
    """Return the nodes of both ends of events, (2, n): added ends get one, removed ones may lack it.

    Adds come first: a remove may name what a later add brings.
    """
    texts, n = src_data is not None, len(op)
    if len(src) != n + texts or len(dst) != n + texts:
        raise ValueError("the columns of a batch are of different lengths")
    nodes = np.empty((2, n), np.int32)
    out = nodes
    with cython.nogil:
        if texts:
            _resolve_texts(ids, src, src_data, op, True, out, 0)
            _resolve_texts(ids, dst, dst_data, op, True, out, 1)
            _resolve_texts(ids, src, src_data, op, False, out, 0)
            _resolve_texts(ids, dst, dst_data, op, False, out, 1)
        else:
            _resolve_added(ids, src, dst, op, out)
            for i in range(n):
                if op[i] <= 0:
                    out[0, i], out[1, i] = _find_int(ids, src[i]), _find_int(ids, dst[i])
    return nodes


def _resolve_added(ids: IdArrays, src: Int64, dst: Int64, op: Int8, out: Nodes) -> None:
    """Hash some rounds ahead, to prefetch positions of the table."""
    n, mask = len(op), len(ids.table) - 1
    hashed = [word(0)] * 32  # two for each of the rounds ahead
    for i in range(-FAR, n):
        at = 2 * (i & (FAR - 1))
        if i >= 0 and op[i] > 0:
            out[0, i] = _intern_int(ids, src[i], hashed[at])
            out[1, i] = _intern_int(ids, dst[i], hashed[at + 1])
        if i + FAR < n:
            hashed[at], hashed[at + 1] = _hash_int(ids, src[i + FAR]), _hash_int(ids, dst[i + FAR])
            prefetch_32(ids.table, hashed[at] & mask)
            prefetch_32(ids.table, hashed[at + 1] & mask)


def _resolve_texts(
    ids: IdArrays, offsets: Int64, data: Bytes, op: Int8, adds: bool, out: Nodes, end: int
) -> None:
    for i in range(len(op)):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        if adds and op[i] > 0:
            out[end, i] = _intern_string(ids, data, start, size)
        elif not adds and op[i] <= 0:
            out[end, i] = _find_string(ids, data, start, size)


# ---- the table -----------------------------------------------------------------------------------------


def forget(ids: IdArrays, nodes: Nodes) -> int:
    """Release nodes that have an id; return how many bytes of the arena are no longer used."""
    mask, wasted = len(ids.table) - 1, 0
    _check_nodes(ids, nodes)
    with cython.nogil:
        for i in range(len(nodes)):
            if ids.alive[nodes[i]]:
                _take_out(ids, nodes[i], mask)
                if len(ids.lengths):
                    wasted += ids.lengths[nodes[i]]
    return int(wasted)


def _check_nodes(ids: IdArrays, nodes: Nodes) -> None:
    for i in range(len(nodes)):
        if nodes[i] < 0 or nodes[i] >= ids.counts[0]:
            raise IndexError(f"there is no node {nodes[i]}")


def _take_out(ids: IdArrays, node: int, mask: int) -> None:
    """Remove a node from the table, shifting its followers back, and push it on the free stack."""
    at = word(ids.hashes[node]) & mask
    while ids.table[at] != node:
        at = (at + 1) & mask
    hole = at
    at = (at + 1) & mask
    while ids.table[at] >= 0:
        home = word(ids.hashes[ids.table[at]]) & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            ids.table[hole] = ids.table[at]
            hole = at
        at = (at + 1) & mask
    ids.table[hole] = -1
    ids.alive[node] = 0
    ids.free[ids.counts[1]] = node
    ids.counts[1] += 1


def rebuild_table(nodes: Nodes, table: Int32, hashes: UInt64) -> None:
    """Fill an empty table with the given nodes."""
    mask = len(table) - 1
    with cython.nogil:
        for i in range(len(nodes)):
            at = word(hashes[nodes[i]]) & mask
            while table[at] >= 0:
                at = (at + 1) & mask
            table[at] = nodes[i]


def gather_strings(ids: IdArrays, nodes: Nodes) -> tuple[Int64, Bytes]:
    """Return offsets and bytes of the ids of nodes."""
    _check_nodes(ids, nodes)
    offsets = np.zeros(len(nodes) + 1, np.int64)
    ends = offsets
    with cython.nogil:
        for i in range(len(nodes)):
            ends[i + 1] = ends[i] + ids.lengths[nodes[i]]
    data = np.empty(ends[len(nodes)], np.uint8)
    out = data
    with cython.nogil:
        for i in range(len(nodes)):
            for j in range(ids.lengths[nodes[i]]):
                out[ends[i] + j] = ids.arena[ids.values[nodes[i]] + j]
    return offsets, data
