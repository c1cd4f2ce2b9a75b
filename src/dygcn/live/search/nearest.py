"""Exact nearest neighbours by cosine, over vectors that are refreshed only where they moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.models import cosines, norms

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.engine.models.specs import Reading
    from dygcn.engine.records import Float32, Float64, Nodes


class VectorCache:
    """Vectors of all nodes, read again only where an update moved them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._vectors: Float32 = np.zeros((0, state.model.dim), np.float32)
        self._lengths: Float64 = np.zeros(0)
        self._stale = np.ones(0, np.int8)
        self._model, self._readout = state.model, state.reading()

    def mark(self, nodes: Nodes) -> None:
        """Say that nodes moved."""
        self._stale[nodes[nodes < len(self._stale)]] = 1

    def refresh(self, nodes: Nodes) -> tuple[Float32, Float64]:
        """Return vectors and lengths of nodes as they are now."""
        self._state.check()
        self._reserve()
        stale = nodes[self._stale[nodes] > 0]
        if len(stale):
            self._read(stale)
        return self._vectors[nodes], self._lengths[nodes]

    def one(self, node: int) -> Float32:
        """Return the vector of one node as it is now, (dim,); the caller may change it."""
        self._state.check()
        if node >= len(self._stale) or self._stale[node]:
            self._reserve()
            fresh = self._reading().vectors(np.array([node], np.int32))
            # One number at a time: setting it by an array of one takes five times as long.
            self._vectors[node], self._lengths[node], self._stale[node] = fresh[0], norms(fresh)[0], 0
            row: Float32 = fresh[0]
        else:
            row = self._vectors[node].copy()
        return row

    def _reserve(self) -> None:
        known, high = len(self._stale), self._state.graph.ids.high
        if known >= high:
            return
        vectors, lengths, stale = (grown(a, high) for a in (self._vectors, self._lengths, self._stale))
        stale[known:] = 1
        replace_together(self, _vectors=vectors, _lengths=lengths, _stale=stale)

    def _read(self, nodes: Nodes) -> None:
        fresh = self._reading().vectors(nodes)
        self._vectors[nodes] = fresh
        self._lengths[nodes] = norms(fresh)
        self._stale[nodes] = 0

    def _reading(self) -> Reading:
        if self._model is not self._state.model:  # a fresh base may bring another
            self._model, self._readout = self._state.model, self._state.reading()
        return self._readout


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
