"""A small update in one call: the graph, then every order, without coming back to Python in between.

It is the same loops as of a large one (`graph.writing`, `kernels.order_at_once`), one after the other. Where
an order finds too little room, or rows in the wrong place, the call ends before it, and `spreading` goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import kernel, page, page_of_rows
from dygcn.features.walks import find_units
from dygcn.graph.writing import CAME, DONE, SIZES_PAGE, WENT, apply_events
from dygcn.propagation.gathering import distinct_rows, note_orders
from dygcn.propagation.kernels import order_at_once

if TYPE_CHECKING:
    from dygcn.records import Float64, Int8, Int32, Int64, Nodes, Stored

ALL_DONE, NOT_BEGUN = 0, -1


@kernel
def _first_order(
    arcs: Nodes,
    weights: Int64,
    came: Nodes,
    went: Nodes,
    key_book: Int64,
    seed: np.uint64,
    table_book: Int64,
    width: int,
    marks_book: Int64,
    reach_book: Int64,
) -> tuple[Nodes, Int32, Int64, Int8, Int64, int]:
    """Return what order 1 starts from: who sends, over which arcs, their features; and who was reached."""
    place, seen = page(marks_book, 0, np.int32), page(marks_book, 1, np.int8)
    n = len(arcs) // 2
    structural, row = distinct_rows(arcs[n:], place)
    for node in went:
        seen[node] = 1  # who left is told elsewhere
    noted = note_orders(came, 1, seen, page(reach_book, 0, np.int32), page(reach_book, 1, np.int8), 0)
    table, has = find_units(structural, key_book, seed, width, table_book)
    return structural, row, weights[n:] - weights[:n], table, has, noted


@kernel
def _take_reached(noted: int, went: Nodes, marks_book: Int64, reach_book: Int64) -> tuple[Nodes, Int8]:
    seen = page(marks_book, 1, np.int8)
    nodes = page(reach_book, 0, np.int32)[:noted].copy()
    orders = page(reach_book, 1, np.int8)[:noted].copy()
    for node in nodes:
        seen[node] = 0
    for node in went:
        seen[node] = 0
    return nodes, orders


@kernel
def _all_orders(
    changed: tuple[Nodes, Int32, Int64],
    structural: Nodes,
    table: Int8,
    has: Int64,
    noted: int,
    books: tuple[Int64, Int64],
    sums_books: Int64,
    bank_books: Int64,
    marks: tuple[Int64, Int64],
    shift: int,
    first_before: Stored,
    later_before: Stored,
    limits: Int64,
    scales: Float64,
) -> tuple[int, int, int, int]:
    """Do order after order; return the one that could not be done, or `ALL_DONE`, and how far it went.

    The first order is a case of its own, since its rows and its table have other types.
    """
    orders, nobody = len(limits), structural[:0]
    own = structural if orders > 1 else nobody
    bank = bank_books[2 if orders == 1 else 1]
    before = noted
    setting = shift, limits[0], scales[0], 1, noted
    first = sums_books[0], first_before, bank
    status, added, moved, noted = order_at_once(
        nobody, nobody, *changed, has, table, own, *books, *first, *marks, *setting
    )
    if status != DONE:
        return 1, 0, before, 0
    for order in range(2, orders + 1):
        senders, row = page(bank, 2, np.int32)[:moved], page(bank, 3, np.int32)[:moved]
        wave = page(bank, 1, np.int64), page_of_rows(bank, 0, np.int32)
        bank = bank_books[2 if order == orders else order % 2]
        own = structural if order < orders else nobody
        later = sums_books[order - 1], later_before, bank
        setting = shift, limits[order - 1], scales[order - 1], order, noted
        status, found, n, reached = order_at_once(
            senders, row, *changed, *wave, own, *books, *later, *marks, *setting
        )
        if status != DONE:
            return order, moved, noted, added
        moved, noted, added = n, reached, added + found
    return ALL_DONE, moved, noted, added


@kernel
def update_at_once(
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
    directed: bool,
    stay: bool,
    limit: int,
    half_life: float,
    room: Int64,
    pull_book: Int64,
    push_book: Int64,
    node_book: Int64,
    key_book: Int64,
    seed: np.uint64,
    table_book: Int64,
    work_book: Int64,
    sums_books: Int64,
    bank_books: Int64,
    marks_book: Int64,
    reach_book: Int64,
    first_before: Stored,
    later_before: Stored,
    shift: int,
    limits: Int64,
    scales: Float64,
) -> tuple[int, Nodes, Int64, Nodes, int, int, int, int, Nodes, Int8]:
    """Apply events to the graph and to every order of the state.

    Returns
    -------
    tuple
        What `apply_events` returned; the order that could not be done, or `ALL_DONE`, or `NOT_BEGUN` if
        newcomers need more room; how many messages moved in the order before it, how many nodes
        were reached and rows added to so far; and, if all is done, who was reached, and at which order.
    """
    width = len(first_before)
    status, arcs, weights, nodes = apply_events(
        src, dst, op, weight, t, directed, stay, limit, half_life, room, pull_book, push_book, node_book
    )
    none, nothing = np.empty(0, np.int32), np.empty(0, np.int8)
    if status != DONE:
        return status, arcs, weights, nodes, ALL_DONE, 0, 0, 0, none, nothing
    sizes = page(room, SIZES_PAGE, np.int64)
    came, went = nodes[1, : sizes[CAME]], nodes[2, : sizes[WENT]]
    if len(came) > page(reach_book, 0, np.int32).size:
        return status, arcs, weights, nodes, NOT_BEGUN, 0, 0, 0, none, nothing
    structural, row, change, table, has, noted = _first_order(
        arcs, weights, came, went, key_book, seed, table_book, width, marks_book, reach_book
    )
    changed = arcs[: len(arcs) // 2], row, change
    books = push_book, work_book
    marks = marks_book, reach_book
    order, moved, noted, added = _all_orders(
        changed,
        structural,
        table,
        has,
        noted,
        books,
        sums_books,
        bank_books,
        marks,
        shift,
        first_before,
        later_before,
        limits,
        scales,
    )
    if order != ALL_DONE:
        return DONE, arcs, weights, nodes, order, moved, noted, added, none, nothing
    reached_nodes, reached_orders = _take_reached(noted, went, marks_book, reach_book)
    return DONE, arcs, weights, nodes, ALL_DONE, moved, noted, added, reached_nodes, reached_orders
