"""The model: everything that `fit` decided and an update never changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dygcn.features import Features, Given, Hashed
from dygcn.graph import Graph
from dygcn.graph.ids import IdMap
from dygcn.propagation import ExactRule, Rule

if TYPE_CHECKING:
    from dygcn.records import Float32, Float64, IdColumn, Int64

RULES = ("exact",)
FEATURES = ("hashed", "given", "embedding")


@dataclass(frozen=True, eq=False)
class Baseline:
    """The embedding that a user brought and the messages it had at t0."""

    ids: IdColumn  # (n,)
    vectors: Float32  # (n, dim) z_0, which is also x
    messages: tuple[Float32, ...]  # for k = 0..K, (n, dim): h_k at t0, or z_0 where there was none

    @cached_property
    def _map(self) -> IdMap:
        ids = IdMap(self.ids.kind)
        ids.intern(self.ids)
        return ids

    def rows_of(self, names: IdColumn) -> Int64:
        """Return where each id stands in the embedding, -1 where it does not."""
        return self._map.find(names).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Model:
    """Matrices and settings of a fitted embedding, without any graph.

    Parameters
    ----------
    weights
        ``W_0..W_K``, each (width, dim), rows times matrix.
    kind
        Type of the user ids, ``"int64"`` or ``"string"``.
    features
        ``"hashed"``, ``"given"`` or ``"embedding"``.
    scales
        Power-of-two scale of each feature column.
    grid
        Weights are whole multiples of this.
    half_life
        Of the ghost of a removed edge, or None.
    """

    weights: tuple[Float32, ...]
    kind: str
    features: str
    scales: Float64
    seed: int = 0
    directed: bool = False
    grid: float = 2.0**-16
    half_life: float | None = None
    rule: str = "exact"
    baseline: Baseline | None = field(default=None, repr=False)

    @property
    def orders(self) -> int:
        """K, how many orders a change is propagated."""
        return len(self.weights) - 1

    @property
    def width(self) -> int:
        """Columns of the features and of every message."""
        return int(self.weights[0].shape[0])

    @property
    def dim(self) -> int:
        """Columns of the vectors."""
        return int(self.weights[0].shape[1])

    @property
    def floor(self) -> float:
        """Messages shorter than this are not scaled up to length one."""
        return 1e-6 * float(np.max(self.scales))

    def new_features(self) -> Features:
        """Return where x comes from, without any row yet."""
        return Hashed(self.width, self.seed) if self.features == "hashed" else Given(self.scales)

    def new_graph(self) -> Graph:
        """Return an empty graph for this model."""
        limit = 1 << (62 - self.new_features().message_bits)
        return Graph(self.kind, directed=self.directed, grid=self.grid, limit=limit, half_life=self.half_life)

    def new_rule(self) -> Rule:
        """Return the state of an empty graph."""
        return ExactRule(self.new_features(), self.orders)
