"""The leading singular vectors of a large symmetric matrix, by subspace iteration in one block of memory.

Halko, Martinsson and Tropp 2011, algorithm 4.4; the block is kept orthonormal by Cholesky QR, which needs no
copy of it (Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015; the shift: Fukaya and others 2020).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dygcn.engine.records import Float, Float32, Float64

OVERSAMPLE = 16
POWER_ITERATIONS = 3
PRODUCTS = 1 + 2 * POWER_ITERATIONS
_ROWS = 1024  # that are handed to BLAS at once
_LARGE = 1e30  # what float32 need not hold
_SHIFT = 1e-13  # of the trace
_WELL_CONDITIONED = 1e-3  # of the diagonal of a triangular factor, smallest to greatest


def leading_block(
    multiply: Callable[[Float32], None],
    rows: int,
    rank: int,
    seed: int,
    products: int = PRODUCTS,
    begin: NDArray[Any] | None = None,
) -> Float32:
    """Return M Q: the matrix times orthonormal columns that nearly span its leading singular vectors.

    Parameters
    ----------
    multiply
        Puts M times a block in the place of the block.
    products
        How often it does. Two in a row need no orthonormal columns in between: float32 keeps what they do.
    begin
        What is near to begin with; rows of zeros, and by default all, are drawn. It may be used as it is.
    """
    random = np.random.default_rng([seed, 8])
    if begin is None:
        block = random.standard_normal((rows, rank + OVERSAMPLE), dtype=np.float32)
    else:
        block = begin.astype(np.float32, copy=False)
        unknown = np.flatnonzero(~begin.any(axis=1))
        length = np.linalg.norm(block) / max(np.sqrt(rows - len(unknown)), 1.0) or 1.0
        drawn = random.standard_normal((len(unknown), begin.shape[1]), dtype=np.float32)
        block[unknown] = drawn * np.float32(length / np.sqrt(begin.shape[1]))
    for left in range(products, 0, -1):
        if left % 2 and (left < products or begin is not None):
            orthonormalise(block)
        multiply(block)
    return block


def rotation(block: Float32, rank: int) -> Float64:
    """Return what turns a block Y = U s V^T into the leading columns of U s: those of V.

    A row of Y V keeps the precision of the row of Y, however small it is beside others.
    """
    _, vectors = np.linalg.eigh(gram(block))
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def orthonormalise(block: Float32) -> None:
    """Put orthonormal columns of the same span in the place of a block.

    Columns that depend on others become small or random ones.
    """
    for _ in range(2):
        upper = _upper_factor(gram(block))
        inverse = np.linalg.inv(upper)
        turn_rows(block, inverse)
        sizes = np.abs(np.diag(upper))
        if sizes.min() > _WELL_CONDITIONED * sizes.max():
            return


def gram(block: Float32) -> Float64:
    """Return Y^T Y in float64."""
    total = np.zeros((block.shape[1], block.shape[1]))
    with np.errstate(invalid="ignore"):  # BLAS works on padding, too: its flags are not about the product
        for part in parts_of(block):
            wide = part.astype(np.float64)
            total += wide.T @ wide
    if not np.isfinite(total).all():
        raise FloatingPointError("the block of the factorisation is not finite")
    return total


def turn_rows(block: Float32, matrix: Float) -> None:
    """Put the rows times a matrix in the place of the leading columns of a block."""
    if np.abs(matrix).max(initial=0.0) < _LARGE:
        matrix = matrix.astype(np.float32)
    with np.errstate(invalid="ignore"):
        for part in parts_of(block):
            part[:, : matrix.shape[1]] = part @ matrix


def parts_of(block: Float32) -> Iterator[Float32]:
    """Yield views of rows, few enough to be copied."""
    for begin in range(0, len(block), _ROWS):
        yield block[begin : begin + _ROWS]


def _upper_factor(matrix: Float64) -> Float:
    """Return R of R^T R = matrix, with as much added to the diagonal as that needs."""
    shift = 0.0
    while True:
        try:
            lower = np.linalg.cholesky(matrix + shift * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            shift = max(10.0 * shift, _SHIFT * float(np.trace(matrix)), np.finfo(np.float64).tiny)
        else:
            return lower.T
