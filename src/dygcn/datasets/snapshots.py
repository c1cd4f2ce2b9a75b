"""The edges of a graph after each step, without the engine that is being judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Int64


class Snapshots:
    """Undirected edges of a graph, updated event by event.

    Examples
    --------
    >>> import numpy as np
    >>> graph = Snapshots()
    >>> graph.apply(np.array([1, 2]), np.array([2, 3]), np.array([1, 1])).tolist()
    [[1, 2], [2, 3]]
    >>> graph.apply(np.array([2]), np.array([1]), np.array([-1])).tolist()
    [[2, 3]]
    """

    def __init__(self) -> None:
        self._edges: dict[tuple[int, int], None] = {}

    def apply(self, src: Int64, dst: Int64, op: Int64) -> Int64:
        """Apply events in order and return the edges, (m, 2), the lower end first."""
        low, high = np.minimum(src, dst).tolist(), np.maximum(src, dst).tolist()
        for a, b, what in zip(low, high, op.tolist(), strict=True):
            if what > 0 and a != b:
                self._edges[a, b] = None
            else:
                self._edges.pop((a, b), None)
        return np.array(list(self._edges), dtype=np.int64).reshape(-1, 2)
