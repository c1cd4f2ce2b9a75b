"""Loops over rows of numbers with a point, always summed in the same order."""

from __future__ import annotations

from dygcn.engine.records import Float, Float64, Int64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython


TILE = 4  # rows


def add_combined(first: Int64, row: Int64, factor: Float64, table: Float, out: Float64) -> None:
    """Add one weighted sum of rows of a table to each row of `out`."""
    with cython.nogil:
        for i in range(len(first) - 1):
            for at in range(first[i], first[i + 1]):
                for j in range(table.shape[1]):
                    out[i, j] += factor[at] * table[row[at], j]


def add_product(rows: Float, matrix: Float, out: Float64) -> None:
    """Add rows times matrix."""
    with cython.nogil:
        for tile in range((len(rows) + TILE - 1) // TILE):
            for c in range(matrix.shape[0]):
                for i in range(tile * TILE, min((tile + 1) * TILE, len(rows))):
                    for j in range(matrix.shape[1]):
                        out[i, j] += rows[i, c] * matrix[c, j]
