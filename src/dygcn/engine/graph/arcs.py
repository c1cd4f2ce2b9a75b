"""The loops of the adjacency: find arcs, reserve capacity for them, write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.constants import FAR, FEW, NEAR, NEVER, SMALLEST_BLOCK
from dygcn.engine.records import Float32, Float64, Int32, Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._native import prefetch_8, prefetch_32, prefetch_64
    from dygcn.engine.graph.pairs import pair_drop, pair_key, pair_prefetch, pair_put, pair_slot


class ArcArrays(Holder):
    """The arrays of an `Adjacency`, for loops. They never grow or move: longer ones have another holder."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # Of each node: where its block starts, how many arcs it has, how many fit.
        self.start, self.count, self.capacity = arrays[:3]
        # The pool: other ends and stored weights of all blocks.
        self.others, self.weights = arrays[3:5]
        # Of each node: whether it is a hub; counters of a batch, zero between batches.
        self.hub, self.extra = arrays[5:7]
        # Free blocks by size, chained through `others`; the end of the pool; the hubs' arcs.
        self.heads, self.tail, self.table = arrays[7:10]
        # Last contacts and counts beside the weights; empty where they are not kept.
        self.times, self.counts = arrays[10:12]
        # Of each node: how many arcs, the first of its block, lead to heavy nodes of no lower tier; its tier.
        self.upper, self.tiers = arrays[12:]


# ---- finding arcs ------------------------------------------------------------------------------------------


def slot_of(arcs: ArcArrays, node: int, other: int) -> int:
    """Return the slot of an arc in its node's block, or -1."""
    if arcs.hub[node]:
        return pair_slot(arcs.table, pair_key(node, other))
    base = arcs.start[node]
    for i in range(arcs.count[node]):
        if arcs.others[base + i] == other:
            return i
    return -1


def _ask_for_node(arcs: ArcArrays, node: int) -> None:
    prefetch_64(arcs.start, node)
    prefetch_32(arcs.count, node)
    prefetch_8(arcs.hub, node)


def _ask_for_arc(arcs: ArcArrays, node: int, other: int) -> None:
    if arcs.hub[node]:
        pair_prefetch(arcs.table, pair_key(node, other))
    else:
        prefetch_32(arcs.others, arcs.start[node])


def look_up(
    arcs: ArcArrays, n: int, nodes: Nodes, other: Nodes, found: Int64, last: Float64, count_at_last: Float32
) -> None:
    """Write the stored weight of each of n arcs, 0 where there is none; also its contacts, if wanted."""
    # An empty pool has no times either way.
    contacts = len(last) > 0 and (len(arcs.times) > 0 or len(arcs.others) == 0)
    for i in range(n):
        if i + FAR < n:
            _ask_for_node(arcs, nodes[i + FAR])
        if i + NEAR < n:
            _ask_for_arc(arcs, nodes[i + NEAR], other[i + NEAR])
        slot = slot_of(arcs, nodes[i], other[i])
        at = arcs.start[nodes[i]] + slot
        found[i] = arcs.weights[at] if slot >= 0 else 0
        if contacts:
            last[i] = arcs.times[at] if slot >= 0 else NEVER
            count_at_last[i] = arcs.counts[at] if slot >= 0 else 0.0


# ---- capacity for arcs -------------------------------------------------------------------------------------


def _block_size(total: int) -> int:
    size = SMALLEST_BLOCK
    while size < total:
        size *= 2
    return size


def _class_of(size: int) -> int:
    c = 0
    while (SMALLEST_BLOCK << c) < size:
        c += 1
    return c


def count_new(arcs: ArcArrays, n: int, nodes: Nodes, new: Int64) -> None:
    """Count the arcs that each node may gain, in `extra`."""
    for i in range(n):
        if new[i] != 0:
            arcs.extra[nodes[i]] += 1


