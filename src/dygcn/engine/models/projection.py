"""Given features become a block of columns: ``unit(unit(x) M - offset)``, rounded to 8 bits.

M are the leading principal directions of the features that `fit` saw. The product is summed in a fixed order,
so a row is the same bits on every machine, alone or among a million.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dygcn.engine.events.kinds import kinds_of
from dygcn.engine.features.inputs import ROW_BITS
from dygcn.engine.features.tables import NodeColumns, read_features, read_nodes
from dygcn.engine.models.links import norms
from dygcn.engine.models.read_kernels import project, to_units
from dygcn.engine.records import Float32, IdColumn, Int8
from dygcn.errors import FeatureError

MOST_ROWS = 50_000  # that the directions are found on, drawn at random where there are more
_ROUNDS = 8  # of subspace iteration
_MORE = 16  # columns of it beyond those that are wanted
_NOTHING = 1e-4  # of the largest singular value: directions below it are rounding
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class Projection:
    """The projection of given features to a block of a model, and the block's share."""

    # matrix: (columns of x, columns of the block).
    # offset: (columns of the block,) the mean of unit(x) M.
    # share: Of the squared length of a vector that belongs to this block, above 0 and at most 1.
    # columns: How a table of nodes becomes x; None: x comes as numbers.

    matrix: Float32 = field(repr=False)
    offset: Float32 = field(repr=False)
    share: float = 0.5
    columns: NodeColumns | None = None

    def rows(self, values: Float32) -> Int8:
        """Return the block of rows of x: length one on a grid of 2^-7, zero where x is zero."""
        if values.shape[1] != len(self.matrix):
            raise FeatureError(
                f"values have {values.shape[1]} columns; this model was fitted on features of "
                f"{len(self.matrix)}"
            )
        out = np.empty((len(values), self.matrix.shape[1]), np.int8)
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            some = unit_rows(np.ascontiguousarray(values[block], np.float32))
            found = np.zeros((len(some), out.shape[1]), np.float32)
            project(some, self.matrix, found)
            found -= self.offset
            found[~values[block].any(axis=1)] = 0.0
            found = to_units(found, norms(found))
            out[block] = np.rint(found * np.float32(1 << ROW_BITS)).clip(-127, 127)
        return out


def feature_rows(
    projection: Projection | None, id_type: str, ids: object, values: object, nodes: object
) -> tuple[IdColumn, Float32]:
    """Read features of nodes for a model, as ids and rows of x or as a table of nodes.

    A FeatureError refuses the form that the model was not fitted with, and both or none of them.
    """
    columns = None if projection is None else projection.columns
    if (nodes is None) == (ids is None and values is None):
        raise FeatureError("features are set by (ids, values), or by nodes=, a table: pass one of them")
    if nodes is None:
        if columns is not None:
            raise FeatureError(
                f"this model was fitted with nodes=, on the columns {', '.join(columns.names)}; pass "
                "set_features(nodes=table) with an id and these columns"
            )
        return read_features((ids, values), id_type)
    if columns is None:
        raise FeatureError("this model was not fitted with nodes=; pass set_features(ids, values)")
    kinds = kinds_of(id_type)
    table = read_nodes(nodes, [columns.id, *(() if kinds is None else kinds.names)], id_type)
    return table.ids, columns.encode(table)


def unit_rows(values: Float32) -> Float32:
    """Return rows at length one, zero where a row is zero; squares of long rows do not overflow."""
    peak = np.abs(values).max(axis=1, initial=0.0, keepdims=True)
    tame = (values / np.where(peak > 0, peak, 1)).astype(np.float32)
    return to_units(tame, norms(tame))


def principal_directions(values: Float32, most: int, seed: int) -> Projection:
    """Return the projection onto at most `most` leading principal directions of unit rows.

    There are fewer where x, (n, columns), has a lower rank; rows of zeros say nothing, and are left out.
    """
    rows = np.flatnonzero(values.any(axis=1))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng([seed, 11]).choice(rows, MOST_ROWS, replace=False))
    if len(rows) == 0:
        raise FeatureError(
            "all features are zero; bring some that differ from node to node, or leave them out"
        )
    units = unit_rows(np.ascontiguousarray(values[rows], np.float32))
    mean = units.mean(axis=0, dtype=np.float64).astype(np.float32)
    units -= mean
    basis = _subspace(units, min(most + _MORE, *units.shape), seed)
    _, sizes, turn = np.linalg.svd((units @ basis).astype(np.float64), full_matrices=False)
    kept = max(int((sizes[:most] > _NOTHING * max(float(sizes[0]), 1e-6)).sum()), 1)
    turned = (basis.astype(np.float64) @ turn.T)[:, :kept]
    greatest = turned[np.abs(turned).argmax(axis=0), np.arange(kept)]  # directions have no sign of their own
    matrix = (turned * np.where(greatest < 0, -1.0, 1.0)).astype(np.float32)
    return Projection(np.ascontiguousarray(matrix), (mean @ matrix).astype(np.float32))


def _subspace(rows: Float32, columns: int, seed: int) -> Float32:
    """Return an orthonormal basis of about the leading right singular vectors (subspace iteration)."""
    width = rows.shape[1]
    if columns == width:
        return np.eye(width, dtype=np.float32)
    basis = np.random.default_rng([seed, 12]).standard_normal((width, columns)).astype(np.float32)
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(rows.T @ (rows @ np.linalg.qr(basis)[0]))[0]
    return basis
