"""The event rules, spelled out on a dict: slow, obvious, and the reference for the graph store."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


@dataclass
class GraphOracle:
    """A graph as a dict of pairs, with the rules for events written as plain sentences of code.

    Parameters
    ----------
    directed
        If not, the two ends of a pair are sorted.
    half_life
        Of the ghost of a removed edge; None: no ghosts.
    grid
        Weights are rounded to this.

    Examples
    --------
    >>> graph = GraphOracle()
    >>> graph.apply([("ann", "bob", None, 1, 2.0), ("bob", "ann", None, -1, 1.0)])
    >>> graph.edges
    {}
    """

    directed: bool = False
    half_life: float | None = None
    grid: float = 2.0**-16
    edges: dict[tuple[Hashable, Hashable], float] = field(default_factory=dict)
    ghosts: dict[tuple[Hashable, Hashable], tuple[float, float]] = field(default_factory=dict)
    clock: float = -math.inf

    def apply(self, events: Iterable[tuple[Hashable, Hashable, float | None, int, float]]) -> None:
        """Apply (src, dst, t, op, weight) in order of arrival."""
        for src, dst, t, op, weight in events:
            if t is not None:
                self.clock = max(self.clock, t)
            if src == dst:
                continue
            pair = self._pair(src, dst)
            if op > 0:
                self.edges[pair] = round(weight / self.grid) * self.grid
                self.ghosts.pop(pair, None)
            elif pair in self.edges:
                kept = self.edges.pop(pair)
                if self.half_life is not None and t is not None:
                    self.ghosts[pair] = (kept, t)

    def remove_node(self, node: Hashable) -> None:
        """Remove a node with its edges and ghosts."""
        self.edges = {pair: weight for pair, weight in self.edges.items() if node not in pair}
        self.ghosts = {pair: ghost for pair, ghost in self.ghosts.items() if node not in pair}

    def _pair(self, src: Hashable, dst: Hashable) -> tuple[Hashable, Hashable]:
        return (src, dst) if self.directed or src < dst else (dst, src)  # type: ignore[operator]

    def weights(self) -> dict[tuple[Hashable, Hashable], float]:
        """Return the weight of every pair now, ghosts (decayed removed edges) included."""
        result = dict(self.edges)
        for pair, (kept, t) in self.ghosts.items():
            assert self.half_life is not None
            factor = 2.0 ** -(1 + math.floor((self.clock - t) / self.half_life))
            if factor >= 0.05:
                weight = math.floor(kept * factor / self.grid) * self.grid
                if weight > 0:
                    result[pair] = weight
        return result

    def nodes(self) -> set[Hashable]:
        """Return the nodes that have an edge or a ghost."""
        return {node for pair in self.weights() for node in pair}
