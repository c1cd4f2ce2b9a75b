"""Scratch buffers for the pairs of one batch: arrays that the next batch fills again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.graph.batch import BatchArrays
from dygcn.engine.graph.hashing import new_secret
from dygcn.engine.graph.ids import replace_together
from dygcn.engine.graph.outcomes import CAME, FOUND, TOUCHED, UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.graph.staging import StagedPairs
    from dygcn.engine.records import Float32, Float64, Int8, Int32, Int64, Nodes

FEW = 64
"""Events that the buffers always hold; more are not worth a call of their own kind."""
_KEPT = 1 << 18  # rows that stay after a batch


class PairBuffers:
    """The arrays that `delta` and `writing` work in; see `BatchArrays` for what they hold."""

    def __init__(self) -> None:
        self.needed = np.zeros(4, np.int64)
        self.sizes = np.zeros(FOUND + 1, np.int64)
        self._secret = new_secret().view(np.int64)
        self._size: int
        self.a: Nodes
        self.b: Nodes
        self.old: Int64
        self.new: Int64
        self.last: Float64
        self.count: Float32
        self.ghosts: Int64
        self.ghost_t: Float64
        self.pair_of: Int32
        self.mark: Int8
        self.arcs: Nodes
        self.arc_weights: Int64
        self.nodes: Nodes
        self.arrays: BatchArrays  # all of these, for loops
        self._make(FEW)

    def _make(self, size: int) -> None:
        kinds = {
            "a": np.int32,
            "b": np.int32,
            "old": np.int64,
            "new": np.int64,
            "last": np.float64,
            "count": np.float32,
            "ghosts": np.int64,
            "ghost_t": np.float64,
            "pair_of": np.int32,
            "mark": np.int8,
        }
        fresh = {name: np.empty(size, kind) for name, kind in kinds.items()}
        lists = {"arcs": np.empty(4 * size, np.int32), "arc_weights": np.empty(4 * size, np.int64)}
        lists["nodes"] = np.empty((4, 3 * size), np.int32)
        table = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
        written = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64)
        inner = np.empty(size, np.int32), table, *written, self.needed, self.sizes, self._secret
        arrays: tuple[Any, ...] = *fresh.values(), *inner, *lists.values(), np.empty(size)
        replace_together(self, _size=size, **fresh, **lists, arrays=BatchArrays(*arrays))

    def reserve(self, events: int) -> None:
        """Grow the buffers to so many events."""
        if events > self._size:
            self._make(events + events // 2)

    def load(self, staged: StagedPairs, old: Int64, counts: Sequence[int]) -> None:
        """Take pairs as if they had been played, with what was stored of them before and what was counted."""
        n, events, kept = len(staged.a), len(staged.named), len(staged.last)
        self.reserve(max(n, events))
        self.a[:n], self.b[:n], self.old[:n], self.new[:n] = staged.a, staged.b, old, staged.new
        self.last[:kept], self.count[:kept] = staged.last, staged.count
        self.pair_of[:events] = staged.pair_of[:events]
        self.sizes[UNCHANGED:] = *counts, n

    def touched(self) -> Nodes:
        """Return the nodes that a batch touched; not to be kept."""
        touched: Nodes = self.nodes[0, : self.sizes[TOUCHED]]
        return touched

    def take(self, arcs: int) -> tuple[Nodes, Nodes, Int64, Int64, Nodes, Nodes]:
        """Return what a batch left: receivers, senders, old and new weights, who was touched and who came.

        They are copies; or, after a very large batch, the arrays of these buffers, which are
        then replaced by small ones.
        """
        ends, weights, nodes = self.arcs[: 2 * arcs], self.arc_weights[: 2 * arcs], self.nodes
        lists = nodes[0, : self.sizes[TOUCHED]], nodes[1, : self.sizes[CAME]]
        if self._size > _KEPT:
            self._make(FEW)
        else:
            ends, weights = ends.copy(), weights.copy()
            lists = lists[0].copy(), lists[1].copy()
        return ends[:arcs], ends[arcs:], weights[:arcs], weights[arcs:], *lists
