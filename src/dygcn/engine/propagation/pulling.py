"""Loops over pulled messages: heavy nodes' messages, kept as rows, which readers add to stored sums.

Which messages are pulled, the order of the arcs in each block says (see `graph.tiers`).
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from dygcn.engine.propagation.outcomes import BUSY, CHANGED, NARROW
from dygcn.engine.records import Int32, Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._native import fence, load_64, prefetch_32, prefetch_64, store_64
    from dygcn.engine._rows import RowBlock, add_all, add_row, clear_row, copy_row, prefetch_row
    from dygcn.engine.graph.arcs import ArcArrays
    from dygcn.engine.graph.ticks import Ticks
    from dygcn.engine.propagation.gathering import MessageBuffer
    from dygcn.engine.propagation.sum_rows import SumRows, inverse_of, narrow_row, write_messages


AHEAD = 6  # rows
AT_ONCE = 256  # rows that are added in one call
NO_ROW = -1

HeavyArrays = namedtuple("HeavyArrays", "slot rows has free counts moved earlier", defaults=(None,))


class Earlier(Holder):
    """The previous version of each message, for readers in other processes, which are one change behind.

    Hubs move with nearly every event. A reader that had to find its hubs unmoved would try for ever.
    """

    # rows, has: What a message was before the change that `ticks` names.
    # since: The change that made it so.
    # ticks: The change that made each message what it is now.

    def __init__(self, rows: Int32, has: Int64, since: Int64, ticks: Ticks) -> None:
        self.arrays = rows, has, since, ticks
        self.rows, self.has, self.since, self.ticks = RowBlock(rows), has, since, ticks


class HeavyRows(Holder):
    """Messages of order 1 of heavy nodes."""

    # slot: For each node, which row is its own, or -1; empty: nobody is heavy.
    # rows, has: The messages, zero where there is none, and 1 where there is one.
    # free, counts: Rows that nobody has. How many rows were ever used, how many of them are free,
    #   how many messages the last update moved.
    # moved: Whose these are.
    # earlier: Where other processes read, the messages before these.

    def __init__(self, *arrays: Any) -> None:
        self.arrays = given = HeavyArrays(*arrays)
        self.slot, self.rows, self.has = given.slot, RowBlock(given.rows), given.has
        self.free, self.counts, self.moved = given.free, given.counts, given.moved
        self.earlier: Any = given.earlier


class PulledArcs(Holder):
    """The arcs over which each node pulls: `upper` of them, from `start`; other ends and weights."""

    def __init__(self, start: Int64, upper: Int32, others: Int32, weights: Int64) -> None:
        self.arrays = start, upper, others, weights
        self.start, self.upper, self.others, self.weights = start, upper, others, weights


class Pulls(Holder):
    """What a reader adds to the sums of the last order: arcs, messages, and the sums' unit."""

    # arcs: Whom each node pulls.
    # heavy: Their messages.
    # shift: Sums are in units of 2 to this.

    def __init__(self, arcs: PulledArcs, heavy: HeavyRows, shift: int) -> None:
        self.arrays = arcs, heavy, shift
        self.arcs, self.heavy, self.shift = arcs, heavy, shift


class Scratch:
    """Rows to sum up in, one of each width that the last order has, and a row to add."""

    def __init__(self, width: int) -> None:
        self.narrow = RowBlock(np.empty((1, width), np.int32))
        self.wide = RowBlock(np.empty((1, width), np.int64))
        self.row, self.factor = np.empty(AT_ONCE, np.int32), np.empty(AT_ONCE, np.int64)


def keep(heavy: HeavyRows, at: int) -> None:
    """Save the previous version of a message before its first write in a change, if others read."""
    if heavy.earlier is None:
        return
    last = heavy.earlier.ticks.stamps[at]
    if last == heavy.earlier.ticks.now[0]:
        return
    store_64(heavy.earlier.ticks.stamps, at, BUSY)
    fence()
    copy_row(heavy.rows, at, heavy.earlier.rows, at)
    heavy.earlier.has[at] = heavy.has[at]
    heavy.earlier.since[at] = last
    fence()
    store_64(heavy.earlier.ticks.stamps, at, heavy.earlier.ticks.now[0])
    fence()


def keep_all(heavy: HeavyRows, rows: Int32) -> None:
    """Save the previous versions of several messages; see `keep`."""
    with cython.nogil:
        for i in range(len(rows)):
            keep(heavy, rows[i])


