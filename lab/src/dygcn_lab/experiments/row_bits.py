"""What rows of a walk model can do without: bits, steps of walks, nodes; by new links of training steps.

Computed with sparse matrices in float32, apart from the engine, which knows 8 bits alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.records import Bool, Float32, Int64
from dygcn.engine.training.walks import walk_base
from dygcn_lab.evaluation import VectorMethod
from dygcn_lab.evaluation.steps import Moment

BITS = (None, 8, 6, 4)  # None: as they were made


class RoundedRows(VectorMethod):
    """The exact rule over rows of so many bits, all orders computed anew at every step.

    `bits`: of a number; None: as it was made; `window`: steps of walks; None: as many as fit; `share`: of the
    nodes, those of the highest degrees have a row, made of the edges between them.
    """

    def __init__(
        self, seed: int, dim: int, bits: int | None = 8, window: int | None = None, share: float = 1.0
    ) -> None:
        self._seed, self._dim, self._bits, self._window, self._share = seed, dim, bits, window, share

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Make the rows of the last of the moments."""
        first, second = core_edges(moments[-1].edges, nodes, self._share).astype(np.int32).T
        base = walk_base(
            np.ascontiguousarray(first),
            np.ascontiguousarray(second),
            np.ones(len(first)),
            nodes,
            self._dim,
            self._seed,
            window=self._window,
        )
        self._rows, self._has, self._nodes = rounded(base.rows, self._bits), base.has, nodes
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Compute h_1 and h_2, and the vectors."""
        from dygcn_lab.baselines.snapshot import adjacency  # noqa: PLC0415 - scipy, which a core install has not

        links = adjacency(moment.edges, self._nodes)
        h, has = self._rows * self._has[:, None], self._has.astype(np.float32)
        here = np.diff(links.indptr) > 0
        total = _units(h)
        for weight in (1.0, 0.5):
            degree = links @ has
            h = (links @ h) / np.maximum(degree, 1)[:, None].astype(np.float32)
            has = (degree > 0).astype(np.float32)
            total += np.float32(weight) * _units(h)
        self._vectors: Float32 = _units(total) * here[:, None]

    def vectors(self) -> Float32:
        """Return the vectors; zero where no row reaches a node."""
        return self._vectors


def core_edges(edges: Int64, nodes: int, share: float) -> Int64:
    """Return the edges between the nodes of the highest degrees, so large a share of all that have an edge.

    Examples
    --------
    >>> core_edges(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), 4, 0.75).tolist()
    [[0, 1], [1, 2], [0, 2]]
    """
    degree = np.bincount(edges.ravel(), minlength=nodes)
    kept = np.argsort(-degree, kind="stable")[: int(share * np.count_nonzero(degree))]
    inside = np.zeros(nodes, np.bool_)
    inside[kept] = True
    found: Int64 = edges[inside[edges].all(axis=1)]
    return found


def rounded(rows: Float32, bits: int | None) -> Float32:
    """Return rows in so many bits, sign included, on one scale; None: as they are.

    Examples
    --------
    >>> rounded(np.array([[0.5, 0.3, -0.1]], np.float32), 3).tolist()
    [[0.375, 0.25, -0.125]]
    """
    if bits is None:
        return rows
    step = np.float32(2.0 ** np.ceil(np.log2(np.abs(rows).max())) / 2 ** (bits - 1))
    most = 2 ** (bits - 1) - 1
    found: Float32 = np.rint(rows / step).clip(-most, most) * step
    return found


def _units(rows: Float32) -> Float32:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    known: Bool = lengths > 0
    found: Float32 = np.divide(rows, lengths, out=np.zeros_like(rows), where=known)
    return found