def add_needs(arcs: ArcArrays, n: int, nodes: Nodes, needed: Int64, at: int) -> None:
    """Add the pool and table entries that counted arcs may need to `needed[at]` and `needed[at + 1]`.

    A node that was visited has minus its count in `extra`, so that it is visited once.
    """
    for i in range(n):
        node = nodes[i]
        extra = arcs.extra[node]
        if extra > 0:
            total = arcs.count[node] + extra
            if total > arcs.capacity[node]:
                needed[at] += _block_size(total)
            if total > FEW:
                needed[at + 1] += extra if arcs.hub[node] else total
            arcs.extra[node] = -extra


def forget_needs(arcs: ArcArrays, n: int, nodes: Nodes) -> None:
    """Reset the counts to zero."""
    for i in range(n):
        arcs.extra[nodes[i]] = 0


def fits(arcs: ArcArrays, pool: int, entries: int) -> bool:
    """Return whether the pool and the table have this much capacity left."""
    there = min(len(arcs.others), len(arcs.weights))
    if len(arcs.times) > 0:
        there = min(there, min(len(arcs.times), len(arcs.counts)))
    used = arcs.table.used[0] + entries
    enough: bool = arcs.tail[0] + pool <= there and 3 * used // 2 <= len(arcs.table.keys)
    return enough


def _take_block(arcs: ArcArrays, size: int) -> int:
    c = _class_of(size)
    base: int
    if arcs.heads[c] >= 0:
        base = arcs.heads[c] * SMALLEST_BLOCK
        arcs.heads[c] = arcs.others[base]
    else:
        base = arcs.tail[0]
        arcs.tail[0] += size
    return base


def _give_back(arcs: ArcArrays, node: int) -> None:
    """Put a node's block on the free list of its size; blocks lie at multiples of the smallest."""
    if arcs.capacity[node] > 0:
        c = _class_of(arcs.capacity[node])
        if (SMALLEST_BLOCK << c) > arcs.capacity[node]:
            c -= 1  # a block of another length goes on as a smaller one
        arcs.others[arcs.start[node]] = arcs.heads[c]
        arcs.heads[c] = arcs.start[node] // SMALLEST_BLOCK
        arcs.capacity[node] = 0


def _copy_block(arcs: ArcArrays, node: int, other: ArcArrays, base: int) -> None:
    old = arcs.start[node]
    for i in range(arcs.count[node]):
        other.others[base + i] = arcs.others[old + i]
        other.weights[base + i] = arcs.weights[old + i]
    if len(arcs.times) > 0:
        for i in range(arcs.count[node]):
            other.times[base + i] = arcs.times[old + i]
            other.counts[base + i] = arcs.counts[old + i]


def reserve(arcs: ArcArrays, n: int, nodes: Nodes) -> None:
    """Give each node a block for its arcs at the end of the batch; resets `extra` to zero."""
    for k in range(n):
        node = nodes[k]
        total = arcs.count[node] - arcs.extra[node]
        if arcs.extra[node] < 0 and total > arcs.capacity[node]:
            size = _block_size(total)
            base = _take_block(arcs, size)
            _copy_block(arcs, node, arcs, base)
            _give_back(arcs, node)
            arcs.start[node] = base
            arcs.capacity[node] = size
        arcs.extra[node] = 0


def give_back_empty(arcs: ArcArrays, n: int, nodes: Nodes) -> None:
    """Free the blocks of nodes without arcs."""
    for i in range(n):
        if arcs.count[nodes[i]] == 0:
            _give_back(arcs, nodes[i])


# ---- writing arcs ------------------------------------------------------------------------------------------


def write(arcs: ArcArrays, n: int, nodes: Nodes, other: Nodes, new: Int64) -> None:
    """Set the stored weight of each of n arcs: insert, replace, or delete where it is 0.

    The caller reserved capacity. Blocks that become empty stay until `give_back_empty`: later arcs of the
    batch may need them again.
    """
    for i in range(n):
        if i + FAR < n:
            _ask_for_node(arcs, nodes[i + FAR])
        if i + NEAR < n:
            _ask_for_arc(arcs, nodes[i + NEAR], other[i + NEAR])
        slot = slot_of(arcs, nodes[i], other[i])
        if slot >= 0 and new[i] != 0:
            arcs.weights[arcs.start[nodes[i]] + slot] = new[i]
        elif slot >= 0:
            _delete(arcs, nodes[i], other[i], slot)
        elif new[i] != 0:
            _insert(arcs, nodes[i], other[i], new[i])


