"""From messages to vectors: ``z = sum over k of unit(h_k) W_k``, in a fixed order of summation.

A row is always summed the same way, alone or among a million, so a vector does not depend on who
else was asked for. (BLAS does not promise that.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel
from dygcn.features import GRID_BITS

if TYPE_CHECKING:
    from dygcn.graph import Graph
    from dygcn.models.model import Model
    from dygcn.propagation import Rule
    from dygcn.records import Float32, Float64, Int32, Nodes

_BLOCK = 1024
_TILE = 4


@kernel
def _unit_rows(rows: Int32, steps: Float64, floor: float) -> Float32:
    """h / max(|h|, floor): a bare h / |h| would jump at zero."""
    out = np.empty(rows.shape, np.float32)
    for i in range(len(rows)):
        square = 0.0
        for j in range(rows.shape[1]):
            value = rows[i, j] * steps[j]
            square += value * value
        inverse = 1.0 / max(np.sqrt(square), floor)
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] * steps[j] * inverse
    return out


@kernel
def _plain_rows(rows: Int32, steps: Float64) -> Float32:
    out = np.empty(rows.shape, np.float32)
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] * steps[j]
    return out


@kernel
def _project(inputs: Float32, weights: Float32, out: Float32) -> None:
    """Add ``inputs @ weights`` to `out`, each row summed over the columns of its input in order."""
    n = len(inputs)
    dim = weights.shape[1]
    for tile in range(0, n, _TILE):
        stop = min(tile + _TILE, n)
        for c in range(weights.shape[0]):
            for i in range(tile, stop):
                a = inputs[i, c]
                for j in range(dim):
                    out[i, j] += a * weights[c, j]


def read_inputs(model: Model, rule: Rule, graph: Graph, nodes: Nodes, order: int, unit: bool) -> Float32:
    """Return h_order of nodes in the units of the features, zero where there is none, or unit(h_order)."""
    rows, _ = rule.messages(graph, nodes, order)
    steps = model.scales * 2.0**-GRID_BITS
    return _unit_rows(rows, steps, model.floor) if unit else _plain_rows(rows, steps)


def read_vectors(model: Model, rule: Rule, graph: Graph, nodes: Nodes) -> Float32:
    """Return the vectors of nodes, (n, dim)."""
    block = _read_fresh if model.baseline is not None else _read_unit
    return _in_blocks(lambda part: block(model, rule, graph, part), nodes, model.dim)


def _in_blocks(read: Callable[[Nodes], Float32], nodes: Nodes, dim: int) -> Float32:
    out = np.empty((len(nodes), dim), np.float32)
    for start in range(0, len(nodes), _BLOCK):
        out[start : start + _BLOCK] = read(nodes[start : start + _BLOCK])
    return out


def _read_unit(model: Model, rule: Rule, graph: Graph, nodes: Nodes) -> Float32:
    out = np.zeros((len(nodes), model.dim), np.float32)
    for k, matrix in enumerate(model.weights):
        _project(read_inputs(model, rule, graph, nodes, k, unit=True), matrix, out)
    return out


def _read_fresh(model: Model, rule: Rule, graph: Graph, nodes: Nodes) -> Float32:
    """Keep an embedding fresh: ``z = z_0 + sum over k of (h_k - h_k at t0) W_k``.

    W_0 is the identity, so z_0 and the order-0 term are x together. A newcomer has no x of its own and
    no t0: it stands where the mean of its neighbours stands (its lowest message).
    """
    baseline = model.baseline
    assert baseline is not None
    x, has = rule.messages(graph, nodes, 0)
    steps = model.scales * 2.0**-GRID_BITS
    out = _plain_rows(x, steps)
    row = graph.rows_in(baseline.ids, nodes)
    known = (row >= 0) & (has > 0)
    alone = has == 0
    for k in range(1, model.orders + 1):
        rows, present = rule.messages(graph, nodes, k)
        h = _plain_rows(rows, steps)
        out[alone & (present > 0)] = h[alone & (present > 0)]
        alone &= present == 0
        drift = np.zeros_like(h)
        drift[known] = h[known] - baseline.messages[k - 1][row[known]]
        _project(drift, model.weights[k], out)
    return out


@inlined
def _dot(a: Float32, b: Float32) -> float:
    total = 0.0
    for j in range(len(a)):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@kernel
def norms(rows: Float32) -> Float64:
    """Return the length of each row."""
    out = np.empty(len(rows), np.float64)
    for i in range(len(rows)):
        out[i] = np.sqrt(_dot(rows[i], rows[i]))
    return out


@kernel
def cosines(rows: Float32, lengths: Float64, query: Float32) -> Float64:
    """Return the cosine of each row and the query, 0 where either is zero."""
    out = np.zeros(len(rows), np.float64)
    size = np.sqrt(_dot(query, query))
    for i in range(len(rows)):
        if lengths[i] > 0 and size > 0:
            out[i] = _dot(rows[i], query) / (lengths[i] * size)
    return out
