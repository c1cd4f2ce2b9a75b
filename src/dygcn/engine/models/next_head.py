"""The score of what comes next: the logarithm of P(v | u, now), up to a constant of the one who asks.

A conditional logit over candidates. It weighs columns of the history (see `history.columns`), and products of
vectors (see `cosines`) where held-out lists asked for these.

There are two rows of weights, since there are two questions. Of everybody, one is asked for the likeliest:
that is the logarithm of P. Of a list that somebody brings, far more are former partners of the asker than of
everybody, and whoever is not one of them is there for a reason: a score that knows how lists are made ranks
former partners lower than P does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.history.columns import KNOWN, NAMES, expanded

if TYPE_CHECKING:
    from dygcn.engine.records import Float64


@dataclass(frozen=True, slots=True)
class NextHead:
    """Weights of the columns, and the bounds within which they were seen.

    Parameters
    ----------
    span
        Of the events that it was learned on, in the unit of their times: half-lives are parts of it.
    weights
        Of the columns of `next_columns`, for candidates that are everybody.
    listed
        The same, for candidates that somebody listed.
    alone
        The first row anew for the columns of the history alone, where products are among the columns; empty:
        it is the first row.
    low, high
        What is beyond counts as the bound: a line says nothing of what it has not seen.
    """

    span: float
    weights: tuple[float, ...]
    listed: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    alone: tuple[float, ...] = ()

    @property
    def products(self) -> int:
        """How many products of vectors it looks at; 0: it needs no vectors."""
        return (len(self.weights) - len(NAMES)) // 2

    def score(self, raw: Float64, products: Float64 | None = None, *, listed: bool = False) -> Float64:
        """Return the scores of candidates, summed column by column: bits depend on no other candidate."""
        total = np.zeros(len(raw))
        seen = next_columns(raw, products).clip(self.low, self.high)
        for weight, column in zip(self.listed if listed else self.weights, seen.T, strict=True):
            total += weight * column
        return total

    def parts(self, raw: Float64) -> Float64:
        """Return what each column of the history adds to the logarithm of P, without any vector."""
        size = len(NAMES)
        seen: Float64 = expanded(raw).clip(self.low[:size], self.high[:size])
        found: Float64 = seen * np.array(self.alone or self.weights)
        return found


def next_columns(raw: Float64, products: Float64 | None = None) -> Float64:
    """Return all columns of candidates: of the history, then products, apart for new pairs and known ones."""
    plain = expanded(raw)
    if products is None:
        return plain
    known = raw[..., KNOWN : KNOWN + 1]
    return np.concatenate((plain, products * (1 - known), products * known), axis=-1)
