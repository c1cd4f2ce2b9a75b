"""The pushes of one order, grouped by receiver so that each receiver's row is touched once.

Loops over lists of neighbours and random places of large arrays, so they ask for what they need some rounds
ahead. Nothing here writes to the state: an order can be gathered again, into larger buffers. No array that
loops hand to each other grows: a larger one is another object, and a running loop keeps its own.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from dygcn.engine.propagation.outcomes import NARROW, SPANS
from dygcn.engine.records import Int8, Int32, Int64, Nodes, Stored

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._native import prefetch_8, prefetch_32, prefetch_64
    from dygcn.engine._rows import RowBlock
    from dygcn.engine.graph.arcs import ArcArrays, is_upper
    from dygcn.engine.propagation.sum_rows import SumRows


NEAR, FAR = 8, 16  # rounds ahead
EAGER = 32  # senders; of fewer everything that will be needed is fetched at once
SPAN = 12  # a span has at least 2**12 nodes
MANY = 1 << 15  # pushes; fewer lie in a near cache anyway
BLOCK = 6  # nodes 0..63, 64..127 and so on: all of a block belong to one part


WorkArrays = namedtuple(
    "WorkArrays", "node row factor receivers first sorted_row sorted_factor before after slots movers spans"
)
MessageArrays = namedtuple("MessageArrays", "table has nodes row")
MarkArrays = namedtuple("MarkArrays", "place seen own")
ReachedArrays = namedtuple("ReachedArrays", "nodes orders")


class Work(Holder):
    """The output of `gather`: pushes as listed, then sorted by receiver."""

    # node, row, factor: Of each push: its receiver, the row of the table that is added, what it is
    #   taken times.
    # receivers, first: Each receiver once, and where its pushes begin; one more than there are
    #   receivers.
    # sorted_row, sorted_factor: Of each push, sorted.
    # before, after, slots: Of each receiver: degrees, and where its row lies.
    # movers: Which receivers have their row in the wrong place for their degree.
    # spans: Where the pushes to each span of the nodes begin, then where they end.
    # bits, found: A node's span is its number without so many low bits; how many receivers there are.
    # ahead: Up to this push rows are fetched ahead.

    def __init__(self, *arrays: Any) -> None:
        self.arrays = given = WorkArrays(*arrays)
        self.node, self.row, self.factor = given.node, given.row, given.factor
        self.receivers, self.first, self.spans = given.receivers, given.first, given.spans
        self.sorted_row, self.sorted_factor = given.sorted_row, given.sorted_factor
        self.before, self.after = given.before, given.after
        self.slots, self.movers = given.slots, given.movers
        self.bits, self.found, self.ahead = 31, 0, 0


class MessageBuffer(Holder):
    """The messages that one order passes to the next."""

    # table: Old messages of the senders of changed arcs, then the changes of messages; no rows:
    #   nobody asks.
    # has: For each row of the table: 1 where there is a message; +1, -1 or 0 for a change.
    # nodes, row: Whose message changed, and which row says by how much.
    # count: How many messages changed; `nodes` and `row` may be longer.

    def __init__(self, table: Stored, has: Int64, nodes: Nodes, row: Int32) -> None:
        self.arrays, self.count = MessageArrays(table, has, nodes, row), len(nodes)
        self.table, self.has, self.nodes, self.row = RowBlock(table), has, nodes, row


class ArcChanges(Holder):
    """The arcs that an update changed, for all orders."""

    # receiver, row, change: Of each arc: who aggregates, the row of the sender in every table, the
    #   change of the weight.
    # changed_senders: The senders, each once; their rows are the first of every table.
    # turned: The arcs weigh what they did, but are pushed where they were pulled, or the other way.

    def __init__(
        self, receiver: Nodes, row: Int32, change: Int64, senders: Nodes, turned: bool = False
    ) -> None:
        self.arrays = receiver, row, change, senders, turned
        self.receiver, self.row, self.change, self.changed_senders = receiver, row, change, senders
        self.turned = turned


class Arcs:
    """The arcs that all orders of an update share."""

    # changes, count: The arcs that changed, and how many these are.
    # senders: Their senders, each once.
    # pull, push: Who aggregates whom, and who is aggregated by whom.
    # shift: Every weight is a multiple of 2 to this.

    def __init__(
        self, changes: ArcChanges, count: int, senders: Nodes, pull: ArcArrays, push: ArcArrays, shift: int
    ) -> None:
        self.changes, self.count, self.changed_senders = changes, count, senders
        self.pull, self.push, self.shift = pull, push, shift


class Marks(Holder):
    """Marks of every node."""

    # place, seen: -1 and 0 between updates.
    # own: 1 for nodes that high orders add to, 0 for mirrors of other shards' nodes; empty: there
    #   are none.

    def __init__(self, place: Int32, seen: Int8, own: Int8) -> None:
        self.arrays = MarkArrays(place, seen, own)
        self.place, self.seen, self.own = place, seen, own


class ReachedNodes(Holder):
    """The nodes that an update changed, with their orders."""

    def __init__(self, nodes: Nodes, orders: Int8) -> None:
        self.arrays = ReachedArrays(nodes, orders)
        self.nodes, self.orders = nodes, orders


def in_units(weight: int, shift: int) -> int:
    """Return a weight in units of ``2**shift``, of which every weight is a multiple."""
    units = weight >> shift
    if not cython.compiled and units << shift != weight:
        raise AssertionError("a shift lost bits of a weight")
    return units


def is_mine(v: int, mine: int) -> bool:
    """Return whether node v is in a thread's part, given as 30 bits, one for each block of nodes.

    A division by the number of threads would cost as much as everything else that is done for a push; one
    by a constant is a multiplication.
    """
    return bool((mine >> (v >> BLOCK) % 30) & 1)


def is_own(v: int, own: Int8) -> bool:
    """Return whether high orders add to node v: it is not a mirror of another shard's node."""
    return len(own) == 0 or own[v] > 0