def follow(heavy: HeavyRows, frontier: MessageBuffer, push: ArcArrays) -> None:
    """Update the messages of heavy nodes from the changes of a frontier.

    Those whose messages moved, and who have listeners still, are noted.
    """
    heavy.counts[2] = 0
    if len(heavy.slot) == 0:
        return
    for i in range(frontier.count):
        at = heavy.slot[frontier.nodes[i]]
        if at >= 0:
            keep(heavy, at)
            add_row(heavy.rows, at, frontier.table, frontier.row[i], 1)
            heavy.has[at] += frontier.has[frontier.row[i]]
            if push.count[frontier.nodes[i]] > 0:
                heavy.moved[heavy.counts[2]] = frontier.nodes[i]
                heavy.counts[2] += 1


def follow_frontier(heavy: HeavyRows, frontier: MessageBuffer, push: ArcArrays) -> None:
    """Do what `follow` does, for plain Python."""
    with cython.nogil:
        follow(heavy, frontier, push)


def _pulled_degree(arcs: PulledArcs, heavy: HeavyRows, node: int) -> int:
    """Return the total weight of a node's pulled neighbours that have a message."""
    start, degree = arcs.start[node], 0
    for i in range(start, start + arcs.upper[node]):
        at, weight = heavy.slot[arcs.others[i]], arcs.weights[i]
        prefetch_row(heavy.rows, at)
        degree += (weight if weight > 0 else -weight) * heavy.has[at]
    return degree


def _add_pulled(arcs: PulledArcs, heavy: HeavyRows, node: int, shift: int, out: RowBlock, to: int) -> None:
    start = arcs.start[node]
    for i in range(start, start + arcs.upper[node]):
        weight = arcs.weights[i]
        add_row(out, to, heavy.rows, heavy.slot[arcs.others[i]], (weight if weight > 0 else -weight) >> shift)


def write_whole(
    sums: SumRows, pulls: Pulls, nodes: Nodes, n: int, scratch: Scratch, out: RowBlock, has: Int64
) -> None:
    """Write complete messages of the last order, stored plus pulled parts; see `write_messages`."""
    first = 0
    for i in range(n + 1):
        if i + AHEAD < n:
            prefetch_32(pulls.arcs.upper, nodes[i + AHEAD])
            prefetch_64(pulls.arcs.start, nodes[i + AHEAD])
        if i < n and pulls.arcs.upper[nodes[i]] == 0:
            continue
        write_messages(sums, nodes[first:i], i - first, out, has, first)
        first = i + 1
        if i < n:
            degree = sums.degree[nodes[i]] + _pulled_degree(pulls.arcs, pulls.heavy, nodes[i])
            has[i] = 1 if degree > 0 else 0
            if degree <= 0:
                clear_row(out, i)
            elif sums.slot[nodes[i]] < 0 and degree < sums.limit:  # then a narrow row holds the whole, too
                _write_one(sums, pulls, nodes[i], degree, scratch, scratch.narrow, out, i)
            else:
                _write_one(sums, pulls, nodes[i], degree, scratch, scratch.wide, out, i)


def _write_one(
    sums: SumRows,
    pulls: Pulls,
    node: int,
    degree: int,
    scratch: Scratch,
    total: RowBlock,
    out: RowBlock,
    to: int,
) -> None:
    """Write the message of a node that pulls; `total` is the row of `scratch` to sum up in."""
    slot, scale = sums.slot[node], sums.scale * inverse_of(degree)
    clear_row(total, 0)
    if slot >= 0:
        add_row(total, 0, sums.wide, slot, 1)
    elif sums.limit > 0 and not (sums.pooled and slot == NARROW):
        add_row(total, 0, sums.narrow, narrow_row(slot, node), 1)
    start, stop = pulls.arcs.start[node], pulls.arcs.start[node] + pulls.arcs.upper[node]
    while start < stop:
        n = min(stop - start, AT_ONCE)
        for i in range(n):
            weight = pulls.arcs.weights[start + i]
            scratch.row[i] = pulls.heavy.slot[pulls.arcs.others[start + i]]
            scratch.factor[i] = (weight if weight > 0 else -weight) >> pulls.shift
        start += n
        # The row of before counts nothing, so that what moved is the whole message.
        into = to if start == stop else -1
        add_all(total, 0, pulls.heavy.rows, scratch.row, scratch.factor, 0, n, 0, 0.0, scale, out, into)


def put_whole(sums: SumRows, pulls: Pulls, nodes: Nodes, width: int) -> tuple[Int32, Int64]:
    """Return complete messages of the last order, (n, width), and 1 where there is one, (n,)."""
    rows, marks = np.empty((len(nodes), width), np.int32), np.empty(len(nodes), np.int64)
    out, has, scratch = RowBlock(rows), marks, Scratch(width)
    with cython.nogil:
        write_whole(sums, pulls, nodes, len(nodes), scratch, out, has)
    return rows, marks


