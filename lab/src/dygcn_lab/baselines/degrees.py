"""Degree product: a pair's score is the product of its two degrees in the present graph, as a logarithm.

Preferential attachment (Barabási and Albert, Science 1999): a new edge picks its ends by degree. 1 is added
to each degree so that a node without edges has a score, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.records import Float32, Float64, Int64
from dygcn_lab.evaluation.steps import Moment


class DegreeProduct:
    """Scores log(1 + deg u) + log(1 + deg v); has no vectors."""

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Take the last of the moments."""
        self._nodes = nodes
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Count degrees."""
        self._logs = np.log1p(np.bincount(moment.edges.ravel(), minlength=self._nodes))

    def vectors(self) -> Float32 | None:
        """Return None: there are none."""
        return None

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return the logarithm of the product of the degrees, each plus one, whatever the task."""
        logs: Float64 = self._logs[pairs[:, 0]] + self._logs[pairs[:, 1]]
        return logs
