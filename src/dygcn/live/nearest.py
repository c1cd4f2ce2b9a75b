"""Exact nearest neighbours by cosine, over vectors that are refreshed only where they moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.graph.ids import grown
from dygcn.models import cosines, norms, read_vectors

if TYPE_CHECKING:
    from dygcn.models import State
    from dygcn.records import Float32, Float64, Nodes


class VectorCache:
    """Vectors of all nodes, read again only where an update moved them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._vectors: Float32 = np.zeros((0, state.model.dim), np.float32)
        self._lengths: Float64 = np.zeros(0)
        self._stale = np.ones(0, np.int8)

    def mark(self, nodes: Nodes) -> None:
        """Say that nodes moved."""
        self._stale[nodes[nodes < len(self._stale)]] = 1

    def refresh(self, nodes: Nodes) -> tuple[Float32, Float64]:
        """Return vectors and lengths of nodes as they are now."""
        known = len(self._stale)
        high = self._state.graph.ids.high
        self._vectors, self._lengths = grown(self._vectors, high), grown(self._lengths, high)
        self._stale = grown(self._stale, high)
        self._stale[known:] = 1
        stale = nodes[self._stale[nodes] > 0]
        if len(stale):
            model = self._state.model
            fresh = read_vectors(model, self._state.rule, self._state.graph, stale)
            self._vectors[stale] = fresh
            self._lengths[stale] = norms(fresh)
            self._stale[stale] = 0
        return self._vectors[nodes], self._lengths[nodes]


def nearest_rows(vectors: Float32, lengths: Float64, query: Float32, k: int) -> list[tuple[int, float]]:
    """Return the k rows with the greatest cosine; of equal ones the first."""
    scores = cosines(vectors, lengths, query)
    k = min(k, len(scores))
    if k <= 0:
        return []
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]
    best = np.flatnonzero(scores >= bar)
    best = best[np.argsort(-scores[best], kind="stable")][:k]
    return [(int(row), float(scores[row])) for row in best]
