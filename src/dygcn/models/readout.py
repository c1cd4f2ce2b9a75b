"""From messages to vectors: ``z = sum over k of unit(h_k) W_k``, in a fixed order of summation.

A walk model has a number w_k in the place of each matrix, and vectors of length one:
``z = unit(sum over k of w_k unit(h_k))``.

A row is always summed the same way, alone or among a million, so a vector does not depend on who
else was asked for. (BLAS does not promise that.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import inlined, kernel, page, page_of_rows
from dygcn.features import GRID_BITS, Hashed, Walks
from dygcn.features.walks import ROW_BITS, find_units
from dygcn.propagation import ExactRule, RollingRule
from dygcn.propagation.kernels import write_messages

if TYPE_CHECKING:
    from dygcn.graph import Graph
    from dygcn.models.model import Model
    from dygcn.propagation import Rule
    from dygcn.records import Bool, Float32, Float64, Int32, Int64, Nodes, Stored

_BLOCK = 1024
_TILE = 4
_COLUMNS = 4
_FLOOR = 1e-6  # of the scale: messages shorter than this are not scaled up to length one


@kernel
def _unit_rows(rows: Stored, steps: Float64, floor: float) -> Float32:
    """H / max(|h|, floor): a bare h / |h| would jump at zero."""
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
    """Add ``inputs @ weights`` to `out`, each row summed over the columns of its input in order.

    Four columns at a time, one after the other: the same sums, and `out` is read and written less often.
    """
    n, width = len(inputs), weights.shape[0]
    dim = weights.shape[1]
    whole = width - width % _COLUMNS
    for tile in range(0, n, _TILE):
        stop = min(tile + _TILE, n)
        for c in range(0, whole, _COLUMNS):
            for i in range(tile, stop):
                a, b, d, e = inputs[i, c], inputs[i, c + 1], inputs[i, c + 2], inputs[i, c + 3]
                for j in range(dim):
                    two = (out[i, j] + a * weights[c, j]) + b * weights[c + 1, j]
                    out[i, j] = (two + d * weights[c + 2, j]) + e * weights[c + 3, j]
        for c in range(whole, width):
            for i in range(tile, stop):
                a = inputs[i, c]
                for j in range(dim):
                    out[i, j] += a * weights[c, j]


@kernel
def _add_unit(rows: Stored, steps: Float64, floor: float, weights: Float32, out: Float32) -> None:
    """Add ``unit(rows) @ weights`` to `out`."""
    _project(_unit_rows(rows, steps, floor), weights, out)


@kernel
def _add_weighted(rows: Stored, floor: float, weight: float, out: Float64) -> None:
    """Add ``weight * unit(rows)`` to `out`. The squares are whole numbers, so their sum is exact."""
    for i in range(len(rows)):
        square = np.int64(0)
        for j in range(rows.shape[1]):
            square += np.int64(rows[i, j]) * np.int64(rows[i, j])
        factor = weight / max(np.sqrt(np.float64(square)), floor)
        for j in range(rows.shape[1]):
            out[i, j] += rows[i, j] * factor


@kernel
def _write_units(rows: Float64, out: Float32) -> int:
    """Write the rows at length one; return how many have no length, and stay zero."""
    none = 0
    for i in range(len(rows)):
        square = 0.0
        for j in range(rows.shape[1]):
            square += rows[i, j] * rows[i, j]
        if square > 0:
            inverse = 1.0 / np.sqrt(square)
            for j in range(rows.shape[1]):
                out[i, j] = rows[i, j] * inverse
        else:
            none += 1
    return none


@kernel
def _read_mixed(
    nodes: Nodes,
    names: Int64,
    table: Int64,
    sums_books: Int64,
    scales: Float64,
    first_row: Stored,
    later_row: Stored,
    mix: Float64,
    out: Float32,
) -> int:
    """Write the vectors of a walk model, all orders in one call; return how many have no length.

    The arguments after `names` are the book of `Walks.book` and what `ExactRule.sums_books` returns: a row of
    the first and one of the later orders say how these are stored.
    """
    n, width = out.shape
    total, rows, has = np.zeros((n, width)), np.empty((n, width), np.int32), np.empty(n, np.int64)
    units, _ = find_units(nodes, names, np.uint64(0), width, table)
    _add_weighted(units, _FLOOR * (1 << ROW_BITS), mix[0], total)
    for k in range(1, len(mix)):
        book, scale = sums_books[k - 1], scales[k - 1]
        degree, slot = page(book, 0, np.int64), page(book, 1, np.int32)
        wide = page_of_rows(book, 3, np.int64)
        if k == 1:
            first = page_of_rows(book, 2, first_row.dtype)
            write_messages(nodes, degree, first, wide, slot, scale, rows, has)
        else:
            later = page_of_rows(book, 2, later_row.dtype)
            write_messages(nodes, degree, later, wide, slot, scale, rows, has)
        _add_weighted(rows, _FLOOR * (1 << GRID_BITS), mix[k], total)
    return _write_units(total, out)


def read_inputs(model: Model, rule: ExactRule, graph: Graph, nodes: Nodes, order: int, unit: bool) -> Float32:
    """Return h_order of nodes in the units of the features, zero where there is none, or unit(h_order)."""
    rows, _ = rule.messages(graph, nodes, order)
    steps = model.scales * 2.0**-GRID_BITS
    return _unit_rows(rows, steps, model.floor) if unit else _plain_rows(rows, steps)


def read_units(model: Model, rule: ExactRule, graph: Graph, nodes: Nodes) -> Float32:
    """Return u_0..u_K of nodes, (K + 1, n, width): unit(h_k), zero where there is none."""
    return np.stack([read_inputs(model, rule, graph, nodes, k, unit=True) for k in range(model.orders + 1)])


def read_vectors(model: Model, rule: Rule, graph: Graph, nodes: Nodes) -> Float32:
    """Return the vectors of nodes, (n, dim): read out of messages, or what the paper's rules keep."""
    return Readout(model, rule, graph).vectors(nodes)


