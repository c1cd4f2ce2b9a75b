"""Every pair that was ever linked: what a link that returns is told from a new one by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures import PairSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn_lab.evaluation.steps import Moment


class Seen:
    """The union of all pairs up to a moment, followed moment by moment.

    A pair that an event added and another one took away inside the same step was linked, too.

    Examples
    --------
    >>> from dygcn_lab.evaluation.steps import Moment
    >>> one = np.array([1])
    >>> begun = Moment(np.array([0]), np.array([1]), one, np.array([[0, 1]]))
    >>> gone = Moment(np.array([0]), np.array([1]), -one, np.empty((0, 2), np.int64))
    >>> Seen([begun, gone], nodes=3).upto(1).has(np.array([1]), np.array([0])).tolist()
    [True]
    """

    def __init__(self, moments: Sequence[Moment], nodes: int) -> None:
        self._moments, self._nodes = moments, nodes
        self._restart()

    def _restart(self) -> None:
        self._pairs = PairSet(np.empty((0, 2), np.int64), self._nodes)
        self._next = 0

    def upto(self, step: int) -> PairSet:
        """Return the pairs that were linked at any moment from the first one to this one."""
        if step < self._next - 1:
            self._restart()
        for moment in self._moments[self._next : step + 1]:
            added = (moment.op > 0) & (moment.src != moment.dst)
            self._pairs.add(moment.src[added], moment.dst[added])
            self._pairs.add(moment.edges[:, 0], moment.edges[:, 1])
        self._next = max(self._next, step + 1)
        return self._pairs
