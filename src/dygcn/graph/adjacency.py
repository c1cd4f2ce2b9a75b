"""Who aggregates whom: dynamic lists of weighted arcs in one flat pool.

Every node owns a block of the pool, a power of two long, its arcs at the front in no order. A node
with few arcs is searched by looking at all of them; a hub has its arcs in a table beside, so that
no insert, delete or look-up on it costs more than on a leaf.

A weight is an int64 on the grid of the model. Below zero it is the weight of a *ghost*: an edge that
was removed and is remembered (see `memory`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel
from dygcn.graph.ids import grown
from dygcn.graph.pairs import PairTable, pair_drop, pair_find, pair_key, pair_put

if TYPE_CHECKING:
    from dygcn.records import Int32, Int64, Nodes

FEW = 32  # up to here a node's arcs are scanned
SMALLEST_BLOCK = 4


@inlined
def _slot(
    node: int, other: int, start: Int64, count: Int32, others: Int32, keys: Int64, slots: Int32, hub: Int32
) -> int:
    if hub[node]:
        at = pair_find(keys, pair_key(node, other))
        return slots[at] if at >= 0 else -1
    base = start[node]
    for i in range(count[node]):
        if others[base + i] == other:
            return i
    return -1


@kernel
def look_up(
    nodes: Nodes,
    other: Nodes,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int64,
    keys: Int64,
    slots: Int32,
    hub: Int32,
) -> Int64:
    """Return the stored weight of each arc, 0 where there is none."""
    found = np.zeros(len(nodes), np.int64)
    for i in range(len(nodes)):
        slot = _slot(nodes[i], other[i], start, count, others, keys, slots, hub)
        if slot >= 0:
            found[i] = weights[start[nodes[i]] + slot]
    return found


@inlined
def _block_size(total: int) -> int:
    size = SMALLEST_BLOCK
    while size < total:
        size *= 2
    return size


@kernel
def _needs(nodes: Nodes, new: Int64, count: Int32, room: Int32, hub: Int32, extra: Int32) -> tuple[int, int]:
    """Return how much pool and how many table entries the new arcs can take.

    `extra` is zero before, and after it minus the number of arcs that a node may gain.
    """
    pool, table = 0, 0
    for i in range(len(nodes)):
        if new[i] != 0:
            extra[nodes[i]] += 1
    for node in nodes:
        if extra[node] > 0:
            total = count[node] + extra[node]
            if total > room[node]:
                pool += _block_size(total)
            if total > FEW:
                table += extra[node] if hub[node] else total
            extra[node] = -extra[node]
    return pool, table


@inlined
def _class_of(size: int) -> int:
    c = 0
    while (SMALLEST_BLOCK << c) < size:
        c += 1
    return c


@inlined
def _give_back(start: int, size: int, others: Int32, heads: Int64) -> None:
    """Chain a block to the free ones of its size; blocks lie on multiples of the smallest."""
    c = _class_of(size)
    others[start] = heads[c]
    heads[c] = start // SMALLEST_BLOCK


@inlined
def _make_block(
    node: int,
    total: int,
    start: Int64,
    count: Int32,
    room: Int32,
    others: Int32,
    weights: Int64,
    heads: Int64,
    tail: Int64,
) -> None:
    size = _block_size(total)
    c = _class_of(size)
    if heads[c] >= 0:
        base = heads[c] * SMALLEST_BLOCK
        heads[c] = others[base]
    else:
        base = tail[0]
        tail[0] += size
    old = start[node]
    for i in range(count[node]):
        others[base + i] = others[old + i]
        weights[base + i] = weights[old + i]
    if room[node] > 0:
        _give_back(old, room[node], others, heads)
    start[node] = base
    room[node] = size


@kernel
def _reserve(
    nodes: Nodes,
    start: Int64,
    count: Int32,
    room: Int32,
    others: Int32,
    weights: Int64,
    heads: Int64,
    tail: Int64,
    extra: Int32,
) -> None:
    """Give each node the block that it may need at the end of the batch; `extra` is zero after it."""
    for node in nodes:
        total = count[node] - extra[node]
        if extra[node] < 0 and total > room[node]:
            _make_block(node, total, start, count, room, others, weights, heads, tail)
        extra[node] = 0


@kernel
def write(
    nodes: Nodes,
    other: Nodes,
    new: Int64,
    start: Int64,
    count: Int32,
    room: Int32,
    others: Int32,
    weights: Int64,
    heads: Int64,
    keys: Int64,
    slots: Int32,
    used: Int64,
    hub: Int32,
) -> None:
    """Set the stored weight of each arc: insert, replace, or delete where it is 0. There is room."""
    for i in range(len(nodes)):
        node = nodes[i]
        slot = _slot(node, other[i], start, count, others, keys, slots, hub)
        if slot >= 0 and new[i] != 0:
            weights[start[node] + slot] = new[i]
        elif slot >= 0:
            last = count[node] - 1
            base = start[node]
            moved = others[base + last]
            others[base + slot] = moved
            weights[base + slot] = weights[base + last]
            count[node] = last
            if hub[node]:
                pair_drop(keys, slots, used, pair_key(node, other[i]))
                if slot != last:
                    pair_put(keys, slots, used, pair_key(node, moved), slot)
                if last <= FEW // 2:
                    for j in range(last):
                        pair_drop(keys, slots, used, pair_key(node, others[base + j]))
                    hub[node] = 0
        elif new[i] != 0:
            base = start[node]
            at = count[node]
            others[base + at] = other[i]
            weights[base + at] = new[i]
            count[node] = at + 1
            if hub[node]:
                pair_put(keys, slots, used, pair_key(node, other[i]), at)
            elif at + 1 > FEW:
                for j in range(at + 1):
                    pair_put(keys, slots, used, pair_key(node, others[base + j]), j)
                hub[node] = 1
    # Empty blocks go back at the end: inside the batch their node may need them again.
    for node in nodes:
        if count[node] == 0 and room[node] > 0:
            _give_back(start[node], room[node], others, heads)
            room[node] = 0


@kernel
def list_arcs(
    nodes: Nodes, start: Int64, count: Int32, others: Int32, weights: Int64
) -> tuple[Int32, Int32, Int64]:
    """Return all arcs of the given nodes as (node, other, stored weight)."""
    total = 0
    for node in nodes:
        total += count[node]
    owner = np.empty(total, np.int32)
    other = np.empty(total, np.int32)
    weight = np.empty(total, np.int64)
    at = 0
    for node in nodes:
        base = start[node]
        for i in range(count[node]):
            owner[at] = node
            other[at] = others[base + i]
            weight[at] = weights[base + i]
            at += 1
    return owner, other, weight


class Adjacency:
    """The arcs of every node. See the module for how they lie in memory."""

    def __init__(self) -> None:
        self.start = np.empty(0, np.int64)
        self.count = np.empty(0, np.int32)
        self.room = np.empty(0, np.int32)
        self.others = np.empty(0, np.int32)
        self.weights = np.empty(0, np.int64)
        self._hub = np.empty(0, np.int32)
        self._extra = np.empty(0, np.int32)
        self._heads = np.full(32, -1, np.int64)
        self._tail = np.zeros(1, np.int64)
        self._table = PairTable()

    def make_room(self, nodes: int) -> None:
        """Grow to so many nodes."""
        for name in ("start", "count", "room", "_hub", "_extra"):
            setattr(self, name, grown(getattr(self, name), nodes))

    def look_up(self, nodes: Nodes, other: Nodes) -> Int64:
        """Return the stored weight of each arc, 0 where there is none."""
        table = self._table
        return look_up(
            nodes,
            other,
            self.start,
            self.count,
            self.others,
            self.weights,
            table.keys,
            table.slots,
            self._hub,
        )

    def write(self, nodes: Nodes, other: Nodes, new: Int64) -> None:
        """Set the stored weight of each arc: insert, replace, or delete where it is 0."""
        pool, entries = _needs(nodes, new, self.count, self.room, self._hub, self._extra)
        need = int(self._tail[0]) + pool
        self.others, self.weights = grown(self.others, need), grown(self.weights, need)
        _reserve(
            nodes,
            self.start,
            self.count,
            self.room,
            self.others,
            self.weights,
            self._heads,
            self._tail,
            self._extra,
        )
        table = self._table
        table.make_room(entries)
        write(
            nodes,
            other,
            new,
            self.start,
            self.count,
            self.room,
            self.others,
            self.weights,
            self._heads,
            table.keys,
            table.slots,
            table.used,
            self._hub,
        )

    def arcs(self, nodes: Nodes) -> tuple[Int32, Int32, Int64]:
        """Return all arcs of the given nodes as (node, other, stored weight)."""
        return list_arcs(nodes, self.start, self.count, self.others, self.weights)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = (self.start, self.count, self.room, self.others, self.weights, self._hub, self._extra)
        return sum(a.nbytes for a in arrays) + self._table.keys.nbytes + self._table.slots.nbytes
