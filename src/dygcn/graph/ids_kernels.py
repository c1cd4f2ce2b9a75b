"""The loops of the id table: open addressing with linear probing, deletion by shifting back.

`hashes` holds the keyed hash of each node's id (see `hashing`), which is where the node stands in the table;
`secret` is what it was keyed with. The public `keys` are written here for those who draw features from them,
and decide nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel, page, prefetch
from dygcn.events.keys import key_of_int, key_of_string
from dygcn.graph.hashing import hash_of_bytes, hash_of_word

if TYPE_CHECKING:
    from dygcn.records import Bytes, Int8, Int32, Int64, Integer, Nodes, UInt64

EMPTY = -1
FAR = 16  # rounds ahead


@inlined
def _same_bytes(left: Bytes, a: int, right: Bytes, b: int, length: int) -> bool:
    for j in range(length):  # noqa: SIM110 - numba compiles this, not all()
        if left[a + j] != right[b + j]:
            return False
    return True


@inlined
def _place_of_int(hashed: np.uint64, value: Integer, table: Int32, stored: Int64) -> Integer:
    """Return where an id stands in the table, or the free place where it would."""
    mask = len(table) - 1
    at = np.int64(hashed) & mask
    while table[at] != EMPTY and stored[table[at]] != value:
        at = (at + 1) & mask
    return at


@inlined
def _place_of_string(
    hashed: np.uint64,
    data: Bytes,
    start: int,
    size: int,
    table: Int32,
    hashes: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
) -> Integer:
    """Return where an id stands in the table, or the free place where it would."""
    mask = len(table) - 1
    at = np.int64(hashed) & mask
    while table[at] != EMPTY:
        node = table[at]
        # Nobody can make two ids of one keyed hash, so bytes are compared with those of the same id only.
        if hashes[node] == hashed and lengths[node] == size:  # noqa: SIM102 - cheap tests first
            if _same_bytes(arena, starts[node], data, start, size):
                break
        at = (at + 1) & mask
    return at


@kernel
def hash_ints(values: Int64, secret: UInt64) -> UInt64:
    """Return the keyed hash of each id."""
    hashes = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        hashes[i] = hash_of_word(values[i], secret[0], secret[1])
    return hashes


@kernel
def hash_strings(offsets: Int64, data: Bytes, secret: UInt64) -> UInt64:
    """Return the keyed hash of each id."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(hashes)):
        hashes[i] = hash_of_bytes(data, offsets[i], offsets[i + 1] - offsets[i], secret[0], secret[1])
    return hashes


@kernel
def find_ints(values: Int64, secret: UInt64, table: Int32, stored: Int64) -> Nodes:
    """Return the node of each id, or -1."""
    nodes = np.empty(len(values), np.int32)
    k0, k1 = secret[0], secret[1]
    for i in range(len(values)):
        nodes[i] = table[_place_of_int(hash_of_word(values[i], k0, k1), values[i], table, stored)]
    return nodes


@kernel
def find_strings(
    offsets: Int64,
    data: Bytes,
    secret: UInt64,
    table: Int32,
    hashes: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
) -> Nodes:
    """Return the node of each id, or -1."""
    nodes = np.empty(len(offsets) - 1, np.int32)
    k0, k1 = secret[0], secret[1]
    for i in range(len(nodes)):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        hashed = hash_of_bytes(data, start, size, k0, k1)
        nodes[i] = table[_place_of_string(hashed, data, start, size, table, hashes, starts, lengths, arena)]
    return nodes


@kernel
def find_int(value: int, secret: UInt64, table: Int32, stored: Int64) -> int:
    """Return the node of one id, or -1."""
    hashed = hash_of_word(value, secret[0], secret[1])
    return int(table[_place_of_int(hashed, value, table, stored)])


@kernel
def find_string(
    data: bytes,
    secret: UInt64,
    table: Int32,
    hashes: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
) -> int:
    """Return the node of one id, or -1."""
    text = np.frombuffer(data, np.uint8)
    offsets = np.array([0, len(text)])
    return int(find_strings(offsets, text, secret, table, hashes, starts, lengths, arena)[0])


@inlined
def _next_node(free: Int32, counts: Int64) -> int:
    if counts[1] > 0:
        counts[1] -= 1
        return int(free[counts[1]])
    counts[0] += 1
    return int(counts[0] - 1)


@kernel
def intern_ints(
    values: Int64,
    secret: UInt64,
    table: Int32,
    hashes: UInt64,
    keys: UInt64,
    stored: Int64,
    free: Int32,
    counts: Int64,
) -> Nodes:
    """Return the node of each id; ids never seen get a recycled node or the next one."""
    nodes = np.empty(len(values), np.int32)
    k0, k1 = secret[0], secret[1]
    for i in range(len(values)):
        hashed = hash_of_word(values[i], k0, k1)
        at = _place_of_int(hashed, values[i], table, stored)
        if table[at] == EMPTY:
            node = _next_node(free, counts)
            table[at] = node
            hashes[node] = hashed
            keys[node] = key_of_int(values[i])
            stored[node] = values[i]
        nodes[i] = table[at]
    return nodes


