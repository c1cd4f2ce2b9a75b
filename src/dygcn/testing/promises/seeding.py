"""Bugs for a while, and small models: what several checks need."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.models import Model

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH, DIM = 16, 8


@contextmanager
def seeded(owner: Any, name: str, wrong: object) -> Iterator[None]:
    """Put something wrong in the place of an attribute, for a while."""
    right = getattr(owner, name)
    setattr(owner, name, wrong)
    try:
        yield
    finally:
        setattr(owner, name, right)


def small_model(
    kind: str = "int64",
    *,
    directed: bool = False,
    orders: int = 2,
    half_life: float | None = None,
    seed: int = 0,
) -> Model:
    """Return a model of the exact rule whose matrices are random."""
    random = np.random.default_rng(seed)
    weights = tuple((random.standard_normal((WIDTH, DIM)) / 4).astype(np.float32) for _ in range(orders + 1))
    return Model(weights, kind, "hashed", np.ones(WIDTH), 0, directed, half_life=half_life)