def number_nodes(nodes: Nodes, first: int, n: int, place: Int32, found: Nodes, row: Int32) -> int:
    """List the distinct nodes, and each node's index in the list; return its length.

    `place` holds -1 before and after.
    """
    count = 0
    for i in range(n):
        v = nodes[first + i]
        if place[v] < 0:
            place[v] = count
            found[count] = v
            count += 1
        row[i] = place[v]
    for i in range(count):
        place[found[i]] = -1
    return count


def distinct_rows(nodes: Nodes, place: Int32) -> tuple[Nodes, Int32]:
    """Return the distinct nodes, and each node's index among them."""
    found, row = np.empty(len(nodes), np.int32), np.empty(len(nodes), np.int32)
    into, rows = found, row
    with cython.nogil:
        count = number_nodes(nodes, 0, len(nodes), place, into, rows)
    return found[:count], row


def _listeners(push: ArcArrays, sender: int, sums: SumRows) -> int:
    """Return the length of the prefix of a sender's arcs that contains all receivers of its pushes."""
    count: int = push.upper[sender] if sums.partial and push.tiers[sender] > 0 else push.count[sender]
    return count


def _bar(push: ArcArrays, sender: int, sums: SumRows) -> int:
    """Return the tier above which a listener must be for a sender to push to it."""
    bar: int = push.tiers[sender] if sums.partial and push.tiers[sender] > 0 else -1
    return bar


def count_pushes(frontier: MessageBuffer, push: ArcArrays, sums: SumRows) -> int:
    """Return how many rows the senders reach at most, some of them more than once."""
    total, senders = 0, frontier.count
    for i in range(senders):
        if i + FAR < senders:
            prefetch_32(push.count, frontier.nodes[i + FAR])
        total += _listeners(push, frontier.nodes[i], sums)
    return total


def _span(pushes: int, nodes: int) -> int:
    """Return how many low bits of a node's number are dropped for the number of its span.

    Pushes are sorted span by span: the marks, receivers and pushes of one span fit the nearest caches. All
    nodes are one span where there are few pushes.
    """
    bits = 31
    if pushes >= MANY:
        bits = SPAN
        while nodes >> bits >= SPANS:
            bits += 1
    return bits


