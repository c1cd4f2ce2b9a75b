"""What every rule offers. A rule is one module with one class that has this shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dygcn.engine.graph import Graph
    from dygcn.engine.records import Bytes, Changed, FeatureDelta, GraphDelta, Nodes


class Rule(Protocol):
    """Keeps the state of every node up to date with the graph."""

    @property
    def orders(self) -> int:
        """K, how far a change is propagated."""

    def reserve(self, graph: Graph) -> None:
        """Have buffers for every node of a graph; called before a change is written; no value changes."""

    def apply(self, graph: Graph, delta: GraphDelta, features: FeatureDelta | None = None) -> Changed:
        """Propagate a change that the graph already holds to the 1st..K-th order influenced nodes."""

    def removal(self, graph: Graph, owners: Nodes) -> FeatureDelta | None:
        """Return what taking away the features of nodes changes; called before they are removed."""

    def image(self, graph: Graph, nodes: Nodes) -> dict[str, NDArray[Any]]:
        """Return what a saved state needs beside model and graph, in the order of the nodes."""

    def restore(self, graph: Graph, nodes: Nodes, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `image` returned, for a graph that was just built."""

    def state_bytes(self, graph: Graph, nodes: Nodes) -> Iterator[Bytes]:
        """Yield the logical state of nodes, in their order, for the digest."""
