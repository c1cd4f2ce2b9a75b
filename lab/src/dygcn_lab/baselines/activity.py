"""Two scores of how busy the ends of a pair are: nothing is learned, and nothing of the pair itself is known.

They are the rows that a temporal method must beat before its memory of pairs or its vectors are worth
anything: popular nodes were hard to beat in Daniluk and Dąbrowski, "Temporal graph models fail to capture
global temporal dynamics", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.records import Float32, Float64, Int64
from dygcn_lab.evaluation.steps import Moment

HALF_LIFE = 3.0  # in steps


class Popularity:
    """Scores the number of events at both ends, each half forgotten after three steps; has no vectors."""

    def start(self, nodes: int) -> None:
        """Begin with nodes that have no events."""
        self._counts = np.zeros(nodes)
        self._logs = self._counts

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Count the events of all moments."""
        self.start(nodes)
        for moment in moments:
            self.follow(moment)

    def follow(self, moment: Moment) -> None:
        """Forget a part, and count the events of one more moment."""
        ends = np.concatenate((moment.src, moment.dst))
        self._counts = self._counts * 0.5 ** (1 / HALF_LIFE) + np.bincount(ends, minlength=len(self._counts))
        self._logs = np.log1p(self._counts)

    def vectors(self) -> Float32 | None:
        """Return None: there are none."""
        return None

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return log(1 + count) of one end plus that of the other, whatever the task."""
        logs: Float64 = self._logs[pairs[:, 0]] + self._logs[pairs[:, 1]]
        return logs


class DegreeContact:
    """Scores log(1 + degree) - log(1 + steps since the last event), summed over both ends; has no vectors.

    The form of the score of dygcn's exact rule without the cosine and without any number to fit. A node that
    never had an event is as old as the history.
    """

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Take all moments, for the last events of every node."""
        self._step, self._last = -1, np.full(nodes, -1.0)
        for moment in moments:
            self.follow(moment)

    def follow(self, moment: Moment) -> None:
        """Count degrees, and note whose last event was in this moment."""
        self._step += 1
        self._last[moment.src], self._last[moment.dst] = self._step, self._step
        degrees = np.bincount(moment.edges.ravel(), minlength=len(self._last))
        self._terms = np.log1p(degrees) - np.log1p(self._step - self._last)

    def vectors(self) -> Float32 | None:
        """Return None: there are none."""
        return None

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return the sum over both ends, whatever the task."""
        terms: Float64 = self._terms[pairs[:, 0]] + self._terms[pairs[:, 1]]
        return terms
