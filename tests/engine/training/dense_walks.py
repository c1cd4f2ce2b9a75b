"""The dense twin of the walk base: matrices and numpy's SVD."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64


def dense_log_walks(A: Float64, window: int) -> Float64:
    """Return ``log(max(mean over r <= window of P^r * vol / d_column, 1))``; nodes without edges: zeros.

    Examples
    --------
    >>> dense_log_walks(np.array([[0.0, 1.0], [1.0, 0.0]]), 1)
    array([[0.        , 0.69314718],
           [0.69314718, 0.        ]])
    """
    degree = A.sum(1)
    inverse = np.divide(1.0, degree, out=np.zeros(len(A)), where=degree > 0)
    P = inverse[:, None] * A
    powers = [np.linalg.matrix_power(P, r) for r in range(1, window + 1)]
    ratio = sum(powers) / window * degree.sum() * inverse
    return np.asarray(np.log(np.maximum(ratio, 1.0)))


def dense_base(A: Float64, rank: int, window: int) -> tuple[Float64, Bool]:
    """Return the unit rows of U s of an exact SVD, zero-padded to `rank`, and which nodes have one.

    Examples
    --------
    >>> rows, has = dense_base(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), 2, 1)
    >>> np.abs(rows @ rows.T).round(6).tolist(), has.tolist()
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [True, True, False])
    """
    left, sizes, _ = np.linalg.svd(dense_log_walks(A, window))
    found = (left * sizes)[:, :rank]
    found = np.pad(found, ((0, 0), (0, rank - found.shape[1])))
    length = np.linalg.norm(found, axis=1)
    has = length > 1e-9 * max(1.0, float(sizes[0]))
    rows = np.divide(found, length[:, None], out=np.zeros_like(found), where=has[:, None])
    return rows, has
