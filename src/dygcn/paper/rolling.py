"""The paper's rules: vectors are the state, and every update rolls them forward.

`RollingRule` is Algorithm 1, `SpectralRule` is Algorithm 2. Both keep Z and nothing else, so what a
node's vector is depends on the path of the graph and on where its batches were cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.records import Bytes, Changed, FeatureDelta, Float32, GraphDelta, Nodes, Written
from dygcn.paper import equations
from dygcn.paper.equations import NumpyArrays
from dygcn.paper.plans import Plan, RuleOptions, first_look, make_plan

_BLOCK = 1 << 14


class RollingRule:
    """Algorithm 1 of the paper: first-order, then high-order updates of the influenced nodes."""

    in_one_call = False

    def __init__(self, weights: Sequence[Float32], options: RuleOptions | None = None) -> None:
        self.weights = tuple(weights)
        self.options = options or RuleOptions()
        # At the last base: mean length of the vectors, AUC of their links (-1: not known); updates since.
        self.anchor = np.array([0.0, -1.0, 0.0])
        self._table = np.zeros((0, weights[0].shape[0]), np.float32)

    @property
    def orders(self) -> int:
        """K, how many orders an update computes from the change itself."""
        return len(self.weights) - 1

    def apply(self, graph: Graph, delta: GraphDelta, features: FeatureDelta | None = None) -> Changed:
        """Update the 1st..K-th order influenced nodes of a change that the graph already holds."""
        self.reserve(graph)
        plan = self.plan(graph, delta)
        equations.advance(NumpyArrays(), plan, self._table, self.weights, self.options)
        return self._moved(plan)

    def write(self, transaction: Transaction) -> tuple[Written, Changed]:
        """Write what is staged to the graph, then update."""
        delta = transaction.write()
        return delta, self.apply(transaction.graph, delta)

    def rebuild(self, graph: Graph) -> None:
        """Do nothing: the vectors do not follow from the graph."""

    def plan(self, graph: Graph, delta: GraphDelta) -> Plan:
        """Return the sums of an update, without vectors."""
        return make_plan(graph, delta, self.orders, self.options)

    def _moved(self, plan: Plan) -> Changed:
        rings = plan.influence.orders
        orders = np.repeat(np.arange(1, len(rings) + 1, dtype=np.int8), [len(ring) for ring in rings])
        return Changed(np.concatenate(rings), orders, len(orders))

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim)."""
        rows: Float32 = self._table[nodes]
        return rows

    def replace(self, nodes: Nodes, vectors: Float32) -> None:
        """Replace the vectors of nodes."""
        NumpyArrays().put(self._table, nodes, vectors)

    def restart(self, graph: Graph, nodes: Nodes, vectors: Float32, others: Nodes) -> None:
        """Replace the vectors of nodes; `others` start as new nodes do, after their neighbours.

        A node that is linked to no node with a vector keeps its own.
        """
        self.reserve(graph)
        self.replace(nodes, vectors)
        while len(others):
            mix = first_look(graph, others, self.options.aggregation)
            linked = np.diff(mix.first) > 0
            if not linked.any():
                break
            self.replace(others[linked], NumpyArrays().combine(mix, self._table)[linked])
            others = others[~linked]

    def removal(self, graph: Graph, owners: Nodes) -> None:
        """Return None: the vectors are the only state."""

    def image(self, graph: Graph, nodes: Nodes) -> dict[str, NDArray[Any]]:
        """Return the part of a saved state beside model and graph: every vector."""
        return {"vectors": self.vectors(nodes), "anchor": self.anchor.copy()}

    def restore(self, graph: Graph, nodes: Nodes, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Load what `image` returned."""
        self.reserve(graph)
        self.anchor = tensors["anchor"].copy()
        self.replace(nodes, tensors["vectors"])

    def state_bytes(self, graph: Graph, nodes: Nodes) -> Iterator[Bytes]:
        """Yield the vectors of nodes, in their order."""
        for start in range(0, len(nodes), _BLOCK):
            yield self.vectors(nodes[start : start + _BLOCK]).view(np.uint8).reshape(-1)

    def reserve(self, graph: Graph) -> None:
        """Reserve a row for every node of a graph."""
        if graph.ids.high > len(self._table):
            self._table = grown(self._table, graph.ids.high)


class SpectralRule(RollingRule):
    """Algorithm 2 of the paper: the first-order update, then one pass over the whole graph.

    Every update computes every row: meant for batches, not for single events.
    """

    @property
    def orders(self) -> int:
        """1: only the first order is computed from the change itself."""
        return 1

    def plan(self, graph: Graph, delta: GraphDelta) -> Plan:
        """Return the sums of an update and of the pass."""
        return make_plan(graph, delta, 1, self.options, spectral=True)

    def _moved(self, plan: Plan) -> Changed:
        """Return all nodes as changed: V_1 at order 1, the others at order 2, by the pass."""
        if plan.whole is None:
            return super()._moved(plan)
        (first,), everyone = plan.influence.orders, plan.whole[0]
        rest = np.setdiff1d(everyone, first)
        orders = np.repeat(np.array([1, 2], np.int8), [len(first), len(rest)])
        return Changed(np.concatenate((first, rest)), orders, len(first) + len(everyone))
