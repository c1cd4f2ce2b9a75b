"""Runs every loop over rows on random rows, for one digest: the same at all CPU levels, and uncompiled."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.records import Float32, Float64, Int32, Int64, Stored

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


KINDS = np.int8, np.int16, np.int32, np.int64
WIDTHS = 1, 3, 8, 31, 100, 128, 256
READ = 19  # rows: some at once, and some that are left


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


def rows_digest(seed: int = 0) -> str:
    """Return a digest of the results of all loops.

    Examples
    --------
    >>> rows_digest() == rows_digest(), rows_digest(1) == rows_digest()
    (True, False)
    """
    random, digest = np.random.default_rng(seed), hashlib.sha256()
    for width, kind, other in product(WIDTHS, KINDS, KINDS):
        for left in _of_integers(random, width, kind, other):
            digest.update(left.tobytes())
    for rows, width, dim in product((1, 3, 4, 9, 40), (1, 5, 64), (1, 31, 32, 100, 256)):
        for left in _of_floats(random, rows, width, dim):
            digest.update(left.tobytes())
    return digest.hexdigest()


def _of_integers(random: np.random.Generator, width: int, kind: Any, other: Any) -> tuple[Any, ...]:
    stored, table = (_random_rows(random, 3, width, of) for of in (kind, other))
    messages = np.zeros((2, width), np.int32)
    rows, factors = random.integers(0, 3, 5, np.int32), random.choice([1, -1, 2, -3, 1 << 20], 5)
    was, now = (1e-12 if kind is np.int64 else 1.0) / random.integers(1, 99, 2)
    blocks = RowBlock(stored), RowBlock(table), RowBlock(messages)
    result = change_rows(*blocks, rows, factors, was, now)
    total = np.zeros((READ, width))
    units, ones = np.zeros((READ, width), np.float32), np.zeros((READ, width), np.float32)
    small = RowBlock((_random_rows(random, READ, width, kind) % 100).astype(kind))
    read_rows(small, random.random(width), 1e-6, total, units, ones)
    return stored, messages, np.array([result]), total, units, ones


def _of_floats(random: np.random.Generator, rows: int, width: int, dim: int) -> tuple[Any, ...]:
    left, weights = (
        random.standard_normal(shape).astype(np.float32) for shape in ((rows, width), (width, dim))
    )
    squares, dots, scores, out = (
        np.zeros(rows),
        np.zeros(11),
        np.zeros(rows),
        np.zeros((rows, dim), np.float32),
    )
    multiply_rows(left, random.integers(0, rows, 11), np.arange(rows), squares, dots, scores, weights, out)
    counts = random.integers(0, 4, rows)
    arcs = int(counts.sum())
    start, columns = np.concatenate(([0], counts.cumsum())), random.integers(0, rows, arcs, np.int32)
    sparse = np.zeros((rows, width + 1), np.float32)
    multiply_sparse(start, columns, random.random(arcs, np.float32), left, sparse)
    return squares, dots, scores, out, sparse


def _random_rows(
    random: np.random.Generator, n: int, width: int, kind: type[np.signedinteger[Any]]
) -> Stored:
    limits = np.iinfo(kind)
    return random.integers(limits.min // 4, limits.max // 4, (n, width), kind)
