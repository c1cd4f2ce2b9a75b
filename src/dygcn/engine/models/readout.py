"""From messages to vectors: ``z = sum over k of unit(h_k) W_k``, in a fixed order of summation.

A walk model has a number w_k in the place of each matrix, and vectors of length one:
``z = unit(sum over k of w_k unit(h_k))``. So has each block of a model with given features, times its weight.

A row is always summed the same way, alone or among a million, so a vector does not depend on who
else was asked for. (BLAS does not promise that.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from dygcn.engine._rows import RowBlock
from dygcn.engine.features.inputs import GRID_BITS, ROW_BITS, Hashed, Walks
from dygcn.engine.models.read_kernels import (
    ReadBuffers,
    mix_units,
    project,
    read_mixed,
    read_projected,
    unit_rows,
)
from dygcn.engine.propagation import ExactRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.features.units import UnitTable
    from dygcn.engine.graph import Graph
    from dygcn.engine.graph.ids import IdMap
    from dygcn.engine.models.contracts import Messages, Reading
    from dygcn.engine.models.model import Model
    from dygcn.engine.propagation import Rule
    from dygcn.engine.propagation.pulling import Pulls
    from dygcn.engine.propagation.sum_rows import SumRows
    from dygcn.engine.records import Bool, Float32, Float64, Int64, Nodes

_BLOCK = 1024
_FLOOR = 1e-6  # of the scale: messages shorter than this are not scaled up to length one


def read_inputs(model: Model, rule: Messages, graph: Graph, nodes: Nodes, order: int, unit: bool) -> Float32:
    """Return h_order of nodes in the units of features, zero where absent; with `unit`, unit(h_order)."""
    rows, _ = rule.messages(graph, nodes, order)
    steps = model.scales * 2.0**-GRID_BITS
    if not unit:
        return (rows * steps).astype(np.float32)
    if model.projection is None:
        return unit_rows(rows, steps, model.floor)
    out = np.empty(rows.shape, np.float32)
    for columns, length in model.blocks:
        found = unit_rows(np.ascontiguousarray(rows[:, columns]), steps[columns], model.floor)
        out[:, columns] = found * np.float32(length)
    return out


def read_units(model: Model, rule: Messages, graph: Graph, nodes: Nodes) -> Float32:
    """Return u_0..u_K of nodes, (K + 1, n, width): unit(h_k), zero where absent."""
    return np.stack([read_inputs(model, rule, graph, nodes, k, unit=True) for k in range(model.orders + 1)])


def read_vectors(model: Model, rule: Rule, graph: Graph, nodes: Nodes) -> Float32:
    """Return the vectors of nodes, (n, dim)."""
    return new_reading(model, rule, graph).vectors(nodes)


def new_reading(model: Model, rule: Rule, graph: Graph) -> Reading:
    """Return a reader of a state's vectors; a rule that stores vectors is its own."""
    return Readout(model, rule, graph) if isinstance(rule, ExactRule) else cast("Reading", rule)


