"""What training looks at: for each step, messages at t and the edges of the graph at t + 1.

Messages do not depend on the matrices, so they are taken once while the events are played.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.models import Model, State, drift, read_inputs

if TYPE_CHECKING:
    from dygcn.engine.graph import Graph
    from dygcn.engine.records import EventBatch, Float32, IdColumn, Int32, Int64, Nodes

Inputs = NDArray[np.float16] | NDArray[np.float32]
LARGEST_SAMPLE = 512 << 20  # bytes of messages kept, over all steps
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class StepSample:
    """Nodes as they were at one step, and which of them are linked at the next."""

    inputs: Inputs  # (n, (K + 1) * width) what the matrices act on, all orders side by side
    offset: Float32 | None  # (n, dim) added to the vectors, where the model keeps an embedding fresh
    pairs: Int32  # (p, 2) rows that are linked at the next step
    pool: Int32  # rows from which negatives are drawn
    step: int = 0


@dataclass(frozen=True, slots=True)
class NextEdges:
    """The graph at the next step, by the user's ids."""

    first: Int64  # (e,) the two ends of every edge, as places in `active`
    second: Int64
    active: IdColumn  # every node that has one
    events: EventBatch  # what made it of the graph before

    def nodes_in(self, graph: Graph) -> tuple[Nodes, Nodes, Nodes]:
        """Return both ends of every edge and everybody active as nodes of another graph, -1: not there."""
        active = graph.find(self.active)
        return active[self.first], active[self.second], active


def collect_samples(
    state: State,
    steps: Sequence[EventBatch],
    seed: int,
    progress: Progress | None = None,
    visit: Callable[[int, NextEdges], None] | None = None,
) -> list[StepSample]:
    """Play the events through the state, to the end, and keep what training needs on the way.

    Step i gives the messages, step i + 1 the edges. A single step is its own next one.

    Parameters
    ----------
    visit
        Called with the number of each step that has a next one, and with what stands there.
    """
    random = np.random.default_rng([seed, 1])
    rows = _rows_for_each(state.model, len(steps))
    samples = []
    ahead = Ahead(state.model.new_graph(), steps)
    for i, step in enumerate(steps):
        state.apply(step)
        if progress is not None:
            progress(i + 1, len(steps), "playing events")
        if i + 1 < len(steps) or len(steps) == 1:
            coming = ahead.move_to(min(i + 1, len(steps) - 1))
            sample = _sample(state, coming, rows, random)
            if sample is not None:
                samples.append(dataclasses.replace(sample, step=i))
            if visit is not None:
                visit(i, coming)
    return samples


def _rows_for_each(model: Model, steps: int) -> int:
    row = 2 * (model.orders + 1) * model.width
    return max(LARGEST_SAMPLE // row // max(steps - 1, 1), 1000)


class Ahead:
    """The graph one step ahead: only who is linked, no messages.

    Parameters
    ----------
    graph
        Has the first so many of the steps; it is moved.
    """

    def __init__(self, graph: Graph, steps: Sequence[EventBatch], played: int = 0) -> None:
        self._graph = graph
        self._steps: Iterator[EventBatch] = iter(steps[played:])
        self._at = played - 1
        self._events: EventBatch

    def move_to(self, step: int) -> NextEdges:
        """Apply events up to and with a step; return its edges."""
        while self._at < step:
            self._events = next(self._steps)
            delta = self._graph.apply(self._events)
            self._graph.release(delta.left)
            self._at += 1
        a, b, weight = self._graph.edges()
        real = weight > 0
        a, b = a[real], b[real]
        there = np.zeros(self._graph.ids.high, np.bool_)
        there[a] = there[b] = True
        place, active = np.cumsum(there) - 1, np.flatnonzero(there).astype(np.int32)
        return NextEdges(place[a], place[b], self._graph.ids.names(active), self._events)


def _sample(state: State, edges: NextEdges, rows: int, random: np.random.Generator) -> StepSample | None:
    graph = state.graph
    a, b, active = edges.nodes_in(graph)
    active = np.sort(active[active >= 0])
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    if len(a) == 0:
        return None
    nodes, pool = _choose_nodes(active, a, b, rows, random)
    place = np.full(graph.ids.high, -1, np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    first, second = place[a], place[b]
    inside = (first >= 0) & (second >= 0)
    inputs, offset = read_sample_inputs(state, nodes)
    return StepSample(inputs, offset, np.stack((first, second), axis=1)[inside], place[pool])


def _choose_nodes(
    active: Nodes, a: Nodes, b: Nodes, rows: int, random: np.random.Generator
) -> tuple[Nodes, Nodes]:
    """Return all nodes where they fit, else the ends of some edges and some negatives."""
    if len(active) <= rows:
        return active, active
    negatives = random.choice(active, rows // 3, replace=False)
    some: Int64 = random.choice(len(a), min(rows // 3, len(a)), replace=False)
    return np.unique(np.concatenate((a[some], b[some], negatives))), negatives


def read_sample_inputs(state: State, nodes: Nodes) -> tuple[Inputs, Float32 | None]:
    """Return what the matrices act on, all orders side by side, and what is added to the vectors."""
    model, rule, graph = state.model, state.exact, state.graph
    orders = range(model.orders + 1)
    if model.baseline is None:
        units = [read_inputs(model, rule, graph, nodes, k, unit=True).astype(np.float16) for k in orders]
        return np.concatenate(units, axis=1), None
    base_row = model.baseline.rows_of(graph.ids.names(nodes))
    known = base_row >= 0
    parts, offset = [], np.zeros((len(nodes), model.dim), np.float32)
    for k in orders:
        h, _ = drift(model, rule, graph, nodes, base_row, k)
        h[~known] = 0
        parts.append(h)
    offset[known] = model.baseline.vectors[base_row[known]]
    return np.concatenate(parts, axis=1), offset
