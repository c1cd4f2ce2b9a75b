"""Stamps of the change that last wrote a node's rows, with which other processes read consistently.

A *tick* is one change of a state: an update, or a trial that was taken back. Before a change writes the first
row of a node, it stamps the node with its number. A reader takes the number of the last finished change,
reads the rows, and then the stamp: if that is not above the number, nothing was written meanwhile (a sequence
lock, one lock a node).
"""

from __future__ import annotations

import numpy as np

from dygcn.engine.graph.ids import Allocator, grown
from dygcn.engine.records import Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._native import fence, load_64, prefetch_64, store_64


class Ticks(Holder):
    """Stamps of nodes (empty if no other process reads), and the number of the current change, (1,)."""

    def __init__(self, stamps: Int64, now: Int64) -> None:
        self.arrays = stamps, now
        self.stamps, self.now = stamps, now


def stamp(ticks: Ticks, node: int) -> None:
    """Stamp a node, before any of its rows is written."""
    if len(ticks.stamps) > 0:
        store_64(ticks.stamps, node, ticks.now[0])
        fence()


def prefetch_stamp(ticks: Ticks, node: int) -> None:
    """Prefetch the stamp of a node."""
    if len(ticks.stamps) > 0:
        prefetch_64(ticks.stamps, node)


def stamp_all(ticks: Ticks, nodes: Nodes) -> None:
    """Stamp nodes; see `stamp`."""
    with cython.nogil:
        for i in range(len(nodes)):
            stamp(ticks, nodes[i])


def latest(ticks: Ticks, nodes: Nodes) -> int:
    """Return the greatest stamp of nodes, 0 for none; call it after reading their rows."""
    found = 0
    with cython.nogil:
        fence()
        for i in range(len(nodes)):
            found = max(found, load_64(ticks.stamps, nodes[i]))
    return found


def stamps_of(ticks: Ticks, nodes: Nodes, most: Int64) -> None:
    """Raise `most` to the stamp of each node; call it after reading their rows."""
    with cython.nogil:
        fence()
        for i in range(len(nodes)):
            most[i] = max(most[i], load_64(ticks.stamps, nodes[i]))


def published(words: Int64, at: int) -> int:
    """Read a published number, before reading anything that it guards."""
    found = load_64(words, at)
    fence()
    return found


def publish(words: Int64, at: int, value: int) -> None:
    """Publish a number, after writing everything that it guards."""
    fence()
    store_64(words, at, value)


# ---- allocating stamps -----------------------------------------------------------------------------------

NO_TICKS = Ticks(np.empty(0, np.int64), np.zeros(1, np.int64))
"""Of arrays that no other process reads."""


def new_ticks(nodes: int, zeros: Allocator, now: Int64) -> Ticks:
    """Return stamps of this many nodes."""
    return Ticks(zeros(nodes, np.int64), now)


def grown_ticks(ticks: Ticks, nodes: int, zeros: Allocator | None) -> Ticks:
    """Return stamps of at least so many nodes; empty ones stay empty, as no other process reads.

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
