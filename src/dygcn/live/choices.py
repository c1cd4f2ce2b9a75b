"""What a caller of `fit` chose, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.errors import OptionError
from dygcn.events import take
from dygcn.graph.ids import IdMap
from dygcn.models.checks import one_of, whole
from dygcn.models.model import RULES

if TYPE_CHECKING:
    from dygcn.records import EventBatch, Float64

GREATEST_ORDERS = 16


@dataclass(frozen=True)
class Choices:
    """Options that every rule has. See `dygcn.fit`."""

    dim: int
    orders: int
    rule: str
    memory: float | None
    seed: int
    width: int
    directed: bool

    def __post_init__(self) -> None:
        one_of("rule", self.rule, RULES)
        whole("dim", self.dim, 1, 1 << 14)
        whole("orders", self.orders, 1, GREATEST_ORDERS)
        whole("width", self.width, 1, 1 << 14)
        whole("seed", self.seed, 0, 2**63 - 1)
        memory = self.memory
        if memory is not None and not (isinstance(memory, int | float | np.number) and 0 < memory < np.inf):
            raise OptionError(f"memory is {memory!r}; allowed is a half-life above 0 in units of t, or None")

    @property
    def half_life(self) -> float | None:
        """The half-life of a removed edge's weight."""
        return None if self.memory is None else float(self.memory)


def ids_of(batch: EventBatch) -> IdMap:
    """Return every id that the events name."""
    ids = IdMap(batch.src.kind)
    for column in (batch.src, batch.dst):
        ids.intern(column)
    return ids


def weight_grid(batch: EventBatch, message_bits: int) -> float:
    """Return the grid of the weights: as fine as sums below 2^62 allow, with room to grow.

    Without weights (all are 1) a node may have 2^22 neighbours. With weights, it may carry 64 times what
    any node does in these events, and 2^18 times the median; the grid is 2^-24 of the median at the finest.
    """
    carried = 62 - message_bits  # bits of a node's weights in sum, in grid units
    adds = batch.op > 0
    if batch.weight is None or not adds.any():
        return float(2.0 ** (22 - carried))
    weight = batch.weight[adds]
    median = np.median(weight)
    most = max(64 * _greatest_strength(batch, weight), 2.0**18 * median)
    return float(2.0 ** np.ceil(max(np.log2(most) - carried, np.log2(median) - 24)))


def _greatest_strength(batch: EventBatch, weight: Float64) -> float:
    """Return the greatest sum of weights at one node, if nothing were ever removed or replaced."""
    ids, adds = IdMap(batch.src.kind), np.flatnonzero(batch.op > 0)
    ends = np.concatenate([ids.intern(take(column, adds)) for column in (batch.src, batch.dst)])
    return float(np.bincount(ends, np.concatenate((weight, weight))).max())