def _count_spans(
    frontier: MessageBuffer, push: ArcArrays, mine: int, sums: SumRows, marks: Marks, work: Work
) -> None:
    senders, bits = frontier.count, work.bits
    for r in range(senders):
        if r + FAR < senders:
            prefetch_64(push.start, frontier.nodes[r + FAR])
            prefetch_32(push.count, frontier.nodes[r + FAR])
        if r + NEAR < senders:
            prefetch_32(push.others, push.start[frontier.nodes[r + NEAR]])
        base, bar = push.start[frontier.nodes[r]], _bar(push, frontier.nodes[r], sums)
        for i in range(base, base + _listeners(push, frontier.nodes[r], sums)):
            v = push.others[i]
            if (bar < 0 or push.tiers[v] > bar) and is_mine(v, mine) and is_own(v, marks.own):
                work.spans[(v >> bits) + 1] += 1


def _begin_spans(
    frontier: MessageBuffer, arcs: Arcs, mine: int, sums: SumRows, marks: Marks, work: Work
) -> None:
    for i in range(SPANS + 1):
        work.spans[i] = 0
    if work.bits == 31:
        return
    _count_spans(frontier, arcs.push, mine, sums, marks, work)
    for a in range(arcs.count):
        v = arcs.changes.receiver[a]
        if is_mine(v, mine):
            work.spans[(v >> work.bits) + 1] += 1
    for i in range(SPANS):
        work.spans[i + 1] += work.spans[i]


def _list(v: int, row: int, factor: int, bits: int, work: Work) -> None:
    """Append a push to those of its span; `spans` then holds their ends."""
    at = work.spans[v >> bits]
    work.spans[v >> bits] = at + 1
    work.node[at] = v
    work.row[at] = row
    work.factor[at] = factor


def _list_pushes(
    frontier: MessageBuffer, push: ArcArrays, shift: int, mine: int, sums: SumRows, marks: Marks, work: Work
) -> None:
    senders, bits = frontier.count, work.bits
    eager = senders < EAGER
    for r in range(senders):
        if r + FAR < senders:
            prefetch_64(push.start, frontier.nodes[r + FAR])
            prefetch_32(push.count, frontier.nodes[r + FAR])
        if r + NEAR < senders:
            ahead = push.start[frontier.nodes[r + NEAR]]
            prefetch_32(push.others, ahead)
            prefetch_64(push.weights, ahead)
        base, bar = push.start[frontier.nodes[r]], _bar(push, frontier.nodes[r], sums)
        stop = base + _listeners(push, frontier.nodes[r], sums)
        row = frontier.row[r]
        for i in range(base, stop):
            v = push.others[i]
            if (bar < 0 or push.tiers[v] > bar) and is_mine(v, mine) and is_own(v, marks.own):
                weight = push.weights[i]
                _list(v, row, in_units(weight if weight > 0 else -weight, shift), bits, work)
                if eager:
                    prefetch_32(marks.place, v)
                    prefetch_64(sums.degree, v)
                    prefetch_32(sums.slot, v)


def _list_changes(arcs: Arcs, changes: ArcChanges, mine: int, sums: SumRows, work: Work) -> None:
    """List the pushes over changed arcs. Over pulled ones nothing is pushed, but the receiver is reached."""
    leave_out = sums.partial and not changes.turned
    for a in range(arcs.count):
        v, change = changes.receiver[a], changes.change[a]
        if leave_out and is_upper(arcs.push, v, changes.changed_senders[changes.row[a]]):
            change = 0
        if is_mine(v, mine):
            _list(v, changes.row[a], in_units(change, arcs.shift), work.bits, work)


def _group(low: int, n: int, known: int, place: Int32, work: Work) -> int:
    """Sort pushes low to n - 1 by receiver, receivers in the order of their first mention.

    Return how many receivers there are, with those known before. `place` holds -1 everywhere, before and
    after.
    """
    found = known
    for i in range(low, n):
        if i + FAR < n:
            prefetch_32(place, work.node[i + FAR])
        v = work.node[i]
        at = place[v]
        if at < 0:
            at = found
            place[v] = at
            work.receivers[at] = v
            work.first[at] = 0
            found += 1
        work.node[i] = at
        work.first[at] += 1
    total = low
    for i in range(known, found):
        size = work.first[i]
        work.first[i] = total
        total += size
        place[work.receivers[i]] = -1
    for i in range(low, n):
        if i + FAR < n:
            prefetch_32(work.sorted_row, work.first[work.node[i + FAR]])
            prefetch_64(work.sorted_factor, work.first[work.node[i + FAR]])
        to = work.first[work.node[i]]
        work.first[work.node[i]] += 1
        work.sorted_row[to] = work.row[i]
        work.sorted_factor[to] = work.factor[i]
    for i in range(found, known, -1):
        work.first[i] = work.first[i - 1]
    work.first[known] = low
    return found


