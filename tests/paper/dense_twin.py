"""The dense twin of the paper's rules: its matrix form, transcribed (eqs. dyn_gcn1, dgc, spectural_dygcn)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dygcn.paper import RuleOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from dygcn.engine.records import Bool, Float64

_SIGMA: dict[str, Callable[[Float64], Float64]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "none": lambda x: x,
}


def hat(A: Float64, aggregation: str) -> Float64:
    """Return A^ = A + I as published, or divided by its row sums."""
    summed = A + np.eye(len(A))
    result: Float64 = summed if aggregation == "sum" else summed / summed.sum(axis=1, keepdims=True)
    return result


def dense_rings(
    before: Float64, after: Float64, here: Bool, new: Bool, orders: int, isolated: str = "alone"
) -> list[Bool]:
    """Return masks of V_1..V_K: rows of A that changed, newcomers; then ring by ring who aggregates them."""
    ring = (before != after).any(axis=1)
    if isolated == "rest":
        ring &= (after != 0).any(axis=1)
    ring = (ring | new) & here
    rings, seen = [ring], ring.copy()
    for _ in range(orders - 1):
        ring = ((after != 0) @ ring.astype(np.float64) > 0) & here & ~seen
        seen |= ring
        rings.append(ring)
    return rings


def dense_rolling(
    before: Float64,
    after: Float64,
    was_here: Bool,
    here: Bool,
    Z: Float64,
    weights: Sequence[Float64],
    options: RuleOptions | None = None,
) -> Float64:
    """Return Z^(t+1) of Algorithm 1 in its matrix form, all nodes but V_k masked at order k.

    `before` and `after` are A^t and A^(t+1), of which row v holds the nodes that v aggregates; `was_here` and
    `here` are the nodes of the graph at t and at t + 1.
    """
    options = options or RuleOptions()
    aggregation, sigma = options.aggregation, _SIGMA[options.activation]
    Z = Z.copy()
    new = here & ~was_here
    links = after * was_here
    if aggregation == "mean":
        total = links.sum(axis=1, keepdims=True)
        links = np.divide(links, total, out=np.zeros_like(links), where=total > 0)
    Z[new] = (links @ Z)[new]
    change = hat(after, aggregation) - hat(before, aggregation)
    rings = dense_rings(before, after, here, new, len(weights) - 1, options.isolated)
    steps = [Z, np.where(rings[0][:, None], sigma(change @ Z @ weights[1] + Z @ weights[0]), Z)]
    for ring, W in zip(rings[1:], weights[2:], strict=True):
        dZ = steps[-1] - steps[-2]
        updated = sigma(hat(after, aggregation) @ dZ @ W + Z @ weights[0])
        steps.append(np.where(ring[:, None], updated, steps[-1]))
    return np.where(here[:, None], steps[-1], 0.0)


def dense_spectral(
    before: Float64,
    after: Float64,
    was_here: Bool,
    here: Bool,
    Z: Float64,
    weights: Sequence[Float64],
    options: RuleOptions | None = None,
) -> Float64:
    """Return Z^(t+1) of Algorithm 2: the first order, then ``(I + D^-1/2 A D^-1/2) Z Ws``.

    A graph that did not change leaves Z as it is.
    """
    options = options or RuleOptions()
    if (before == after).all() and (here == was_here).all():
        return Z
    Z = dense_rolling(before, after, was_here, here, Z, weights[:2], options)
    degree = after.sum(axis=1)
    left, right = (
        np.divide(1.0, np.sqrt(d), out=np.zeros_like(d), where=d > 0) for d in (degree, after.sum(axis=0))
    )
    own = np.diag(np.where((degree == 0) & (options.isolated == "rest"), 2.0, 1.0))
    passed: Float64 = (own + left[:, None] * after * right[None, :]) @ Z @ weights[2]
    now, before_pass = (np.linalg.norm(x[here], axis=1).mean() for x in (passed, Z))
    return passed * (before_pass / now) if options.level and now > 0 and before_pass > 0 else passed


@dataclass
class DenseTwin:
    """A rolled embedding on dense matrices, followed graph by graph.

    Weights are ``W_0..W_K``, or ``W_0, W_1, W_s`` with `spectral`; `ids` are all that will ever be there.
    """

    weights: Sequence[Float64]
    ids: Sequence[Hashable]
    options: RuleOptions = field(default_factory=RuleOptions)
    spectral: bool = False
    directed: bool = False

    def __post_init__(self) -> None:
        self._place = {node: row for row, node in enumerate(self.ids)}
        n = len(self.ids)
        self.A, self.here = np.zeros((n, n)), np.zeros(n, np.bool_)
        self.Z = np.zeros((n, self.weights[0].shape[0]))

    def start(
        self, edges: Mapping[tuple[Hashable, Hashable], float], vectors: Mapping[Hashable, Float64]
    ) -> None:
        """Begin with a graph and the vectors of its nodes, also of those without an edge."""
        self.A, self.here = self._matrix(edges)
        self.Z[:] = 0
        for node, vector in vectors.items():
            self.Z[self._place[node]] = vector
            self.here[self._place[node]] = True

    def move_to(
        self, edges: Mapping[tuple[Hashable, Hashable], float], gone: Sequence[Hashable] = ()
    ) -> list[int]:
        """Follow to the graph after a batch; return how many rows each order, and the pass, computes."""
        after, linked = self._matrix(edges)
        here = linked | self.here
        here[[self._place[node] for node in gone]] = False
        rule = dense_spectral if self.spectral else dense_rolling
        orders = 1 if self.spectral else len(self.weights) - 1
        rings = dense_rings(self.A, after, here, here & ~self.here, orders, self.options.isolated)
        self.Z = rule(self.A, after, self.here, here, self.Z, self.weights, self.options)
        passed = self.spectral and not ((after == self.A).all() and (self.here == here).all())
        self.A, self.here = after, here
        return [int(ring.sum()) for ring in rings] + [int(here.sum())] * passed

    def _matrix(self, edges: Mapping[tuple[Hashable, Hashable], float]) -> tuple[Float64, Bool]:
        A, here = np.zeros_like(self.A), np.zeros_like(self.here)
        for (a, b), weight in edges.items():
            i, j = self._place[a], self._place[b]
            A[i, j] = weight
            if not self.directed:
                A[j, i] = weight
            here[[i, j]] = True
        return A, here
