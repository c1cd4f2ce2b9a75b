"""The loops of the id table: open addressing with linear probing, deletion by shifting back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel, page, prefetch
from dygcn.events.keys import keys_of_strings, mix

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
def _place_of_int(key: np.uint64, value: Integer, table: Int32, stored: Int64) -> Integer:
    """Return where an id stands in the table, or the free place where it would."""
    mask = len(table) - 1
    at = np.int64(key) & mask
    while table[at] != EMPTY and stored[table[at]] != value:
        at = (at + 1) & mask
    return at


@inlined
def _place_of_string(
    key: np.uint64,
    data: Bytes,
    start: int,
    size: int,
    table: Int32,
    stored_keys: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
) -> Integer:
    """Return where an id stands in the table, or the free place where it would."""
    mask = len(table) - 1
    at = np.int64(key) & mask
    while table[at] != EMPTY:
        node = table[at]
        if stored_keys[node] == key and lengths[node] == size:  # noqa: SIM102 - cheap tests first
            if _same_bytes(arena, starts[node], data, start, size):
                break
        at = (at + 1) & mask
    return at


@kernel
def find_ints(keys: UInt64, values: Int64, table: Int32, stored: Int64) -> Nodes:
    """Return the node of each id, or -1."""
    nodes = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        nodes[i] = table[_place_of_int(keys[i], values[i], table, stored)]
    return nodes


@kernel
def find_strings(
    keys: UInt64,
    offsets: Int64,
    data: Bytes,
    table: Int32,
    stored_keys: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
) -> Nodes:
    """Return the node of each id, or -1."""
    nodes = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        size = offsets[i + 1] - offsets[i]
        at = _place_of_string(keys[i], data, offsets[i], size, table, stored_keys, starts, lengths, arena)
        nodes[i] = table[at]
    return nodes


@kernel
def find_int(value: int, table: Int32, stored: Int64) -> int:
    """Return the node of one id, or -1."""
    return int(table[_place_of_int(mix(np.uint64(value)), value, table, stored)])


@kernel
def find_string(
    data: bytes, table: Int32, stored_keys: UInt64, starts: Int64, lengths: Int32, arena: Bytes
) -> int:
    """Return the node of one id, or -1."""
    text = np.frombuffer(data, np.uint8)
    offsets = np.array([0, len(text)])
    keys = keys_of_strings(offsets, text)
    return int(find_strings(keys, offsets, text, table, stored_keys, starts, lengths, arena)[0])


@inlined
def _next_node(free: Int32, counts: Int64) -> int:
    if counts[1] > 0:
        counts[1] -= 1
        return int(free[counts[1]])
    counts[0] += 1
    return int(counts[0] - 1)


@kernel
def intern_ints(
    keys: UInt64, values: Int64, table: Int32, stored_keys: UInt64, stored: Int64, free: Int32, counts: Int64
) -> Nodes:
    """Return the node of each id; ids never seen get a recycled node or the next one."""
    nodes = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        at = _place_of_int(keys[i], values[i], table, stored)
        if table[at] == EMPTY:
            node = _next_node(free, counts)
            table[at] = node
            stored_keys[node] = keys[i]
            stored[node] = values[i]
        nodes[i] = table[at]
    return nodes


@kernel
def intern_strings(
    keys: UInt64,
    offsets: Int64,
    data: Bytes,
    table: Int32,
    stored_keys: UInt64,
    starts: Int64,
    lengths: Int32,
    arena: Bytes,
    free: Int32,
    counts: Int64,
) -> Nodes:
    """Return the node of each id; the bytes of ids never seen are copied to the arena."""
    nodes = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        size = offsets[i + 1] - offsets[i]
        at = _place_of_string(keys[i], data, offsets[i], size, table, stored_keys, starts, lengths, arena)
        if table[at] == EMPTY:
            new = _next_node(free, counts)
            table[at] = new
            stored_keys[new] = keys[i]
            starts[new] = counts[2]
            lengths[new] = size
            for j in range(size):
                arena[counts[2] + j] = data[offsets[i] + j]
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
    table, stored_keys, stored = page(pages, 0, np.int32), page(pages, 1, np.uint64), page(pages, 2, np.int64)
    alive, free, counts = page(pages, 3, np.int8), page(pages, 4, np.int32), page(pages, 5, np.int64)
    n = len(op)
    nodes = np.empty((2, n), np.int32)
    mask = len(table) - 1
    for adds in (True, False):
        for i in range(n):
            if i + FAR < n:
                prefetch(table, np.int64(mix(np.uint64(src[i + FAR]))) & mask)
                prefetch(table, np.int64(mix(np.uint64(dst[i + FAR]))) & mask)
            if (op[i] > 0) != adds:
                continue
            for end in range(2):
                value = dst[i] if end else src[i]
                key = mix(np.uint64(value))
                at = _place_of_int(key, value, table, stored)
                if adds and table[at] == EMPTY:
                    node = _next_node(free, counts)
                    table[at] = node
                    stored_keys[node] = key
                    stored[node] = value
                    alive[node] = 1
                nodes[end, i] = table[at]
    return nodes


@kernel
def forget(nodes: Nodes, table: Int32, stored_keys: UInt64, free: Int32, counts: Int64) -> None:
    """Take nodes out of the table and put them on the stack of free ones."""
    mask = len(table) - 1
    for node in nodes:
        at = np.int64(stored_keys[node]) & mask
        while table[at] != node:
            at = (at + 1) & mask
        hole = at
        at = (at + 1) & mask
        while table[at] != EMPTY:
            home = np.int64(stored_keys[table[at]]) & mask
            if ((at - home) & mask) >= ((at - hole) & mask):
                table[hole] = table[at]
                hole = at
            at = (at + 1) & mask
        table[hole] = EMPTY
        free[counts[1]] = node
        counts[1] += 1


@kernel
def rebuild_table(nodes: Nodes, table: Int32, stored_keys: UInt64) -> None:
    """Fill an empty table with the given nodes."""
    mask = len(table) - 1
    for node in nodes:
        at = np.int64(stored_keys[node]) & mask
        while table[at] != EMPTY:
            at = (at + 1) & mask
        table[at] = node


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