class Readout:
    """Computes vectors from messages; what depends on the model alone is computed once."""

    def __init__(self, model: Model, rule: ExactRule, graph: Graph) -> None:
        self.model = model
        self._rule = rule
        self._graph = graph
        self._plan = read_plan(model, rule)

    def __reduce__(self) -> tuple[type[Readout], tuple[Model, ExactRule, Graph]]:
        return Readout, (self.model, self._rule, self._graph)

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim)."""
        rule, model, ids = self._rule, self.model, self._graph.ids
        features, sums, pulls = rule.features, [each.arrays for each in rule.sums], rule.pulls(self._graph)
        if self._plan is not None:
            assert isinstance(features, Hashed | Walks)
            return self._plan.vectors(nodes, ids, features.unit_table(ids), sums, pulls)
        out = np.zeros((len(nodes), model.dim), np.float32)
        buffers = _buffers(model, features.message_shift, mixed=False)
        for start in range(0, len(nodes), _BLOCK):
            some, found = nodes[start : start + _BLOCK], out[start : start + _BLOCK]
            if model.projection is not None:
                self._read_blocks(some, found)
            elif model.baseline is not None:
                _read_fresh(model, rule, self._graph, some, found)
            else:
                given = RowBlock(features.units(some, ids)[0])
                read_projected(some, given, ids.arrays, None, sums, pulls, buffers, found)
        return out

    def _read_blocks(self, nodes: Nodes, out: Float32) -> None:
        """Read vectors of a model with several blocks of columns; a block without any row is zero."""
        model, rule, graph = self.model, self._rule, self._graph
        messages = [rule.messages(graph, nodes, k)[0] for k in range(model.orders + 1)]
        weights, floor = [float(weight[0, 0]) for weight in model.weights], _FLOOR * (1 << GRID_BITS)
        for columns, length in model.blocks:
            rows = [np.ascontiguousarray(each[:, columns]) for each in messages]
            out[:, columns] = mix_units(rows, weights, floor) * np.float32(length)
        lost = np.flatnonzero(~out.any(axis=1))
        if len(lost):  # a node without any row gets its hashed signs, which are no message
            signs, _ = Hashed(model.dim, model.seed).units(nodes[lost], graph.ids)
            out[lost] = signs / np.float32(np.sqrt(model.dim))


def _buffers(of: Model | ReadPlan, message_shift: int, mixed: bool) -> ReadBuffers:
    steps = of.scales * 2.0**-GRID_BITS
    if mixed:
        return ReadBuffers(of.weights, steps, steps, _FLOOR * (1 << GRID_BITS), _FLOOR * (1 << ROW_BITS))
    # Powers of two: a feature in units of its own times these has the bits of one on the grid.
    return ReadBuffers(of.weights, steps, steps * 2.0**message_shift, of.floor, of.floor)


@dataclass(eq=False)
class ReadPlan:
    """The parameters of the readout of a model whose features are looked up; rows come from elsewhere."""

    weights: Sequence[Float32]
    scales: Float64
    seed: int
    floor: float
    dim: int
    mixed: bool  # weights are numbers, and vectors have length one: those of a walk model
    message_shift: int  # of the features

    _unused: list[ReadBuffers] = field(default_factory=list, init=False)

    def vectors(
        self, nodes: Nodes, ids: IdMap, table: UnitTable, sums: Sequence[SumRows], pulls: Pulls | None = None
    ) -> Float32:
        """Return the vectors of nodes, (n, dim), given ids, features, sums and pulled messages."""
        out = np.zeros((len(nodes), self.dim), np.float32)
        try:
            buffers = self._unused.pop()
        except IndexError:
            buffers = _buffers(self, self.message_shift, self.mixed)
        if not self.mixed:
            read_projected(nodes, None, ids.arrays, table, sums, pulls, buffers, out)
        elif read_mixed(nodes, ids.arrays, table, sums, pulls, buffers, out):
            # A node without any row gets its hashed signs, which are no message.
            lost = np.flatnonzero(~out.any(axis=1))
            signs, _ = Hashed(len(self.scales), self.seed).units(nodes[lost], ids)
            out[lost] = signs / np.float32(np.sqrt(self.dim))
        self._unused.append(buffers)
        return out


def read_plan(model: Model, rule: ExactRule) -> ReadPlan | None:
    """Return the readout's parameters; None if features are stored, or an embedding is kept fresh."""
    features = rule.features
    if model.baseline is not None or not isinstance(features, Hashed | Walks):
        return None
    about = model.weights, model.scales, model.seed, model.floor, model.dim
    return ReadPlan(*about, model.table is not None, features.message_shift)


def _read_fresh(model: Model, rule: ExactRule, graph: Graph, nodes: Nodes, out: Float32) -> None:
    """Keep an embedding fresh: ``z = z_0 + sum over k of (h_k - h_k at t0) W_k``, W_0 the identity.

    A message that is absent now adds nothing, so a node that lost its links keeps z_0; one that was absent
    at t0 is compared with z_0 itself. A node that was not in the embedding has no t0: it stands where its own
    features stand if it was given some, else where the mean of its neighbours stands (its lowest message).
    """
    assert model.baseline is not None
    base_row = model.baseline.rows_of(graph.ids.names(nodes))
    known = base_row >= 0
    out[known] = model.baseline.vectors[base_row[known]]
    waiting = ~known
    for k, matrix in enumerate(model.weights):
        h, has = drift(model, rule, graph, nodes, base_row, k)
        lowest = waiting & has
        out[lowest] = h[lowest]
        waiting &= ~lowest
        h[~known] = 0
        project(h, matrix, out)


def drift(
    model: Model, rule: ExactRule, graph: Graph, nodes: Nodes, base_row: Int64, order: int
) -> tuple[Float32, Bool]:
    """Return h_order minus h_order at t0 (h_order alone without a t0), and whether it exists."""
    assert model.baseline is not None
    rows, has = rule.messages(graph, nodes, order)
    h = (rows * (model.scales * 2.0**-GRID_BITS)).astype(np.float32)
    moved = (base_row >= 0) & (has > 0)
    h[moved] -= model.baseline.messages[order][base_row[moved]]
    h[has == 0] = 0
    return h, has > 0
