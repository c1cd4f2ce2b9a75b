"""The contract of a rule, and the influenced sets V_1..V_K of the paper (its section 4.2).

What else a rule says of itself is a `dygcn.engine.models.model.RuleSpec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.graph import Graph
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.propagation.gathering import next_ring
from dygcn.engine.records import Bytes, Changed, FeatureDelta, GraphDelta, Influence, Nodes, Written


class Rule(Protocol):
    """Keeps the state of every node up to date with the graph."""

    @property
    def orders(self) -> int:
        """K, how many orders a change propagates over."""

    def reserve(self, graph: Graph) -> None:
        """Reserve capacity for every node of a graph, before a change is written; no value changes."""

    def apply(self, graph: Graph, delta: GraphDelta, features: FeatureDelta | None = None) -> Changed:
        """Propagate a change that the graph already holds to the 1st..K-th order influenced nodes."""

    @property
    def in_one_call(self) -> bool:
        """Whether one edge between known nodes can be staged by its nodes alone."""

    def write(self, transaction: Transaction) -> tuple[Written, Changed]:
        """Write what is staged to the graph and to the state."""

    def rebuild(self, graph: Graph) -> None:
        """Recompute everything that follows from the graph."""

    def removal(self, graph: Graph, owners: Nodes) -> FeatureDelta | None:
        """Return the change when nodes lose their own features; called before nodes are removed."""

    def image(self, graph: Graph, nodes: Nodes) -> dict[str, NDArray[Any]]:
        """Return the part of a saved state beside model and graph, in the order of the nodes."""

    def restore(self, graph: Graph, nodes: Nodes, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Load what `image` returned, for a graph that was just built."""

    def state_bytes(self, graph: Graph, nodes: Nodes) -> Iterator[Bytes]:
        """Yield the logical state of nodes, in their order, for the digest."""


def influence(graph: Graph, touched: Nodes, orders: int) -> Influence:
    """Return V_1..V_K: the ends of the changed edges, then ring by ring the nodes that aggregate them.

    Each node stands in its lowest order. The touched set is a set: a node that gained one edge and lost
    another belongs to V_1.
    """
    seen = np.zeros(graph.ids.high, np.int8)
    ring = np.unique(touched)
    seen[ring] = 1
    rings = [ring]
    push = graph.push
    for _ in range(orders - 1):
        ring = np.sort(next_ring(ring, seen, push.start, push.count, push.others))
        rings.append(ring)
    return Influence(tuple(rings))
