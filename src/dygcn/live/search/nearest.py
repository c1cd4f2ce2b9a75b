"""The top k by cosine, over vectors that are refreshed only where they moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.models.contracts import Reading, StateReader
from dygcn.engine.models.links import cosines, norms
from dygcn.engine.models.read_kernels import to_units
from dygcn.engine.records import Float32, Float64, Int64, Nodes
from dygcn.errors import IndexNotReady
from dygcn.live.changed import ChangeRecord

_BLOCK = 1 << 12  # vectors that are read while others wait: some milliseconds
MOST_UNREAD = 2_000_000  # vectors that a question waits for
_PRODUCTS = 1 << 22  # of askers and candidates that are held at once


def rounding(dim: int) -> float:
    """Return the largest difference by which float32 sums can separate two equal cosines.

    A sum of n products of numbers whose squares sum to one is off by n units of rounding at most, in whatever
    order it is taken; some more for the division by the length.
    """
    return 2 * (dim + 8) * 2.0**-24


class VectorCache:
    """Cached vectors of all nodes; only stale ones are read again."""

    def __init__(self, state: StateReader, changes: ChangeRecord) -> None:
        self.state, self.changes = state, changes
        self._vectors: Float32 = np.zeros((0, state.model.dim), np.float32)
        self._lengths: Float64 = np.zeros(0)
        self._read_at: Int64 = np.zeros(0, np.int64)  # by node: the tick then; -1 for one never read
        self._model, self._readout = state.model, state.reading()

    def forget(self) -> None:
        """Invalidate the cache: every vector is read again."""
        self._read_at[:] = -1

    def refresh(self, nodes: Nodes) -> tuple[Float32, Float64]:
        """Return current vectors and lengths of nodes."""
        self.state.check()
        self._reserve()
        stale = nodes[~self.changes.is_fresh(nodes, self._read_at[nodes])]
        if len(stale):
            self._read(stale)
        return self._vectors[nodes], self._lengths[nodes]

    def stale(self) -> Nodes:
        """Return the nodes whose cached vectors are outdated."""
        self._reserve()
        high = self.state.graph.ids.high
        here = np.flatnonzero(self.state.graph.here[:high]).astype(np.int32)
        return here[~self.changes.is_fresh(here, self._read_at[here])]

    def arrays(self) -> tuple[Float32, Float64]:
        """Return cached vectors and lengths by node, maybe outdated; the caller must not change them."""
        return self._vectors, self._lengths

    def one(self, node: int) -> Float32:
        """Return the current vector of one node, (dim,); the caller may change it."""
        self.state.check()
        if node >= len(self._read_at) or not self.changes.one_is_fresh(node, self._read_at[node]):
            self._reserve()
            fresh = self._reading().vectors(np.array([node], np.int32))
            # One number at a time: setting it by an array of one takes five times as long.
            self._vectors[node], self._lengths[node] = fresh[0], norms(fresh)[0]
            self._read_at[node] = self.changes.tick
            row: Float32 = fresh[0]
        else:
            row = self._vectors[node].copy()
        return row

    def _reserve(self) -> None:
        known, high = len(self._read_at), self.state.graph.ids.high
        if known >= high:
            return
        vectors, lengths, read_at = (grown(a, high) for a in (self._vectors, self._lengths, self._read_at))
        read_at[known:] = -1
        self.changes.reserve(len(read_at))
        replace_together(self, _vectors=vectors, _lengths=lengths, _read_at=read_at)

    def _read(self, nodes: Nodes) -> None:
        fresh = self._reading().vectors(nodes)
        self._vectors[nodes] = fresh
        self._lengths[nodes] = norms(fresh)
        self._read_at[nodes] = self.changes.tick

    def _reading(self) -> Reading:
        if self._model is not self.state.model:  # a fresh base may bring another
            self._model, self._readout = self.state.model, self.state.reading()
        return self._readout


def top_k(cache: VectorCache, candidates: Nodes, query: Float32, k: int) -> tuple[Nodes, Float64]:
    """Return the k candidates with the greatest cosine and their cosines, best first, ties by the user's ids.

    All is as it is now, and a cosine has the same bits whatever the other candidates are. A vector of length
    zero has cosine 0 with every other one.
    """
    graph = cache.state.graph
    nodes = np.unique(candidates[graph.present(candidates)])
    scores = cosines(*cache.refresh(nodes), query)
    if len(nodes) > k:
        good = scores >= np.partition(scores, -k)[-k]
        nodes, scores = nodes[good], scores[good]
    by_id = np.searchsorted(nodes, graph.ids.sorted(nodes))
    best = by_id[np.argsort(-scores[by_id], kind="stable")][:k]
    return nodes[best], scores[best]


def top_k_of_each(
    cache: VectorCache, candidates: Nodes, askers: Nodes, k: int
) -> Iterator[tuple[Nodes, Float64]]:
    """Yield what `top_k` returns for each query node; no node is its own neighbour.

    A product of matrices finds, for many askers at once, all who may be among the k; `top_k` ranks these.
    """
    everyone = np.unique(candidates[cache.state.graph.present(candidates)])
    vectors, lengths = cache.refresh(everyone)
    units, slack = to_units(vectors, lengths), np.float32(rounding(vectors.shape[1]))
    block = max(1, _PRODUCTS // max(len(everyone), 1))
    for start in range(0, len(askers), block):
        some = askers[start : start + block]
        queries, sizes = cache.refresh(some)
        near = to_units(queries, sizes) @ units.T
        near[some[:, None] == everyone] = -np.inf
        last = max(len(everyone) - k, 0)
        for node, query, row in zip(some, queries, near, strict=True):
            bar = np.partition(row, last)[last] - slack if len(row) else 0.0
            found = everyone[row >= bar]
            yield top_k(cache, found[found != node], query, k)


def read_stale(
    cache: VectorCache,
    guard: AbstractContextManager[Any],
    cancelled: Callable[[], bool] = lambda: False,
    limit: int | None = None,
) -> None:
    """Read all stale vectors, or so many, in blocks, until done or cancelled."""
    with guard:
        stale = cache.stale()[:limit]
    for start in range(0, len(stale), _BLOCK):
        if cancelled():
            return
        some = stale[start : start + _BLOCK]
        with guard:
            cache.refresh(some[cache.state.graph.present(some)])


def nearest_of_all(
    cache: VectorCache,
    guard: AbstractContextManager[Any],
    reading: AbstractContextManager[Any],
    query: Float32,
    k: int,
) -> Nodes:
    """Return the k nearest nodes and all that tie within rounding, by slightly outdated vectors."""
    with guard:
        unread = len(cache.stale())
    if unread > MOST_UNREAD:
        raise IndexNotReady(
            f"the index is being built, and {unread} vectors are still to be read; ask again later"
        )
    with reading:
        read_stale(cache, guard)
    with guard:
        nodes = np.flatnonzero(cache.state.graph.here).astype(np.int32)
        vectors, lengths = cache.arrays()
    # Another thread may write a row meanwhile: then its node is a candidate, or none, by half of its vector,
    # and ranked by the whole one.
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (vectors @ query)[nodes] / lengths[nodes]
    scores = np.nan_to_num(scores, copy=False, nan=0.0)
    k = min(k, len(nodes))
    if k <= 0:
        return nodes
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]
    found: Nodes = nodes[scores >= bar - rounding(len(query))]
    return found
