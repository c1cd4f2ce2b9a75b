"""Lengths, cosines and products of rows, in double precision and one order of summation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.models.read_kernels import dots, squares

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, Float64, Int64


def norms(rows: Float32) -> Float64:
    """Return the length of each row."""
    return np.sqrt(squares(rows))


def cosines(rows: Float32, lengths: Float64, query: Float32) -> Float64:
    """Return the cosine of each row and the query, 0 where either is zero."""
    one, every = query.reshape(1, -1), np.arange(len(rows))
    return _quotients(dots(rows, every, one, np.zeros_like(every)), lengths * norms(one))


def pair_cosines(rows: Float32, first: Int64, second: Int64) -> Float64:
    """Return the cosine of each pair of rows, 0 where either is zero or below 0: not there."""
    out = np.zeros(len(first))
    there = np.flatnonzero((first >= 0) & (second >= 0))
    a, b = first[there], second[there]
    sizes = np.sqrt(dots(rows, a, rows, a)) * np.sqrt(dots(rows, b, rows, b))
    out[there] = _quotients(dots(rows, a, rows, b), sizes)
    return out


def _quotients(products: Float64, sizes: Float64) -> Float64:
    found = np.divide(products, sizes, out=np.zeros(len(products)), where=sizes > 0)
    return np.fmin(1.0, np.fmax(-1.0, found))


def pair_products(vectors: Float32, units: Float32, first: Int64, second: Int64) -> Float64:
    """Return the cosine of the vectors of each pair, then u_i . u_j + u_j . u_i of its units, i <= j.

    Parameters
    ----------
    vectors
        (n, dim) z.
    units
        (K + 1, n, width) u_0..u_K; (0, n, 0): the cosine is the only product.
    first, second
        (m,) rows of these.
    """
    orders = len(units)
    columns = [pair_cosines(vectors, first, second)]
    for i in range(orders):
        columns.append(dots(units[i], first, units[i], second))
        columns += [
            dots(units[i], first, units[j], second) + dots(units[j], first, units[i], second)
            for j in range(i + 1, orders)
        ]
    return np.stack(columns, axis=1)
