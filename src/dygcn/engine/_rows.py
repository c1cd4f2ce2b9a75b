"""Blocks of rows of integers, and what is done with one row: the slow twin, in NumPy, of `_rows.pyx` and C.

The compiled module takes the place of this one where the package was built with a C compiler. It has its
loops three times, for CPU levels "baseline", "avx2" and "avx512", and takes the best that the machine has;
DYGCN_CPU names another one. All give the same bits.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from dygcn.errors import UncompiledWarning

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, Float64, Int32, Int64, Stored

warnings.warn(
    "the loops of dygcn are not compiled: all results are the same, but a hundred times slower. Install a C "
    "compiler and the headers of Python (Debian, Ubuntu: apt install gcc python3-dev), then run: "
    "pip install --force-reinstall --no-deps --no-cache-dir dygcn (of a checkout: its folder)",
    UncompiledWarning,
    stacklevel=2,
)


def cpu_level() -> str:
    """Return the CPU level of the compiled loops; "none" if they are not compiled."""
    return "none"


class RowBlock:
    """Rows of int8, int16, int32 or int64 in one contiguous array, which stays alive and never moves."""

    def __init__(self, array: Stored) -> None:
        if array.ndim != 2 or not array.flags.c_contiguous or array.dtype.kind != "i":
            raise ValueError("a block of rows is a contiguous array of two dimensions and of integers")
        self.array = array
        self.rows, self.width = array.shape

    def __reduce__(self) -> tuple[type[RowBlock], tuple[Stored]]:
        return RowBlock, (self.array,)


def prefetch_row(block: RowBlock, at: int) -> None:
    """Prefetch a row; no value changes."""


def clear_row(block: RowBlock, at: int) -> None:
    """Set a row to zero."""
    block.array[at] = 0


def copy_row(block: RowBlock, at: int, out: RowBlock, to: int) -> None:
    """Copy a row to a block of the same type and width."""
    out.array[to] = block.array[at]


def write_signs(out: RowBlock, to: int, start: int, bits: int) -> None:
    """Write +1 or -1 for each of 64 bits, the lowest first, from a column on; `out` is of int8."""
    for column in range(start, min(start + 64, out.width)):
        out.array[to, column] = 1 if bits >> (column - start) & 1 else -1


def number_at(block: RowBlock, at: int, column: int) -> int:
    """Return one number of a row."""
    return int(block.array[at, column])


def add_row(stored: RowBlock, at: int, table: RowBlock, row: int, weight: int) -> None:
    """Add a row of a table, times a weight. Sums may wrap around in between, and fit at the end."""
    change = np.int64(weight) * table.array[row].astype(np.int64)
    stored.array[at] += change.astype(stored.array.dtype)


def write_message(stored: RowBlock, at: int, inverse: float, out: RowBlock, to: int) -> None:
    """Write M = round(s / deg), the only conversion of sums to messages; `inverse` is 1 / deg.

    A product and a rounding in IEEE double precision: the same bits on every machine, and never
    outside the range of what was averaged.
    """
    out.array[to] = _means(stored.array[at], inverse)


def add_all(
    stored: RowBlock,
    at: int,
    table: RowBlock,
    rows: Int32,
    factors: Int64,
    first: int,
    stop: int,
    stop_ahead: int,
    was: float,
    now: float,
    out: RowBlock,
    to: int,
) -> bool:
    """Add rows `first` to `stop` - 1 of a table, each times a factor; return whether the message moved.

    `stop_ahead`: up to this one, rows can be fetched ahead; 0: the table is near. `was`, `now`: 1 / deg,
    before and after. `out`, `to` take by how much the message moved; -1: it is not needed.
    """
    before = _means(stored.array[at], was)
    for i in range(first, stop):
        add_row(stored, at, table, rows[i], factors[i])
    moved = _means(stored.array[at], now) - before
    if to >= 0:
        out.array[to] = moved
    return bool(moved.any())


def _means(row: Stored, inverse: float) -> Stored:
    return np.rint(row.astype(np.float64) * inverse).astype(np.int32)


def add_units(block: RowBlock, n: int, floor: float, weight: float, out: Float64) -> None:
    """Add ``weight * h / max(|h|, floor)`` for the first n rows. Squares are integers: their sum is exact."""
    rows = block.array[:n].astype(np.int64)
    lengths = np.sqrt((rows * rows).sum(axis=1).astype(np.float64))
    out[:n] += rows * (weight / np.maximum(lengths, floor))[:, None]


def write_units(block: RowBlock, first: int, n: int, steps: Float64, floor: float, out: Float32) -> None:
    """Write ``h / max(|h|, floor)`` for h = row * steps of n rows: a bare h / |h| would jump at zero."""
    rows = block.array[first : first + n] * steps
    out[:n] = rows * (1.0 / np.maximum(np.sqrt(_dots(rows, rows)), floor))[:, None]


def scale_to_one(rows: Float64, n: int, out: Float32, first: int) -> int:
    """Write the first n rows at length one, from row `first` of `out` on, and set them to zero.

    Return how many have no length; these are not written.
    """
    squares = _dots(rows[:n], rows[:n])
    some = np.flatnonzero(squares > 0)
    out[first + some] = rows[some] * (1.0 / np.sqrt(squares[some]))[:, None]
    rows[:n] = 0.0
    return n - len(some)


def write_squares(rows: Float32, out: Float64) -> None:
    """Write the product of each row with itself into zeros."""
    whole = rows.astype(np.float64)
    out[:] = _dots(whole, whole)


def write_dots(left: Float32, left_at: Int64, right: Float32, right_at: Int64, out: Float64) -> None:
    """Write the products of the named rows into zeros."""
    out[:] = _dots(left[left_at].astype(np.float64), right[right_at].astype(np.float64))


def write_scores(rows: Float32, at: Int64, query: Float32, out: Float64) -> None:
    """Write the products of named rows with one query: sixteen sums of float32, added up in order."""
    sums, total = np.zeros((len(out), 16), np.float32), np.zeros(len(out))
    for column in range(0, len(query), 16):
        part = rows[at, column : column + 16] * query[column : column + 16]
        sums[:, : part.shape[1]] += part
    for side in range(16):
        total += sums[:, side]
    out[:] = total


def _dots(left: Float64, right: Float64) -> Float64:
    """Return products of rows, summed in order: bits depend on nothing else."""
    total = np.zeros(len(left))
    for column in range(left.shape[1]):
        total += left[:, column] * right[:, column]
    return total


def add_product(inputs: Float32, n: int, weights: Float32, out: Float32, first: int) -> None:
    """Add ``inputs[:n] @ weights`` to rows of `out`, each number summed in the order of its input."""
    for column in range(len(weights)):
        out[first : first + n] += inputs[:n, column, None] * weights[column]


def write_sparse_product(
    start: Int64, columns: Int32, values: Float32, old: Float32, out: Float32, column: int
) -> None:
    """Write a sparse matrix times `old` into columns of `out`, each row summed in the order of its arcs."""
    width = old.shape[1]
    for row in range(len(old)):
        total = np.zeros(width, np.float32)
        for arc in range(start[row], start[row + 1]):
            total += values[arc] * old[columns[arc]]
        out[row, column : column + width] = total
