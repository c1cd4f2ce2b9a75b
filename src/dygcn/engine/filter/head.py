"""What `fit` decides of a filter: rows of nodes that answer, what a product weighs, and how fast edges age.

The score of answer i for one who asks, u, is ``z_u . diag(1 / (s^2 + lambda)) . y_i * d_i^-c * trend_i``:
z_u sums the rows of u's answers, y_i the messages of all who have i, newer edges more. At the end of fit
``y_i = s^2 V_i``, so that this is the ridge filter of EASE (Steck 2019), cut at some rank; afterwards y
follows every event, and an answer that is born later has a y at once.
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
    """Rows and settings of a filter.

    Parameters
    ----------
    ids, rows
        Who has a row, and the rows, 8 bits a number.
    weights
        What the product of each column weighs, steps of the rounding included.
    ridge
        How much singular values are damped, in squares of the last: what `weights` were made with.
    half_life
        Of an edge in sums of messages, in units of t; 0: edges do not age.
    trend_half_life, trend
        Of an edge in the count of an answer's latest edges, and the power of that count in the score.
    profile_half_life
        Of an edge when it is asked what one who asks has; 0: all count alike.
    degree
        The power of an answer's number of edges that its score is divided by.
    paths
        What paths over three edges weigh beside the product, which knows only so many columns.
    asks, answers
        The kinds that ask and that are recommended; empty where nodes have no kinds: everybody does both.
    """

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
        """Return the same with some of its rows."""
        return replace(self, ids=take(self.ids, keep), rows=np.ascontiguousarray(self.rows[keep]))
