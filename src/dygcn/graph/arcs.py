"""The loops of the adjacency: finding, making room for, and writing arcs.

`arcs` is always `Adjacency.arrays`: where each node's block starts, how many arcs it has and how many fit,
the other ends and stored weights of all blocks, who is a hub, room for counting, free blocks by size, the
end of the pool, the table of the hubs' arcs, and last contacts and counts beside the weights, where they are
kept. No function that is called for each arc takes these: handing over arrays counts references, which costs
more than the arc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dygcn._jit import inlined, kernel, page, prefetch
from dygcn.graph.pairs import pair_drop, pair_find, pair_home, pair_key, pair_put
from dygcn.records import Float32, Float64, Int8, Int32, Int64

if TYPE_CHECKING:
    from dygcn.records import Integer, Nodes

Arcs: TypeAlias = tuple[
    Int64, Int32, Int32, Int32, Int64, Int8, Int32, Int64, Int64, Int64, Int32, Int64, Float64, Float32
]
FEW = 64  # up to here a node's arcs are scanned
SMALLEST_BLOCK = 4
NEAR, FAR = 8, 16  # rounds ahead


@kernel
def open_arcs(pages: Int64) -> Arcs:
    """Return the arrays of `Adjacency.book`."""
    return (
        page(pages, 0, np.int64),
        page(pages, 1, np.int32),
        page(pages, 2, np.int32),
        page(pages, 3, np.int32),
        page(pages, 4, np.int64),
        page(pages, 5, np.int8),
        page(pages, 6, np.int32),
        page(pages, 7, np.int64),
        page(pages, 8, np.int64),
        page(pages, 9, np.int64),
        page(pages, 10, np.int32),
        page(pages, 11, np.int64),
        page(pages, 12, np.float64),
        page(pages, 13, np.float32),
    )


@kernel
def _scan(others: Int32, base: int, count: int, other: int) -> int:
    for i in range(count):
        if others[base + i] == other:
            return i
    return -1


@kernel
def _seek(keys: Int64, slots: Int32, used: Int64, key: Integer) -> int:
    at = pair_find(keys, used, key)
    return int(slots[at]) if at >= 0 else -1


@kernel
def look_up(
    n: int, nodes: Nodes, other: Nodes, arcs: Arcs, found: Int64, last: Float64, count_at_last: Float32
) -> None:
    """Write the stored weight of each of n arcs, 0 where there is none, and (unless empty) its contacts."""
    start, count, _, others, weights, hub, _, _, _, keys, slots, used, times, counts = arcs
    for i in range(n):
        if i + FAR < n:
            prefetch(start, nodes[i + FAR])
            prefetch(count, nodes[i + FAR])
            prefetch(hub, nodes[i + FAR])
        if i + NEAR < n:
            near = nodes[i + NEAR]
            if hub[near]:
                prefetch(keys, pair_home(pair_key(near, other[i + NEAR]), len(keys) - 1, used[1], used[2]))
            else:
                prefetch(others, start[near])
        node = nodes[i]
        if hub[node]:
            slot = _seek(keys, slots, used, pair_key(node, other[i]))
        else:
            slot = _scan(others, start[node], count[node], other[i])
        found[i] = weights[start[node] + slot] if slot >= 0 else 0
        if len(last) > 0:
            last[i] = times[start[node] + slot] if slot >= 0 else -np.inf
            count_at_last[i] = counts[start[node] + slot] if slot >= 0 else 0.0


@kernel
def set_contacts(
    n: int, nodes: Nodes, other: Nodes, new: Int64, last: Float64, count_at_last: Float32, arcs: Arcs
) -> None:
    """Write the contacts of those of n arcs that are there (whose weight is not 0)."""
    start, count, _, others, _, hub, _, _, _, keys, slots, used, times, counts = arcs
    for i in range(n):
        if new[i] == 0:
            continue
        node = nodes[i]
        if hub[node]:
            slot = _seek(keys, slots, used, pair_key(node, other[i]))
        else:
            slot = _scan(others, start[node], count[node], other[i])
        times[start[node] + slot] = last[i]
        counts[start[node] + slot] = count_at_last[i]


@inlined
def _block_size(total: int) -> int:
    size = SMALLEST_BLOCK
    while size < total:
        size *= 2
    return size


@kernel
def count_new(n: int, nodes: Nodes, new: Int64, arcs: Arcs) -> None:
    """Count the arcs that each node may gain, in its place of `extra`."""
    extra = arcs[6]
    for i in range(n):
        if new[i] != 0:
            extra[nodes[i]] += 1


@kernel
def needs(n: int, nodes: Nodes, arcs: Arcs) -> tuple[int, int]:
    """Return how much pool and how many table entries the counted arcs can take.

    A node that was looked at has minus its count in `extra`, so that it is looked at once.
    """
    _, count, room, _, _, hub, extra, _, _, _, _, _, _, _ = arcs
    pool, table = 0, 0
    for i in range(n):
        node = nodes[i]
        if extra[node] > 0:
            total = count[node] + extra[node]
            if total > room[node]:
                pool += _block_size(total)
            if total > FEW:
                table += extra[node] if hub[node] else total
            extra[node] = -extra[node]
    return pool, table


@kernel
def forget_needs(n: int, nodes: Nodes, arcs: Arcs) -> None:
    """Set the counts back to zero."""
    extra = arcs[6]
    for i in range(n):
        extra[nodes[i]] = 0


@kernel
def fits(pool: int, table: int, arcs: Arcs) -> bool:
    """Say whether there is so much pool and so many table entries."""
    others, weights, tail, keys, used = arcs[3], arcs[4], arcs[8], arcs[9], arcs[11]
    there = min(len(others), len(weights))  # large arrays grow by less, so one may be longer than the other
    if len(arcs[12]) > 0:
        there = min(there, len(arcs[12]), len(arcs[13]))
    return bool(tail[0] + pool <= there and 3 * (used[0] + table) // 2 <= len(keys))


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


@kernel
def reserve(n: int, nodes: Nodes, arcs: Arcs) -> None:
    """Give each node the block that it may need at the end of the batch; `extra` is zero after it."""
    start, count, room, others, weights, _, extra, heads, tail, _, _, _, times, counts = arcs
    for k in range(n):
        node = nodes[k]
        total = count[node] - extra[node]
        if extra[node] < 0 and total > room[node]:
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
            if len(times) > 0:
                for i in range(count[node]):
                    times[base + i] = times[old + i]
                    counts[base + i] = counts[old + i]
            if room[node] > 0:
                _give_back(old, room[node], others, heads)
            start[node] = base
            room[node] = size
        extra[node] = 0


@kernel
def write(n: int, nodes: Nodes, other: Nodes, new: Int64, arcs: Arcs) -> None:
    """Set the stored weight of each of n arcs: insert, replace, or delete where it is 0. There is room.

    Blocks that are empty now stay with their nodes until `give_back_empty`: inside the batch a node may need
    its block again.
    """
    start, count, _, others, weights, hub, _, _, _, keys, slots, used, times, counts = arcs
    for i in range(n):
        if i + FAR < n:
            prefetch(start, nodes[i + FAR])
            prefetch(count, nodes[i + FAR])
            prefetch(hub, nodes[i + FAR])
        if i + NEAR < n:
            near = nodes[i + NEAR]
            if hub[near]:
                prefetch(keys, pair_home(pair_key(near, other[i + NEAR]), len(keys) - 1, used[1], used[2]))
            else:
                prefetch(others, start[near])
        node = nodes[i]
        if hub[node]:
            slot = _seek(keys, slots, used, pair_key(node, other[i]))
        else:
            slot = _scan(others, start[node], count[node], other[i])
        if slot >= 0 and new[i] != 0:
            weights[start[node] + slot] = new[i]
        elif slot >= 0:
            last = count[node] - 1
            base = start[node]
            moved = others[base + last]
            others[base + slot] = moved
            weights[base + slot] = weights[base + last]
            if len(times) > 0:
                times[base + slot] = times[base + last]
                counts[base + slot] = counts[base + last]
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


@kernel
def give_back_empty(n: int, nodes: Nodes, arcs: Arcs) -> None:
    """Give back the blocks of nodes without an arc."""
    start, count, room, others, _, _, _, heads, _, _, _, _, _, _ = arcs
    for i in range(n):
        node = nodes[i]
        if count[node] == 0 and room[node] > 0:
            _give_back(start[node], room[node], others, heads)
            room[node] = 0


@kernel
def pool_of_all(count: Int32) -> int:
    """Return how much pool all arcs take if no block is larger than it need be."""
    total = 0
    for node in range(len(count)):
        if count[node] > 0:
            total += _block_size(count[node])
    return total


@kernel
def move_all(
    start: Int64,
    count: Int32,
    room: Int32,
    others: Int32,
    weights: Int64,
    times: Float64,
    counts: Float32,
    new_others: Int32,
    new_weights: Int64,
    new_times: Float64,
    new_counts: Float32,
) -> None:
    """Move every block to another pool, one after the other in the order of nodes, as small as can be."""
    base = 0
    for node in range(len(count)):
        if count[node] == 0:
            room[node] = 0
            continue
        for i in range(count[node]):
            new_others[base + i] = others[start[node] + i]
            new_weights[base + i] = weights[start[node] + i]
        if len(times) > 0:
            for i in range(count[node]):
                new_times[base + i] = times[start[node] + i]
                new_counts[base + i] = counts[start[node] + i]
        start[node] = base
        room[node] = _block_size(count[node])
        base += room[node]


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


@kernel
def list_contacts(
    nodes: Nodes, start: Int64, count: Int32, times: Float64, counts: Float32
) -> tuple[Float64, Float32]:
    """Return last contacts and counts of all arcs of the given nodes, in the order of `list_arcs`."""
    total = 0
    for node in nodes:
        total += count[node]
    last, count_at_last = np.empty(total, np.float64), np.empty(total, np.float32)
    at = 0
    for node in nodes:
        base = start[node]
        for i in range(count[node]):
            last[at] = times[base + i]
            count_at_last[at] = counts[base + i]
            at += 1
    return last, count_at_last
