"""TIMERS: an SVD that is updated step by step, and restarted when its error may have grown too large.

Zhang, Cui, Pei, Wang and Zhu, "TIMERS: error-bounded SVD restart on dynamic networks", AAAI 2018. S is the
adjacency matrix, as in the authors' sample. Their code restarts when

    J(t) >= (1 + theta) B(t),

J the loss ||S - U diag(s) V'||^2 of the updated factors, B a lower bound of what any factors of that rank
can reach (eq. 13): the loss at the last restart, plus the change of trace(S S'), minus the sum of the k
largest eigenvalues of the change of S S' since then.

The paper takes any incremental SVD and its code leaves a gap for one. Ours: S is symmetric, so singular
vectors are eigenvectors; the new ones are the Rayleigh-Ritz vectors of the new S on span(U, D U), D the
step's change, which holds the first-order perturbation of every u_j (u_j + (D u_j, projected) / lambda_j)
and gives new nodes a row. Left out: other similarities S (Katz), and monitoring every single edge: the bound
is looked at once a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Float64, Int64
from dygcn_lab.baselines.snapshot import adjacency
from dygcn_lab.evaluation.method import VectorMethod
from dygcn_lab.evaluation.steps import Moment

with extra("evidence", of="dygcn-lab"):
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh


DENSE = 400  # rows up to which a full decomposition is quicker
TOLERANCE = 1e-6  # of Lanczos, relative
ZERO = 1e-9  # eigenvalues below it are none: their vectors may be anything
SPARE, ROUNDS = 10, 2  # of the subspace iteration for the bound


@dataclass(frozen=True, slots=True)
class Factors:
    """S = U diag(values) U', nearly: eigenvalues by falling magnitude, eigenvectors as columns."""

    values: Float64  # (k,)
    rows: Float64  # (n, k)


class Timers(VectorMethod):
    """Vectors are rows of U sqrt(|eigenvalue|).

    V has the columns of U, some with the other sign, so that beside U they would not change a cosine.

    `seed`, `dim`: of the vector that Lanczos begins with; eigenpairs that are kept; `theta`: error that is
    tolerated, relative to the bound; 0.17 in the authors' sample. `restarts`: how often the decomposition was
    computed anew since the first one; `factors`, `bound`: those of the last step.
    """

    def __init__(self, seed: int = 0, dim: int = 100, theta: float = 0.17) -> None:
        self.seed, self.dim, self.theta = seed, dim, theta
        self.restarts = 0
        self.factors = Factors(np.zeros(0), np.zeros((0, 0)))
        self.bound = self._anchor_loss = 0.0
        self._now: Any = None
        self._anchor: Any = None

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Decompose the last of the moments: the most favourable start, without any error of the past."""
        self._nodes, self.restarts = nodes, 0
        self._now = adjacency(moments[-1].edges, nodes)
        self._decompose()

    def follow(self, moment: Moment) -> None:
        """Update the factors, and restart if the bound asks for it."""
        last, self._now = self._now, adjacency(moment.edges, self._nodes)
        change = _nonzero(self._now - last)
        if change.nnz == 0:
            return
        self.factors = updated(self.factors, self._now, change, self.dim)
        self.bound = lower_bound(self._anchor, self._now, self._anchor_loss, self.dim, self.seed)
        if self.loss() >= (1 + self.theta) * self.bound:
            self._decompose()
            self.restarts += 1

    def vectors(self) -> Float32:
        """Return U sqrt(|eigenvalue|), zero columns where the graph has fewer eigenvalues."""
        table = np.zeros((self._nodes, self.dim), np.float32)
        factors = self.factors
        table[:, : len(factors.values)] = factors.rows * np.sqrt(np.abs(factors.values))
        return table

    def score(self, pairs: Int64, task: str) -> Float64:
        """Return what the factors say of an entry of S: the product they are fitted for, not a cosine."""
        rows = self.factors.rows
        found: Float64 = np.einsum("ij,ij->i", rows[pairs[:, 0]] * self.factors.values, rows[pairs[:, 1]])
        return found

    def loss(self) -> float:
        """Return ||S - U diag(s) V'||^2: Rayleigh-Ritz values make it a difference of two sums."""
        return max(float(self._now.nnz) - float(np.square(self.factors.values).sum()), 0.0)

    def _decompose(self) -> None:
        self.factors = decomposed(self._now, self.dim, self.seed)
        self._anchor, self._anchor_loss = self._now, self.loss()
        self.bound = self._anchor_loss


