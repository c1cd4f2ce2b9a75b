"""Input features x = h_0, and the integer grid on which features and messages live: part of the saved format.

A value in column c is a whole multiple of ``scale[c] * 2**-24``, where ``scale[c]`` is a power of two.
Means of such values, rounded to the grid, never leave the range of the values, so every message is an
int32 and every sum of weighted messages is an exact int64.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np

from dygcn.engine.events.keys import keys_of
from dygcn.engine.features.units import UnitTable, hashed_table, row_table, units_of
from dygcn.engine.records import (
    Bool,
    FeatureDelta,
    Float32,
    Float64,
    IdColumn,
    Int8,
    Int32,
    Int64,
    Nodes,
    Stored,
    UInt64,
)
from dygcn.errors import FeatureError

GRID_BITS = 24
HEADROOM_BITS = 2  # given features may later grow to 4 times the scale that was fitted
ROW_BITS = 7  # a row of a model holds whole numbers from -127 to 127: the sum of 255 rows fits 16 bits
CANNOT_BE_SET = {
    "walks": 'this model has features="walks", which fit made and an update never changes; '
    "fit with features=(ids, values) to bring your own",
    "hashed": 'this model has features="hashed", which follow from the id and cannot be set; '
    "fit with features=(ids, values) to bring your own",
}
_AT_ONCE = 1 << 11  # rows that are rounded at once


class Names(Protocol):
    """The ids of a graph's nodes as 64-bit numbers: keys and hashes."""

    keys: UInt64  # (n,) public: features are drawn from them
    hashes: UInt64  # (n,) under a secret of this graph: two ids of one hash cannot be made

    def hashes_of(self, column: IdColumn) -> UInt64:
        """Return the hashes of any ids, in the graph or not."""


class Features(Protocol):
    """The source of h_0."""

    width: int
    scales: Float64  # (width,)
    message_bits: int  # |h_0| on the grid is at most 2**message_bits
    message_shift: int  # and a multiple of 2**message_shift
    length: float  # of a feature vector on the grid: the unit of tolerances

    def units(self, nodes: Nodes, names: Names) -> tuple[Stored, Int64]:
        """Return x in units of ``2**message_shift`` on the grid, (n, width), and 1 where a node has one."""


def column_scales(values: Float32) -> Float64:
    """Return the power of two not below the greatest magnitude of each column."""
    peak = np.abs(values).max(axis=0, initial=0.0).astype(np.float64)
    return np.exp2(np.ceil(np.log2(np.where(peak > 0, peak, 1.0))))


def to_grid(values: Float32, scales: Float64) -> Int32:
    """Round features to the grid."""
    if not np.isfinite(values).all():
        raise FeatureError("features hold NaN or infinite values; allowed are finite numbers")
    on_grid = np.rint(values.astype(np.float64) / scales * 2.0**GRID_BITS)
    top = 2.0 ** (GRID_BITS + HEADROOM_BITS)
    if np.abs(on_grid).max(initial=0.0) > top:
        row, column = np.argwhere(np.abs(on_grid) > top)[0]
        raise FeatureError(
            f"feature {values[row, column]:g} in column {column} of row {row} is beyond "
            f"{scales[column] * 2**HEADROOM_BITS:g}, 4 times the fitted scale; scale it down or fit again"
        )
    return on_grid.astype(np.int32)


class Hashed:
    """Random signs drawn from the node's id, also for new nodes. Nothing is stored."""

    message_bits = GRID_BITS
    message_shift = GRID_BITS

    def __init__(self, width: int, seed: int) -> None:
        self.width = width
        self.scales: Float64 = np.ones(width)
        self.length = float(np.sqrt(width)) * 2.0**GRID_BITS
        self._table = hashed_table(seed % (1 << 64), width)

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        """Return x in units of one: +-1; every node has one."""
        return units_of(self._table, names.keys.take(nodes))

    def units_by_id(self, ids: IdColumn, names: Names) -> tuple[Int8, Int64]:
        """Return x of ids, in the graph or not."""
        return units_of(self._table, keys_of(ids))

    def unit_table(self, names: Names) -> UnitTable:
        """Return the table from which compiled loops look up rows."""
        return self._table


