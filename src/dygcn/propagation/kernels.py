"""The loops of the exact rule over rows. Sums may wrap around on the way and fit at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel, page, page_of_rows, prefetch, prefetch_row
from dygcn.graph.arcs import open_arcs
from dygcn.propagation.gathering import count_pushes, gather, in_units, note_orders

if TYPE_CHECKING:
    from dygcn.propagation.room import Bank, Work
    from dygcn.records import Int8, Int32, Int64, Integer, Nodes, Stored

AHEAD = 6  # rows
CACHED = 1 << 18  # numbers; a table of more does not stay in the nearest cache
AT_ONCE = 96  # rows; no more are asked for before the first is needed
DONE, SMALL_WORK, SMALL_TABLE, MISPLACED = 0, 1, 2, 3  # what became of an order


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
def write_message(stored: Stored, at: Integer, inverse: float, out: Int32, to: Integer) -> None:
    """Write the message of one row of sums. Loops over columns are functions of their own: faster so."""
    for j in range(stored.shape[1]):
        out[to, j] = mean(stored[at, j], inverse)


@kernel
def add_row(stored: Stored, at: Integer, table: Stored, row: Integer, weight: Integer) -> None:
    """Add one row of the table, times a weight."""
    for j in range(stored.shape[1]):
        stored[at, j] += weight * table[row, j]


@kernel
def _differs(stored: Stored, at: Integer, before: Stored, was: float, now: float) -> bool:
    for j in range(stored.shape[1]):  # noqa: SIM110 - numba compiles this, not any()
        if mean(before[j], was) != mean(stored[at, j], now):
            return True
    return False


@kernel
def _write_difference(
    stored: Stored, at: Integer, before: Stored, was: float, now: float, out: Int32, to: Integer
) -> bool:
    """Write by how much a message moved, and say whether it did."""
    bits = np.int32(0)
    for j in range(stored.shape[1]):
        d = np.int32(mean(stored[at, j], now) - mean(before[j], was))
        out[to, j] = d
        bits |= d
    return bool(bits != 0)


@kernel
def _keep(stored: Stored, at: Integer, before: Stored) -> None:
    for j in range(stored.shape[1]):
        before[j] = stored[at, j]


@kernel
def write_messages(
    nodes: Nodes,
    degree: Int64,
    narrow: Stored,
    wide: Int64,
    slot: Int32,
    scale: float,
    rows: Int32,
    has: Int64,
) -> None:
    """Write the messages of nodes, zero where there is none, and who has one."""
    for i in range(len(nodes)):
        if i + AHEAD < len(nodes) and slot[nodes[i + AHEAD]] < 0:
            prefetch_row(narrow, nodes[i + AHEAD])
        v = nodes[i]
        has[i] = 1 if degree[v] > 0 else 0
        inverse = scale * inverse_of(degree[v])
        if degree[v] <= 0:
            rows[i, :] = 0
        elif slot[v] < 0:
            write_message(narrow, v, inverse, rows, i)
        else:
            write_message(wide, slot[v], inverse, rows, i)


@kernel
def _add_up_kind(
    is_wide: bool,
    stored: Stored,
    keep: Stored,
    found: int,
    work: Work,
    degree: Int64,
    scale: float,
    table: Stored,
    out: Int32,
    out_row: int,
    out_has: Int64,
    moved: Nodes,
    moved_row: Int32,
    n: int,
) -> int:
    """Add to the rows of one kind; return how many messages moved so far.

    One long loop on purpose: a function that is handed arrays for each row costs as much as the row.
    """
    _, _, _, receivers, first, row, factor, before, after, slots, _ = work
    last = len(out) == 0  # then nobody will ask by how much
    large = table.size > CACHED
    for i in range(found):
        near = min(i + AHEAD, found - 1)
        if (slots[near] >= 0) == is_wide:
            prefetch_row(stored, slots[near] if is_wide else receivers[near])
        if (slots[i] >= 0) != is_wide:
            continue
        at = slots[i] if is_wide else receivers[i]
        was, now = scale * inverse_of(before[i]), scale * inverse_of(after[i])
        degree[receivers[i]] = after[i]
        differs = False
        if last:  # the first column nearly always settles it
            old = np.int64(stored[at, 0])
            new = old
            for c in range(first[i], first[i + 1]):
                new += factor[c] * np.int64(table[row[c], 0])
            differs = mean(old, was) != mean(new, now)
        if not differs:
            _keep(stored, at, keep)
        for c in range(first[i], first[i + 1]):
            if large:
                prefetch_row(table, row[min(c + AHEAD, first[found] - 1)])
            add_row(stored, at, table, row[c], factor[c])
        if not last:
            differs = _write_difference(stored, at, keep, was, now, out, out_row + n)
        elif not differs:
            differs = _differs(stored, at, keep, was, now)
        gained = (1 if after[i] > 0 else 0) - (1 if before[i] > 0 else 0)
        if differs or gained != 0:
            moved[n] = receivers[i]
            moved_row[n] = out_row + n
            out_has[out_row + n] = gained
            n += 1
    return n


@kernel
def add_up(
    found: int,
    work: Work,
    degree: Int64,
    narrow: Stored,
    wide: Int64,
    scale: float,
    table: Stored,
    out: Int32,
    out_row: int,
    out_has: Int64,
    moved: Nodes,
    moved_row: Int32,
    narrow_before: Stored,
    wide_before: Int64,
) -> int:
    """Add to the row of each gathered receiver; return how many messages moved.

    `out` takes by how much, a row for each from `out_row` on; it has no rows for the last order. `out_has`
    takes who gained or lost having a message (+1, -1).
    """
    shared = work, degree, scale, table, out, out_row, out_has, moved, moved_row
    n = _add_up_kind(False, narrow, narrow_before, found, *shared, 0)
    return _add_up_kind(True, wide, wide_before, found, *shared, n)


@kernel
def finish_order(
    found: int,
    work: Work,
    sums: tuple[Int64, Int32, Stored, Int64, Stored, Int64],
    scale: float,
    table: Stored,
    structural: Nodes,
    bank: Bank,
    order: int,
    seen: Int8,
    reach: tuple[Nodes, Int8],
    noted: int,
) -> tuple[int, int]:
    """Write one gathered order; return how many messages moved and how many nodes the update has reached.

    Old messages of this order are taken first, before its sums are written: the next order needs them.
    """
    degree, slot, narrow, wide, narrow_before, wide_before = sums
    out, out_has, moved, moved_row = bank
    base = len(structural)
    write_messages(structural, degree, narrow, wide, slot, scale, out, out_has)
    n = add_up(
        found,
        work,
        degree,
        narrow,
        wide,
        scale,
        table,
        out,
        base,
        out_has,
        moved,
        moved_row,
        narrow_before,
        wide_before,
    )
    return n, note_orders(moved[:n], order, seen, reach[0], reach[1], noted)


@kernel
def _open_work(pages: Int64) -> Work:
    """Return the arrays of a book of `Room.works`."""
    return (
        page(pages, 0, np.int32),
        page(pages, 1, np.int32),
        page(pages, 2, np.int64),
        page(pages, 3, np.int32),
        page(pages, 4, np.int32),
        page(pages, 5, np.int32),
        page(pages, 6, np.int64),
        page(pages, 7, np.int64),
        page(pages, 8, np.int64),
        page(pages, 9, np.int32),
        page(pages, 10, np.int32),
    )


@kernel
def order_at_once(
    senders: Nodes,
    sender_row: Int32,
    arc_receiver: Nodes,
    arc_row: Int32,
    arc_change: Int64,
    has: Int64,
    table: Stored,
    structural: Nodes,
    lists_book: Int64,
    work_book: Int64,
    sums_book: Int64,
    narrow_before: Stored,
    bank_book: Int64,
    marks_book: Int64,
    reach_book: Int64,
    shift: int,
    limit: int,
    scale: float,
    order: int,
    noted: int,
) -> tuple[int, int, int, int]:
    """Gather and write one order in one call, or say what is in the way of it, having written nothing.

    Returns
    -------
    tuple
        `DONE`, how many receivers there were, how many of them moved, how many nodes were reached so far; or
        `SMALL_WORK` and `SMALL_TABLE` with the rows that are needed; or `MISPLACED` with the receivers and
        how many of their rows must be moved first.
    """
    start, count, _, others, weights, _, _, _, _, _, _, _, _, _ = open_arcs(lists_book)
    pushes = len(arc_receiver) + count_pushes(senders, count)
    work = _open_work(work_book)
    if pushes >= len(work[0]):
        return SMALL_WORK, pushes, 0, 0
    degree, slot = page(sums_book, 0, np.int64), page(sums_book, 1, np.int32)
    place, seen = page(marks_book, 0, np.int32), page(marks_book, 1, np.int8)
    arcs, lists = (arc_receiver, arc_row, arc_change), (start, count, others, weights)
    found, _, moving = gather(
        senders, sender_row, arcs, lists, shift, 0, 1, has, degree, slot, limit, place, work
    )
    bank = (
        page_of_rows(bank_book, 0, np.int32),
        page(bank_book, 1, np.int64),
        page(bank_book, 2, np.int32),
        page(bank_book, 3, np.int32),
    )
    reach = page(reach_book, 0, np.int32), page(reach_book, 1, np.int8)
    rows = len(structural) + found
    if rows > len(bank[1]) or noted + found > len(reach[0]):
        return SMALL_TABLE, rows, found, 0
    if moving > 0:
        return MISPLACED, found, moving, 0
    narrow = page_of_rows(sums_book, 2, narrow_before.dtype)
    if found <= AT_ONCE:
        for i in range(found):
            if work[9][i] < 0:
                prefetch_row(narrow, work[3][i])
            prefetch(seen, work[3][i])
    wide, wide_before = page_of_rows(sums_book, 3, np.int64), page(sums_book, 5, np.int64)
    sums = degree, slot, narrow, wide, narrow_before, wide_before
    n, noted = finish_order(found, work, sums, scale, table, structural, bank, order, seen, reach, noted)
    return DONE, found, n, noted


@kernel
def sum_degrees(
    low: int, high: int, start: Int64, count: Int32, others: Int32, weights: Int64, has: Int64, degree: Int64
) -> None:
    """Write the degree of nodes low..high - 1: the weights of the neighbours that have a message."""
    for v in range(low, high):
        d = np.int64(0)
        for i in range(start[v], start[v] + count[v]):
            d += abs(weights[i]) * has[others[i]]
        degree[v] = d


@kernel
def _sum_kind(
    is_wide: bool,
    stored: Stored,
    low: int,
    high: int,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int64,
    message: Stored,
    slot: Int32,
    shift: int,
) -> None:
    for v in range(low, high):
        if (slot[v] >= 0) != is_wide:
            continue
        at = slot[v] if is_wide else v
        stored[at, :] = 0
        stop = start[v] + count[v]
        for i in range(start[v], stop):
            prefetch_row(message, others[min(i + AHEAD, stop - 1)])
            add_row(stored, at, message, others[i], in_units(abs(weights[i]), shift))


@kernel
def sum_neighbours(
    low: int,
    high: int,
    start: Int64,
    count: Int32,
    others: Int32,
    weights: Int64,
    message: Stored,
    narrow: Stored,
    wide: Int64,
    slot: Int32,
    shift: int,
) -> None:
    """Write the sums of nodes low..high - 1 from nothing; absent messages are zeros, all in stored units."""
    shared = low, high, start, count, others, weights, message, slot, shift
    if narrow.shape[1] > 0:
        _sum_kind(False, narrow, *shared)
    _sum_kind(True, wide, *shared)
