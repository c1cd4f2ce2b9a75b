"""A batch between being checked and being written: by nodes, then by pairs of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dygcn.engine.records import FeatureDelta, Float32, Float64, Int8, Int16, Int32, Int64, Nodes, Parts


@dataclass(slots=True)
class NodeEvents:
    """Events that were checked, by nodes, with weights on the grid."""

    src: Nodes  # (n,) -1 for an id that is not known
    dst: Nodes  # (n,)
    op: Int8  # (n,)
    weight: Int64  # (n,)
    t: Float64  # (n,), or empty where nobody looks at times
    clock: float
    contact_clock: float = 0.0
    parts: tuple[Nodes, Nodes, Int16, Int64] | None = None  # what relations add to pairs after them
    lapsed: int = 0  # edges that leave by the clock, between them


@dataclass(slots=True)
class StagedPairs:
    """What pairs of nodes become. To write them twice leaves what writing them once leaves."""

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
    """What a graph was before a trial, as far as the trial can change it."""

    given: list[int]  # for `IdMap.let_go`
    clock: float  # of the memory
    contact_clock: float
    pairs: StagedPairs | None = None  # None: nothing is written yet
    features: FeatureDelta | None = None  # brings rows of features back
    entered: bool = False
