"""Rivals of recommendations: what each scores items by, and which of its settings are searched.

A rival is made of a `Past` and gives a scorer for settings. A scorer is asked with the profiles of users,
which may be younger than the past that it was made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dygcn.engine.records import Float32, Float64
from dygcn_lab.evaluation.recommending import Past, Profiles, Scorer


class Popularity:
    """How many users took an item; or, with a half-life in days, how many events it had lately."""

    def __init__(self, past: Past) -> None:
        self._past = past

    def scorer(self, half_life: float | None = None) -> Scorer:
        """Return what scores items."""
        past = self._past
        counts = past.degree if half_life is None else past.recent(half_life)
        return lambda profiles: np.tile(counts.astype(np.float32), (profiles.pairs.shape[0], 1))


class ItemItem:
    """The sum of cosines to the items of the user; shrunk where two share few users, nearest items only."""

    def __init__(self, past: Past) -> None:
        pairs = past.pairs
        self._shared = (pairs.T @ pairs).tocsr()
        self._shared.setdiag(0)
        self._shared.eliminate_zeros()
        self._root = np.sqrt(past.degree)

    def scorer(self, shrink: float = 0.0, nearest: int | None = None) -> Scorer:
        """Return what scores items."""
        shared = self._shared
        row = np.repeat(np.arange(shared.shape[0]), np.diff(shared.indptr))
        alike = shared.data / (self._root[row] * self._root[shared.indices] + shrink)
        if nearest is not None:
            alike[_place_in_row(row, alike) >= nearest] = 0
        weights = sparse.csr_matrix((alike.astype(np.float32), shared.indices, shared.indptr), shared.shape)
        return lambda profiles: (profiles.pairs @ weights).toarray()


def _place_in_row(row: Any, value: Float64) -> Any:
    """Return how many values of the same row are greater, or equal and earlier."""
    order = np.lexsort((-value, row))
    begins = np.searchsorted(row, row[order])
    place = np.empty(len(row), np.int64)
    place[order] = np.arange(len(row)) - begins
    return place


class Rp3Beta:
    """Walks of three steps, user - item - user - item, over the degree of the item (Paudel et al., 2017).

    Probabilities of steps are raised to `alpha`, degrees to `beta`.
    """

    def __init__(self, past: Past) -> None:
        self._past = past

    def scorer(self, alpha: float = 1.0, beta: float = 0.5) -> Scorer:
        """Return what scores items."""
        pairs, degree = self._past.pairs, self._past.degree
        of_user = power(np.diff(pairs.indptr), alpha)
        back = sparse.diags(power(degree, alpha)) @ pairs.T  # item to user
        on = sparse.diags(of_user) @ pairs @ sparse.diags(power(degree, beta))  # user to item

        def score(profiles: Profiles) -> Float32:
            return np.asarray(on.T.dot((profiles.pairs @ back).toarray().T).T)

        return score


def power(degree: Any, exponent: float) -> Float32:
    """Return degree ** -exponent, and 0 for degree 0."""
    found: Float32 = np.where(degree > 0, np.maximum(degree, 1.0) ** -exponent, 0.0).astype(np.float32)
    return found


def factors(
    past: Past, degree: float = 0.0, trend: float = 0.0, trend_half_life: float = 7.0
) -> Callable[[Float32], Float32]:
    """Return what the clock makes of scores: over a power of the degree, times a power of the item's trend.

    The trend of an item is .1 plus its recent events over their mean. Scores below 0 have no trend.
    """
    over = power(past.degree, degree)
    if not trend:
        return lambda scores: scores * over
    recent = past.recent(trend_half_life)
    rising = ((0.1 + recent / recent.mean()) ** trend).astype(np.float32)

    def both(scores: Float32) -> Float32:
        scores = scores * over
        return np.where(scores > 0, scores * rising, scores)

    return both


CLOCK: dict[str, tuple[Any, ...]] = {  # the factors that ours has, over the same values
    "edge_half_life": (None, 180, 60, 20, 7),
    "degree": (0, 0.25, 0.5),
    "profile_half_life": (None, 180, 60, 2, 0.01),
    "trend": (0, 0.1, 0.5, 1, 2),
    "trend_half_life": (30, 7, 2),
}
_STILL: dict[str, Any] = {
    "edge_half_life": None,
    "degree": 0,
    "profile_half_life": None,
    "trend": 0,
    "trend_half_life": 7,
}


@dataclass(frozen=True, slots=True)
class Rival:
    """A method, the settings it begins with, and those that are searched."""

    model: Callable[[Past], Any]  # has scorer(**settings)
    start: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    times: bool = False  # it is nothing without times

    def clocked(self) -> Rival:
        """Return the same method with the clock, whose settings come first."""
        return Rival(self.model, _STILL | self.start, CLOCK | self.grid)

    def timeless(self) -> Rival:
        """Return the same method for events without times: of the clock, only the degree is left."""
        moot = CLOCK.keys() - {"degree"} | {"aged"}
        return Rival(self.model, self.start, {name: v for name, v in self.grid.items() if name not in moot})
