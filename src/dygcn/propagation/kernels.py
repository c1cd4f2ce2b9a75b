"""The loops of the exact rule, and nothing else. All sums are int64, all messages int32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel, prefetch_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.records import Int8, Int32, Int64, Integer, Nodes

AHEAD = 4  # rows


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
def write_messages(
    nodes: Nodes,
    degree: Int64,
    narrow: Int32,
    wide: Int64,
    slot: Int32,
    scale: float,
    rows: Int32,
    has: Int64,
) -> None:
    """Write the messages of nodes, zero where there is none, and who has one."""
    for i in range(len(nodes)):
        v = nodes[i]
        has[i] = 1 if degree[v] > 0 else 0
        inverse = scale * inverse_of(degree[v])
        if degree[v] <= 0:
            for j in range(rows.shape[1]):
                rows[i, j] = 0
        elif slot[v] < 0:
            _write_message(narrow[v], inverse, rows[i])
        else:
            _write_message(wide[slot[v]], inverse, rows[i])


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
def contributions(
    senders: Nodes,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int64,
    arc_receiver: Nodes,
    arc_row: Int32,
    arc_change: Int64,
    base: int,
    place: Int32,
) -> tuple[Nodes, Int64, Int32, Int64]:
    """List what each receiver has to add, grouped so that its row is touched once.

    The rows that will be added stand in one table: first the old messages of changed arcs' senders
    (`arc_row` says which), to be taken times the change of the weight; then, from `base` on, the change of
    each sender's message, to be taken times the weight of the arc now. `place` holds -1 everywhere, before
    and after.
    """
    total = len(arc_receiver)
    for sender in senders:
        total += count[sender]
    at = np.empty(total, np.int32)
    row = np.empty(total, np.int32)
    factor = np.empty(total, np.int64)
    receivers = np.empty(total, np.int32)
    found = 0
    n = 0
    for r in range(len(senders)):
        for i in range(start[senders[r]], start[senders[r]] + count[senders[r]]):
            v = others[i]
            if place[v] < 0:
                place[v] = found
                receivers[found] = v
                found += 1
            at[n] = place[v]
            row[n] = base + r
            factor[n] = abs(weights[i])
            n += 1
    for a in range(len(arc_receiver)):
        v = arc_receiver[a]
        if place[v] < 0:
            place[v] = found
            receivers[found] = v
            found += 1
        at[n] = place[v]
        row[n] = arc_row[a]
        factor[n] = arc_change[a]
        n += 1
    first = np.zeros(found + 1, np.int64)
    for i in range(n):
        first[at[i] + 1] += 1
    for i in range(found):
        first[i + 1] += first[i]
        place[receivers[i]] = -1
    sorted_row = np.empty(n, np.int32)
    sorted_factor = np.empty(n, np.int64)
    cursor = first.copy()
    for i in range(n):
        to = cursor[at[i]]
        cursor[at[i]] += 1
        sorted_row[to] = row[i]
        sorted_factor[to] = factor[i]
    return receivers[:found], first, sorted_row, sorted_factor


@kernel
def degrees_after(
    receivers: Nodes, first: Int64, row: Int32, factor: Int64, has: Int64, degree: Int64
) -> tuple[Int64, Int64]:
    """Return the degree of each receiver before and after, and write it."""
    before = np.empty(len(receivers), np.int64)
    after = np.empty(len(receivers), np.int64)
    for i in range(len(receivers)):
        before[i] = degree[receivers[i]]
    for i in range(len(receivers)):
        now = before[i]
        for c in range(first[i], first[i + 1]):
            now += factor[c] * has[row[c]]
        after[i] = now
        degree[receivers[i]] = now
    return before, after


@inlined
def _add_to(
    stored: Int32 | Int64,
    at: Integer,
    before: Int32 | Int64,
    start: Integer,
    stop: Integer,
    row: Int32,
    factor: Int64,
    table: Int32,
    shift: int,
    as_stored: Callable[[Integer], Integer],
) -> None:
    """Keep a row as it was and add to it. Modulo 2^32 on the way is fine where the end fits."""
    for j in range(stored.shape[1]):
        before[j] = stored[at, j]
    for c in range(start, stop):
        w = as_stored(factor[c] >> shift)
        r = row[c]
        for j in range(stored.shape[1]):
            stored[at, j] += w * table[r, j]


@inlined
def _has_moved(
    stored: Int32 | Int64, at: Integer, before: Int32 | Int64, was: float, now: float, out: Int32, n: int
) -> bool:
    """Say whether the message of a row differs; write by how much, if there is room to."""
    if len(out) == 0:  # the last order: nobody will ask by how much
        for j in range(stored.shape[1]):  # noqa: SIM110 - numba compiles this, not any()
            if mean(before[j], was) != mean(stored[at, j], now):
                return True
        return False
    bits = np.int32(0)
    for j in range(stored.shape[1]):
        d = np.int32(mean(stored[at, j], now) - mean(before[j], was))
        out[n, j] = d
        bits |= d
    return bool(bits != 0)


@kernel
def add_up(
    receivers: Nodes,
    slot: Int32,
    degree_before: Int64,
    degree_now: Int64,
    first: Int64,
    row: Int32,
    factor: Int64,
    table: Int32,
    narrow: Int32,
    wide: Int64,
    shift: int,
    scale: float,
    out: Int32,
) -> tuple[Nodes, Int64]:
    """Add to each receiver's sum; return whose message moved, and who gained or lost having one (+1, -1).

    `slot` says for each receiver where its row lies (see `sums`). `out` takes by how much messages moved, a
    row for each that did; it has no rows for the last order.
    """
    moved = np.empty(len(receivers), np.int32)
    delta_has = np.empty(len(receivers), np.int64)
    narrow_before = np.empty(wide.shape[1], np.int32)
    wide_before = np.empty(wide.shape[1], np.int64)
    n = 0
    for i in range(len(receivers)):
        if i + AHEAD < len(receivers):
            if slot[i + AHEAD] < 0:
                prefetch_row(narrow, receivers[i + AHEAD])
            else:
                prefetch_row(wide, slot[i + AHEAD])
        v, at, start, stop = receivers[i], slot[i], first[i], first[i + 1]
        was, now = scale * inverse_of(degree_before[i]), scale * inverse_of(degree_now[i])
        if at < 0:
            _add_to(narrow, v, narrow_before, start, stop, row, factor, table, shift, np.int32)
            differs = _has_moved(narrow, v, narrow_before, was, now, out, n)
        else:
            _add_to(wide, at, wide_before, start, stop, row, factor, table, shift, np.int64)
            differs = _has_moved(wide, at, wide_before, was, now, out, n)
        delta_has[n] = (1 if degree_now[i] > 0 else 0) - (1 if degree_before[i] > 0 else 0)
        if differs or delta_has[n] != 0:
            moved[n] = v
            n += 1
    return moved[:n], delta_has[:n]


@kernel
def _add_row(total: Int32 | Int64, rows: Int32, row: Integer, weight: Integer) -> None:
    """Its own function: inside a larger loop the compiler gives up vectorising it."""
    for j in range(total.shape[0]):
        total[j] += weight * rows[row, j]


@kernel
def sum_degrees(start: Int64, count: Int32, others: Int32, weights: Int64, has: Int64, degree: Int64) -> None:
    """Write the degree of every node: the weights of the neighbours that have a message."""
    for v in range(len(has)):
        d = np.int64(0)
        for i in range(start[v], start[v] + count[v]):
            d += abs(weights[i]) * has[others[i]]
        degree[v] = d


@kernel
def _sum_row(
    total: Int32 | Int64,
    start: Integer,
    stop: Integer,
    others: Int32,
    weights: Int64,
    message: Int32,
    weight_shift: int,
) -> None:
    for j in range(len(total)):
        total[j] = 0
    for i in range(start, stop):
        _add_row(total, message, others[i], abs(weights[i]) >> weight_shift)


@kernel
def sum_neighbours(
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int64,
    message: Int32,
    narrow: Int32,
    wide: Int64,
    slot: Int32,
    weight_shift: int,
) -> None:
    """Write the sum of every node from nothing; absent messages are zeros, all are in stored units."""
    for v in range(len(message)):
        stop = start[v] + count[v]
        if slot[v] >= 0:
            _sum_row(wide[slot[v]], start[v], stop, others, weights, message, weight_shift)
        elif narrow.shape[1] > 0:
            _sum_row(narrow[v], start[v], stop, others, weights, message, weight_shift)


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
