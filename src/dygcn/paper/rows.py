"""The array library of the live path: compiled loops on rows, always summed in the same order.

Intermediate results are float64, stored rows float32. A row comes out the same alone or among many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.paper.products import add_combined, add_product

if TYPE_CHECKING:
    from dygcn.engine.records import Float, Nodes
    from dygcn.paper.plans import Mix

LARGEST = 1e30
"""No stored number is larger, so that nothing ever becomes infinite or NaN."""


class Rows:
    """What `dygcn.paper.equations` needs, on numpy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from dygcn.paper.plans import Mix
    >>> mix = Mix(np.array([0, 2]), np.array([0, 2]), np.array([1.0, -1.0]))
    >>> Rows().combine(mix, np.array([[1.0], [5.0], [4.0]])).tolist()
    [[-3.0]]
    """

    def take(self, table: Float, nodes: Nodes) -> Float:
        """Return the rows of nodes."""
        rows: Float = table[nodes]
        return rows

    def put(self, table: Float, nodes: Nodes, rows: Float) -> Float:
        """Write rows into the table itself."""
        table[nodes] = self.bounded(rows)
        return table

    def level(self, rows: Float, like: Float) -> Float:
        """Return rows, scaled by one number so that their mean length is that of `like`."""
        now, before = (np.sqrt(np.square(x, dtype=np.float64).sum(axis=1)).mean() for x in (rows, like))
        return rows * (before / now) if now > 0 and before > 0 else rows

    def bounded(self, rows: Float) -> Float:
        """Cut numbers off at `LARGEST`."""
        return np.clip(np.nan_to_num(rows, nan=0.0, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)

    def combine(self, mix: Mix, table: Float) -> Float:
        """Return one weighted sum of rows for each entry of the mix."""
        out = np.zeros((len(mix.first) - 1, table.shape[1]))
        add_combined(mix.first, mix.row, mix.factor, np.ascontiguousarray(table), out)
        return out

    def product(self, rows: Float, matrix: Float) -> Float:
        """Return rows times matrix."""
        if rows.shape[1] != matrix.shape[0]:
            raise ValueError(f"rows of width {rows.shape[1]} times a matrix of {matrix.shape[0]} rows")
        out = np.zeros((len(rows), matrix.shape[1]))
        add_product(np.ascontiguousarray(rows), np.ascontiguousarray(matrix), out)
        return out

    def add(self, a: Float, b: Float, sign: int = 1) -> Float:
        """Return ``a + sign * b``."""
        return a + sign * b.astype(np.float64)

    def activate(self, rows: Float, activation: str) -> Float:
        """Return sigma of every number."""
        if activation == "relu":
            return np.maximum(rows, 0)
        return np.tanh(rows) if activation == "tanh" else rows
