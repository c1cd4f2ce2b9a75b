"""How many bits a row of a walk model needs: new links of training steps, with rows rounded more and more.

Computed with sparse matrices in float32, apart from the engine, which knows 8 bits alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.baselines.snapshot import adjacency
from dygcn.evaluation import VectorMethod
from dygcn.training import walk_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.records import Bool, Float32, Moment

BITS = (None, 8, 6, 4)  # None: as they were made


class RoundedRows(VectorMethod):
    """The exact rule over rows of so many bits, all orders computed anew at every step."""

    def __init__(self, seed: int, dim: int, bits: int | None) -> None:
        self._seed, self._dim, self._bits = seed, dim, bits

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Make the rows of the last of the moments."""
        first, second = moments[-1].edges.astype(np.int32).T
        base = walk_base(
            np.ascontiguousarray(first),
            np.ascontiguousarray(second),
            np.ones(len(first)),
            nodes,
            self._dim,
            self._seed,
        )
        self._rows, self._has, self._nodes = rounded(base.rows, self._bits), base.has, nodes
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Compute h_1 and h_2, and the vectors."""
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
