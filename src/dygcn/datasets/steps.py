"""Events numbered by step, and the graph after each, for evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.records import Moment

if TYPE_CHECKING:
    from dygcn.engine.records import Float64, Int64


class Snapshots:
    """Undirected edges of a graph, updated event by event."""

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


@dataclass(frozen=True)
class Steps:
    """Events numbered by step: step 0 is the graph at the start."""

    src: Int64
    dst: Int64
    op: Int64
    step: Int64
    fitted: int  # the last step that is fitted on
    t: Float64 | None = None  # time of each event, in steps; None: the number of the step only

    def part(self, first: int, last: int) -> Steps:
        """Return the events of steps first..last."""
        keep = (self.step >= first) & (self.step <= last)
        t = None if self.t is None else self.t[keep]
        return Steps(self.src[keep], self.dst[keep], self.op[keep], self.step[keep], self.fitted, t)

    def table(self) -> dict[str, Any]:
        """Return the events as `dygcn.fit` takes them."""
        return {"src": self.src, "dst": self.dst, "op": self.op, "t": self.step}

    @property
    def last(self) -> int:
        """Number of the last step."""
        return int(self.step.max())

    @property
    def nodes(self) -> int:
        """One more than the greatest node."""
        return int(max(self.src.max(), self.dst.max())) + 1

    @property
    def tested(self) -> range:
        """Steps after fitting whose vectors are judged by the edges of the next step."""
        return range(self.fitted + 1, self.last)

    @cached_property
    def moments(self) -> list[Moment]:
        """Events and edges of every step."""
        graph, moments = Snapshots(), []
        for step in range(self.last + 1):
            part = self.part(step, step)
            edges = graph.apply(part.src, part.dst, part.op)
            moments.append(Moment(part.src, part.dst, part.op, edges, part.t))
        return moments


def window_steps(src: Int64, dst: Int64, t: Int64, op: Int64, first: int, last: int) -> Steps:
    """Return snapshot data numbered by step: the graph of snapshot `first` is step 0."""
    kept = t <= last
    src, dst, t, op = src[kept], dst[kept], t[kept], op[kept]
    begun = t <= first
    edges = Snapshots().apply(src[begun], dst[begun], op[begun])
    return Steps(
        np.concatenate((edges[:, 0], src[~begun])),
        np.concatenate((edges[:, 1], dst[~begun])),
        np.concatenate((np.ones(len(edges), np.int64), op[~begun])),
        np.concatenate((np.zeros(len(edges), np.int64), t[~begun] - first)),
        (last - first + 1) // 2 - 1,
    )


def equal_steps(src: Int64, dst: Int64, t: Int64, count: int, start: float = 0.4) -> Steps:
    """Return a stream numbered by step: the first 40 % of the events, then `count` equal parts.

    The time of an event is its position in the stream; a part is one unit long and ends at its number.
    """
    order = np.argsort(t, kind="stable")
    begun = int(len(order) * start)
    parts = np.linspace(begun, len(order), count + 1).round().astype(np.int64)
    step = np.searchsorted(parts, np.arange(len(order)), side="right")
    passed = (np.arange(len(order)) + 1 - begun) * (count / max(len(order) - begun, 1))
    # Parts differ by an event: no time is later than the end of its part.
    times: Float64 = np.minimum(passed, step.astype(np.float64))
    return Steps(
        src[order], dst[order], np.ones(len(order), np.int64), step.astype(np.int64), count // 2, times
    )


def grow(
    src: Int64,
    dst: Int64,
    nodes: tuple[int, int] = (2085, 2235),
    edges: tuple[int, int] = (9092, 88642),
    count: int = 36,
    seed: int = 0,
) -> Steps:
    """Return the paper's Facebook set: a sample of a graph, to which each step adds as many nodes and edges.

    Every newcomer brings one edge at least; all other edges are drawn uniformly among the nodes that have
    arrived.
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
