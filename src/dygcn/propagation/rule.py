"""What every rule offers. A rule is one module with one class that has this shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.features import Features
    from dygcn.graph import Graph
    from dygcn.records import Bytes, FeatureDelta, GraphDelta, Int32, Int64, Moved, Nodes


class Rule(Protocol):
    """Keeps the state of every node up to date with the graph."""

    orders: int
    features: Features

    def apply(self, graph: Graph, delta: GraphDelta, features: FeatureDelta | None = None) -> Moved:
        """Propagate a change that the graph already holds to the 1st..K-th order influenced nodes."""

    def rebuild(self, graph: Graph) -> None:
        """Compute the state from nothing."""

    def messages(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int32, Int64]:
        """Return h_order of nodes on the grid, (n, width), and 1 where a node has one, (n,)."""

    def state_bytes(self, graph: Graph, nodes: Nodes) -> Iterator[Bytes]:
        """Yield the logical state of nodes, in their order, for the digest."""
