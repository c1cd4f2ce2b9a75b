"""A graph, and the batches of events that come to it: all from one seed, each batch from its position."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dygcn.engine.models.model import Model
from dygcn.engine.records import EventBatch, IdColumn, Int64
from dygcn.live.embedding import LiveEmbedding, start
from dygcn_lab.costs.graphs import graph_events

STREAM = "kills"
_WIDTH = 64
_EDGES_A_NODE = 6
_SKEW = 2.5  # chance of an end ~ rank^-0.6, as in the graph
_LATEST = 20  # positions: an edge is removed at most so long after it came


@dataclass(frozen=True, slots=True)
class ShardScript:
    """What is sent."""

    seed: int
    edges: int  # of the graph at first
    size: int = 200  # events in a batch

    @property
    def nodes(self) -> int:
        """How many nodes there may be."""
        return max(self.edges // _EDGES_A_NODE, 10)

    def _added(self, position: int) -> tuple[Int64, Int64]:
        random = np.random.default_rng([self.seed, position])
        ends = (self.nodes * random.random((2, self.size - self.size // 4)) ** _SKEW).astype(np.int64)
        return ends[0], np.where(ends[0] == ends[1], (ends[1] + 1) % self.nodes, ends[1])

    def batch(self, position: int) -> EventBatch:
        """Return the batch at a position: three of four events add, others remove what came not long ago.

        Each removes some of the batch just before it, so that one which is applied late, or twice, shows.
        """
        random = np.random.default_rng([self.seed, position, 1])
        fewer = self.size // 4
        last, older = (max(position - ago, 0) for ago in (1, int(random.integers(2, _LATEST))))
        some = np.array_split(random.permutation(self.size - fewer)[:fewer], 2)
        a, b = (
            np.concatenate([new, one[some[0]], other[some[1]]])
            for new, one, other in zip(*map(self._added, (position, last, older)), strict=True)
        )
        op = np.ones(self.size, np.int8)
        op[self.size - fewer :] = -1
        return EventBatch(IdColumn(a), IdColumn(b), op)

    def save_graph(self, folder: Path) -> int:
        """Save the graph at first; return how many edges it has."""
        model = Model((np.eye(_WIDTH, dtype=np.float32),) * 3, "int64", "hashed", np.ones(_WIDTH))
        live: LiveEmbedding = start(model)
        events = graph_events(f"power-law-{self.nodes}-{self.edges}", self.seed)
        live.bulk([events])
        live.save(folder)
        return len(events)