def add_pulled(pulls: Pulls, nodes: Nodes, rows: Int64, degree: Int64) -> None:
    """Add what nodes pull to their rows and degrees, in integers: logical values."""
    out = RowBlock(rows)
    with cython.nogil:
        for i in range(len(nodes)):
            degree[i] += _pulled_degree(pulls.arcs, pulls.heavy, nodes[i])
            _add_pulled(pulls.arcs, pulls.heavy, nodes[i], 0, out, i)


# ---- for readers in other processes ------------------------------------------------------------------------


class PulledCopies:
    """Local copies of another process's arcs and messages, to read from."""

    # nodes, rows, width: How many nodes and messages the other process has places for; columns of a
    #   message.

    def __init__(self, nodes: int, rows: int, width: int) -> None:
        none, start, upper = np.empty(0, np.int32), np.zeros(nodes, np.int64), np.zeros(nodes, np.int32)
        self._nodes = start, upper
        held = np.arange(rows, dtype=np.int32), np.zeros((rows, width), np.int32), np.zeros(rows, np.int64)
        self.heavy = HeavyRows(*held, none, np.zeros(3, np.int64), none)
        self.since = np.full(rows, CHANGED)  # the change that made each message what was copied
        self.reserve(AT_ONCE)

    def reserve(self, arcs: int) -> None:
        """Grow to so many arcs."""
        self.arcs = PulledArcs(*self._nodes, np.empty(arcs, np.int32), np.empty(arcs, np.int64))

    def pulls(self, shift: int) -> Pulls:
        """Return the last copies, for `write_whole`."""
        return Pulls(self.arcs, self.heavy, shift)


def _copy_message(heavy: HeavyRows, at: int, tick: int, copies: PulledCopies) -> int:
    """Copy a message as of a change; return the change that wrote it, or `CHANGED`.

    A message that was copied before is not copied again.
    """
    stamp = load_64(heavy.earlier.ticks.stamps, at)
    fence()
    since = stamp
    if stamp > tick:
        since = heavy.earlier.since[at]
    if stamp == BUSY or since > tick:
        return CHANGED
    if copies.since[at] == since:
        return since
    copies.since[at] = CHANGED
    if stamp > tick:
        copy_row(heavy.earlier.rows, at, copies.heavy.rows, at)
        copies.heavy.has[at] = heavy.earlier.has[at]
    else:
        copy_row(heavy.rows, at, copies.heavy.rows, at)
        copies.heavy.has[at] = heavy.has[at]
    fence()
    if load_64(heavy.earlier.ticks.stamps, at) != stamp:
        return CHANGED
    copies.since[at] = since
    return since


def _copy_arcs(
    arcs: PulledArcs, heavy: HeavyRows, node: int, tick: int, copies: PulledCopies, used: int
) -> int:
    """Copy a node's pulled arcs and messages; return the latest change of these, or `CHANGED`.

    Another process may be writing: numbers are checked before they are used as positions.
    """
    latest, start, upper = 0, arcs.start[node], arcs.upper[node]
    end = start + upper
    if start < 0 or upper < 0 or end > len(arcs.others) or end > len(arcs.weights):
        return CHANGED
    if used + upper > len(copies.arcs.others):
        return CHANGED
    copies.arcs.start[node], copies.arcs.upper[node] = used, upper
    for i in range(upper):
        other = arcs.others[start + i]
        if other < 0 or other >= len(heavy.slot):
            return CHANGED
        at = heavy.slot[other]
        if at < 0 or at >= len(copies.since):
            return CHANGED
        since = _copy_message(heavy, at, tick, copies)
        if since == CHANGED:
            return CHANGED
        latest = max(latest, since)
        copies.arcs.others[used + i] = at
        copies.arcs.weights[used + i] = arcs.weights[start + i]
    return latest


def copy_pulled(
    arcs: PulledArcs, heavy: HeavyRows, nodes: Nodes, tick: int, copies: PulledCopies, latest: Int64
) -> bool:
    """Copy everything that nodes pull, as of a change; return False if it changed meanwhile.

    `latest` takes each node's last pulled change. The caller looks at stamps afterwards: arcs are those of
    now.
    """
    found, wanted = True, 0
    with cython.nogil:
        for i in range(len(nodes)):
            wanted += max(arcs.upper[nodes[i]], 0)
    if wanted > len(copies.arcs.others):
        copies.reserve(2 * wanted)
    with cython.nogil:
        used = 0
        for i in range(len(nodes)):
            latest[i] = _copy_arcs(arcs, heavy, nodes[i], tick, copies, used)
            if latest[i] == CHANGED:
                found = False
                break
            used += copies.arcs.upper[nodes[i]]
    return found
