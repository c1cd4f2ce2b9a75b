"""How much of what a question asks for was there before: what a memory of the past alone would get right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures import PairSet
from dygcn_lab.evaluation.seen import Seen

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Int64
    from dygcn_lab.evaluation import Figures
    from dygcn_lab.evaluation.steps import Steps

SHARES = {
    "there": "edges at t + 1 that are there at t",
    "returns": "new-warm links that return",
    "seen": "pairs of the next events that were linked before",
    "known": "labelled nodes that the frozen classifier was fitted on",
}


def shares(steps: Steps, labels: Int64 | None) -> Figures:
    """Return shares over the tested steps, by name; NaN where a step has nothing to count.

    Examples
    --------
    >>> from dygcn_lab.evaluation.steps import Steps
    >>> ends = np.array([[0, 1], [1, 2], [2, 0], [1, 2], [0, 1], [0, 1]])
    >>> op, step = np.array([1, 1, 1, 1, -1, 1]), np.array([0, 0, 0, 1, 2, 3])
    >>> shares(Steps(*ends.T, op, step, fitted=0), None)["returns"]
    [nan, 1.0]
    """
    found: Figures = {name: [] for name in SHARES if name != "known" or labels is not None}
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
