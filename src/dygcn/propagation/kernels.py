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
def _write_message(stored: Int32 | Int64, inverse: float, out: Int32) -> None:
    for j in range(len(stored)):
        out[j] = mean(stored[j], inverse)


@kernel
def messages(
    nodes: Nodes, degree: Int64, narrow: Int32, wide: Int64, slot: Int32, scale: float
) -> tuple[Int32, Int64]:
    """Return the messages of nodes, zero where there is none, and who has one."""
    rows = np.zeros((len(nodes), wide.shape[1]), np.int32)
    has = np.zeros(len(nodes), np.int64)
    for i in range(len(nodes)):
        v = nodes[i]
        if degree[v] > 0:
            has[i] = 1
            inverse = scale * inverse_of(degree[v])
            if slot[v] < 0:
                _write_message(narrow[v], inverse, rows[i])
            else:
                _write_message(wide[slot[v]], inverse, rows[i])
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
def degrees_after(
    receivers: Nodes,
    first: Int64,
    row: Int32,
    factor: Int32,
    change_has: Int64,
    old_has: Int64,
    degree: Int64,
) -> tuple[Int64, Int64]:
    """Return the degree of each receiver before and after; write nothing yet."""
    before = np.empty(len(receivers), np.int64)
    after = np.empty(len(receivers), np.int64)
    changed = len(change_has)
    for i in range(len(receivers)):
        before[i] = degree[receivers[i]]
    for i in range(len(receivers)):
        now = before[i]
        for c in range(first[i], first[i + 1]):
            r = row[c]
            now += np.int64(factor[c]) * (change_has[r] if r < changed else old_has[r - changed])
        after[i] = now
    return before, after


@kernel
def _add_row(total: Int32 | Int64, rows: Int32, row: Integer, weight: Integer, shift: int) -> None:
    """Add a weighted message. Modulo 2^32 on the way is fine where the end fits.

    Its own function: inside a larger loop the compiler gives up vectorising it.
    """
    for j in range(total.shape[0]):
        total[j] += weight * (rows[row, j] >> shift)


@kernel
def _add_rows(
    total: Int32 | Int64,
    start: Integer,
    stop: Integer,
    row: Int32,
    factor: Int32,
    change: Int32,
    old: Int32,
    weight_shift: int,
    message_shift: int,
) -> None:
    changed = len(change)
    for c in range(start, stop):
        w = factor[c] >> weight_shift
        if row[c] < changed:
            _add_row(total, change, row[c], w, message_shift)
        else:
            _add_row(total, old, row[c] - changed, w, message_shift)


@kernel
def _differ(before: Int32 | Int64, inverse_before: float, now: Int32 | Int64, inverse_now: float) -> bool:
    for j in range(len(now)):  # noqa: SIM110 - numba compiles this, not any()
        if mean(before[j], inverse_before) != mean(now[j], inverse_now):
            return True
    return False


@kernel
def _difference(
    before: Int32 | Int64, inverse_before: float, now: Int32 | Int64, inverse_now: float, out: Int32
) -> bool:
    bits = np.int32(0)
    for j in range(len(now)):
        out[j] = mean(now[j], inverse_now) - mean(before[j], inverse_before)
        bits |= out[j]
    return bool(bits != 0)


@kernel
def _copy(source: Int32 | Int64, target: Int32 | Int64) -> None:
    for j in range(len(source)):
        target[j] = source[j]


@kernel
def add_up(
    receivers: Nodes,
    degree_before: Int64,
    degree_now: Int64,
    first: Int64,
    row: Int32,
    factor: Int32,
    change: Int32,
    old: Int32,
    degree: Int64,
    narrow: Int32,
    wide: Int64,
    slot: Int32,
    weight_shift: int,
    message_shift: int,
    scale: float,
    last: bool,
) -> tuple[Nodes, Int32, Int64]:
    """Add to each receiver's sum and degree; return whose message moved, by how much, and who has one.

    For the last order nobody will ask by how much, so only the first difference is looked for.
    """
    width = wide.shape[1]
    moved = np.empty(len(receivers), np.int32)
    delta = np.empty((1 if last else len(receivers), width), np.int32)
    delta_has = np.empty(len(receivers), np.int64)
    narrow_before = np.empty(width, np.int32)
    wide_before = np.empty(width, np.int64)
    n = 0
    for i in range(len(receivers)):
        v = receivers[i]
        degree[v] = degree_now[i]
        was = scale * inverse_of(degree_before[i])
        now = scale * inverse_of(degree_now[i])
        delta_has[n] = (1 if degree_now[i] > 0 else 0) - (1 if degree_before[i] > 0 else 0)
        row_of_delta = delta[0 if last else n]
        if slot[v] < 0:
            total = narrow[v]
            _copy(total, narrow_before)
            _add_rows(total, first[i], first[i + 1], row, factor, change, old, weight_shift, message_shift)
            if last:
                differs = _differ(narrow_before, was, total, now)
            else:
                differs = _difference(narrow_before, was, total, now, row_of_delta)
        else:
            large = wide[slot[v]]
            _copy(large, wide_before)
            _add_rows(large, first[i], first[i + 1], row, factor, change, old, weight_shift, message_shift)
            if last:
                differs = _differ(wide_before, was, large, now)
            else:
                differs = _difference(wide_before, was, large, now, row_of_delta)
        if differs or delta_has[n] != 0:
            moved[n] = v
            n += 1
    return moved[:n], delta[: 0 if last else n], delta_has[:n]


@kernel
def sum_degrees(start: Int64, count: Int32, others: Int32, weights: Int32, has: Int64, degree: Int64) -> None:
    """Write the degree of every node: the weights of the neighbours that have a message."""
    for v in range(len(has)):
        d = np.int64(0)
        for i in range(start[v], start[v] + count[v]):
            d += np.int64(abs(weights[i])) * has[others[i]]
        degree[v] = d


@kernel
def _sum_row(
    total: Int32 | Int64,
    start: Integer,
    stop: Integer,
    others: Int32,
    weights: Int32,
    message: Int32,
    weight_shift: int,
    message_shift: int,
) -> None:
    for j in range(len(total)):
        total[j] = 0
    for i in range(start, stop):
        _add_row(total, message, others[i], abs(weights[i]) >> weight_shift, message_shift)


@kernel
def sum_neighbours(
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int32,
    message: Int32,
    degree: Int64,
    narrow: Int32,
    wide: Int64,
    slot: Int32,
    weight_shift: int,
    message_shift: int,
) -> None:
    """Write the sum of every node from nothing; messages that are absent are rows of zeros."""
    for v in range(len(message)):
        stop = start[v] + count[v]
        if slot[v] >= 0:
            _sum_row(wide[slot[v]], start[v], stop, others, weights, message, weight_shift, message_shift)
        elif narrow.shape[1] > 0:
            _sum_row(narrow[v], start[v], stop, others, weights, message, weight_shift, message_shift)


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
