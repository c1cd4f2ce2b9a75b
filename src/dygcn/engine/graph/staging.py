"""A staged batch, checked but not yet written: by nodes, then by pairs; and the buffers of its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn.engine.graph.constants import CAME, FOUND, TOUCHED, UNCHANGED
from dygcn.engine.graph.delta import BatchArrays, EventArrays, find_pairs
from dygcn.engine.graph.hashing import new_secret
from dygcn.engine.graph.ids import replace_together
from dygcn.engine.records import FeatureDelta, Float32, Float64, Int8, Int16, Int32, Int64, Nodes, Parts

FEW_EVENTS = 64  # that the buffers always hold; more are not worth a call of their own kind
_KEPT = 1 << 18  # rows that stay after a batch
_OF_PAIRS = {  # arrays with one value for each pair or event
    "a": np.int32, "b": np.int32, "old": np.int64, "new": np.int64, "last": np.float64, "count": np.float32,
    "ghosts": np.int64, "ghost_t": np.float64, "pair_of": np.int32, "mark": np.int8,
}  # fmt: skip


@dataclass(slots=True)
class NodeEvents:
    """Checked events by nodes, with weights on the grid."""

    src: Nodes  # (n,) -1 for an id that is not known
    dst: Nodes  # (n,)
    op: Int8  # (n,)
    weight: Int64  # (n,)
    t: Float64  # (n,), or empty where times are not used
    clock: float
    contact_clock: float = 0.0
    parts: tuple[Nodes, Nodes, Int16, Int64] | None = None  # what relations add to pairs after them
    lapsed: int = 0  # edges that leave by the clock, between them

    @property
    def arrays(self) -> EventArrays:
        """The events, for loops."""
        return EventArrays(self.src, self.dst, self.op, self.weight, self.t)


@dataclass(slots=True)
class StagedPairs:
    """New values of pairs of nodes. Writing them is idempotent."""

    a: Nodes  # (n,)
    b: Nodes  # (n,)
    new: Int64  # (n,) stored weights, below zero for ghosts
    last: Float64  # (n,) last contacts, or empty where they are not kept, or stay what they are
    count: Float32  # (n,) or empty
    named: Nodes  # nodes that may come or go
    pair_of: Int32  # LOOP where a named node belongs to no pair
    ghosts: Int64  # (n,) full weights of the ghosts, 0 where there is none
    ghost_t: Float64  # (n,)
    clock: float
    contact_clock: float = -np.inf
    own: int | None = None  # 1 or 0: the named nodes get or lose the mark of having features of their own
    touched: tuple[Nodes, Float64, Float32] | None = None  # nodes, their last contacts and counts
    parts: Parts | None = None  # of all pairs; None: they stay, or there are no relations


@dataclass(slots=True)
class Before:
    """The graph before a trial, limited to what the trial can change."""

    given: list[int]  # for `IdMap.let_go`
    clock: float  # of the memory
    contact_clock: float
    pairs: StagedPairs | None = None  # None: nothing is written yet
    features: FeatureDelta | None = None  # brings rows of features back
    entered: bool = False


class PairBuffers:
    """The working arrays of loops over a batch, reused by the next. See `BatchArrays`."""

    a: Nodes
    b: Nodes
    old: Int64
    new: Int64
    last: Float64
    count: Float32
    ghosts: Int64
    ghost_t: Float64
    pair_of: Int32
    mark: Int8
    arcs: Nodes
    arc_weights: Int64
    nodes: Nodes
    arrays: BatchArrays  # all of these, for loops

    def __init__(self, directed: bool) -> None:
        self.directed = directed
        self.needed = np.zeros(4, np.int64)
        self.sizes = np.zeros(FOUND + 1, np.int64)
        self._secret = new_secret().view(np.int64)
        self._size: int
        self._make(FEW_EVENTS)

    def _make(self, size: int) -> None:
        fresh: dict[str, Any] = {name: np.empty(size, kind) for name, kind in _OF_PAIRS.items()}
        lists = {"arcs": np.empty(4 * size, np.int32), "arc_weights": np.empty(4 * size, np.int64)}
        lists["nodes"] = np.empty((4, 3 * size), np.int32)
        table = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
        written = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64)
        inner = np.empty(size, np.int32), table, *written, self.needed, self.sizes, self._secret
        arrays = BatchArrays(*fresh.values(), *inner, *lists.values(), np.empty(size))
        replace_together(self, _size=size, **fresh, **lists, arrays=arrays)

    def reserve(self, events: int) -> None:
        """Grow the buffers to `events` events."""
        if events > self._size:
            self._make(events + events // 2)

    def number(self, src: Nodes, dst: Nodes) -> int:
        """Number the pairs that events name; return how many there are."""
        self.reserve(len(src))
        return find_pairs(self.arrays, src, dst, self.directed)

    def fill(self, a: Nodes, b: Nodes, old: Int64, new: Int64) -> None:
        """Fill the buffers with pairs and their weights."""
        n = len(a)
        self.reserve(n)
        self.a[:n], self.b[:n], self.old[:n], self.new[:n], self.sizes[FOUND] = a, b, old, new, n

    def load(self, staged: StagedPairs, old: Int64, counts: Sequence[int]) -> None:
        """Fill the buffers with staged pairs, their old weights and counts, as playing events would."""
        events, kept = len(staged.named), len(staged.last)
        self.reserve(events)
        self.fill(staged.a, staged.b, old, staged.new)
        self.last[:kept], self.count[:kept] = staged.last, staged.count
        self.pair_of[:events] = staged.pair_of[:events]
        self.sizes[UNCHANGED:FOUND] = counts

    def touched(self) -> Nodes:
        """Return the nodes that a batch touched, as a view of the buffers."""
        touched: Nodes = self.nodes[0, : self.sizes[TOUCHED]]
        return touched

    def take(self, arcs: int) -> tuple[Nodes, Nodes, Int64, Int64, Nodes, Nodes]:
        """Return the results of a batch: receivers, senders, old and new weights, touched and new nodes.

        They are copies; after a very large batch, they are the buffers themselves, which small ones then
        replace.
        """
        ends, weights, nodes = self.arcs[: 2 * arcs], self.arc_weights[: 2 * arcs], self.nodes
        lists = nodes[0, : self.sizes[TOUCHED]], nodes[1, : self.sizes[CAME]]
        if self._size > _KEPT:
            self._make(FEW_EVENTS)
        else:
            ends, weights = ends.copy(), weights.copy()
            lists = lists[0].copy(), lists[1].copy()
        return ends[:arcs], ends[arcs:], weights[:arcs], weights[arcs:], *lists
