"""Features that the user brings: one row for each node that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features.grid import GRID_BITS, HEADROOM_BITS
from dygcn.engine.records import FeatureDelta

if TYPE_CHECKING:
    from dygcn.engine.features.grid import Names
    from dygcn.engine.records import Bool, Float64, Int32, Int64, Nodes, Stored


class Given:
    """A table of features on the grid, and which nodes have a row."""

    message_bits = GRID_BITS + HEADROOM_BITS
    message_shift = 0

    def __init__(self, scales: Float64) -> None:
        self.width = len(scales)
        self.scales = scales
        self._rows: Int32 = np.zeros((0, self.width), np.int32)
        self._has: Int64 = np.zeros(0, np.int64)

    @property
    def length(self) -> float:
        """The length of a feature vector on the grid: every column as large as its scale."""
        return float(np.sqrt(self.width)) * 2.0**GRID_BITS

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid, zero where a node has none, and which nodes have one."""
        inside = nodes < len(self._has)
        if inside.all():
            return self._rows[nodes], self._has[nodes]
        rows, has = np.zeros((len(nodes), self.width), np.int32), np.zeros(len(nodes), np.int64)
        rows[inside], has[inside] = self._rows[nodes[inside]], self._has[nodes[inside]]
        return rows, has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x in units of the grid, as stored."""
        return self.rows(nodes, names)

    def counted(self, nodes: Nodes, own: Bool, names: Names) -> Int64:
        """Return 1 where a node has a row: where it owns features."""
        return own.astype(np.int64)

    def with_own(self, rows: Int32, own: Stored) -> Int32:
        """Return rows on the grid with other features of their own."""
        return own.astype(np.int32, copy=False)

    def without_own(self, rows: Int32) -> Int32:
        """Return rows on the grid as they are without features of their own."""
        return np.zeros_like(rows)

    def saved(self, nodes: Nodes) -> Int32:
        """Return the rows of nodes that own features."""
        return self._rows[nodes]

    def put(self, nodes: Nodes, rows: Int32, own: Bool) -> None:
        """Replace rows."""
        self.write(FeatureDelta(nodes, rows, rows, own, own))

    def write(self, delta: FeatureDelta) -> None:
        """Replace rows."""
        if len(delta.nodes) == 0:
            return
        high = int(delta.nodes.max()) + 1
        if high > len(self._rows) or high > len(self._has):
            size = max(high, len(self._has) + (len(self._has) >> 1))
            rows, has = np.zeros((size, self.width), np.int32), np.zeros(size, np.int64)
            rows[: len(self._rows)], has[: len(self._has)] = self._rows, self._has
            self._rows, self._has = rows, has
        self._rows[delta.nodes] = delta.new
        self._has[delta.nodes] = delta.has
