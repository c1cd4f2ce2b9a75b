"""Seeded bugs and small models for several checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.models.model import Model, order_weights
from dygcn.engine.models.state import State
from dygcn.live.view import EmbeddingView

WIDTH, DIM = 16, 8
_NAMED = 100


@contextmanager
def seeded(owner: Any, name: str, wrong: object) -> Iterator[None]:
    """Replace an attribute by a wrong one inside the block."""
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
    features: str = "hashed",
) -> Model:
    """Return a model of the exact rule whose matrices are random, or its rows, if features are walks."""
    random = np.random.default_rng(seed)
    if features == "walks":
        table = random_rows(kind, random)
        weights = order_weights(orders)
        return Model(weights, kind, "walks", np.ones(WIDTH), 0, directed, half_life=half_life, table=table)
    weights = tuple((random.standard_normal((WIDTH, DIM)) / 4).astype(np.float32) for _ in range(orders + 1))
    return Model(weights, kind, "hashed", np.ones(WIDTH), 0, directed, half_life=half_life)


def random_rows(kind: str, random: np.random.Generator, width: int = WIDTH, nodes: int = _NAMED) -> RowTable:
    """Return rows for two of three nodes that are called 0, 1, 2 and so on, or n0, n1, n2."""
    named = [node for node in range(nodes) if node % 3]
    rows = random.integers(-127, 128, (len(named), width)).astype(np.int8)
    return RowTable(id_column([f"n{node}" for node in named] if kind == "string" else named), rows, 1.0)


def own_state(live: EmbeddingView) -> State:
    """Return the state of an embedding, which must not be on shards.

    Examples
    --------
    >>> import dygcn
    >>> own_state(dygcn.fit([(1, 2), (2, 3)], dim=4)).exact.orders
    2
    """
    state = live._state
    if not isinstance(state, State):
        raise TypeError(f"the state of a {type(live).__name__} is in other processes")
    return state
