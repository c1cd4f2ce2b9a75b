"""Arrays of nodes that other processes read: where they lie, and the stamps beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import Allocator, grown
from dygcn.engine.graph.ticks import Ticks

if TYPE_CHECKING:
    from dygcn.engine.records import Int64

NO_TICKS = Ticks(np.empty(0, np.int64), np.zeros(1, np.int64))
"""Of arrays that no other process reads."""


def new_ticks(nodes: int, zeros: Allocator, now: Int64) -> Ticks:
    """Return stamps of so many nodes."""
    return Ticks(zeros(nodes, np.int64), now)


def grown_ticks(ticks: Ticks, nodes: int, zeros: Allocator | None) -> Ticks:
    """Return stamps of at least so many nodes; where no other process reads, there are none.

    Readers look at the old stamps until the change is published, and arrays that did not grow are written
    meanwhile: so whoever reads the old stamps shall find every node changed.
    """
    if zeros is None:
        return ticks
    stamps, now = ticks.arrays
    fresh = grown(stamps, nodes, zeros)
    if fresh is not stamps:
        stamps[:] = now[0]
    return Ticks(fresh, now)
