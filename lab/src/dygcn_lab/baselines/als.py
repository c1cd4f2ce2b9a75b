"""Matrix factorisation of implicit feedback by alternating least squares (Hu, Koren and Volinsky, 2008).

By the package `implicit`. A pair has the confidence 1 + alpha. The regularisation is a multiple of alpha, so
that one can be searched after the other. With the clock it is 1 + alpha * 2^(-age / half-life). Factors of
those who are asked about are solved for again from their profiles, whose items weigh less the older they are,
by the same formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from dygcn._extras import extra
from dygcn.engine.records import Float32
from dygcn_lab.baselines.recommending import Rival, factors
from dygcn_lab.evaluation.recommending import Past, Profiles, Scorer

with extra("evidence", of="dygcn-lab"):
    from implicit.cpu.als import AlternatingLeastSquares


ROUNDS, SEED = 15, 0


class Als:
    """Factors of users and items; the last ones are kept while other settings are searched."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._kept: dict[tuple[Any, ...], Any] = {}

    def scorer(
        self,
        dim: int = 64,
        regularisation: float = 1.0,
        alpha: float = 10.0,
        edge_half_life: float | None = None,
        profile_half_life: float | None = None,
        **clock: float,
    ) -> Scorer:
        """Return what scores items."""
        model = self.fitted(dim, regularisation, alpha, edge_half_life)
        change = factors(self._past, **clock)

        def score(profiles: Profiles) -> Float32:
            some = confidence(profiles.aged(profile_half_life), alpha)
            users = model.recalculate_user(np.arange(some.shape[0]), some)
            return change(users @ model.item_factors.T)

        return score

    def fitted(self, dim: int, regularisation: float, alpha: float, half_life: float | None) -> Any:
        """Return implicit's model, fitted."""
        key = dim, regularisation, alpha, half_life
        if key not in self._kept:
            with threadpool_limits(1, "blas"):
                model = AlternatingLeastSquares(
                    factors=dim,
                    regularization=regularisation * alpha,
                    iterations=ROUNDS,
                    num_threads=1,
                    random_state=SEED,
                )
                model.fit(confidence(self._past.aged(half_life), alpha), show_progress=False)
            self._kept = {key: model}
        return self._kept[key]


def confidence(weights: Any, alpha: float) -> Any:
    """Return 1 + alpha times the weight of each pair."""
    return sparse.csr_matrix((1 + alpha * weights.data, weights.indices, weights.indptr), weights.shape)


ALS = Rival(
    Als,
    {"dim": 64, "regularisation": 1.0, "alpha": 10.0},
    {
        "regularisation": (0.1, 0.3, 1.0, 2.5, 5.0, 10.0),
        "alpha": (1.0, 4.0, 10.0, 40.0, 100.0),
        "dim": (32, 64, 128, 256),  # the last: what is enough depends on the regularisation
    },
)
ALS_CLOCK = ALS.clocked()
