"""The loops of the exact rule, and nothing else. All sums are int64, all messages int32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel

if TYPE_CHECKING:
    from dygcn.records import Int8, Int32, Int64, Integer, Nodes


@inlined
def mean(total: Integer, inverse: float) -> Integer:
    """M = round(s / deg), the one place where a sum becomes a message; `inverse` is 1 / deg.

    A product and a rounding in IEEE double precision: the same bits on every machine, and never
    outside the range of what was averaged.
    """
    return np.int32(np.rint(np.float64(total) * inverse))


@inlined
def inverse_of(degree: Integer) -> float:
    """Return 1 / deg, and 0 for a node that has no neighbour with a message."""
    return 1.0 / np.float64(degree) if degree > 0 else 0.0


@kernel
def messages(nodes: Nodes, sums: Int64, degree: Int64) -> tuple[Int32, Int64]:
    """Return the messages of nodes, zero where there is none, and who has one."""
    width = sums.shape[1]
    rows = np.empty((len(nodes), width), np.int32)
    has = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        node = nodes[i]
        inverse = inverse_of(degree[node])
        has[i] = 1 if degree[node] > 0 else 0
        for j in range(width):
            rows[i, j] = mean(sums[node, j], inverse)
    return rows, has


@kernel
def contributions(
    senders: Nodes,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int32,
    arc_receiver: Nodes,
    arc_row: Int32,
    arc_change: Int32,
    place: Int32,
) -> tuple[Nodes, Int64, Int32, Int32]:
    """List what each receiver has to add, grouped so that its row is touched once.

    Row r < len(senders) is the change of that sender's message, times the weight of the arc now. Row
    len(senders) + r is the old message of a changed arc's sender, times the change of its weight.
    `place` holds -1 everywhere, before and after.
    """
    changed = len(senders)
    total = len(arc_receiver)
    for sender in senders:
        total += count[sender]
    at = np.empty(total, np.int32)
    row = np.empty(total, np.int32)
    factor = np.empty(total, np.int32)
    receivers = np.empty(total, np.int32)
    found = 0
    n = 0
    for r in range(changed):
        for i in range(start[senders[r]], start[senders[r]] + count[senders[r]]):
            v = others[i]
            if place[v] < 0:
                place[v] = found
                receivers[found] = v
                found += 1
            at[n] = place[v]
            row[n] = r
            factor[n] = abs(weights[i])
            n += 1
    for a in range(len(arc_receiver)):
        v = arc_receiver[a]
        if place[v] < 0:
            place[v] = found
            receivers[found] = v
            found += 1
        at[n] = place[v]
        row[n] = changed + arc_row[a]
        factor[n] = arc_change[a]
        n += 1
    first = np.zeros(found + 1, np.int64)
    for i in range(n):
        first[at[i] + 1] += 1
    for i in range(found):
        first[i + 1] += first[i]
        place[receivers[i]] = -1
    sorted_row = np.empty(n, np.int32)
    sorted_factor = np.empty(n, np.int32)
    cursor = first.copy()
    for i in range(n):
        to = cursor[at[i]]
        cursor[at[i]] += 1
        sorted_row[to] = row[i]
        sorted_factor[to] = factor[i]
    return receivers[:found], first, sorted_row, sorted_factor


@kernel
def _add_row(total: Int64, rows: Int32, row: Integer, weight: Integer) -> None:
    """Its own function: inside a larger loop the compiler gives up vectorising it."""
    for j in range(total.shape[0]):
        total[j] += weight * np.int64(rows[row, j])


@kernel
def _differ(before: Int64, inverse_before: float, now: Int64, inverse_now: float) -> bool:
    for j in range(len(now)):  # noqa: SIM110 - numba compiles this, not any()
        if mean(before[j], inverse_before) != mean(now[j], inverse_now):
            return True
    return False


@kernel
def _difference(before: Int64, inverse_before: float, now: Int64, inverse_now: float, out: Int32) -> bool:
    bits = np.int32(0)
    for j in range(len(now)):
        out[j] = mean(now[j], inverse_now) - mean(before[j], inverse_before)
        bits |= out[j]
    return bool(bits != 0)


@kernel
def add_up(
    receivers: Nodes,
    first: Int64,
    row: Int32,
    factor: Int32,
    change: Int32,
    change_has: Int64,
    old: Int32,
    old_has: Int64,
    sums: Int64,
    degree: Int64,
    last: bool,
) -> tuple[Nodes, Int32, Int64]:
    """Add to each receiver's sum and degree; return whose message moved, by how much, and who has one.

    For the last order nobody will ask by how much, so only the first difference is looked for.
    """
    width = sums.shape[1]
    changed = len(change)
    moved = np.empty(len(receivers), np.int32)
    delta = np.empty((0 if last else len(receivers), width), np.int32)
    delta_has = np.empty(len(receivers), np.int64)
    before = np.empty(width, np.int64)
    n = 0
    for i in range(len(receivers)):
        v = receivers[i]
        total = sums[v]
        for j in range(width):
            before[j] = total[j]
        degree_before = degree[v]
        degree_now = degree_before
        for c in range(first[i], first[i + 1]):
            w = np.int64(factor[c])
            r = row[c]
            if r < changed:
                degree_now += w * change_has[r]
                _add_row(total, change, r, w)
            else:
                degree_now += w * old_has[r - changed]
                _add_row(total, old, r - changed, w)
        degree[v] = degree_now
        inverse_before, inverse_now = inverse_of(degree_before), inverse_of(degree_now)
        delta_has[n] = (1 if degree_now > 0 else 0) - (1 if degree_before > 0 else 0)
        if last:
            differs = _differ(before, inverse_before, total, inverse_now)
        else:
            differs = _difference(before, inverse_before, total, inverse_now, delta[n])
        if differs or delta_has[n] != 0:
            moved[n] = v
            n += 1
    return moved[:n], delta[:n], delta_has[:n]


@kernel
def sum_neighbours(
    nodes: Nodes,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int32,
    message: Int32,
    has: Int64,
    sums: Int64,
    degree: Int64,
) -> None:
    """Write sum and degree of nodes from nothing: `message` and `has` hold a row for every node."""
    for v in nodes:
        total = sums[v]
        total[:] = 0
        d = np.int64(0)
        for i in range(start[v], start[v] + count[v]):
            u = others[i]
            w = np.int64(abs(weights[i]))
            d += w * has[u]
            if has[u] != 0:
                _add_row(total, message, u, w)
        degree[v] = d


@kernel
def note_orders(nodes: Nodes, order: int, seen: Int8, out: Nodes, out_orders: Int8, n: int) -> int:
    """Append the nodes that no lower order moved; return how many there are now."""
    for node in nodes:
        if seen[node] == 0:
            seen[node] = 1
            out[n] = node
            out_orders[n] = order
            n += 1
    return n