@kernel
def intern_strings(
    offsets: Int64,
    data: Bytes,
    secret: UInt64,
    table: Int32,
    hashes: UInt64,
    keys: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
    free: Int32,
    counts: Int64,
) -> Nodes:
    """Return the node of each id; the bytes of ids never seen are copied to the arena."""
    nodes = np.empty(len(offsets) - 1, np.int32)
    k0, k1 = secret[0], secret[1]
    for i in range(len(nodes)):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        hashed = hash_of_bytes(data, start, size, k0, k1)
        at = _place_of_string(hashed, data, start, size, table, hashes, starts, lengths, arena)
        if table[at] == EMPTY:
            new = _next_node(free, counts)
            table[at] = new
            hashes[new] = hashed
            keys[new] = key_of_string(data, start, start + size)
            starts[new] = counts[2]
            lengths[new] = size
            for j in range(size):
                arena[counts[2] + j] = data[start + j]
            counts[2] += size
        nodes[i] = table[at]
    return nodes


@kernel
def resolve_ints(
    src: Int64,
    dst: Int64,
    op: Int8,
    pages: Int64,
) -> Nodes:
    """Return the nodes of both ends of events, (2, n): added ends get one, those only removed need not have.

    Adds come first: a remove may name what a later add brings.
    """
    table, keys, stored = page(pages, 0, np.int32), page(pages, 1, np.uint64), page(pages, 2, np.int64)
    alive, free, counts = page(pages, 3, np.int8), page(pages, 4, np.int32), page(pages, 5, np.int64)
    hashes, secret = page(pages, 6, np.uint64), page(pages, 7, np.uint64)
    n = len(op)
    nodes, hashed = np.empty((2, n), np.int32), np.empty((2, n), np.uint64)
    mask = len(table) - 1
    for i in range(n):
        hashed[0, i] = hash_of_word(src[i], secret[0], secret[1])
        hashed[1, i] = hash_of_word(dst[i], secret[0], secret[1])
    for adds in (True, False):
        for i in range(n):
            if i + FAR < n:
                prefetch(table, np.int64(hashed[0, i + FAR]) & mask)
                prefetch(table, np.int64(hashed[1, i + FAR]) & mask)
            if (op[i] > 0) != adds:
                continue
            for end in range(2):
                value = dst[i] if end else src[i]
                at = _place_of_int(hashed[end, i], value, table, stored)
                if adds and table[at] == EMPTY:
                    node = _next_node(free, counts)
                    table[at] = node
                    hashes[node] = hashed[end, i]
                    keys[node] = key_of_int(value)
                    stored[node] = value
                    alive[node] = 1
                nodes[end, i] = table[at]
    return nodes


@kernel
def forget(nodes: Nodes, table: Int32, hashes: UInt64, free: Int32, counts: Int64) -> None:
    """Take nodes out of the table and put them on the stack of free ones."""
    mask = len(table) - 1
    for node in nodes:
        at = np.int64(hashes[node]) & mask
        while table[at] != node:
            at = (at + 1) & mask
        hole = at
        at = (at + 1) & mask
        while table[at] != EMPTY:
            home = np.int64(hashes[table[at]]) & mask
            if ((at - home) & mask) >= ((at - hole) & mask):
                table[hole] = table[at]
                hole = at
            at = (at + 1) & mask
        table[hole] = EMPTY
        free[counts[1]] = node
        counts[1] += 1


@kernel
def rebuild_table(nodes: Nodes, table: Int32, hashes: UInt64) -> None:
    """Fill an empty table with the given nodes."""
    mask = len(table) - 1
    for node in nodes:
        at = np.int64(hashes[node]) & mask
        while table[at] != EMPTY:
            at = (at + 1) & mask
        table[at] = node


@kernel
def longest_probe(nodes: Nodes, table: Int32, hashes: UInt64) -> int:
    """Return how far the furthest of the nodes stands from where it is looked for first."""
    mask = len(table) - 1
    longest = 0
    for node in nodes:
        at = np.int64(hashes[node]) & mask
        steps = 0
        while table[at] != node:
            at = (at + 1) & mask
            steps += 1
        longest = max(longest, steps)
    return longest


@kernel
def gather_strings(nodes: Nodes, starts: Int64, lengths: Int32, arena: Bytes) -> tuple[Int64, Bytes]:
    """Return offsets and bytes of the ids of the given nodes."""
    offsets = np.zeros(len(nodes) + 1, np.int64)
    for i in range(len(nodes)):
        offsets[i + 1] = offsets[i] + lengths[nodes[i]]
    data = np.empty(offsets[-1], np.uint8)
    for i in range(len(nodes)):
        start = starts[nodes[i]]
        for j in range(lengths[nodes[i]]):
            data[offsets[i] + j] = arena[start + j]
    return offsets, data
