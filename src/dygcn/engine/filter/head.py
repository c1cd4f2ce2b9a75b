"""What `fit` decides of a filter: rows of answers, weights of columns, and how fast edges age.

The score of answer i for an asking node u is ``z_u . diag(1 / (s^2 + lambda)) . y_i * d_i^-c * trend_i``: z_u
sums the rows of u's answers, y_i the messages of all that have i, newer edges more. At the end of fit ``y_i =
s^2 V_i``, so that this is the ridge filter of EASE (Steck 2019), cut at some rank; afterwards y follows every
event, and an answer that is born later has a y at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import take

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, IdColumn, Int8, Int64


@dataclass(frozen=True, eq=False)
class FilterHead:
    """Rows and settings of a filter."""

    ids: IdColumn = field(repr=False)
    rows: Int8 = field(repr=False)
    weights: Float32 = field(repr=False)
    ridge: float = 3.0
    half_life: float = 0.0
    trend_half_life: float = 0.0
    trend: float = 0.0
    profile_half_life: float = 0.0
    degree: float = 0.0
    paths: float = 0.0
    asks: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    def __deepcopy__(self, memo: object) -> FilterHead:
        return self

    def some(self, keep: Int64) -> FilterHead:
        """Return the same head with some of its rows."""
        return replace(self, ids=take(self.ids, keep), rows=np.ascontiguousarray(self.rows[keep]))
