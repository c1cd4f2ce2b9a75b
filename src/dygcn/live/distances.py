"""How far vectors move: the vectors of all nodes are kept, and compared when an update moved them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float32, Nodes
    from dygcn.live.search.nearest import VectorCache


class DistanceTracker:
    """Keeps the vectors from before an update. Each update costs reading the vectors that the last one moved.

    Parameters
    ----------
    cache
        Where vectors are read; nobody else may let it forget.
    """

    def __init__(self, cache: VectorCache) -> None:
        self._cache = cache
        self._position = 0
        self._here: Bool = np.zeros(0, np.bool_)

    def begin(self) -> None:
        """Read what moved since the last update: the next one is about to change it."""
        changes, graph = self._cache.changes, self._cache.state.graph
        nodes = changes.behind(self._position).nodes
        self._cache.refresh(nodes[graph.present(nodes)])
        self._position = changes.last
        self._here = graph.here > 0

    def before(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes before the update, (n, dim); NaN for nodes that were not there."""
        known = nodes < len(self._here)
        known[known] = self._here[nodes[known]]
        rows = np.full((len(nodes), self._cache.state.model.dim), np.nan, np.float32)
        rows[known] = self._cache.peek(nodes[known])
        return rows
