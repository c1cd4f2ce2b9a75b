"""Small graphs with the shapes that break embeddings, events over them, and the event rules on a dict."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

Pairs = list[tuple[int, int]]
Event = tuple[int, int, float, int, float]


def _sparse(random: np.random.Generator, n: int) -> Pairs:
    return [tuple(pair) for pair in random.integers(0, n, (2 * n, 2)).tolist()]


def _hub(random: np.random.Generator, n: int) -> Pairs:
    return [(0, i) for i in range(1, n)] + _sparse(random, n)[:n]


def _star(random: np.random.Generator, n: int) -> Pairs:
    return [(0, i) for i in range(1, n)]


def _twins(random: np.random.Generator, n: int) -> Pairs:
    """Pairs of nodes with exactly the same neighbours."""
    half = max(n // 2, 2)
    base = [(a, b) for a, b in random.integers(0, half, (n, 2)).tolist() if a != b]
    return base + [(a + half, b) for a, b in base]


def _bipartite(random: np.random.Generator, n: int) -> Pairs:
    half = max(n // 2, 1)
    left, right = random.integers(0, half, 2 * n), random.integers(half, 2 * half, 2 * n)
    return list(zip(left.tolist(), right.tolist(), strict=True))


def _path(random: np.random.Generator, n: int) -> Pairs:
    return [(i, i + 1) for i in range(n - 1)]


GRAPHS: dict[str, Callable[[np.random.Generator, int], Pairs]] = {
    shape.__name__.removeprefix("_"): shape for shape in (_sparse, _hub, _star, _twins, _bipartite, _path)
}


def random_events(
    shape: str, seed: int, nodes: int = 40, weighted: bool = True, loops: bool = True
) -> list[Event]:
    """Return (src, dst, t, op, weight): a graph of the given shape, then adds, removes and newcomers.

    Examples
    --------
    >>> len(random_events("star", seed=0, nodes=10)) > 9
    True
    """
    random = np.random.default_rng(seed)
    pairs = GRAPHS[shape](random, nodes)
    events: list[Event] = []
    for src, dst in pairs:
        events.append((src, dst, 0.0, 1, _weight(random, weighted)))
    for step in range(1, 2 * nodes):
        choice = random.random()
        if choice < 0.45:
            src, dst = pairs[int(random.integers(len(pairs)))]
            events.append((src, dst, float(step), -1, 1.0))
        elif choice < 0.8:
            src, dst = random.integers(0, nodes, 2).tolist()
            events.append((src, dst, float(step), 1, _weight(random, weighted)))
        else:
            newcomer = nodes + int(random.integers(nodes))
            events.append((newcomer, int(random.integers(nodes)), float(step), 1, _weight(random, weighted)))
    return events if loops else [event for event in events if event[0] != event[1]]


def _weight(random: np.random.Generator, weighted: bool) -> float:
    return float(np.exp2(random.integers(-3, 4)) * random.integers(1, 6)) if weighted else 1.0


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
