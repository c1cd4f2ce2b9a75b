"""Training samples: held-out events, and messages at step t with the edges of step t + 1.

Messages do not depend on the matrices, so they are taken once while the events are played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.models.readout import drift, read_inputs
from dygcn.engine.models.state import State
from dygcn.engine.records import Bool, EventBatch, Float32, Float64, IdColumn, Int64, Nodes, Progress
from dygcn.engine.training.matrices import LARGEST_SAMPLE, Inputs, Recipe, StepSample

HELD_OUT, AT_RANDOM = 0.25, 0.1
"""Last part of the events, by which settings of a filter are chosen; of events without times, how many pairs
are drawn: few, since what paths weigh beside products depends on how many edges there are."""


# ---- what is held out --------------------------------------------------------------------------------------


def first_held_out(usable: int, recipe: Recipe) -> int:
    """Return the first held-out step, given the number of steps that have a next one."""
    return usable - int(recipe.held_out * usable)


def last_events(one: Int64, t: Float64) -> Bool:
    """Return which events are held out: the last quarter, or the second halves of visits.

    Where most of the nodes that ask in the last quarter had not come before, few could be judged by it.
    Then the second half of what each does after the first quarter is held out: a node is asked with what it
    has by then, as a stream asks.
    """
    late: Bool = t >= t[int((1 - HELD_OUT) * len(t))]
    count, known = (np.bincount(one[some], minlength=one.max() + 1) for some in (late, ~late))
    if 2 * np.count_nonzero(count * known) >= np.count_nonzero(count):
        return late
    rows = np.flatnonzero(t >= t[int(HELD_OUT * len(t))])
    rows = rows[np.argsort(one[rows], kind="stable")]
    count = np.bincount(one[rows])
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    late[:] = False
    late[rows[2 * place >= count[one[rows]]]] = True
    return late


def some_pairs(src: Nodes | Int64, dst: Nodes | Int64, random: np.random.Generator) -> Bool:
    """Return which undated events are held out: all events of some pairs, in either direction."""
    low, high = np.minimum(src, dst).astype(np.int64), np.maximum(src, dst)
    pairs, pair = np.unique(low << 32 | high, return_inverse=True)
    held: Bool = (random.random(len(pairs)) < AT_RANDOM)[pair]
    return held


# ---- the graph one step ahead ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NextEdges:
    """The edges of the next step, by user ids."""

    first: Int64  # (e,) the two ends of every edge, as places in `active`
    second: Int64
    active: IdColumn  # every node that has one

    def nodes_in(self, graph: Graph) -> tuple[Nodes, Nodes, Nodes]:
        """Return both ends of every edge, and every active node, as nodes of another graph; -1 if absent."""
        active = graph.find(self.active)
        return active[self.first], active[self.second], active


def play(graph: Graph, batch: EventBatch) -> None:
    """Apply events to a graph without a state."""
    graph.release(apply_batch(graph, batch).left)


class NextGraph:
    """The graph one step ahead, without messages. The first `played` steps are already applied."""

    def __init__(self, graph: Graph, steps: Sequence[EventBatch], played: int = 0) -> None:
        self._graph = graph
        self._steps: Iterator[EventBatch] = iter(steps[played:])
        self._at = played - 1

    def move_to(self, step: int) -> NextEdges:
        """Apply all events up to a step, inclusive; return the edges."""
        while self._at < step:
            play(self._graph, next(self._steps))
            self._at += 1
        a, b, weight = self._graph.edges()
        real = weight > 0
        a, b = a[real], b[real]
        there = np.zeros(self._graph.ids.high, np.bool_)
        there[a] = there[b] = True
        place, active = np.cumsum(there) - 1, np.flatnonzero(there).astype(np.int32)
        return NextEdges(place[a], place[b], self._graph.ids.names(active))


# ---- samples of steps --------------------------------------------------------------------------------------


def collect_samples(
    state: State,
    steps: Sequence[EventBatch],
    seed: int,
    progress: Progress | None = None,
    visit: Callable[[int, NextEdges], None] | None = None,
) -> list[StepSample]:
    """Play the events through the state, and collect the training samples on the way.

    Step i gives the messages, step i + 1 the edges. A single step is its own next one. `visit` is called with
    the number of each step that has a next one, and with the edges of that.
    """
    random = np.random.default_rng([seed, 1])
    row = 2 * (state.model.orders + 1) * state.model.width
    rows = max(LARGEST_SAMPLE // row // max(len(steps) - 1, 1), 1000)
    samples = []
    ahead = NextGraph(state.model.new_graph(), steps)
    for i, step in enumerate(steps):
        state.apply(step)
        if progress is not None:
            progress(i + 1, len(steps), "playing events")
        if i + 1 < len(steps) or len(steps) == 1:
            coming = ahead.move_to(min(i + 1, len(steps) - 1))
            sample = _sample(state, coming, rows, random, i)
            if sample is not None:
                samples.append(sample)
            if visit is not None:
                visit(i, coming)
    return samples


def _sample(
    state: State, edges: NextEdges, rows: int, random: np.random.Generator, step: int
) -> StepSample | None:
    graph = state.graph
    a, b, active = edges.nodes_in(graph)
    active = np.sort(active[active >= 0])
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    if len(a) == 0:
        return None
    nodes = pool = active
    if len(active) > rows:  # the ends of some edges, and some negatives
        pool = random.choice(active, rows // 3, replace=False)
        some: Int64 = random.choice(len(a), min(rows // 3, len(a)), replace=False)
        nodes = np.unique(np.concatenate((a[some], b[some], pool)))
    place = np.full(graph.ids.high, -1, np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    first, second = place[a], place[b]
    inside = (first >= 0) & (second >= 0)
    inputs, offset = _read_inputs(state, nodes)
    return StepSample(inputs, offset, np.stack((first, second), axis=1)[inside], place[pool], step)


def _read_inputs(state: State, nodes: Nodes) -> tuple[Inputs, Float32 | None]:
    """Return the inputs of the matrices, all orders side by side, and an offset of the vectors or None."""
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
