"""The exact rule on a part of the nodes: own ones, and mirrors of those that they aggregate.

A shard has every arc of its own nodes. A mirror is a node of another shard: of it a shard keeps the sum of
order 1, which changes when its owner says so, and not its arcs. Order 2 is added to own nodes alone.

Who is heavy (see `graph.tiers`) each shard decides by the arcs that it has, of mirrors as of own nodes: their
messages are kept as rows, and own nodes pull them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dygcn.engine.features.inputs import Features
from dygcn.engine.graph import Graph
from dygcn.engine.propagation.exact import ExactRule
from dygcn.engine.propagation.gathering import ArcChanges, Arcs, MessageBuffer, distinct_rows, next_ring
from dygcn.engine.propagation.spreading import Frontier
from dygcn.engine.propagation.sum_rows import messages_of
from dygcn.engine.propagation.sums import Sums
from dygcn.engine.records import Bool, Changed, GraphDelta, Int8, Int32, Int64, Nodes, Stored
from dygcn.errors import OptionError

ORDERS = 2
_BLOCK, _NODE = 1 << 20, 16  # arcs of a block of nodes; a node is worth so many more
_NOBODY, _NOTHING = np.empty(0, np.int32), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class FarChanges:
    """Changed arcs of mirrors, as their owners report them, without those that the shard sees itself."""

    receiver: Nodes  # (n,) mirrors
    units: Stored  # (n, width) h_0 of the nodes that they aggregate
    has: Int64  # (n,) 1 where there is an h_0
    change: Int64  # (n,) of the weight


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Degrees and sums of order 1 of nodes."""

    nodes: Nodes  # (n,)
    degree: Int64  # (n,)
    rows: Int64  # (n, width)