class Readout:
    """Where vectors are read, with what follows from the model worked out once: for one node after the other.

    Examples
    --------
    >>> from dygcn.events import read_events
    >>> from dygcn.models import Model, State
    >>> state = State(Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4)))
    >>> _ = state.apply(read_events([(1, 2), (2, 3)]))
    >>> Readout(state.model, state.rule, state.graph).vectors(state.graph.nodes()).shape
    (3, 4)
    """

    def __init__(self, model: Model, rule: Rule, graph: Graph) -> None:
        self.model = model
        self._rule = rule
        self._graph = graph
        self._dim = model.dim
        if isinstance(rule, ExactRule):
            self._floor = model.floor
            self._steps = model.scales * 2.0**-GRID_BITS
            # Powers of two: a feature in units of its own times these has the bits of one on the grid.
            self._unit_steps = self._steps * 2.0**rule.features.message_shift
            self._mix = np.array([weight.flat[0] for weight in model.weights], np.float64)
            self._signs = Hashed(model.width, model.seed)

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim)."""
        rule, model, graph = self._rule, self.model, self._graph
        if isinstance(rule, RollingRule):
            return rule.vectors(nodes)
        assert isinstance(rule, ExactRule)
        out = np.zeros((len(nodes), self._dim), np.float32)
        if model.baseline is None and len(nodes) <= _BLOCK:
            self._read_unit(rule, nodes, out)
            return out
        base_row = None if model.baseline is None else model.baseline.rows_of(graph.ids.names(nodes))
        for start in range(0, len(nodes), _BLOCK):
            block = slice(start, start + _BLOCK)
            if base_row is None:
                self._read_unit(rule, nodes[block], out[block])
            else:
                _read_fresh(model, rule, graph, nodes[block], base_row[block], out[block])
        return out

    def _read_unit(self, rule: ExactRule, nodes: Nodes, out: Float32) -> None:
        model = self.model
        if model.table is not None:
            self._read_walks(rule, nodes, out)
            return
        floor, steps, weights = self._floor, self._steps, model.weights
        units, _ = rule.features.units(nodes, self._graph.ids)
        _add_unit(units, self._unit_steps, floor, weights[0], out)
        for k in range(1, len(weights)):
            _add_unit(rule.messages(self._graph, nodes, k)[0], steps, floor, weights[k], out)

    def _read_walks(self, rule: ExactRule, nodes: Nodes, out: Float32) -> None:
        """Read a walk model; a node that no row reaches reads as its hashed signs, which nobody is sent."""
        assert isinstance(rule.features, Walks)
        names = self._graph.ids
        table = rule.features.book(names).pages
        if _read_mixed(nodes, names.key_book.pages, table, *rule.sums_books(), self._mix, out):
            lost = np.flatnonzero(~out.any(axis=1))
            signs, _ = self._signs.units(nodes[lost], names)
            out[lost] = signs / np.float32(np.sqrt(self._dim))


def _read_fresh(
    model: Model, rule: ExactRule, graph: Graph, nodes: Nodes, base_row: Int64, out: Float32
) -> None:
    """Keep an embedding fresh: ``z = z_0 + sum over k of (h_k - h_k at t0) W_k``, W_0 the identity.

    A message that is absent now adds nothing, so a node that lost its links keeps z_0; one that was absent
    at t0 is compared with z_0 itself. A node that was not in the embedding has no t0: it stands where its own
    features stand if it was given some, else where the mean of its neighbours stands (its lowest message).
    """
    assert model.baseline is not None
    known = base_row >= 0
    out[known] = model.baseline.vectors[base_row[known]]
    waiting = ~known
    for k, matrix in enumerate(model.weights):
        h, has = drift(model, rule, graph, nodes, base_row, k)
        lowest = waiting & has
        out[lowest] = h[lowest]
        waiting &= ~lowest
        h[~known] = 0
        _project(h, matrix, out)


def drift(
    model: Model, rule: ExactRule, graph: Graph, nodes: Nodes, base_row: Int64, order: int
) -> tuple[Float32, Bool]:
    """Return h_order minus h_order at t0 (h_order alone, for a node without t0), and who has h_order."""
    assert model.baseline is not None
    rows, has = rule.messages(graph, nodes, order)
    h = _plain_rows(rows, model.scales * 2.0**-GRID_BITS)
    moved = (base_row >= 0) & (has > 0)
    h[moved] -= model.baseline.messages[order][base_row[moved]]
    h[has == 0] = 0
    return h, has > 0


@inlined
def _dot(a: Float32, b: Float32) -> float:
    total = 0.0
    for j in range(len(a)):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@inlined
def _cosine(a: Float32, b: Float32) -> float:
    """Return the cosine of two rows, 0 where either is zero."""
    size = np.sqrt(_dot(a, a)) * np.sqrt(_dot(b, b))
    return min(1.0, max(-1.0, _dot(a, b) / size)) if size > 0 else 0.0


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
            out[i] = min(1.0, max(-1.0, _dot(rows[i], query) / (lengths[i] * size)))
    return out


@kernel
def pair_cosines(rows: Float32, first: Int64, second: Int64) -> Float64:
    """Return the cosine of each pair of rows, 0 where either is zero or below 0: not there."""
    out = np.zeros(len(first), np.float64)
    for i in range(len(first)):
        if first[i] >= 0 and second[i] >= 0:
            out[i] = _cosine(rows[first[i]], rows[second[i]])
    return out


@kernel
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
    out = np.zeros((len(first), 1 + orders * (orders + 1) // 2), np.float64)
    for p in range(len(first)):
        a, b = first[p], second[p]
        out[p, 0] = _cosine(vectors[a], vectors[b])
        column = 1
        for i in range(orders):
            out[p, column] = _dot(units[i, a], units[i, b])
            column += 1
            for j in range(i + 1, orders):
                out[p, column] = _dot(units[i, a], units[j, b]) + _dot(units[j, a], units[i, b])
                column += 1
    return out
