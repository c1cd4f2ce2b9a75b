"""Loops of the readout. Every row is summed in one fixed order, alone or in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn.engine.records import Float32, Float64, Int64, Nodes, Stored

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from math import inf

    from dygcn.engine._rows import (
        RowBlock,
        add_product,
        add_units,
        scale_to_one,
        write_dots,
        write_squares,
        write_units,
    )
    from dygcn.engine.features.units import UnitTable, find_units
    from dygcn.engine.graph.ids_kernels import IdArrays, hashes_at, keys_at
    from dygcn.engine.propagation.pulling import Pulls, Scratch, write_whole
    from dygcn.engine.propagation.sum_rows import SumRows, write_messages


ROWS = 96  # that are read at once: what lies between the steps of a block stays in the nearest caches


class ReadOrder:
    """One order of a model, and the next orders."""

    # weights: Its matrix, (width, dim), or the number in the place of one, (1, 1).
    # rest: The next order, or None.

    def __init__(self, weights: Float32, rest: ReadOrder | None) -> None:
        self.weights = weights
        self.rest: Any = rest
        self.sums: Any = None  # while rows are read
        self.pulls: Any = None


class ReadBuffers:
    """Scratch for one call at a time, and the parameters shared by all rows of a model."""

    # weights: For each order its matrix, (width, dim), or the number in the place of one, (1, 1).
    # steps, feature_steps: What a message, and a feature as it is stored, is to be multiplied by,
    #   column by column.
    # floor, feature_floor: Rows that are shorter than this are not scaled up to length one.

    def __init__(
        self,
        weights: Sequence[Float32],
        steps: Float64,
        feature_steps: Float64,
        floor: float,
        feature_floor: float,
    ) -> None:
        width = len(steps)
        self.steps, self.feature_steps = steps, feature_steps
        self.floor, self.feature_floor = floor, feature_floor
        self.order: Any = None
        for matrix in reversed(weights):
            self.order = ReadOrder(matrix, self.order)
        self.features = RowBlock(np.empty((ROWS, width), np.int8))
        self.messages = RowBlock(np.empty((ROWS, width), np.int32))
        self.scratch = Scratch(width)
        self.units = np.empty((ROWS, width), np.float32)
        self.total = np.zeros((ROWS, width), np.float64)
        self.wanted = np.empty(ROWS, np.uint64)
        self.has = np.empty(ROWS, np.int64)


def _open(buffers: ReadBuffers, sums: Sequence[SumRows | None], pulls: Pulls | None) -> None:
    """Set the arrays of orders 1, 2 and so on, or None to free them; `pulls`: of the last order."""
    order = buffers.order
    for each in sums:
        order = order.rest
        order.sums = each
    order.pulls = pulls


def _write_messages(order: ReadOrder, nodes: Nodes, n: int, buffers: ReadBuffers) -> None:
    if order.pulls is None:
        write_messages(order.sums, nodes, n, buffers.messages, buffers.has)
    else:
        write_whole(order.sums, order.pulls, nodes, n, buffers.scratch, buffers.messages, buffers.has)


def read_projected(
    nodes: Nodes,
    given: RowBlock | None,
    ids: IdArrays,
    table: UnitTable | None,
    sums: Sequence[SumRows],
    pulls: Pulls | None,
    buffers: ReadBuffers,
    out: Float32,
) -> None:
    """Add ``sum over k of unit(h_k) W_k`` to `out`.

    `given` are features of the nodes; None: those of `table`. `sums` are of orders 1, 2 and so on;
    `pulls` is what readers add to those of the last one, or None.
    """
    _open(buffers, sums, pulls)
    with cython.nogil:
        for block in range((len(nodes) + ROWS - 1) // ROWS):
            first = block * ROWS
            n = min(ROWS, len(nodes) - first)
            if given is None:
                _write_features(nodes[first : first + n], n, ids, table, buffers)
                write_units(
                    buffers.features, 0, n, buffers.feature_steps, buffers.feature_floor, buffers.units
                )
            else:
                write_units(given, first, n, buffers.feature_steps, buffers.feature_floor, buffers.units)
            _add_projected(buffers.order, nodes[first : first + n], n, buffers, out, first)
    _open(buffers, [None] * len(sums), None)


def _write_features(nodes: Nodes, n: int, ids: IdArrays, table: Any, buffers: ReadBuffers) -> None:
    if table.hashed:
        keys_at(ids, nodes, n, buffers.wanted)
    else:
        hashes_at(ids, nodes, n, buffers.wanted)
    find_units(table, buffers.wanted, n, buffers.features, buffers.has)


def _add_projected(
    order: ReadOrder, nodes: Nodes, n: int, buffers: ReadBuffers, out: Float32, first: int
) -> None:
    """Add one order from `buffers.units`, then the following orders."""
    add_product(buffers.units, n, order.weights, out, first)
    if order.rest is not None:
        _write_messages(order.rest, nodes, n, buffers)
        write_units(buffers.messages, 0, n, buffers.steps, buffers.floor, buffers.units)
        _add_projected(order.rest, nodes, n, buffers, out, first)


def read_mixed(
    nodes: Nodes,
    ids: IdArrays,
    table: UnitTable,
    sums: Sequence[SumRows],
    pulls: Pulls | None,
    buffers: ReadBuffers,
    out: Float32,
) -> int:
    """Write ``unit(sum over k of w_k unit(h_k))``; rows of length 0 stay; return their number."""
    none = 0
    _open(buffers, sums, pulls)
    with cython.nogil:
        for block in range((len(nodes) + ROWS - 1) // ROWS):
            first = block * ROWS
            n = min(ROWS, len(nodes) - first)
            _write_features(nodes[first : first + n], n, ids, table, buffers)
            add_units(buffers.features, n, buffers.feature_floor, buffers.order.weights[0, 0], buffers.total)
            _add_mixed(buffers.order, nodes[first : first + n], n, buffers)
            none += scale_to_one(buffers.total, n, out, first)
    _open(buffers, [None] * len(sums), None)
    return none


def _add_mixed(order: ReadOrder, nodes: Nodes, n: int, buffers: ReadBuffers) -> None:
    """Add the following orders."""
    if order.rest is not None:
        _write_messages(order.rest, nodes, n, buffers)
        add_units(buffers.messages, n, buffers.floor, order.rest.weights[0, 0], buffers.total)
        _add_mixed(order.rest, nodes, n, buffers)


def mix_units(orders: Sequence[Stored], weights: Sequence[float], floor: float) -> Float32:
    """Return ``unit(sum over k of weight_k unit(row_k))``, given the rows of each order; zero stays zero."""
    n, width = orders[0].shape
    totals, units = np.zeros((n, width)), np.zeros((n, width), np.float32)
    total, out = totals, units
    for rows, weight in zip(orders, weights, strict=True):
        block = RowBlock(rows)
        with cython.nogil:
            add_units(block, n, floor, weight, total)
    with cython.nogil:
        scale_to_one(total, n, out, 0)
    return units


def unit_rows(rows: Stored, steps: Float64, floor: float) -> Float32:
    """Return h / max(|h|, floor) for h = row * steps: a bare h / |h| would jump at zero."""
    block, units = RowBlock(rows), np.empty((len(rows), len(steps)), np.float32)
    out = units
    with cython.nogil:
        write_units(block, 0, len(out), steps, floor, out)
    return units


def project(inputs: Float32, weights: Float32, out: Float32) -> None:
    """Add ``inputs @ weights`` to `out`, each number summed over the columns of its input in order."""
    if inputs.shape[1] != len(weights) or len(out) != len(inputs) or out.shape[1] != weights.shape[1]:
        raise ValueError("inputs, weights and out do not fit")
    with cython.nogil:
        add_product(inputs, len(inputs), weights, out, 0)


def squares(rows: Float32) -> Float64:
    """Return the product of each row with itself."""
    products = np.zeros(len(rows))
    out = products
    with cython.nogil:
        write_squares(rows, out)
    return products


def dots(left: Float32, left_at: Int64, right: Float32, right_at: Int64) -> Float64:
    """Return products of rows, by their numbers."""
    if len(left_at) != len(right_at) or left.shape[1] != right.shape[1]:
        raise ValueError("rows do not fit")
    products = np.zeros(len(left_at))
    out = products
    with cython.nogil:
        write_dots(left, left_at, right, right_at, out)
    return products


def to_units(rows: Float32, lengths: Float64) -> Float32:
    """Return rows of length one; zero where a row is zero or not finite."""
    units = np.zeros((len(rows), rows.shape[1]), np.float32)
    out = units
    with cython.nogil:
        for i in range(len(lengths)):
            if 0.0 < lengths[i] < inf:
                inverse = 1.0 / lengths[i]
                for j in range(rows.shape[1]):
                    out[i, j] = rows[i, j] * inverse
    return units
