"""FastRP, again at every step: a very sparse random projection of powers of the transition matrix.

Chen, Sultan, Tian, Chen and Skiena, "Fast and accurate network embeddings via very sparse random
projection", CIKM 2019, Algorithm 1: N = sum over i of a_i N_i, N_1 = T L R, N_i = T N_(i-1), T = D^-1 A, L =
diag((d_j / 2m)^beta), R the projection. As in the authors' code, rows of each N_i are brought to length one
before the sum and columns of N are standardised after it. The authors set a_1 = a_2 = 0, a_3 = 1 and tune
a_4 and beta to each data set; here a_4 = 1 and beta is the one of their read-me, everywhere. The density of
R is 1/3, not 1/sqrt(n), which costs nothing here. A node's row of R stays the same over the steps. Left out:
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Float64
from dygcn_lab.baselines.snapshot import adjacency, compact, spread
from dygcn_lab.evaluation.method import VectorMethod
from dygcn_lab.evaluation.steps import Moment

with extra("evidence", of="dygcn-lab"):
    from scipy.sparse import csr_array, diags_array


class FastRp(VectorMethod):
    """Random projections of one to four steps of a random walk.

    `seed`, `dim`: of the projection; size of the vectors; `weights`: a_1..a_q; `beta`: exponent of the
    degrees; `sparsity`: one in so many entries of R is not zero: sqrt(s) or -sqrt(s).
    """

    def __init__(
        self,
        seed: int = 0,
        dim: int = 100,
        weights: tuple[float, ...] = (0.0, 0.0, 1.0, 1.0),
        beta: float = -0.628,
        sparsity: float = 3.0,
    ) -> None:
        self.seed, self.dim, self.weights, self.beta, self.sparsity = seed, dim, weights, beta, sparsity

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Draw the projection, then embed the last of the moments."""
        self._nodes = nodes
        random = np.random.default_rng(self.seed)
        shape = (nodes, self.dim)
        signs = np.where(random.random(shape) < 0.5, -1.0, 1.0) * np.sqrt(self.sparsity)
        self._projection = np.where(random.random(shape) < 1 / self.sparsity, signs, 0.0).astype(np.float32)
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Embed this graph."""
        active, places = compact(moment.edges)
        links = adjacency(places, len(active)).astype(np.float32)
        degrees = np.diff(links.indptr)
        walk = csr_array(diags_array((1 / degrees).astype(np.float32)) @ links)
        scaled = (degrees / max(degrees.sum(), 1)) ** self.beta
        power = self._projection[active] * scaled[:, None].astype(np.float32)
        total = np.zeros((len(active), self.dim))
        for weight in self.weights:
            power = walk @ power
            if weight:
                total += weight * _unit(power)
        self._vectors = spread(_standard(total), active, self._nodes, self.dim)

    def vectors(self) -> Float32:
        """Return the vectors; nodes that have no edge now have none."""
        return self._vectors


def _unit(rows: Float32) -> Float32:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Float32 = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return units


def _standard(rows: Float64) -> Float64:
    if len(rows) < 2:
        return rows
    centred = rows - rows.mean(axis=0)
    spreads = centred.std(axis=0)
    standard: Float64 = np.divide(centred, spreads, out=np.zeros_like(centred), where=spreads > 0)
    return standard
