"""Vectors of length one, and the candidates for the nearest among few of them: all are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, Nodes


def rounding(dim: int) -> float:
    """Return how far apart two cosines may be that were summed in float32 and are the same.

    A sum of n products of numbers whose squares sum to one is off by n units of rounding at most, in whatever
    order it is taken; some more for the division by the length.
    """
    return 2 * (dim + 8) * 2.0**-24


class UnitRows:
    """A matrix without gaps of vectors of length one, and whose they are.

    Examples
    --------
    >>> rows = UnitRows(2)
    >>> rows.put(np.array([7, 4, 9], np.int32), np.array([[1, 0], [0, 1], [-1, 0]], np.float32))
    >>> rows.drop(np.array([7], np.int32))
    >>> len(rows), rows.candidates(np.array([0.6, 0.8], np.float32), 1).tolist()
    (2, [4])
    """

    kind = "exact"

    def __init__(self, dim: int) -> None:
        self._rows: Float32 = np.zeros((0, dim), np.float32)
        self._nodes: Nodes = np.zeros(0, np.int32)
        self._place: Nodes = np.zeros(0, np.int32)  # by node; only that of a node which is in is looked at
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, nodes: Nodes, units: Float32) -> None:
        """Add nodes that are not in, none twice."""
        if len(nodes) == 0:
            return
        end = self._count + len(nodes)
        self._rows, self._nodes = grown(self._rows, end), grown(self._nodes, end)
        self._place = grown(self._place, int(nodes.max()) + 1)
        self._rows[self._count : end], self._nodes[self._count : end] = units, nodes
        self._place[nodes] = np.arange(self._count, end)
        self._count = end

    def drop(self, nodes: Nodes) -> None:
        """Take out nodes that are in; the last rows move to where they were."""
        end = self._count - len(nodes)
        gone = self._place[nodes]
        last = np.ones(len(nodes), np.bool_)
        last[gone[gone >= end] - end] = False
        moved = np.flatnonzero(last) + end
        holes = gone[gone < end]
        self._rows[holes], self._nodes[holes] = self._rows[moved], self._nodes[moved]
        self._place[self._nodes[holes]] = holes
        self._count = end

    def candidates(self, query: Float32, k: int) -> Nodes:
        """Return the k nearest and all who may be as near, in no order; `query` has length one."""
        n, k = self._count, min(k, self._count)
        if k <= 0:
            return self._nodes[:0]
        scores = self._rows[:n] @ query
        bar = np.partition(scores, n - k)[n - k]
        return self._nodes[np.flatnonzero(scores >= bar - rounding(len(query)))]
