"""The exact rule: keep the messages, not the output, and never drift.

``h_0 = x`` and ``h_k = P h_(k-1)`` with ``P = D^-1 A``. A changed edge alters h_1 of its ends (the
paper's first-order update, eq. change_aggr1); the change of h_(k-1) is pushed to those who aggregate
it (the high-order update, eq. change_aggr2); the matrices W_k act on read. Sums are integers, so the
state is a function of the graph alone: any order, any batches, any way to the same graph, same bits.

The mean is over the neighbours that *have* a message of that order; a node with none has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.graph.ids import grown
from dygcn.propagation import kernels
from dygcn.propagation.sums import Sums
from dygcn.records import Bytes, FeatureDelta, GraphDelta, Int32, Int64, Moved, Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dygcn.features import Features
    from dygcn.graph import Graph

_BLOCK = 1 << 14
_BULK = 2000  # arcs; below this the loops over all nodes cost more than they save


class ExactRule:
    """Sums s_k and degrees of every node and order; messages are ``round(s_k / deg_k)``.

    Examples
    --------
    >>> from dygcn.events import read_events
    >>> from dygcn.features import Hashed
    >>> from dygcn.graph import Graph
    >>> graph = Graph("int64")
    >>> rule = ExactRule(Hashed(8, seed=0), orders=2)
    >>> moved = rule.apply(graph, graph.apply(read_events([(1, 2), (2, 3)])))
    >>> moved.orders.tolist()
    [1, 1, 1]
    """

    def __init__(self, features: Features, orders: int) -> None:
        self.features = features
        self.orders = orders
        shifts = [features.message_shift] + [0] * (orders - 1)
        self.sums = [Sums(features.width, features.message_bits, shift) for shift in shifts]
        self.degree: list[Int64] = [np.zeros(0, np.int64) for _ in range(orders)]
        self._place = np.empty(0, np.int32)
        self._seen = np.empty(0, np.int8)

    def apply(self, graph: Graph, delta: GraphDelta, features: FeatureDelta | None = None) -> Moved:
        """Propagate a change that the graph already holds; touch only rows that it reaches."""
        if features is None and len(delta.receiver) > _BULK and len(delta.arrived) == len(graph):
            self.rebuild(graph)  # it was empty before
            return Moved(delta.arrived, np.ones(len(graph), np.int8), self.orders * len(graph))
        self._make_room(graph)
        structural, arc_row = kernels.distinct_rows(delta.sender, self._place)
        arcs = delta.receiver, arc_row, delta.new - delta.old
        push, base = graph.push, len(structural)
        senders, table, has = self._features_changed(graph, structural, features)
        reached = [(0, senders), (1, delta.arrived)]
        rows = 0
        for k in range(1, self.orders + 1):
            receivers, first, row, factor = kernels.contributions(
                senders, push.start, push.count, push.others, push.weights, *arcs, base, self._place
            )
            # Old messages of this order are taken now, before its sums are written.
            more = len(receivers) if k < self.orders else 0
            next_table = np.empty((base + more, self.features.width), np.int32)
            next_has = np.empty(base + len(receivers), np.int64)
            if more:
                self._write_messages(structural, k, next_table, next_has)
            senders, delta_has = self._add_up(
                k, receivers, (first, row, factor), table, has, next_table[base:]
            )
            next_has[base : base + len(senders)] = delta_has
            table, has = next_table, next_has
            reached.append((k, senders))
            rows += len(receivers)
        return self._moved(reached, delta.left, rows)

    def _features_changed(
        self, graph: Graph, structural: Nodes, features: FeatureDelta | None
    ) -> tuple[Nodes, Int32, Int64]:
        """Return whose h_0 changed, and the table for order 1: old rows of `structural`, then the changes."""
        table, has = self.messages(graph, structural, 0)
        if features is None:
            return np.empty(0, np.int32), table, has
        self.features.write(features)
        differs = (features.old != features.new).any(axis=1) | (features.had != features.has)
        change, change_has = features.new - features.old, features.has.astype(np.int64) - features.had
        table, has = np.concatenate((table, change[differs])), np.concatenate((has, change_has[differs]))
        return features.nodes[differs], table, has

    def _add_up(
        self,
        order: int,
        receivers: Nodes,
        grouped: tuple[Int64, Int32, Int64],
        table: Int32,
        has: Int64,
        out: Int32,
    ) -> tuple[Nodes, Int64]:
        sums = self.sums[order - 1]
        before, now = kernels.degrees_after(receivers, *grouped, has, self.degree[order - 1])
        sums.settle(receivers, np.maximum(before, now))
        if sums.message_shift:
            table = table >> sums.message_shift
        return kernels.add_up(
            receivers,
            sums.slot[receivers],
            before,
            now,
            *grouped,
            table,
            sums.narrow,
            sums.wide,
            sums.weight_shift,
            sums.scale,
            out,
        )

    def _moved(self, reached: list[tuple[int, Nodes]], left: Nodes, rows: int) -> Moved:
        """Give each node the lowest order at which it moved; who left is told elsewhere."""
        total = sum(len(ring) for _, ring in reached)
        nodes, orders = np.empty(total, np.int32), np.empty(total, np.int8)
        self._seen[left] = 1
        n = 0
        for order, ring in reached:
            n = kernels.note_orders(ring, order, self._seen, nodes, orders, n)
        self._seen[nodes[:n]] = 0
        self._seen[left] = 0
        return Moved(nodes[:n], orders[:n], rows)

    def rebuild(self, graph: Graph) -> None:
        """Compute the state from nothing: every row, every order."""
        self._make_room(graph)
        everyone = np.arange(graph.ids.high, dtype=np.int32)
        arcs = graph.pull.start, graph.pull.count, graph.pull.others, graph.pull.weights
        for k, (sums, degree) in enumerate(zip(self.sums, self.degree, strict=True)):
            message, has = self.messages(graph, everyone, k)
            kernels.sum_degrees(*arcs, has, degree)
            sums.settle(everyone, degree[: len(everyone)])
            if sums.message_shift:
                message >>= sums.message_shift
            kernels.sum_neighbours(*arcs, message, sums.narrow, sums.wide, sums.slot, sums.weight_shift)

    def messages(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int32, Int64]:
        """Return h_order of nodes on the grid, (n, width), and 1 where a node has one, (n,)."""
        if order == 0:
            return self.features.rows(nodes, graph.ids.keys[nodes])
        rows, has = np.empty((len(nodes), self.features.width), np.int32), np.empty(len(nodes), np.int64)
        self._write_messages(nodes, order, rows, has)
        return rows, has

    def _write_messages(self, nodes: Nodes, order: int, rows: Int32, has: Int64) -> None:
        sums = self.sums[order - 1]
        kernels.write_messages(
            nodes, self.degree[order - 1], sums.narrow, sums.wide, sums.slot, sums.scale, rows, has
        )

    def removal(self, graph: Graph, owners: Nodes) -> FeatureDelta | None:
        """Return what taking away the features of nodes changes."""
        if len(owners) == 0:
            return None
        old, _ = self.messages(graph, owners, 0)
        yes = np.ones(len(owners), np.bool_)
        return FeatureDelta(owners, old, np.zeros_like(old), yes, ~yes)

    def image(self, graph: Graph, nodes: Nodes) -> dict[str, Int32]:
        """Return x of the nodes that own some: all else follows from model and graph."""
        return {"features": self.messages(graph, nodes[graph.owns(nodes)], 0)[0]}

    def restore(self, graph: Graph, nodes: Nodes, tensors: Mapping[str, Int32]) -> None:
        """Take back the features, and compute the state from nothing."""
        own, rows = nodes[graph.owns(nodes)], tensors["features"]
        if len(own):
            yes = np.ones(len(own), np.bool_)
            self.features.write(FeatureDelta(own, np.zeros_like(rows), rows, ~yes, yes))
        self.rebuild(graph)

    def state_bytes(self, graph: Graph, nodes: Nodes) -> Iterator[Bytes]:
        """Yield x, degrees and sums of nodes, in their order; logical values, not storage."""
        for start in range(0, len(nodes), _BLOCK):
            block = nodes[start : start + _BLOCK]
            x, has = self.messages(graph, block, 0)
            yield x.view(np.uint8).reshape(-1)
            yield has.view(np.uint8)
            for k in range(self.orders):
                yield self.degree[k][block].view(np.uint8)
                yield self.sums[k].rows(block).view(np.uint8).reshape(-1)

    def _make_room(self, graph: Graph) -> None:
        nodes = graph.ids.high
        for sums in self.sums:
            if graph.weight_shift < sums.weight_shift:
                sums.layout(graph.weight_shift)
            sums.make_room(nodes)
        if nodes <= len(self._seen):
            return
        self.degree = [grown(degree, nodes) for degree in self.degree]
        self._seen = grown(self._seen, nodes)
        known = len(self._place)
        self._place = grown(self._place, nodes)
        self._place[known:] = -1
