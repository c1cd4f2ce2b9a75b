"""Common neighbours: a pair's score is the number of nodes that are linked to both, or what they are worth.

Liben-Nowell and Kleinberg, "The link prediction problem for social networks", CIKM 2003. Resource allocation:
Zhou, Lü and Zhang, "Predicting missing links via local information", European Physical Journal B 71, 2009.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.records import Float32, Float64, Int64
from dygcn_lab.baselines.snapshot import adjacency
from dygcn_lab.evaluation.steps import Moment

ENTRIES = 1 << 22  # of the rows that are intersected at once: hubs times many pairs would not fit


class CommonNeighbours:
    """Scores the number of common neighbours in the present graph; has no vectors."""

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Take the last of the moments."""
        self._nodes = nodes
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Take the graph."""
        self._links = adjacency(moment.edges, self._nodes)
        self._degrees = np.diff(self._links.indptr)

    def _worth(self) -> Float64:
        """Return what each node counts as a common neighbour."""
        return np.ones(self._nodes)

    def vectors(self) -> Float32 | None:
        """Return None: there are none."""
        return None

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return what the neighbours that each pair shares are worth, whatever the task."""
        common, worth = np.zeros(len(pairs)), self._worth()
        costs = np.cumsum(self._degrees[pairs].sum(axis=1, dtype=np.int64))
        begin = 0
        while begin < len(pairs):
            spent = costs[begin - 1] if begin else 0
            end = max(int(np.searchsorted(costs, spent + ENTRIES, side="right")), begin + 1)
            left, right = self._links[pairs[begin:end, 0]], self._links[pairs[begin:end, 1]]
            common[begin:end] = left.multiply(right) @ worth
            begin = end
        return common


class ResourceAllocation(CommonNeighbours):
    """Scores the sum of 1 / degree over the common neighbours in the present graph; has no vectors."""

    def _worth(self) -> Float64:
        worth: Float64 = 1 / np.maximum(self._degrees, 1)
        return worth
