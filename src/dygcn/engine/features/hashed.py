"""Hashed features: a fixed pseudo-random vector of +1 and -1 from the id. Nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events.keys import keys_of
from dygcn.engine.features.grid import GRID_BITS
from dygcn.engine.features.units import UnitTable, hashed_table, units_of
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from dygcn.engine.features.grid import Names
    from dygcn.engine.records import FeatureDelta, Float64, IdColumn, Int8, Int32, Int64, Nodes

CANNOT_BE_SET = (
    'this model has features="hashed", which follow from the id and cannot be set; '
    "fit with features=(ids, values) to bring your own"
)


class Hashed:
    """Features drawn from the node's id, so that a node never seen has them too."""

    message_bits = GRID_BITS
    message_shift = GRID_BITS

    def __init__(self, width: int, seed: int) -> None:
        self.width = width
        self.scales: Float64 = np.ones(width)
        self._table = hashed_table(seed % (1 << 64), width)

    @property
    def length(self) -> float:
        """The length of a feature vector on the grid: every column as large as its scale."""
        return float(np.sqrt(self.width)) * 2.0**GRID_BITS

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid; every node has one."""
        signs, has = self.units(nodes, names)
        return signs.astype(np.int32) << GRID_BITS, has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        """Return x in units of one: +-1."""
        return units_of(self._table, names.keys.take(nodes))

    def units_by_id(self, ids: IdColumn, names: Names) -> tuple[Int8, Int64]:
        """Return x of ids that need not be in the graph."""
        return units_of(self._table, keys_of(ids))

    def unit_table(self, names: Names) -> UnitTable:
        """Return where rows come from, for compiled loops."""
        return self._table

    def write(self, delta: FeatureDelta) -> None:
        """Refuse: hashed features are a function of the id."""
        if len(delta.nodes):
            raise FeatureError(CANNOT_BE_SET)
