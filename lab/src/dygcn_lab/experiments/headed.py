"""Other embeddings with our score: the cosine of their vectors in the place of all products of ours.

The score is learned as ours is: on the last quarter of the fitted steps, with vectors of an embedding that
was fitted before them; then the embedding is fitted on all. Degrees, times and the past of pairs come from
our graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.models.links import (
    COUNT_HALF_LIFE,
    LinkHead,
    node_traits,
    pair_columns,
    pair_cosines,
    pair_pasts,
)
from dygcn.engine.records import EventBatch, Float32, Float64, IdColumn, Int64, Nodes
from dygcn.engine.training.link_head import PAIRS, LinkSample, fit_heads, sample_links
from dygcn.engine.training.matrices import Recipe
from dygcn.engine.training.samples import NextEdges, first_held_out
from dygcn_lab.evaluation import Method
from dygcn_lab.evaluation.steps import Moment
from dygcn_lab.experiments.ours import LINKS, event_table

UNIT = 1.0  # times are in steps


class Headed:
    """An embedding that is scored as ours is.

    `make`: returns a new one, not fitted yet; `memory`: half-life of the ghosts that tell of a pair's past;
    the embedding itself knows nothing of them.
    """

    def __init__(self, make: Callable[[], Method], seed: int, memory: float | None = None) -> None:
        self._make, self._seed, self._memory = make, seed, memory

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Learn the score, then fit the embedding on everything."""
        self.heads = self._learn(moments, nodes)
        self._method, self._graph = self._make(), self._new_graph()
        self._method.begin(moments, nodes)
        self._step = 0
        for moment in moments:
            self._play(moment)

    def follow(self, moment: Moment) -> None:
        """Let the embedding follow the graph."""
        self._method.follow(moment)
        self._play(moment)

    def vectors(self) -> Float32 | None:
        """Return the vectors of the embedding."""
        return self._method.vectors()

    def score(self, pairs: Int64, task: str) -> Float64 | None:
        """Return the scores of pairs."""
        head = self.heads.get(LINKS[task], self.heads.get("all"))
        vectors = self._method.vectors()
        assert vectors is not None
        if head is None:
            return pair_cosines(vectors, pairs[:, 0], pairs[:, 1])
        numbers = np.unique(pairs)
        nodes = self._find(numbers)
        columns = pair_columns(
            np.where(nodes[:, None] >= 0, vectors[numbers], np.float32(0)),  # who is not there has none
            np.zeros((0, len(numbers), 0), np.float32),
            node_traits(self._graph, nodes, UNIT),
            np.searchsorted(numbers, pairs[:, 0]),
            np.searchsorted(numbers, pairs[:, 1]),
        )
        ends = self._find(pairs[:, 0]), self._find(pairs[:, 1])
        return head.score(columns, pair_pasts(self._graph, *ends, UNIT))

    def _learn(self, moments: Sequence[Moment], nodes: int) -> dict[str, LinkHead]:
        usable = len(moments) - 1
        first = first_held_out(usable, Recipe())
        method, random = self._make(), np.random.default_rng([self._seed, 4])
        self._graph, self._step = self._new_graph(), 0
        method.begin(moments[: first + 1], nodes)
        for moment in moments[: first + 1]:
            self._play(moment)
        count = PAIRS // max(usable - first, 1)
        samples: list[LinkSample] = []
        for step in range(first, usable):
            if step > first:
                method.follow(moments[step])
                self._play(moments[step])
            coming = _next_edges(moments[step + 1])
            read = partial(self._read, method)
            samples.append(sample_links(self._graph, UNIT, coming, count, random, read))
        return fit_heads(samples, None)

    def _new_graph(self) -> Graph:
        return Graph("int64", half_life=self._memory, count_half_life=COUNT_HALF_LIFE * UNIT)

    def _play(self, moment: Moment) -> None:
        self._graph.release(apply_batch(self._graph, _batch(moment, self._step)).left)
        self._step += 1

    def _find(self, numbers: Int64) -> Nodes:
        return self._graph.find(IdColumn(np.ascontiguousarray(numbers)))

    def _read(self, method: Method, nodes: Nodes) -> tuple[Float32, Float32]:
        vectors = method.vectors()
        assert vectors is not None
        return vectors[self._graph.ids.names(nodes).values], np.zeros((0, len(nodes), 0), np.float32)


def _batch(moment: Moment, step: int) -> EventBatch:
    return read_events(event_table([moment], step))


def _next_edges(moment: Moment) -> NextEdges:
    active, places = np.unique(moment.edges, return_inverse=True)
    first, second = places.reshape(-1, 2).T
    return NextEdges(first, second, IdColumn(active))
