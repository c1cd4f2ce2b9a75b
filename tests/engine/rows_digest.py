"""Runs every loop over rows on random rows, for one digest: the same at all CPU levels, and uncompiled."""

from __future__ import annotations

import hashlib
import sys
from itertools import product
from typing import Any

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.records import Stored
from dygcn.testing.row_loops import change_rows, multiply_rows, multiply_sparse, read_rows

KINDS = np.int8, np.int16, np.int32, np.int64
WIDTHS = 1, 3, 8, 31, 100, 128, 256
READ = 19  # rows: some at once, and some that are left


def rows_digest(seed: int = 0) -> str:
    """Return a digest of the results of all loops."""
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


if __name__ == "__main__":
    sys.stdout.write(rows_digest())
