"""Rows that `fit` made beside rows that the user brings: two blocks of columns.

Both are int8. The first block is looked up by the id and belongs to the model (`walks`); the second belongs
to nodes that own features, and changes with them. A node that has neither is left out of the means of its
neighbours; a node that has one of them has zeros in the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features.grid import GRID_BITS
from dygcn.engine.features.walks import ROW_BITS, RowTable, Walks

if TYPE_CHECKING:
    from dygcn.engine.features.grid import Names
    from dygcn.engine.records import Bool, FeatureDelta, Float64, IdColumn, Int8, Int32, Int64, Nodes, Stored


class Blocks:
    """Features in two blocks."""

    message_bits = GRID_BITS
    message_shift = GRID_BITS - ROW_BITS

    def __init__(self, table: RowTable, given: int) -> None:
        self.walks, self.given = Walks(table), given
        self.first = self.walks.width  # column of the second block
        self.width = self.first + given
        self.scales: Float64 = np.concatenate((self.walks.scales, np.ones(given)))
        self._rows: Int8 = np.zeros((0, given), np.int8)
        self._own: Bool = np.zeros(0, np.bool_)

    @property
    def length(self) -> float:
        """The length of one block of a row on the grid: rows have length one."""
        return self.walks.length

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid, zero where a node has none, and which nodes have one."""
        units, has = self.units(nodes, names)
        return units.astype(np.int32) << self.message_shift, has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        """Return x as it is stored: from -127 to 127."""
        inside = nodes < len(self._own)
        own = np.zeros(len(nodes), np.bool_)
        own[inside] = self._own[nodes[inside]]
        out = np.zeros((len(nodes), self.width), np.int8)
        out[:, : self.first], has = self.walks.units(nodes, names)
        out[own, self.first :] = self._rows[nodes[own]]
        return out, has | own

    def counted(self, nodes: Nodes, own: Bool, names: Names) -> Int64:
        """Return 1 where a node has a row: it has one in the model, or it owns features."""
        return self.walks.units(nodes, names)[1] | own

    def with_own(self, rows: Int32, own: Stored) -> Int32:
        """Return rows on the grid with other features of their own."""
        rows = rows.copy()
        rows[:, self.first :] = own.astype(np.int32) << self.message_shift
        return rows

    def without_own(self, rows: Int32) -> Int32:
        """Return rows on the grid as they are without features of their own."""
        return self.with_own(rows, np.zeros((len(rows), self.given), np.int8))

    def write(self, delta: FeatureDelta) -> None:
        """Replace rows of the second block."""
        if len(delta.nodes):
            self.put(
                delta.nodes, (delta.new[:, self.first :] >> self.message_shift).astype(np.int8), delta.has
            )

    def put(self, nodes: Nodes, rows: Int8, own: Bool) -> None:
        """Replace rows of the second block, as they are stored."""
        high = int(nodes.max(initial=-1)) + 1
        if high > len(self._own):
            size = max(high, len(self._own) + (len(self._own) >> 1))
            more = size - len(self._own)
            self._rows = np.concatenate((self._rows, np.zeros((more, self.given), np.int8)))
            self._own = np.concatenate((self._own, np.zeros(more, np.bool_)))
        self._rows[nodes], self._own[nodes] = rows, own

    def saved(self, nodes: Nodes) -> Int8:
        """Return the second block of nodes that own features."""
        return self._rows[nodes]

    def drop(self, ids: IdColumn, rest: RowTable, names: Names) -> None:
        """Find no row in the model for some ids any more; `rest` is the table without them."""
        self.walks.drop(ids, rest, names)
