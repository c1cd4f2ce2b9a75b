"""Who has to add what: the pushes of one order, grouped so that each receiver's row is touched once.

Loops over lists of neighbours and random places of large arrays, so they ask for what they need some rounds
ahead. Nothing here writes to the state: an order can be gathered again, with more room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import CHECKED, inlined, kernel, prefetch

if TYPE_CHECKING:
    from dygcn.propagation.room import Work
    from dygcn.records import Int8, Int32, Int64, Integer, Nodes

NEAR, FAR = 8, 16  # rounds ahead
EAGER = 32  # senders; of fewer everything that will be needed is asked for at once
BLOCK = 6  # nodes 0..63, 64..127 and so on: all of a block belong to one part


@inlined
def in_units(weight: Integer, shift: int) -> Integer:
    """Return a weight in units of ``2**shift``, of which every weight is a multiple."""
    units = weight >> shift
    if CHECKED and units << shift != weight:
        raise AssertionError("a shift lost bits of a weight")
    return units


@kernel
def distinct_rows(nodes: Nodes, place: Int32) -> tuple[Nodes, Int32]:
    """Return the nodes, each once, and which of these each was. `place` holds -1 before and after."""
    found = np.empty(len(nodes), np.int32)
    row = np.empty(len(nodes), np.int32)
    n = 0
    for i in range(len(nodes)):
        if place[nodes[i]] < 0:
            place[nodes[i]] = n
            found[n] = nodes[i]
            n += 1
        row[i] = place[nodes[i]]
    for node in found[:n]:
        place[node] = -1
    return found[:n], row


@kernel
def count_pushes(senders: Nodes, count: Int32) -> int:
    """Return how many rows the senders reach, some of them more than once."""
    total = 0
    for i in range(len(senders)):
        if i + FAR < len(senders):
            prefetch(count, senders[i + FAR])
        total += count[senders[i]]
    return total


@kernel
def _list_pushes(
    senders: Nodes,
    sender_row: Int32,
    arc_receiver: Nodes,
    arc_row: Int32,
    arc_change: Int64,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int64,
    shift: int,
    part: int,
    parts: int,
    node: Int32,
    row: Int32,
    factor: Int64,
    eager: bool,
    place: Int32,
    degree: Int64,
    slot: Int32,
) -> int:
    """List receiver, row and factor of every push to this part of the nodes; return how many there are."""
    n = 0
    for r in range(len(senders)):
        if r + FAR < len(senders):
            prefetch(start, senders[r + FAR])
            prefetch(count, senders[r + FAR])
        if r + NEAR < len(senders):
            prefetch(others, start[senders[r + NEAR]])
            prefetch(weights, start[senders[r + NEAR]])
        base = start[senders[r]]
        for i in range(base, base + count[senders[r]]):
            v = others[i]
            if parts == 1 or (v >> BLOCK) % parts == part:
                node[n] = v
                row[n] = sender_row[r]
                factor[n] = in_units(abs(weights[i]), shift)
                n += 1
                if eager:
                    prefetch(place, v)
                    prefetch(degree, v)
                    prefetch(slot, v)
    for a in range(len(arc_receiver)):
        v = arc_receiver[a]
        if parts == 1 or (v >> BLOCK) % parts == part:
            node[n] = v
            row[n] = arc_row[a]
            factor[n] = in_units(arc_change[a], shift)
            n += 1
    return n


@kernel
def _group(
    n: int,
    node: Int32,
    row: Int32,
    factor: Int64,
    receivers: Nodes,
    first: Int32,
    sorted_row: Int32,
    sorted_factor: Int64,
    place: Int32,
) -> int:
    """Sort pushes by receiver, receivers in the order of their first mention; return how many there are.

    `place` holds -1 everywhere, before and after.
    """
    found = 0
    for i in range(n):
        if i + FAR < n:
            prefetch(place, node[i + FAR])
        v = node[i]
        at = place[v]
        if at < 0:
            at = found
            place[v] = at
            receivers[at] = v
            first[at] = 0
            found += 1
        node[i] = at
        first[at] += 1
    total = 0
    for i in range(found):
        size = first[i]
        first[i] = total
        total += size
        place[receivers[i]] = -1
    first[found] = total
    for i in range(n):
        if i + FAR < n:
            prefetch(sorted_row, first[node[i + FAR]])
            prefetch(sorted_factor, first[node[i + FAR]])
        to = first[node[i]]
        first[node[i]] += 1
        sorted_row[to] = row[i]
        sorted_factor[to] = factor[i]
    for i in range(found, 0, -1):
        first[i] = first[i - 1]
    first[0] = 0
    return found


@kernel
def _degrees(
    found: int,
    receivers: Nodes,
    first: Int32,
    row: Int32,
    factor: Int64,
    shift: int,
    has: Int64,
    degree: Int64,
    slot: Int32,
    limit: int,
    before: Int64,
    after: Int64,
    slots: Int32,
    movers: Int32,
) -> int:
    """Note degrees before and after, and where rows lie; return how many lie in the wrong place for them."""
    moving = 0
    for i in range(found):
        if i + FAR < found:
            prefetch(degree, receivers[i + FAR])
            prefetch(slot, receivers[i + FAR])
        v = receivers[i]
        now = degree[v]
        before[i] = now
        for c in range(first[i], first[i + 1]):
            now += (factor[c] << shift) * has[row[c]]
        after[i] = now
        at = slot[v]
        slots[i] = at
        top = max(before[i], now)
        if (at < 0 and top >= limit) or (at >= 0 and 2 * top < limit):
            movers[moving] = i
            moving += 1
    return moving


@kernel
def gather(
    senders: Nodes,
    sender_row: Int32,
    arcs: tuple[Nodes, Int32, Int64],
    lists: tuple[Int64, Int32, Int32, Int64],
    shift: int,
    part: int,
    parts: int,
    has: Int64,
    degree: Int64,
    slot: Int32,
    limit: int,
    place: Int32,
    work: Work,
) -> tuple[int, int, int]:
    """Gather one order: what each receiver of this part of the nodes has to add, and its degree.

    The rows that will be added stand in one table: the old messages of changed arcs' senders (`arcs` says
    which), taken times the change of the weight, and the change of each sender's message (`sender_row`),
    taken times the weight of the arc now. Factors are in units of ``2**shift``.

    Returns
    -------
    tuple
        How many receivers, pushes and misplaced rows there are; the arrays of `work` hold them.
    """
    node, row, factor, receivers, first, sorted_row, sorted_factor, before, after, slots, movers = work
    arc_receiver, arc_row, arc_change = arcs
    start, count, others, weights = lists
    eager = parts == 1 and len(senders) < EAGER
    n = _list_pushes(
        senders,
        sender_row,
        arc_receiver,
        arc_row,
        arc_change,
        start,
        count,
        others,
        weights,
        shift,
        part,
        parts,
        node,
        row,
        factor,
        eager,
        place,
        degree,
        slot,
    )
    found = _group(n, node, row, factor, receivers, first, sorted_row, sorted_factor, place)
    moving = _degrees(
        found,
        receivers,
        first,
        sorted_row,
        sorted_factor,
        shift,
        has,
        degree,
        slot,
        limit,
        before,
        after,
        slots,
        movers,
    )
    return found, n, moving


@kernel
def note_orders(nodes: Nodes, order: int, seen: Int8, out: Nodes, out_orders: Int8, n: int) -> int:
    """Append the nodes that no lower order moved; return how many there are now."""
    for i in range(len(nodes)):
        if i + FAR < len(nodes):
            prefetch(seen, nodes[i + FAR])
        node = nodes[i]
        if seen[node] == 0:
            seen[node] = 1
            out[n] = node
            out_orders[n] = order
            n += 1
    return n
