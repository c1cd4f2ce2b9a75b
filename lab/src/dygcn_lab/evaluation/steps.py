"""Events of a data set numbered by step, and the graph after each: without the engine that is judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dygcn.datasets import Dataset
from dygcn.datasets.registry import Window
from dygcn.engine.records import Float64, Int64


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of a graph's history, independent of the engine. Nodes are numbered over all steps."""

    src: Int64  # (n,) the events of the step, in order
    dst: Int64  # (n,)
    op: Int64  # (n,) +1 or -1
    edges: Int64  # (m, 2) undirected edges after the step, each once, the lower end first
    t: Float64 | None = None  # (n,) time of each event, in steps; None: the number of the step only


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


def steps_of(data: Dataset) -> Steps:
    """Return the events of a data set, numbered by the steps that the registry names.

    Examples
    --------
    >>> from dygcn.datasets import load
    >>> steps = steps_of(load("hepth-collab"))
    >>> steps.last, steps.tested
    (59, range(30, 59))
    """
    cut = data.info.cut
    if isinstance(cut, Window):
        return window_steps(data.src, data.dst, data.t, data.op, cut.first, cut.last)
    return equal_steps(data.src, data.dst, data.t, cut.parts, cut.start)
