"""Which change wrote the rows of a node last: what other processes need to read rows that are being written.

A *tick* is one whole change of a state: an update, or a trial that was taken back. Before the first row of a
node is written in a change, the node is stamped with the number of that change. A reader takes the number of
the last whole change, reads the rows, and then looks at the stamp: if it is not above that number, nobody
wrote to the rows meanwhile (a sequence lock, with one lock a node).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import fence, load_64, prefetch_64, store_64

if TYPE_CHECKING:
    from dygcn.engine.records import Int64, Nodes


class Ticks:
    """Stamps of nodes, and the number of the change that is being made.

    Parameters
    ----------
    stamps
        For each node, the change that wrote to it last; empty: nobody else reads, and none is kept.
    now
        The change that is being made, or the next one, (1,).

    Examples
    --------
    >>> import numpy as np
    >>> ticks = Ticks(np.zeros(3, np.int64), np.array([7]))
    >>> stamp_all(ticks, np.array([1], np.int32))
    >>> latest(ticks, np.array([0, 1], np.int32)), latest(ticks, np.array([0, 2], np.int32))
    (7, 0)
    """

    def __init__(self, stamps: Int64, now: Int64) -> None:
        self.arrays = stamps, now
        self.stamps, self.now = stamps, now

    def __reduce__(self) -> tuple[type[Ticks], tuple[Int64, Int64]]:
        return Ticks, self.arrays


def stamp(ticks: Ticks, node: int) -> None:
    """Stamp a node, before anything of it is written."""
    if len(ticks.stamps) > 0:
        store_64(ticks.stamps, node, ticks.now[0])
        fence()


def prefetch_stamp(ticks: Ticks, node: int) -> None:
    """Ask for the stamp of a node before it is needed."""
    if len(ticks.stamps) > 0:
        prefetch_64(ticks.stamps, node)


def stamp_all(ticks: Ticks, nodes: Nodes) -> None:
    """Stamp nodes; see `stamp`."""
    with cython.nogil:
        for i in range(len(nodes)):
            stamp(ticks, nodes[i])


def latest(ticks: Ticks, nodes: Nodes) -> int:
    """Return the greatest stamp of nodes, 0 for none; after their rows were read."""
    found = 0
    with cython.nogil:
        fence()
        for i in range(len(nodes)):
            found = max(found, load_64(ticks.stamps, nodes[i]))
    return found


def stamps_of(ticks: Ticks, nodes: Nodes, most: Int64) -> None:
    """Raise `most` to the stamp of each node; after their rows were read."""
    with cython.nogil:
        fence()
        for i in range(len(nodes)):
            most[i] = max(most[i], load_64(ticks.stamps, nodes[i]))


def published(words: Int64, at: int) -> int:
    """Read a number that another process publishes, before anything that it stands for."""
    found = load_64(words, at)
    fence()
    return found


def publish(words: Int64, at: int, value: int) -> None:
    """Publish a number, after everything that it stands for."""
    fence()
    store_64(words, at, value)