class MirroredRule(ExactRule):
    """The exact rule of a shard; `own` is 1 for each of the shard's own nodes, 0 for a mirror."""

    # own: For each node, 1 if it is one of the shard's own, 0 if it is a mirror.

    def __init__(self, features: Features, orders: int) -> None:
        if orders != ORDERS:
            raise OptionError(
                f"this model propagates {orders} orders, and shards need {ORDERS}: fit with orders={ORDERS}, "
                "or open the folder in one process"
            )
        super().__init__(features, orders)
        about = features.width, features.message_bits, 0
        self.sums[1] = Sums(*about, pooled=True, partial=self.pulls_some)  # in a list that is shared
        self.own: Int8 = np.empty(0, np.int8)

    @property
    def place(self) -> Int32:
        """Scratch for numbering nodes; -1 for every node between calls."""
        return self._spreading.place

    # ---- a batch ---------------------------------------------------------------------------------------

    def apply_near(self, graph: Graph, delta: GraphDelta) -> None:
        """Propagate a change to order 1 of own nodes: the part that needs no other shard."""
        self.reserve(graph)
        at_own = self.own[delta.receiver] > 0
        self._add_arcs(graph, delta.receiver[at_own], delta.sender[at_own], (delta.new - delta.old)[at_own])
        self.forget_rows(delta.left)  # of one that moved away before: the next with its number finds it

    def apply_with(
        self, graph: Graph, delta: GraphDelta, stays: Bool, far: FarChanges, first: FirstRows, gone: Nodes
    ) -> Changed:
        """Propagate a change to own nodes and mirrors.

        `stays` says for each arc of the change whether its receiver is a mirror that was one before
        and still is. `far` and `first` come from other owners: arcs of mirrors, and rows of new
        mirrors; `gone` are mirrors no longer.
        """
        self.reserve(graph)
        if not any(
            len(one) for one in (delta.receiver, delta.left, delta.arrived, far.change, first.nodes, gone)
        ):
            return Changed(_NOBODY, np.empty(0, np.int8))
        spreading, both, shift = self._spreading, (graph.pull.arrays, graph.push.arrays), graph.weight_shift
        spreading.add_only_to(self.own)
        own_left, arrived = (nodes[self.own[nodes] > 0] for nodes in (delta.left, delta.arrived))
        senders, row = distinct_rows(delta.sender, spreading.place)
        change, at_own = delta.new - delta.old, self.own[delta.receiver] > 0
        near = np.flatnonzero(at_own | stays)
        far_rows = np.arange(len(far.change), dtype=np.int32) + np.int32(len(senders))
        one = ArcChanges(
            np.concatenate((delta.receiver[near], far.receiver)),
            np.concatenate((row[near], far_rows)),
            np.concatenate((change[near], far.change)),
            senders,
        )
        units, has = self.features.units(senders, graph.ids)
        sent = np.concatenate((units, far.units)), np.concatenate((has, far.has))
        frontier = Frontier(MessageBuffer(*sent, _NOBODY, _NOBODY))  # no h_0 ever changes
        spreading.seen[own_left] = 1
        frontier.reached_count = spreading.note(arrived, 1, 0)
        frontier = spreading.add(1, Arcs(one, len(near) + len(far_rows), senders, *both, shift), frontier)
        if len(first.nodes):
            frontier = self._with_first_rows(frontier, len(senders), first)
        two = ArcChanges(delta.receiver[at_own], row[at_own], change[at_own], senders)
        changed = self._spread(2, Arcs(two, int(at_own.sum()), senders, *both, shift), frontier, own_left)
        self.forget_rows(gone)
        if len(own_left):
            self.sums[1].clear(own_left)
        self._settle(graph, delta.touched)
        # Own nodes moved, too, if they pull from nodes that moved.
        seen = spreading.seen
        seen[changed.nodes] = 1
        pulling = next_ring(changed.heavy, seen, *graph.push.lists[:3])
        nodes = np.concatenate((changed.nodes, pulling))
        orders = np.concatenate((changed.orders, np.full(len(pulling), ORDERS, np.int8)))
        seen[nodes] = 0
        is_own = self.own[nodes] > 0
        return Changed(nodes[is_own], orders[is_own], changed.rows)

    def _turned(self, graph: Graph, nodes: Nodes, tiers: Int8) -> tuple[Nodes, Nodes, Int64]:
        receiver, sender, change = super()._turned(graph, nodes, tiers)
        at_own = self.own[receiver] > 0  # mirrors have no sum of order 2
        return receiver[at_own], sender[at_own], change[at_own]

    def _with_first_rows(self, frontier: Frontier, senders: int, first: FirstRows) -> Frontier:
        """Write rows of new mirrors, and add their messages to a frontier."""
        rows, has = self.take_rows(first)
        given, count = frontier.buffer.arrays, frontier.buffer.count
        used = senders + count
        buffer = MessageBuffer(
            np.concatenate((given.table[:used], rows)),
            np.concatenate((given.has[:used], has)),
            np.concatenate((given.nodes[:count], first.nodes)),
            np.concatenate((given.row[:count], np.arange(used, used + len(rows), dtype=np.int32))),
        )
        return Frontier(buffer, frontier.reached_count, frontier.rows)

    def rows_after(
        self, graph: Graph, nodes: Nodes, receiver: Nodes, sender: Nodes, change: Int64
    ) -> FirstRows:
        """Return order 1 of own nodes as it will be after arcs change; nothing is written.

        `nodes` are sorted, and have a row each; `receiver`, `sender` and `change` are all of their
        arcs.
        """
        sums = self.sums[0]
        if not len(nodes):
            return FirstRows(nodes, _NOTHING, np.empty((0, sums.width), np.int64))
        units, has = self.features.units(sender, graph.ids)
        degree, rows = sums.degree[nodes], sums.rows(nodes)
        order = np.argsort(receiver, kind="stable")
        if len(order):
            first = np.flatnonzero(np.diff(receiver[order], prepend=-1))
            at, more = np.searchsorted(nodes, receiver[order[first]]), (change * has)[order]
            degree[at] += np.add.reduceat(more, first)
            rows[at] += np.add.reduceat(more[:, None] * units[order], first, axis=0) << sums.message_shift
        return FirstRows(nodes, degree, rows)

    # ---- other owners ----------------------------------------------------------------------------------

    def take_rows(self, first: FirstRows) -> tuple[Int32, Int64]:
        """Write order 1 of mirrors; return their messages, and 1 where there is one."""
        self.sums[0].put(first.nodes, first.degree, first.rows)
        return self._renewed(first.nodes)

    def forget_rows(self, nodes: Nodes) -> None:
        """Clear order 1 of nodes that are neither own nodes nor mirrors."""
        if len(nodes):
            self.sums[0].clear(nodes)
            self._renewed(nodes)

    def _renewed(self, nodes: Nodes) -> tuple[Int32, Int64]:
        """Return the messages of sums that no update wrote, and refresh rows of heavy nodes."""
        messages = messages_of(self.sums[0].arrays, nodes, self.features.width)
        self._heavy.renew(nodes, *messages)
        return messages

    # ---- from nothing ----------------------------------------------------------------------------------

    def rows_of(self, nodes: Nodes) -> FirstRows:
        """Return order 1 of own nodes."""
        return FirstRows(nodes, self.sums[0].degree[nodes], self.sums[0].rows(nodes))

    def rebuild_order_1(self, graph: Graph) -> None:
        """Compute order 1 of own nodes from a loaded graph; mirrors have none yet."""
        for sums in self.sums:  # as far as the graph itself: nothing is copied for the next node
            sums.reserve(len(graph.strength))
        self.reserve(graph)
        self.own_order_1(graph, np.flatnonzero(self.own[: graph.ids.high] > 0))

    def own_order_1(self, graph: Graph, nodes: Int64 | Nodes) -> None:
        """Compute order 1 of some own nodes from their arcs."""
        for some in blocks_of(nodes, graph.pull.count):
            self.sums[0].clear(some)
            receiver, sender, weight = graph.pull.arcs(some)
            self._add_arcs(graph, receiver, sender, np.abs(weight))

    def rebuild_order_2(self, graph: Graph) -> None:
        """Recompute tiers, and order 2 of own nodes from order 1 of all."""
        self.reserve(graph)
        heavy = self._divide(graph)
        self._heavy.put(heavy, *self.messages(graph, heavy, 1))
        self._spreading.add_only_to(self.own)
        here = np.flatnonzero(graph.here).astype(np.int32)
        self.sums[1].clear(np.arange(graph.ids.high, dtype=np.int32))
        own = here[self.own[here] > 0]
        self.sums[1].place(own, np.zeros(len(own), np.int64))  # all at once: a pool that grows is copied
        nothing = ArcChanges(_NOBODY, _NOBODY, _NOTHING, _NOBODY)
        arcs = Arcs(nothing, 0, _NOBODY, graph.pull.arrays, graph.push.arrays, graph.weight_shift)
        for nodes in blocks_of(here, graph.push.count):
            rows, has = messages_of(self.sums[0].arrays, nodes, self.features.width)
            row = np.arange(len(nodes), dtype=np.int32)
            self._add(2, arcs, Frontier(MessageBuffer(rows, has, nodes, row)))

    def _add_arcs(self, graph: Graph, receiver: Nodes, sender: Nodes, change: Int64) -> None:
        """Add h_0 over arcs, without listing the changed nodes."""
        senders, row = distinct_rows(sender, self._spreading.place)
        changes = ArcChanges(receiver, row, change, _NOBODY)
        arcs = Arcs(changes, len(row), _NOBODY, graph.pull.arrays, graph.push.arrays, graph.weight_shift)
        sent = self.features.units(senders, graph.ids)
        self._add(1, arcs, Frontier(MessageBuffer(*sent, _NOBODY, _NOBODY)))

    def _add(self, order: int, arcs: Arcs, frontier: Frontier) -> None:
        frontier = self._spreading.add(order, arcs, frontier)
        self._spreading.seen[self._buffers.reached.arrays.nodes[: frontier.reached_count]] = 0
        self._buffers.tidy(self.sums[-1].nbytes // 4)


def blocks_of(nodes: Int64 | Nodes, count: Int32) -> Iterator[Nodes]:
    """Yield nodes in blocks with about equally many arcs (`count` of each), to bound memory."""
    chosen = np.ascontiguousarray(nodes, np.int32)
    size = np.cumsum(count[chosen] + _NODE, dtype=np.int64)
    cuts = np.flatnonzero(np.diff(size // _BLOCK)) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(chosen)]):
        yield chosen[start:stop]
