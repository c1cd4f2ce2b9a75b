"""Every pair that was ever linked: what a link that returns is told from a new one by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures import PairSet
from dygcn.engine.records import Bool, Int64
from dygcn_lab.evaluation.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn_lab.evaluation.steps import Moment


class Seen:
    """The union of all pairs up to a moment, followed moment by moment.

    A pair that an event added and another one took away inside the same step was linked, too.
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


SHARES = {
    "there": "edges at t + 1 that are there at t",
    "returns": "new-warm links that return",
    "seen": "pairs of the next events that were linked before",
    "known": "labelled nodes that the frozen classifier was fitted on",
}


def shares(steps: Steps, labels: Int64 | None) -> dict[str, list[float]]:
    """Return shares over the tested steps, by name; NaN where a step has nothing to count.

    Examples
    --------
    >>> from dygcn_lab.evaluation.steps import Steps
    >>> ends = np.array([[0, 1], [1, 2], [2, 0], [1, 2], [0, 1], [0, 1]])
    >>> op, step = np.array([1, 1, 1, 1, -1, 1]), np.array([0, 0, 0, 1, 2, 3])
    >>> shares(Steps(*ends.T, op, step, fitted=0), None)["returns"]
    [nan, 1.0]
    """
    found: dict[str, list[float]] = {name: [] for name in SHARES if name != "known" or labels is not None}
    seen, moments = Seen(steps.moments, steps.nodes), steps.moments
    fitted = _active(moments[steps.fitted].edges, steps.nodes)
    for step in steps.tested:
        now, coming = moments[step].edges, moments[step + 1]
        past, warm = seen.upto(step), _active(now, steps.nodes)
        there = PairSet(now, steps.nodes).has(coming.edges[:, 0], coming.edges[:, 1])
        fresh = coming.edges[~there & warm[coming.edges].all(axis=1)]
        added = (coming.op > 0) & (coming.src != coming.dst)
        events = np.unique(np.stack((coming.src, coming.dst), axis=1)[added], axis=0)
        events = events[warm[events].all(axis=1)]
        counted = {"there": there, "returns": past.has(*fresh.T), "seen": past.has(*events.T)}
        if labels is not None:
            counted["known"] = fitted[warm & (labels >= 0)]
        for name, each in counted.items():
            found[name].append(float(each.mean()) if len(each) else float("nan"))
    return found


def _active(edges: Int64, nodes: int) -> Bool:
    active = np.zeros(nodes, np.bool_)
    active[edges.ravel()] = True
    return active
