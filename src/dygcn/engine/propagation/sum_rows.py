"""One order's rows of sums, for compiled loops; messages are computed from them.

Rows of nodes of small degree are narrow, and lie where the node does. Those of others are wide, and `slot`
says where they lie. Where narrow rows are pooled, `slot` says where these lie, too, in numbers below NARROW.
Sums may wrap around on the way and fit at the end.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from dygcn.engine.propagation.outcomes import NARROW
from dygcn.engine.records import Int32, Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._rows import RowBlock, add_row, clear_row, prefetch_row, write_message
    from dygcn.engine.graph.ticks import stamp


AHEAD = 6  # rows
SumArrays = namedtuple(
    "SumArrays",
    "degree slot narrow wide free counts scale limit ticks pooled holes partial",
    defaults=(False, np.empty(0, np.int32), False),
)


class SumRows(Holder):
    """Arrays of one order. They never grow or move: a larger holder replaces them."""

    # degree: For each node, the weights of the neighbours that have a message.
    # slot: For each node, which wide row is its own, or NARROW; where rows are pooled, NARROW says
    #   that it has none, and -2 - i that it has the narrow row i.
    # narrow, wide: Sums; `narrow` has no columns where all rows are wide.
    # free, counts: Wide rows that nobody has; how many wide rows were ever used, and how many of
    #   them are free; where rows are pooled, the same two of narrow rows.
    # scale: What a stored value is to be multiplied by.
    # limit: Rows of nodes whose degree is below this are narrow.
    # ticks: Stamps of nodes whose degree or row is written.
    # pooled, holes: Whether narrow rows lie where `slot` says, not where the node does; those that
    #   nobody has.
    # partial: Whether sums are of pushed messages alone: readers add the pulled ones.

    def __init__(self, *arrays: Any) -> None:
        self.arrays = given = SumArrays(*arrays)
        self.degree, self.slot, self.free, self.counts = given.degree, given.slot, given.free, given.counts
        self.narrow, self.wide = RowBlock(given.narrow), RowBlock(given.wide)
        self.scale, self.limit, self.ticks = given.scale, given.limit, given.ticks
        self.pooled, self.holes, self.partial = given.pooled, given.holes, given.partial


def inverse_of(degree: int) -> float:
    """Return 1 / deg; 0 for a node without a neighbour that has a message."""
    return 1.0 / float(degree) if degree > 0 else 0.0


def narrow_row(slot: int, node: int) -> int:
    """Return the index of a node's narrow row, given its slot."""
    return node if slot == NARROW else -2 - slot


def write_messages(sums: SumRows, nodes: Nodes, n: int, out: RowBlock, has: Int64, first: int = 0) -> None:
    """Write the messages of the first `n` nodes, zero if absent; and 1 where present.

    They are written to row `first` of `out` and those behind it.
    """
    for i in range(n):
        if i + AHEAD < n and sums.slot[nodes[i + AHEAD]] < (NARROW if sums.pooled else 0):
            prefetch_row(sums.narrow, narrow_row(sums.slot[nodes[i + AHEAD]], nodes[i + AHEAD]))
        v = nodes[i]
        at, degree = sums.slot[v], sums.degree[v]
        has[first + i] = 1 if degree > 0 else 0
        if degree <= 0:
            clear_row(out, first + i)
        elif at < 0:
            write_message(sums.narrow, narrow_row(at, v), sums.scale * inverse_of(degree), out, first + i)
        else:
            write_message(sums.wide, at, sums.scale * inverse_of(degree), out, first + i)


def messages_of(sums: SumRows, nodes: Nodes, width: int) -> tuple[Int32, Int64]:
    """Return the messages of nodes, (n, width), zero if absent; and 1 where present, (n,)."""
    rows, marks = np.empty((len(nodes), width), np.int32), np.empty(len(nodes), np.int64)
    out, has = RowBlock(rows), marks
    put_messages(sums, nodes, out, has)
    return rows, marks


def put_messages(sums: SumRows, nodes: Nodes, out: RowBlock, has: Int64) -> None:
    """Write the messages of nodes, and 1 where present; see `write_messages`."""
    with cython.nogil:
        write_messages(sums, nodes, len(nodes), out, has)


def count_moves(sums: SumRows, nodes: Nodes, degree: Int64) -> tuple[int, int]:
    """Return how many rows must become wide for these degrees, and how many need a pooled narrow row."""
    wide, narrow = 0, 0
    with cython.nogil:
        for i in range(len(nodes)):
            at = sums.slot[nodes[i]]
            if at < 0 and degree[i] >= sums.limit:
                wide += 1
            elif sums.pooled and (at == NARROW or (at >= 0 and 2 * degree[i] < sums.limit)):
                narrow += 1
    return wide, narrow


def place_rows(sums: SumRows, nodes: Nodes, degree: Int64) -> None:
    """Move rows to the width for their degree; back to narrow only well below the limit."""
    with cython.nogil:
        for i in range(len(nodes)):
            at = sums.slot[nodes[i]]
            if at < 0 and degree[i] >= sums.limit:
                _widen(sums, nodes[i])
            elif at >= 0 and 2 * degree[i] < sums.limit:
                _narrow(sums, nodes[i])
            elif at == NARROW and sums.pooled:
                _take_narrow(sums, nodes[i])


def drop_rows(sums: SumRows, nodes: Nodes) -> None:
    """Clear the rows of nodes and release them, where rows are pooled."""
    with cython.nogil:
        for i in range(len(nodes)):
            at = sums.slot[nodes[i]]
            if at >= 0:
                clear_row(sums.wide, at)
                _give_back(sums.free, sums.counts, 0, at)
            elif at != NARROW:
                clear_row(sums.narrow, -2 - at)
                _give_back(sums.holes, sums.counts, 2, -2 - at)
            sums.slot[nodes[i]] = NARROW
            sums.degree[nodes[i]] = 0


def _take_narrow(sums: SumRows, node: int) -> None:
    at = sums.counts[2]
    if sums.counts[3] > 0:
        sums.counts[3] -= 1
        at = sums.holes[sums.counts[3]]
    else:
        sums.counts[2] += 1
    sums.slot[node] = -2 - at


def _give_back(free: Int32, counts: Int64, kind: int, at: int) -> None:
    free[counts[kind + 1]] = at
    counts[kind + 1] += 1


def _widen(sums: SumRows, node: int) -> None:
    stamp(sums.ticks, node)
    was, at = sums.slot[node], sums.counts[0]
    if sums.counts[1] > 0:
        sums.counts[1] -= 1
        at = sums.free[sums.counts[1]]
    else:
        sums.counts[0] += 1
    sums.slot[node] = at
    if sums.limit > 0 and not (sums.pooled and was == NARROW):
        row = narrow_row(was, node)
        clear_row(sums.wide, at)
        add_row(sums.wide, at, sums.narrow, row, 1)
        clear_row(sums.narrow, row)
        if sums.pooled:
            _give_back(sums.holes, sums.counts, 2, row)


def _narrow(sums: SumRows, node: int) -> None:
    stamp(sums.ticks, node)
    at = sums.slot[node]
    sums.slot[node] = NARROW
    if sums.pooled:
        _take_narrow(sums, node)
    row = narrow_row(sums.slot[node], node)
    clear_row(sums.narrow, row)
    add_row(sums.narrow, row, sums.wide, at, 1)
    clear_row(sums.wide, at)
    _give_back(sums.free, sums.counts, 0, at)
