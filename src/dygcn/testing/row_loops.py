"""Calls every loop over rows, since loops compiled for one CPU level can be called by kernels alone."""

from __future__ import annotations

from dygcn.engine._rows import RowBlock
from dygcn.engine.records import Float32, Float64, Int32, Int64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._rows import (
        add_all,
        add_product,
        add_row,
        add_units,
        clear_row,
        copy_row,
        number_at,
        scale_to_one,
        write_dots,
        write_message,
        write_scores,
        write_sparse_product,
        write_squares,
        write_units,
    )


def change_rows(
    stored: RowBlock, table: RowBlock, messages: RowBlock, rows: Int32, factors: Int64, was: float, now: float
) -> int:
    """Run every loop that changes integers; return the results."""
    first = add_all(stored, 0, table, rows, factors, 1, len(rows), len(rows), was, now, messages, 0)
    second = add_all(stored, 1, table, rows, factors, 0, len(rows), 0, was, now, messages, -1)
    add_row(stored, 1, table, 0, factors[0])
    write_message(stored, 1, now, messages, 1)
    copy_row(stored, 1, stored, 2)
    clear_row(stored, 0)
    return first + 2 * second + 4 * (number_at(stored, 1, 0) & 0xFFFF)


def read_rows(
    block: RowBlock, steps: Float64, floor: float, total: Float64, units: Float32, ones: Float32
) -> None:
    """Run every loop from integers to floats."""
    n = len(units)
    add_units(block, n, floor, 0.7, total)
    write_units(block, 0, n, steps, floor, units)
    scale_to_one(total, n, ones, 0)


def multiply_rows(
    left: Float32,
    at: Int64,
    every: Int64,
    squares: Float64,
    dots: Float64,
    scores: Float64,
    weights: Float32,
    out: Float32,
) -> None:
    """Run every product of rows of floats."""
    write_squares(left, squares)
    write_dots(left, at, left, at, dots)
    write_scores(left, every, left[0], scores)
    add_product(left, len(left), weights, out, 0)


def multiply_sparse(start: Int64, columns: Int32, values: Float32, old: Float32, out: Float32) -> None:
    """Multiply a sparse matrix."""
    write_sparse_product(start, columns, values, old, out, 1)
