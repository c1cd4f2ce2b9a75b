"""Cleora, again at every step: vectors hashed from ids, averaged over neighbours, normalised, a few times.

Rychalska, Bąbel, Gołuchowski, Michałowski and Dąbrowski, "Cleora: a simple, strong and scalable graph
embedding scheme", ICONIP 2021, Algorithm 1, through the authors' own pycleora: T_i+1 = rows of M T_i at
length one, M the random walk matrix (with the loops that pycleora adds), and as in pycleora 3 the vectors
are whitened each time, without which they are clearly worse by cosine (`whiten=False` is the paper's
recipe). Left out: hyperedges and typed columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Int64
from dygcn_lab.baselines.snapshot import spread
from dygcn_lab.evaluation.method import VectorMethod
from dygcn_lab.evaluation.steps import Moment

with extra("evidence", of="dygcn-lab"):
    from pycleora import whiten_embeddings
    from pycleora.pycleora import SparseMatrix


def edge_lines(edges: Int64) -> list[str]:
    """Write edges as pycleora reads them.

    Examples
    --------
    >>> edge_lines(np.array([[0, 2]]))
    ['0 2']
    """
    return [f"{low} {high}" for low, high in edges.tolist()]


def read_graph(lines: Sequence[str], workers: int = 1) -> Any:
    """Build pycleora's graph."""
    return SparseMatrix.from_iterator(iter(lines), "complex::reflexive::node", num_workers=workers)


class Cleora(VectorMethod):
    """Random walks of a few steps from hashed vectors.

    `seed`, `dim`: of the hashed vectors; size of the vectors; `iterations`: propagations; the paper finds 3
    to 4 best for what links, and more for what is alike; `whiten`: bring the covariance to one after every
    propagation, as pycleora 3 does.
    """

    def __init__(self, seed: int = 0, dim: int = 100, iterations: int = 4, *, whiten: bool = True) -> None:
        self.seed, self.dim, self.iterations, self.whiten = seed, dim, iterations, whiten

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Embed the last of the moments."""
        self._nodes = nodes
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Embed this graph."""
        self._vectors = np.zeros((self._nodes, self.dim), np.float32)
        if len(moment.edges) == 0:
            return
        graph = read_graph(edge_lines(moment.edges))
        rows = self.propagated(graph)
        self._vectors = spread(rows, np.array(graph.entity_ids).astype(np.int64), self._nodes, self.dim)

    def propagated(self, graph: Any, workers: int = 1) -> Float32:
        """Return the vectors of a graph, in the order of its ``entity_ids``."""
        rows: Float32 = graph.initialize_deterministically(self.dim, self.seed)
        for _ in range(self.iterations):
            rows = graph.left_markov_propagate(rows, num_workers=workers)
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-10)
            if self.whiten:
                rows = whiten_embeddings(rows)
        return rows

    def vectors(self) -> Float32:
        """Return the vectors; nodes that have no edge now have none."""
        return self._vectors
