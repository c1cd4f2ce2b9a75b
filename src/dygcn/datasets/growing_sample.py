"""The paper's Facebook set: a sample of a static graph that grows at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.datasets.steps import Steps

if TYPE_CHECKING:
    from dygcn.engine.records import Int64

NODES, EDGES, COUNT = (2085, 2235), (9092, 88642), 36  # of the paper's table of data sets


def grow(
    src: Int64,
    dst: Int64,
    nodes: tuple[int, int] = NODES,
    edges: tuple[int, int] = EDGES,
    count: int = COUNT,
    seed: int = 0,
) -> Steps:
    """Sample a sub-graph to start with, then add a fixed number of new nodes and edges at each step.

    Every newcomer brings one edge at least; all other edges are drawn uniformly among the nodes that have
    arrived.

    Examples
    --------
    >>> ends = np.array([(a, b) for a in range(20) for b in range(a)])
    >>> steps = grow(ends[:, 0], ends[:, 1], (10, 20), (30, 150), 6)
    >>> np.bincount(steps.step).tolist(), len(np.unique((steps.src, steps.dst)))
    ([30, 24, 24, 24, 24, 24], 20)
    """
    random = np.random.default_rng(seed)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    ends = np.unique(np.stack((low, high), axis=1)[low != high], axis=0)
    arrival = _arrivals(np.unique(ends), nodes, count, random)
    since = arrival[ends].max(axis=1)  # the first step at which an edge may come
    totals = np.linspace(*edges, count).round().astype(np.int64)
    when = np.full(len(ends), -1)
    for step in range(count):
        wanted = int(totals[step]) - int((when >= 0).sum())
        first = _edges_of_newcomers(ends, arrival, when, since, step, random) if step else ends[:0, 0]
        when[first] = step
        free = np.flatnonzero((when < 0) & (since <= step))
        when[random.choice(free, wanted - len(first), replace=False)] = step
    chosen = np.flatnonzero(when >= 0)
    chosen = chosen[np.argsort(when[chosen], kind="stable")]
    ones = np.ones(len(chosen), np.int64)
    return Steps(ends[chosen, 0], ends[chosen, 1], ones, when[chosen], count // 2 - 1)


def _arrivals(everyone: Int64, nodes: tuple[int, int], count: int, random: np.random.Generator) -> Int64:
    """Return the step at which each node arrives; `count` for nodes that never do."""
    arrival = np.full(int(everyone.max()) + 1, count, np.int64)
    shuffled = random.permutation(everyone)[: nodes[1]]
    arrival[shuffled] = 0
    late = shuffled[nodes[0] :]
    arrival[late] = 1 + np.arange(len(late)) * (count - 1) // max(len(late), 1)
    return arrival


def _edges_of_newcomers(
    ends: Int64, arrival: Int64, when: Int64, since: Int64, step: int, random: np.random.Generator
) -> Int64:
    found = []
    for node in np.flatnonzero(arrival == step):
        mine = np.flatnonzero((when < 0) & (since <= step) & (ends == node).any(axis=1))
        if len(mine):
            found.append(int(random.choice(mine)))
    return np.unique(np.array(found, np.int64))