class RowTable:
    """Rows of whole numbers from -127 to 127 by id, which `fit` made (`training.walks`).

    A number q stands for ``q / 128 * scale``, where `scale` is a power of two; `window`: the steps of the
    walks that the rows were made of. Nothing in it ever changes, so copies of a model share it.
    """

    def __init__(self, ids: IdColumn, rows: Int8, scale: float, window: int = 1) -> None:
        self.ids, self.rows, self.scale, self.window = ids, np.ascontiguousarray(rows), scale, window

    @classmethod
    def of(cls, ids: IdColumn, values: Float32, window: int = 1) -> RowTable:
        """Round rows of numbers to 8 bits, all columns on one scale."""
        peak = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        scale = float(2.0 ** np.ceil(np.log2(peak))) if peak > 0 else 1.0
        whole, factor = np.empty(values.shape, np.int8), np.float32((1 << ROW_BITS) / scale)
        for begin in range(0, len(values), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            whole[some] = np.rint(values[some] * factor).clip(-127, 127)
        return cls(ids, whole, scale, window)

    def __len__(self) -> int:
        return len(self.rows)

    def __deepcopy__(self, memo: object) -> RowTable:
        return self


class Walks:
    """Rows that `fit` made, looked up by the id.

    They are a part of the model, not of the graph: a node that leaves and returns has its row again, and a
    row never makes a node own anything. A node without a row is a newcomer. The means of its neighbours leave
    it out, and it starts as the mean of its own neighbours.
    """

    message_bits = GRID_BITS
    message_shift = GRID_BITS - ROW_BITS

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self.width = table.rows.shape[1]
        self.scales: Float64 = np.full(self.width, table.scale)
        self.length = float(2.0**GRID_BITS / table.scale)
        self._names: Names | None = None
        self._units: UnitTable

    def __reduce__(self) -> tuple[type[Walks], tuple[RowTable]]:
        # A copy makes its own hash table, and shares the rows.
        return Walks, (self.table,)

    def unit_table(self, names: Names) -> UnitTable:
        if self._names is not names:
            self._units, self._names = row_table(names.hashes_of(self.table.ids), self.table.rows), names
        return self._units

    def drop(self, ids: IdColumn, rest: RowTable, names: Names) -> None:
        """Remove the rows of some ids; `rest` is the table without them."""
        self.table = rest
        if self._names is names:
            hashes = self._units.arrays[0]
            gone = np.flatnonzero(np.isin(hashes, names.hashes_of(ids)))
            hashes[gone] = np.frombuffer(os.urandom(8 * len(gone)), np.uint64)  # which no id has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        return units_of(self.unit_table(names), names.hashes.take(nodes))

    def units_by_id(self, ids: IdColumn, names: Names) -> tuple[Int8, Int64]:
        return units_of(self.unit_table(names), names.hashes_of(ids))


class OwnRows:
    """The rows of nodes with features of their own, and which nodes have one."""

    def __init__(self, width: int, dtype: type[np.signedinteger]) -> None:
        self._arrays = np.zeros((0, width), dtype), np.zeros(0, np.bool_)

    def of(self, nodes: Nodes) -> tuple[Stored, Bool]:
        """Return the rows of nodes, zero where a node has none, and which nodes have one."""
        rows, own = self._arrays
        inside = nodes < len(own)
        if inside.all():
            return rows[nodes], own[nodes]
        found, has = np.zeros((len(nodes), rows.shape[1]), rows.dtype), np.zeros(len(nodes), np.bool_)
        found[inside], has[inside] = rows[nodes[inside]], own[nodes[inside]]
        return found, has

    def put(self, nodes: Nodes, rows: Stored, own: Bool) -> None:
        """Replace rows of nodes."""
        stored, has = self._arrays
        high = int(nodes.max(initial=-1)) + 1
        if high > len(has):
            more = max(high, len(has) + (len(has) >> 1)) - len(has)
            stored = np.concatenate((stored, np.zeros((more, stored.shape[1]), stored.dtype)))
            has = np.concatenate((has, np.zeros(more, np.bool_)))
            self._arrays = stored, has  # together: an exception may come between any two lines
        stored[nodes], has[nodes] = rows, own


class Given:
    """Features that the user gave, one row for each node that has some, alone or behind rows of the model.

    With a `table` there are two blocks of columns, both int8. The first is looked up by the id (`Walks`); the
    second belongs to nodes that own features. A node that has neither is left out of the means of its
    neighbours; one that has one of them has zeros in the other.
    """

    message_bits = GRID_BITS + HEADROOM_BITS
    message_shift = 0

    def __init__(self, scales: Float64, table: RowTable | None = None) -> None:
        self.width, self.scales = len(scales), scales
        self.walks = None if table is None else Walks(table)
        self.first = 0 if self.walks is None else self.walks.width  # column of the given block
        self.length = float(np.sqrt(self.width)) * 2.0**GRID_BITS
        if self.walks is not None:
            self.message_bits, self.message_shift = Walks.message_bits, Walks.message_shift
            self.length = self.walks.length
        self.own = OwnRows(self.width - self.first, np.int32 if self.walks is None else np.int8)

    def units(self, nodes: Nodes, names: Names) -> tuple[Stored, Int64]:
        rows, own = self.own.of(nodes)
        if self.walks is None:
            return rows, own.astype(np.int64)
        out = np.zeros((len(nodes), self.width), np.int8)
        out[:, : self.first], has = self.walks.units(nodes, names)
        out[:, self.first :] = rows
        return out, has | own

    def counted(self, nodes: Nodes, own: Bool, names: Names) -> Int64:
        """Return 1 where a node has a row: in the model, or of its own."""
        return own.astype(np.int64) if self.walks is None else self.walks.units(nodes, names)[1] | own

    def with_own(self, rows: Int32, own: Stored) -> Int32:
        """Return rows on the grid, with the nodes' own features replaced."""
        rows = rows.copy()
        rows[:, self.first :] = own.astype(np.int32) << self.message_shift
        return rows

    def write(self, delta: FeatureDelta) -> None:
        """Replace the nodes' own features."""
        given = delta.new[:, self.first :] >> self.message_shift
        self.own.put(delta.nodes, given, delta.has)