def _move(arcs: ArcArrays, node: int, at: int, to: int) -> None:
    base = arcs.start[node]
    arcs.others[base + to] = arcs.others[base + at]
    arcs.weights[base + to] = arcs.weights[base + at]
    if len(arcs.times) > 0:
        arcs.times[base + to] = arcs.times[base + at]
        arcs.counts[base + to] = arcs.counts[base + at]
    if arcs.hub[node]:
        pair_put(arcs.table, pair_key(node, arcs.others[base + to]), to)


def _delete(arcs: ArcArrays, node: int, other: int, slot: int) -> None:
    """Delete the arc in a slot; the last arc of its part of the block fills the gap."""
    base, last = arcs.start[node], arcs.count[node] - 1
    if arcs.hub[node]:
        pair_drop(arcs.table, pair_key(node, other))
    if slot < arcs.upper[node]:
        arcs.upper[node] -= 1
        if slot != arcs.upper[node]:
            _move(arcs, node, arcs.upper[node], slot)
        slot = arcs.upper[node]
    if slot != last:
        _move(arcs, node, last, slot)
    arcs.count[node] = last
    if arcs.hub[node] and last <= FEW // 2:
        for j in range(last):
            pair_drop(arcs.table, pair_key(node, arcs.others[base + j]))
        arcs.hub[node] = 0


def _insert(arcs: ArcArrays, node: int, other: int, weight: int) -> None:
    base, at, end = arcs.start[node], arcs.count[node], arcs.count[node]
    arcs.count[node] = end + 1
    if is_upper(arcs, node, other):
        at = arcs.upper[node]
        arcs.upper[node] += 1
        if at != end:
            _move(arcs, node, at, end)
    arcs.others[base + at] = other
    arcs.weights[base + at] = weight
    if arcs.hub[node]:
        pair_put(arcs.table, pair_key(node, other), at)
    elif end + 1 > FEW:
        for j in range(end + 1):
            pair_put(arcs.table, pair_key(node, arcs.others[base + j]), j)
        arcs.hub[node] = 1


# ---- tiers -------------------------------------------------------------------------------------------------


def is_upper(arcs: ArcArrays, node: int, other: int) -> bool:
    """Return whether an arc leads to a heavy node of no lower tier: such arcs come first in their block."""
    return bool(arcs.tiers[other] >= max(arcs.tiers[node], 1))


def tier_is_due(arcs: ArcArrays, node: int, count: int, heavy_from: int) -> bool:
    """Return whether a node with `count` arcs must change its tier; see `graph.tiers`."""
    tier = arcs.tiers[node]
    return bool(count >> tier >= heavy_from or (tier > 0 and 4 * count >> tier < heavy_from))


def _swap(arcs: ArcArrays, node: int, a: int, b: int) -> None:
    base = arcs.start[node]
    other, weight = arcs.others[base + a], arcs.weights[base + a]
    if len(arcs.times) > 0:
        time, count = arcs.times[base + a], arcs.counts[base + a]
        _move(arcs, node, b, a)
        arcs.times[base + b], arcs.counts[base + b] = time, count
    else:
        _move(arcs, node, b, a)
    arcs.others[base + b], arcs.weights[base + b] = other, weight
    if arcs.hub[node]:
        pair_put(arcs.table, pair_key(node, other), b)