def _degrees(found: int, shift: int, frontier: MessageBuffer, sums: SumRows, work: Work) -> int:
    """Write degrees before and after, and slots of rows; return the number of misplaced rows."""
    moving = 0
    unit = 1  # not 1 << shift: C would shift an int of 32 bits
    unit <<= shift
    for i in range(found):
        if i + FAR < found:
            prefetch_64(sums.degree, work.receivers[i + FAR])
            prefetch_32(sums.slot, work.receivers[i + FAR])
        v = work.receivers[i]
        before = sums.degree[v]
        gained = 0
        for c in range(work.first[i], work.first[i + 1]):
            gained += work.sorted_factor[c] * frontier.has[work.sorted_row[c]]
        now = before + gained * unit  # C has no left shift of what is below zero
        at = sums.slot[v]
        work.before[i], work.after[i], work.slots[i] = before, now, at
        top = max(before, now)
        misplaced = (at < 0 and top >= sums.limit) or (at >= 0 and 2 * top < sums.limit)
        if misplaced or (at == NARROW and sums.pooled):
            work.movers[moving] = i
            moving += 1
    return moving


def gather(
    frontier: MessageBuffer, arcs: Arcs, mine: int, sums: SumRows, marks: Marks, work: Work, pushes: int
) -> tuple[int, int]:
    """Gather one order: each receiver's pushes and degree, for this part of the nodes.

    The rows that will be added stand in the table of the frontier: the old messages of changed arcs'
    senders, taken times the change of the weight, and the change of each sender's message, taken times
    the weight of the arc now. Factors are in units of 2 to the shift of the arcs. `pushes` is how many
    there are to all nodes. Return how many receivers and misplaced rows there are; `work` holds them.
    """
    work.bits = _span(pushes, len(marks.place))
    _begin_spans(frontier, arcs, mine, sums, marks, work)
    _list_pushes(frontier, arcs.push, arcs.shift, mine, sums, marks, work)
    _list_changes(arcs, arcs.changes, mine, sums, work)
    found, low = 0, 0
    for i in range(SPANS if work.bits < 31 else 1):
        if work.spans[i] > low:
            found = _group(low, work.spans[i], found, marks.place, work)
            low = work.spans[i]
    work.first[found], work.found = low, found
    return found, _degrees(found, arcs.shift, frontier, sums, work)


def gather_part(
    frontier: MessageBuffer, arcs: Arcs, mine: int, sums: SumRows, marks: Marks, work: Work, pushes: int
) -> tuple[int, int]:
    """Gather for one part of the nodes, in parallel with other threads."""
    with cython.nogil:
        gathered = gather(frontier, arcs, mine, sums, marks, work, pushes)
    return gathered


def note_orders(
    nodes: Nodes, n: int, order: int, seen: Int8, reached: ReachedNodes, reached_count: int
) -> int:
    """Append those of the first `n` nodes that no lower order reached; return the new count."""
    for i in range(n):
        if i + FAR < n:
            prefetch_8(seen, nodes[i + FAR])
        node = nodes[i]
        if seen[node] == 0:
            seen[node] = 1
            reached.nodes[reached_count] = node
            reached.orders[reached_count] = order
            reached_count += 1
    return reached_count


def next_ring(ring: Nodes, seen: Int8, start: Int64, count: Int32, others: Int32) -> Nodes:
    """Return the nodes that aggregate a ring of nodes and are not marked as seen, and mark them."""
    found = np.empty(int(np.asarray(count)[np.asarray(ring)].sum()), np.int32)
    out, n = found, 0
    with cython.nogil:
        for r in range(len(ring)):
            for i in range(start[ring[r]], start[ring[r]] + count[ring[r]]):
                if seen[others[i]] == 0:
                    seen[others[i]] = 1
                    out[n] = others[i]
                    n += 1
    return found[:n]
