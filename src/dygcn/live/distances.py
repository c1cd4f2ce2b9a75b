"""How far vectors move: the vectors of all nodes are kept, and compared when an update moved them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.live.changed import ChangeRecord
from dygcn.live.search.nearest import VectorCache

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.engine.records import Bool, Changed, Float32, Nodes


class DistanceTracker:
    """Keeps the vectors from before an update. Each update costs reading the vectors that the last one moved.

    Parameters
    ----------
    state
        Whose vectors are read.
    """

    def __init__(self, state: State) -> None:
        self._changes = ChangeRecord(state.graph.ids.high, 0, state.graph)
        self._cache = VectorCache(state, self._changes)
        self._position = 0
        self._here: Bool = np.zeros(0, np.bool_)

    def begin(self) -> None:
        """Read what moved since the last update: the next one is about to change it."""
        graph = self._cache.state.graph
        nodes = self._changes.behind(self._position).nodes
        self._cache.refresh(nodes[graph.present(nodes)])
        self._position = self._changes.last
        self._here = graph.here > 0

    def note(self, moved: Changed) -> None:
        """Say what an update moved."""
        self._changes.append(moved.nodes, 1, moved.heavy, moved.turned)

    def before(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes before the update, (n, dim); NaN for nodes that were not there."""
        known = nodes < len(self._here)
        known[known] = self._here[nodes[known]]
        rows = np.full((len(nodes), self._cache.state.model.dim), np.nan, np.float32)
        rows[known] = self._cache.peek(nodes[known])
        return rows
