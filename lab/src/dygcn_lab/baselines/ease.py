"""EASE: weights between items in closed form (Steck, 2019), as published and with a clock.

Weights B minimise ||Y - X B||^2 + l ||B||^2 with a diagonal of 0, for X = Y the pairs: B = I - P / diag(P), P
= (X'X + l)^-1. With the clock, either what is foretold ages, Y = X * 2^(-age / half-life), and B = P X'Y - P
diag(P X'Y) / diag(P); or both ends age, by the root of that weight. Of a large catalogue, only the most
popular items are taken, and no other is recommended.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from scipy.linalg import lapack

from dygcn.engine.records import Float32
from dygcn_lab.baselines.recommending import Rival, factors
from dygcn_lab.evaluation.recommending import Past, Profiles, Scorer

MOST_ITEMS = 20_000  # a matrix of so many rows has 1.6 GB
_KEPT_BYTES = 5e8  # of inverses, while settings are searched
_AT_ONCE = 1_000  # rows


class Ease:
    """Weights between the items of a past.

    `most`: how many items are taken, the most popular ones.
    """

    def __init__(self, past: Past, most: int = MOST_ITEMS) -> None:
        self._past = past
        self.items = np.sort(np.argsort(-past.degree, kind="stable")[:most])
        self._left_out = np.setdiff1d(np.arange(past.events.items), self.items)
        self._inverses: OrderedDict[tuple[float, float | None], Float32] = OrderedDict()

    def scorer(
        self,
        regularisation: float = 200.0,
        edge_half_life: float | None = None,
        aged: str = "targets",
        profile_half_life: float | None = None,
        **clock: float,
    ) -> Scorer:
        """Return what scores items.

        `aged`: ``"targets"``: what is foretold; ``"both"``: that, and what foretells it.
        """
        targets = edge_half_life is not None and aged == "targets"
        inverse = self._inverse(regularisation, None if targets else edge_half_life)
        diagonal = np.diag(inverse).copy()
        if targets:
            cross = self._gram(self._past.pairs, self._past.aged(edge_half_life))
            own = np.einsum("ij,ji->i", inverse, cross) / diagonal
        else:
            cross, own = None, 1 / diagonal
        change = factors(self._past, **clock)

        def score(profiles: Profiles) -> Float32:
            some = profiles.aged(profile_half_life)[:, self.items]
            through = some @ inverse
            found = some.toarray() - through * own if cross is None else through @ cross - through * own
            every = np.zeros(profiles.pairs.shape, np.float32)
            every[:, self.items] = found
            every = change(every)
            every[:, self._left_out] = -np.inf
            return every

        return score

    def _inverse(self, regularisation: float, half_life: float | None) -> Float32:
        key = regularisation, half_life
        if key not in self._inverses:
            root = self._past.aged(None if half_life is None else 2 * half_life)
            gram = self._gram(root, root)
            gram[np.diag_indices(len(gram))] += regularisation
            while self._inverses and (1 + len(self._inverses)) * gram.nbytes > _KEPT_BYTES:
                self._inverses.popitem(last=False)
            self._inverses[key] = inverted(gram)
        self._inverses.move_to_end(key)
        return self._inverses[key]

    def _gram(self, one: Any, other: Any) -> Float32:
        gram: Float32 = (one[:, self.items].T @ other[:, self.items]).toarray().astype(np.float32)
        return gram


def inverted(matrix: Float32) -> Float32:
    """Return the inverse of a positive definite matrix, by Cholesky, in the place of the matrix.

    Examples
    --------
    >>> inverted(np.array([[2, 0], [0, 4]], np.float32)).round(3).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    factor, failed = lapack.spotrf(matrix.T, lower=0, overwrite_a=1)
    found, unsolved = lapack.spotri(factor, lower=0, overwrite_c=1)
    if failed or unsolved:
        raise ValueError("the matrix is not positive definite; take more regularisation")
    for begin in range(0, len(found), _AT_ONCE):  # only the upper half was written
        rows = slice(begin, begin + _AT_ONCE)
        found[rows, :begin] = found[:begin, rows].T
        block = np.triu(found[rows, rows])
        found[rows, rows] = block + np.triu(block, 1).T
    inverse: Float32 = found.T
    return inverse


EASE = Rival(Ease, {"regularisation": 200}, {"regularisation": (50, 200, 500, 1_000, 2_500)})
_AGED = Rival(Ease, {"regularisation": 200, "aged": "targets"}, {**EASE.grid, "aged": ("targets", "both")})
EASE_CLOCK = _AGED.clocked()
