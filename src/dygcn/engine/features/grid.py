"""The integer grid on which features and messages live. Part of the saved format.

A value in column c is a whole multiple of ``scale[c] * 2**-24``, where ``scale[c]`` is a power of two.
Means of such values, rounded to the grid, never leave the range of the values, so every message is an
int32 and every sum of weighted messages is an exact int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from dygcn.engine.records import (
        FeatureDelta,
        Float32,
        Float64,
        IdColumn,
        Int32,
        Int64,
        Nodes,
        Stored,
        UInt64,
    )

GRID_BITS = 24
HEADROOM_BITS = 2  # given features may later grow to 4 times the scale that was fitted


class Names(Protocol):
    """The ids of a graph's nodes, as 64 bits each."""

    keys: UInt64  # (n,) public: features are drawn from them
    hashes: UInt64  # (n,) under a secret of this graph: nobody can make two ids of one hash

    def hashes_of(self, column: IdColumn) -> UInt64:
        """Return the hashes of any ids."""


class Features(Protocol):
    """Where h_0 comes from."""

    width: int
    scales: Float64  # (width,)
    message_bits: int  # |h_0| on the grid is at most 2**message_bits
    message_shift: int  # and a multiple of 2**message_shift

    @property
    def length(self) -> float:
        """The length of a feature vector on the grid, which tolerances are measured in."""

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid, (n, width), and 1 where a node has one, (n,)."""

    def units(self, nodes: Nodes, names: Names) -> tuple[Stored, Int64]:
        """Return x in units of ``2**message_shift`` on the grid, and 1 where a node has one."""

    def write(self, delta: FeatureDelta) -> None:
        """Replace rows."""


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
