"""The exact rule: keep the messages, not the output, and never drift.

``h_0 = x`` and ``h_k = P h_(k-1)`` with ``P = D^-1 A``. A changed edge alters h_1 of its ends (the
paper's first-order update, eq. change_aggr1); the change of h_(k-1) is pushed to those who aggregate
it (the high-order update, eq. change_aggr2); the matrices W_k act on read. Sums are integers, so the
state is a function of the graph alone: any order, any batches, any way to the same graph, same bits.

The mean is over the neighbours that *have* a message of that order; a node with none has none.

Of a model with two orders, messages of nodes with many arcs are not pushed to all neighbours: these pull them
when they are read (see `graph.tiers`). The sum is the same sum, however it is split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.features.inputs import Features, Given, Hashed, Walks
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import Allocator
from dygcn.engine.graph.staging import FEW_EVENTS
from dygcn.engine.graph.store import GREATEST_SHIFT
from dygcn.engine.graph.ticks import stamp_all
from dygcn.engine.graph.tiers import NOBODY_IS_HEAVY, arcs_that_turn, divide_all, due_tiers, set_tiers
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.propagation import kernels
from dygcn.engine.propagation.gathering import ArcChanges, Arcs, MessageBuffer, distinct_rows
from dygcn.engine.propagation.kernels import Step, Tools, UpdatePlan, update_at_once, update_edge
from dygcn.engine.propagation.outcomes import ALL_DONE, NOT_BEGUN
from dygcn.engine.propagation.pulling import PulledArcs, Pulls, add_pulled, put_whole
from dygcn.engine.propagation.spreading import Frontier, ScratchBuffers, Spreading, in_ranges, threads
from dygcn.engine.propagation.sum_rows import messages_of
from dygcn.engine.propagation.sums import HeavyMessages, Sums, heavy_from
from dygcn.engine.records import (
    Bytes,
    Changed,
    FeatureDelta,
    GraphDelta,
    Int8,
    Int32,
    Int64,
    Nodes,
    Stored,
    Written,
)

_BLOCK = 1 << 14
PULLED_ORDER = 2  # the one at which a message may be pulled, of models with as many orders
_BULK = 2000  # arcs; below this the loops over all nodes cost more than they save
_NOBODY, _NOTHING = np.empty(0, np.int32), np.empty(0, np.int64)


class ExactRule:
    """Sums s_k and degrees of every node and order; messages are ``round(s_k / deg_k)``."""

    def __init__(self, features: Features, orders: int, heavy: int | None = None) -> None:
        self.features = features
        self.orders = orders
        self.heavy_from = (
            NOBODY_IS_HEAVY if orders != PULLED_ORDER else heavy_from() if heavy is None else heavy
        )
        # Whether messages of heavy nodes are pulled: then no event writes many rows, whatever its ends.
        self.pulls_some = self.heavy_from != NOBODY_IS_HEAVY
        shifts = [features.message_shift] + [0] * (orders - 1)
        bits = features.message_bits
        self.sums = [
            Sums(features.width, bits, shift, partial=order == PULLED_ORDER and self.pulls_some)
            for order, shift in enumerate(shifts, 1)
        ]
        self._heavy = HeavyMessages(features.width)
        self._buffers = ScratchBuffers(features.width)
        self._spreading = Spreading(self.sums, self._buffers, self._heavy)
        self._nodes, self._shift = 0, GREATEST_SHIFT  # what there are rows for
        self._looked_up = features if isinstance(features, Hashed | Walks) else None  # by loops themselves
        self.in_one_call = self._looked_up is not None  # a few events can be written in one call then
        self._parts: tuple[object, ...] = ()  # what the plan below was made of
        self._plan: UpdatePlan
        self._pulled: tuple[object, ...] = ()  # what this was made of
        self._pulls: Pulls | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the plan out of copies: it would bring all rows of a walk model, which copies share."""
        kept = {name: value for name, value in vars(self).items() if name != "_plan"}
        return kept | {"_parts": (), "_pulled": (), "_pulls": None}

    @property
    def given(self) -> Given:
        """The features, which are the user's."""
        assert isinstance(self.features, Given)
        return self.features

    def pulls(self, graph: Graph) -> Pulls | None:
        """Return what readers add to the stored sums of the last order; None: the sums are complete."""
        if not self.pulls_some:
            return None
        pull, heavy, shift = graph.pull, self._heavy.rows, self.sums[-1].weight_shift
        parts = pull.arrays, heavy, shift
        if self._pulled != parts:
            arcs = PulledArcs(pull.start, pull.upper, pull.others, pull.weights)
            self._pulled, self._pulls = parts, Pulls(arcs, heavy, shift)
        return self._pulls

    def whole_sums(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int64, Int64]:
        """Return complete degrees and sums of nodes, on the grid, whatever part of them is stored."""
        sums, pulls = self.sums[order - 1], self.pulls(graph)
        degree, rows = sums.degree[nodes], sums.rows(nodes)
        if pulls is not None and order == PULLED_ORDER:
            add_pulled(pulls, np.ascontiguousarray(nodes, np.int32), rows, degree)
        return degree, rows

    def apply(self, graph: Graph, delta: GraphDelta, features: FeatureDelta | None = None) -> Changed:
        """Propagate a change that the graph already holds; touch only rows that it reaches."""
        if features is None and len(delta.receiver) > _BULK and len(delta.arrived) == len(graph):
            self.rebuild(graph)  # it was empty before
            return Changed(delta.arrived, np.ones(len(graph), np.int8), self.orders * len(graph))
        self.reserve(graph)
        arcs = self._arcs(graph, delta)
        frontier = self._features_changed(graph, arcs.changed_senders, features)
        changed = self._spread(1, arcs, self._note_arrivals(delta, frontier), delta.left)
        return self._settled(graph, changed, delta.touched)

    def _arcs(self, graph: Graph, delta: GraphDelta) -> Arcs:
        changed_senders, row = distinct_rows(delta.sender, self._spreading.place)
        changes = ArcChanges(delta.receiver, row, delta.new - delta.old, changed_senders)
        return Arcs(
            changes, len(row), changed_senders, graph.pull.arrays, graph.push.arrays, graph.weight_shift
        )

    def _note_arrivals(self, delta: GraphDelta, frontier: Frontier) -> Frontier:
        if len(delta.left):
            self._spreading.seen[delta.left] = 1  # who left is reported by the graph
        if frontier.buffer.count:
            frontier.reached_count = self._spreading.note(frontier.buffer.arrays.nodes, 0, 0)
        if len(delta.arrived):
            frontier.reached_count = self._spreading.note(delta.arrived, 1, frontier.reached_count)
        return frontier

    def _spread(self, first: int, arcs: Arcs, frontier: Frontier, left: Nodes) -> Changed:
        for k in range(first, self.orders + 1):
            frontier = self._spreading.add(k, arcs, frontier)
        changed = self._moved(frontier, left)
        self._buffers.tidy(self.sums[-1].nbytes // 4)
        return changed

    def write(self, transaction: Transaction) -> tuple[Written, Changed]:
        """Write what is staged to the graph and to the state; a few events in one call, if possible."""
        graph, events, edge = transaction.graph, transaction.events, transaction.edge
        if events is not None and (
            len(events.op) > FEW_EVENTS
            or graph.memory is not None
            or graph.weight_shift == GREATEST_SHIFT  # no edge was ever added, and rows have no layout yet
            or not self.in_one_call
        ):
            delta = transaction.write()
            return delta, self.apply(graph, delta)
        contact = 0.0 if graph.contacts is None else graph.contacts.clock  # when the last event happened
        while True:
            plan = self._plan_of_now(graph)
            transaction.begun = True
            if edge is not None:
                status, *reached = update_edge(plan, *edge, graph.one, contact)
            else:
                assert events is not None
                status, *reached = update_at_once(plan, events.arrays)
            written = transaction.collect(status)
            if written is not None:
                return written, self._go_on(transaction, written, *reached)

    def _plan_of_now(self, graph: Graph) -> UpdatePlan:
        """Return the plan for updates in one call; a new one if any array was replaced since the last."""
        buffers, ids, marks = self._buffers, graph.ids, self._spreading.marks
        work, reached, sums = buffers.works[0], buffers.reached, [one.arrays for one in self.sums]
        batch, around = graph.buffers.arrays, (graph.pull.arrays, graph.push.arrays, graph.weight_shift)
        given = batch, graph.node_arrays, ids, ids.arrays, work, marks, reached, self._heavy.rows
        parts = (*given, *around, *buffers.message_buffers, *sums)
        if parts != self._parts:
            assert self._looked_up is not None
            step: Any = None
            for order in range(self.orders, 0, -1):
                step = Step(sums[order - 1], buffers.buffer(order, step is None), order, step)
            arcs, tools = (
                Arcs(buffers.few, 0, _NOBODY, *around),
                Tools(work, marks, reached, self._heavy.rows),
            )
            scratch = arcs, buffers.start, buffers.wanted, tools, self.heavy_from, step
            units = self._looked_up.unit_table(ids)
            self._plan = UpdatePlan(*scratch, units, ids.arrays, graph.arrays)
            self._parts = parts
        return self._plan

    def _go_on(
        self, transaction: Transaction, written: Written, order: int, due: int, reached_count: int, rows: int
    ) -> Changed:
        """Continue from the order that one call could not finish, if any; see `update_at_once`."""
        graph = transaction.graph
        if order == ALL_DONE:
            reached, heavy = self._buffers.reached.arrays, self._heavy.moved()
            nodes, orders = reached.nodes[:reached_count].copy(), reached.orders[:reached_count].copy()
            turned = self._settle(graph, graph.buffers.touched()) if due else _NOBODY
            return Changed(nodes, orders, rows, heavy, turned)
        delta = transaction.delta(written)
        if order == NOT_BEGUN:
            return self.apply(graph, delta)
        arcs = self._arcs(graph, delta)
        if order == 1:
            frontier = self._features_changed(graph, arcs.changed_senders, None)
            frontier.reached_count = reached_count
        else:
            frontier = Frontier(self._buffers.buffer(order - 1, last=False), reached_count, rows)
        return self._settled(graph, self._spread(order, arcs, frontier, delta.left), delta.touched)

    def _settled(self, graph: Graph, changed: Changed, touched: Nodes) -> Changed:
        return replace(changed, touched=touched, turned=self._settle(graph, touched))

    def _settle(self, graph: Graph, touched: Nodes) -> Nodes:
        """Move nodes whose number of arcs changed much to their tiers; return nodes that pull others then.

        No logical value changes. In a trial nothing is done: it brings all numbers of arcs back.
        """
        if not self.pulls_some or len(touched) == 0 or graph.trials:
            return _NOBODY
        nodes, tiers = due_tiers(graph, touched, self.heavy_from)
        if len(nodes) == 0:
            return _NOBODY
        receiver, sender, change = self._turned(graph, nodes, tiers)
        if len(receiver):
            senders, row = distinct_rows(sender, self._spreading.place)
            turned = ArcChanges(receiver, row, change, senders, True)
            frontier = Frontier(MessageBuffer(*self.messages(graph, senders, 1), _NOBODY, _NOBODY))
            arcs = Arcs(turned, len(row), senders, graph.pull.arrays, graph.push.arrays, graph.weight_shift)
            frontier = self._spreading.add(PULLED_ORDER, arcs, frontier)
            self._spreading.seen[self._buffers.reached.arrays.nodes[: frontier.reached_count]] = 0
        was_heavy = graph.tiers[nodes] > 0
        rising, falling = nodes[~was_heavy], nodes[was_heavy & (tiers == 0)]
        self._heavy.put(rising, *self.messages(graph, rising, 1))
        self._heavy.drop(falling)
        set_tiers(graph, nodes, tiers)
        return receiver

    def _turned(self, graph: Graph, nodes: Nodes, tiers: Int8) -> tuple[Nodes, Nodes, Int64]:
        return arcs_that_turn(graph, nodes, tiers)

    def pushes(self, graph: Graph, nodes: Nodes) -> Int32:
        """Return to how many neighbours the message of each node is pushed at most."""
        count = graph.push.count[nodes]
        return np.where(graph.tiers[nodes] > 0, graph.push.upper[nodes], count) if self.pulls_some else count

    def _features_changed(
        self, graph: Graph, changed_senders: Nodes, features: FeatureDelta | None
    ) -> Frontier:
        """Return the frontier of changed h_0; its table: old rows of changed senders, then changes."""
        table, has = self.features.units(changed_senders, graph.ids)
        if features is None:
            return Frontier(MessageBuffer(table, has, _NOBODY, _NOBODY))
        stored, nodes = self.given, features.nodes
        stored.write(features)
        had, has_now = (stored.counted(nodes, own, graph.ids) for own in (features.had, features.has))
        differs = (features.old != features.new).any(axis=1) | (had != has_now)
        change, change_has = (features.new - features.old) >> stored.message_shift, has_now - had
        senders = features.nodes[differs]
        row = np.arange(len(changed_senders), len(changed_senders) + len(senders), dtype=np.int32)
        table, has = np.concatenate((table, change[differs])), np.concatenate((has, change_has[differs]))
        return Frontier(MessageBuffer(table, has, senders, row))

    def _moved(self, frontier: Frontier, left: Nodes) -> Changed:
        reached, count = self._buffers.reached.arrays, frontier.reached_count
        nodes, orders = reached.nodes[:count].copy(), reached.orders[:count].copy()
        self._spreading.seen[nodes] = 0
        if len(left):
            self._spreading.seen[left] = 0
        return Changed(nodes, orders, frontier.rows, self._heavy.moved())

    def rebuild(self, graph: Graph) -> None:
        """Recompute the state: every tier, every row, every order."""
        self.reserve(graph)
        heavy = self._divide(graph)
        everyone = np.arange(graph.ids.high, dtype=np.int32)
        for k, sums in enumerate(self.sums):
            if k == 0:
                message, has = self.features.units(everyone, graph.ids)
            else:
                message, has = self.messages(graph, everyone, k)
            if k == 1 and len(heavy):
                self._heavy.put(heavy, message[heavy], has[heavy])
            stamp_all(sums.ticks, everyone)
            in_ranges(kernels.sum_degrees, len(everyone), threads(), graph.pull.arrays, has, sums.arrays)
            sums.place(everyone, sums.degree[: len(everyone)])
            rows = RowBlock(message), sums.arrays, sums.weight_shift
            in_ranges(kernels.sum_neighbours, len(everyone), threads(), graph.pull.arrays, *rows)

    def _divide(self, graph: Graph) -> Nodes:
        """Recompute the tier of every node; return the heavy ones, whose messages are not kept yet."""
        heavy = divide_all(graph, self.heavy_from)
        self._heavy.clear(len(self._heavy.rows.arrays.slot) if self.pulls_some else 0)
        return heavy

    def share(self, zeros: Allocator, now: Int64) -> None:
        """Keep all rows where other processes can read them; see `Sums.share`."""
        for sums in self.sums:
            sums.share(zeros, now)
        self._heavy.share(zeros, now)

    def messages(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int32, Int64]:
        """Return h_order of nodes on the grid, (n, width), and 1 where it exists, (n,)."""
        if order == 0:
            units, has = self.features.units(nodes, graph.ids)
            return units.astype(np.int32, copy=False) << self.features.message_shift, has
        sums, width, pulls = self.sums[order - 1].arrays, self.features.width, self.pulls(graph)
        if pulls is not None and order == PULLED_ORDER:
            return put_whole(sums, pulls, np.ascontiguousarray(nodes, np.int32), width)
        return messages_of(sums, nodes, width)

    def unreached(self, graph: Graph) -> int:
        """Return how many nodes have no message of any order, features included."""
        nodes = np.flatnonzero(graph.here).astype(np.int32)
        for order in range(1, self.orders + 1):
            nodes = nodes[self.messages(graph, nodes, order)[1] == 0]
        return int((self.features.units(nodes, graph.ids)[1] == 0).sum())

    def removal(self, graph: Graph, owners: Nodes) -> FeatureDelta | None:
        """Return the change of features when nodes lose their own; None without any."""
        if len(owners) == 0:
            return None
        old, _ = self.messages(graph, owners, 0)
        yes, none = np.ones(len(owners), np.bool_), np.zeros_like(self.given.own.of(owners)[0])
        return FeatureDelta(owners, old, self.given.with_own(old, none), yes, ~yes)

    def image(self, graph: Graph, nodes: Nodes) -> dict[str, Stored]:
        """Return x of the nodes with features of their own; all else follows from model and graph."""
        own = nodes[graph.owns(nodes)]
        if isinstance(self.features, Given):
            return {"features": self.features.own.of(own)[0]}
        return {"features": self.messages(graph, own, 0)[0]}

    def restore(self, graph: Graph, nodes: Nodes, tensors: Mapping[str, Any]) -> None:
        """Load the features; `rebuild` computes the rest."""
        own = nodes[graph.owns(nodes)]
        if len(own):
            self.given.own.put(own, tensors["features"], np.ones(len(own), np.bool_))

    def state_bytes(self, graph: Graph, nodes: Nodes) -> Iterator[Bytes]:
        """Yield x, degrees and sums of nodes, in order; logical values, independent of storage."""
        for start in range(0, len(nodes), _BLOCK):
            block = nodes[start : start + _BLOCK]
            x, has = self.messages(graph, block, 0)
            yield x.view(np.uint8).reshape(-1)
            yield has.view(np.uint8)
            for order in range(1, self.orders + 1):
                degree, rows = self.whole_sums(graph, block, order)
                yield degree.view(np.uint8)
                yield rows.view(np.uint8).reshape(-1)

    def reserve(self, graph: Graph) -> None:
        """Reserve a row for every node of a graph, in units as fine as its weights; no value changes."""
        nodes, shift = graph.ids.high, graph.weight_shift
        if nodes <= self._nodes and shift >= self._shift:
            return
        for sums in self.sums:
            if shift < sums.weight_shift:
                sums.layout(shift, graph.one)
            sums.reserve(nodes)
        self._spreading.reserve(nodes)
        if self.pulls_some:
            self._heavy.reserve(nodes)
        rows = min(len(self._spreading.seen), *(len(sums.slot) for sums in self.sums))
        if self.pulls_some:
            rows = min(rows, len(self._heavy.rows.arrays.slot))
        self._nodes, self._shift = rows, min(shift, self._shift)
