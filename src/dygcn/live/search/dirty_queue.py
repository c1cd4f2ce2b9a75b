"""Nodes that moved and wait to be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Int8, Nodes


def _note(nodes: Nodes, marks: Int8, queue: Nodes, count: int) -> int:
    """Put those at the end of the queue that are not in it; return how long it is then."""
    with cython.nogil:
        for i in range(len(nodes)):
            if marks[nodes[i]] == 0:
                marks[nodes[i]] = 1
                queue[count] = nodes[i]
                count += 1
    return count


class DirtyQueue:
    """A queue of nodes, each in it once, those first that wait longest.

    Examples
    --------
    >>> dirty = DirtyQueue()
    >>> dirty.reserve(9)
    >>> dirty.add(np.array([4, 2, 4, 8], np.int32))
    >>> dirty.take(2).tolist(), dirty.nodes.tolist()
    ([4, 2], [8])
    """

    def __init__(self) -> None:
        self.marks: Int8 = np.zeros(0, np.int8)  # by node: 1 if it is in the queue
        self._queue: Nodes = np.zeros(0, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nodes(self) -> Nodes:
        """Who waits. Not for changing, and gone with the next call."""
        return self._queue[: self._count]

    def reserve(self, high: int) -> None:
        """Grow to nodes below `high`."""
        self.marks, self._queue = grown(self.marks, high), grown(self._queue, high)

    def add(self, nodes: Nodes) -> None:
        """Have nodes wait; those that do already keep their place."""
        self._count = _note(nodes, self.marks, self._queue, self._count)

    def take(self, limit: int | None = None) -> Nodes:
        """Return so many nodes, or all; they wait no longer."""
        taken = self.nodes[:limit].copy()
        rest = self._queue[len(taken) : self._count]
        self.marks[taken] = 0
        self._queue[: len(rest)] = rest.copy()
        self._count = len(rest)
        return taken

    def keep(self, which: Bool) -> None:
        """Let only these wait on, by their place."""
        everyone = self.nodes.copy()
        self.marks[everyone[~which]] = 0
        kept = everyone[which]
        self._queue[: len(kept)] = kept
        self._count = len(kept)
