"""Features that `fit` made: one row for each node of the fitted graph, looked up by the id.

The rows are a part of the model (`training.walks` makes them), not of the graph: a node that leaves and
returns has its row again, and a row never makes a node own anything. A node without a row is a newcomer. The
means of its neighbours leave it out, and it starts as the mean of its own neighbours.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features.grid import GRID_BITS
from dygcn.engine.features.units import UnitTable, row_table, units_of
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from dygcn.engine.features.grid import Names
    from dygcn.engine.records import FeatureDelta, Float32, Float64, IdColumn, Int8, Int32, Int64, Nodes

_AT_ONCE = 1 << 11  # rows that are rounded at once
ROW_BITS = 7  # a row holds whole numbers from -127 to 127: the sum of 255 rows fits 16 bits
CANNOT_BE_SET = (
    'this model has features="walks", which fit made and an update never changes; '
    "fit with features=(ids, values) to bring your own"
)


class RowTable:
    """Rows by id. Nothing in it ever changes, so copies of a model share it."""

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
    """Features of a fitted table."""

    message_bits = GRID_BITS
    message_shift = GRID_BITS - ROW_BITS

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self.width = table.rows.shape[1]
        self.scales: Float64 = np.full(self.width, table.scale)
        self._names: Names | None = None
        self._units: UnitTable

    def __reduce__(self) -> tuple[type[Walks], tuple[RowTable]]:
        # A copy makes its own hash table, and shares the rows.
        return Walks, (self.table,)

    @property
    def length(self) -> float:
        """The length of a row on the grid: rows have length one."""
        return float(2.0**GRID_BITS / self.table.scale)

    def unit_table(self, names: Names) -> UnitTable:
        """Return where rows come from, for compiled loops."""
        if self._names is not names:
            self._units, self._names = row_table(names.hashes_of(self.table.ids), self.table.rows), names
        return self._units

    def drop(self, ids: IdColumn, rest: RowTable, names: Names) -> None:
        """Find no row for some ids any more; `rest` is the table without them."""
        self.table = rest
        if self._names is names:
            hashes = self._units.arrays[0]
            gone = np.flatnonzero(np.isin(hashes, names.hashes_of(ids)))
            hashes[gone] = np.frombuffer(os.urandom(8 * len(gone)), np.uint64)  # which no id has

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid, zero where a node has none, and which nodes have one."""
        units, has = self.units(nodes, names)
        return units.astype(np.int32) << self.message_shift, has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        """Return x as it is stored: from -127 to 127."""
        return units_of(self.unit_table(names), names.hashes.take(nodes))

    def units_by_id(self, ids: IdColumn, names: Names) -> tuple[Int8, Int64]:
        """Return x of ids that need not be in the graph."""
        return units_of(self.unit_table(names), names.hashes_of(ids))

    def write(self, delta: FeatureDelta) -> None:
        """Refuse: rows are a part of the model."""
        if len(delta.nodes):
            raise FeatureError(CANNOT_BE_SET)