def decomposed(matrix: Any, count: int, seed: int) -> Factors:
    """Return the eigenpairs with the largest magnitudes, at most `count`."""
    active = np.flatnonzero(np.diff(matrix.indptr))
    values, small = _eigenpairs(matrix[active][:, active], count, seed)
    rows = np.zeros((matrix.shape[0], len(values)))
    rows[active] = small
    return _sorted(values, rows, count)


def updated(factors: Factors, matrix: Any, change: Any, count: int) -> Factors:
    """Return Rayleigh-Ritz pairs of the new matrix on span(U, change U)."""
    pushed = change @ factors.rows
    touched = np.flatnonzero(np.diff(change.indptr))
    left, sizes, _ = np.linalg.svd(pushed[touched], full_matrices=False)
    kept = sizes > 1e-10 * max(float(sizes[0]), 1.0) if len(sizes) else np.zeros(0, np.bool_)
    beside = np.zeros((matrix.shape[0], int(kept.sum())))
    beside[touched] = left[:, kept]
    if len(factors.values) < count:  # a graph that had fewer eigenvalues: the ends of changes, as they are
        unit = np.zeros((matrix.shape[0], min(len(touched), count)))
        unit[touched[: unit.shape[1]], np.arange(unit.shape[1])] = 1
        beside = np.concatenate((beside, unit), axis=1)
    basis = np.linalg.qr(np.concatenate((factors.rows, beside), axis=1))[0]
    values, turned = np.linalg.eigh(basis.T @ (matrix @ basis))
    return _sorted(values, turned, count, basis)


def lower_bound(anchor: Any, matrix: Any, loss: float, count: int, seed: int) -> float:
    """Return what no factors of this rank can fall below, seen from an anchor whose best loss is known.

    The change of S S' is D S + S D + D D, D the change of S: never formed, since hubs would fill it. Its
    largest eigenvalues are found by subspace iteration on random vectors, exact when its rank is below their
    number. What is missed makes the bound a little greater and restarts, if anything, later.
    """
    change = _nonzero(matrix - anchor)
    trace = float(matrix.nnz - anchor.nnz)  # of S S', weights are one
    touched = np.diff(change.indptr) > 0
    support = np.flatnonzero(touched | (anchor @ touched > 0))
    if len(support) == 0:
        return loss + trace
    moved, before = (part[support][:, support] for part in (change, anchor))
    basis = np.random.default_rng(seed).standard_normal((len(support), 2 * count + SPARE))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(_square_change(moved, before, basis))[0]
    values = np.linalg.eigvalsh(basis.T @ _square_change(moved, before, basis))[-count:]
    return max(loss + trace - float(np.maximum(values, 0).sum()), 0.0)


def _square_change(moved: Any, before: Any, rows: Float64) -> Float64:
    pushed = moved @ rows
    result: Float64 = moved @ (before @ rows + pushed) + before @ pushed
    return result


def _nonzero(matrix: Any) -> Any:
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    return matrix


def _eigenpairs(matrix: Any, count: int, seed: int) -> tuple[Float64, Float64]:
    if matrix.shape[0] <= max(DENSE, 2 * count):
        values, rows = np.linalg.eigh(matrix.toarray())
        return values, rows
    start = np.random.default_rng(seed).standard_normal(matrix.shape[0])
    try:
        values, rows = eigsh(matrix, k=count, which="LM", v0=start, tol=TOLERANCE)
    except ArpackNoConvergence as halted:  # many equal eigenvalues: what has converged will do
        values, rows = halted.eigenvalues, halted.eigenvectors
    return values, rows


def _sorted(values: Float64, rows: Float64, count: int, basis: Float64 | None = None) -> Factors:
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    order = order[np.abs(values[order]) > ZERO]
    kept = rows[:, order]
    return Factors(values[order], kept if basis is None else basis @ kept)