def partition(arcs: ArcArrays, nodes: Nodes) -> None:
    """Move the arcs to heavy nodes of no lower tier to the front of the blocks of nodes."""
    with cython.nogil:
        for k in range(len(nodes)):
            node = nodes[k]
            upper = 0
            for i in range(arcs.count[node]):
                if is_upper(arcs, node, arcs.others[arcs.start[node] + i]):
                    if i != upper:
                        _swap(arcs, node, i, upper)
                    upper += 1
            arcs.upper[node] = upper


def put_right(arcs: ArcArrays, nodes: Nodes, other: Nodes) -> int:
    """Move single arcs to the right part of their block; return how many moved."""
    moved = 0
    with cython.nogil:
        for k in range(len(nodes)):
            node = nodes[k]
            slot = slot_of(arcs, node, other[k])
            wanted = is_upper(arcs, node, other[k])
            if slot >= 0 and wanted != (slot < arcs.upper[node]):
                if not wanted:
                    arcs.upper[node] -= 1
                if slot != arcs.upper[node]:
                    _swap(arcs, node, slot, arcs.upper[node])
                if wanted:
                    arcs.upper[node] += 1
                moved += 1
    return moved


# ---- for plain Python --------------------------------------------------------------------------------------


def _check_nodes(arcs: ArcArrays, nodes: Nodes) -> None:
    """Refuse numbers that are no nodes, since plain Python code may pass any."""
    for k in range(len(nodes)):
        if nodes[k] < 0 or nodes[k] >= len(arcs.start):
            raise IndexError(f"{nodes[k]} is no node; there is capacity for {len(arcs.start)}")


def look_up_arcs(
    arcs: ArcArrays, nodes: Nodes, other: Nodes, contacts: bool
) -> tuple[Int64, Float64, Float32]:
    """Return the stored weight of each arc, 0 where there is none, and, if wanted, its contacts."""
    _check_nodes(arcs, nodes)
    size, kept = len(nodes), len(nodes) if contacts else 0
    looked = np.empty(size, np.int64), np.empty(kept), np.empty(kept, np.float32)
    found, last, count_at_last = looked
    with cython.nogil:
        look_up(arcs, len(nodes), nodes, other, found, last, count_at_last)
    return looked


def list_arcs(
    arcs: ArcArrays, nodes: Nodes, upper: bool = False, contacts: bool = False
) -> tuple[Int32, Int32, Int64, Float64, Float32]:
    """Return all arcs of nodes, or the upper ones: node, other, stored weight, and, if wanted, contacts."""
    _check_nodes(arcs, nodes)
    size = 0
    for k in range(len(nodes)):
        size += arcs.upper[nodes[k]] if upper else arcs.count[nodes[k]]
    kept = size if contacts else 0
    ends = np.empty(size, np.int32), np.empty(size, np.int32)
    listed = *ends, np.empty(size, np.int64), np.empty(kept), np.empty(kept, np.float32)
    owner, other, weight, last, count_at_last = listed
    at = 0
    with cython.nogil:
        for k in range(len(nodes)):
            base = arcs.start[nodes[k]]
            for i in range(arcs.upper[nodes[k]] if upper else arcs.count[nodes[k]]):
                owner[at] = nodes[k]
                other[at] = arcs.others[base + i]
                weight[at] = arcs.weights[base + i]
                if contacts:
                    last[at] = arcs.times[base + i]
                    count_at_last[at] = arcs.counts[base + i]
                at += 1
    return listed


def pool_of_all(arcs: ArcArrays) -> int:
    """Return the pool that all arcs need if every block is as small as possible."""
    total = 0
    for node in range(len(arcs.count)):
        if arcs.count[node] > 0:
            total += _block_size(arcs.count[node])
    return total


def copy_blocks(arcs: ArcArrays, other: ArcArrays) -> None:
    """Copy every block to another holder's empty pool, without gaps, as small as possible."""
    with cython.nogil:
        for node in range(len(arcs.count)):
            size = _block_size(arcs.count[node]) if arcs.count[node] > 0 else 0
            if size > 0:
                base = _take_block(other, size)
                _copy_block(arcs, node, other, base)
                other.start[node] = base
            other.capacity[node] = size
