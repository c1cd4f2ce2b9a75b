"""Contacts of nodes and pairs in dicts, event by event: the slow twin of the graph store."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.engine.graph import Graph
    from dygcn.engine.records import Bool

Pair = tuple[int, int]
Held = tuple[float, float]
Event = tuple[int, int, float, int, float]
NOTHING: Held = (-math.inf, 0.0)
_STEPS = 4  # after so many half-lives a ghost is forgotten


class ContactTwin:
    """Edges, ghosts and contacts of a graph of whole numbers whose weights are not small.

    Parameters
    ----------
    half_life
        Of ghosts; None: there are none.
    count_half_life
        Of contacts.
    expire
        How long an edge stays after its last contact.

    Examples
    --------
    >>> twin = ContactTwin(count_half_life=1.0)
    >>> twin.apply([(1, 2, 0.0, 1, 1.0), (2, 1, 1.0, 1, 1.0), (2, 3, 1.0, 1, 1.0)])
    >>> twin.pairs[1, 2], twin.nodes[2]
    ((1.0, 1.5), (1.0, 2.5))
    """

    def __init__(
        self,
        *,
        directed: bool = False,
        half_life: float | None = None,
        count_half_life: float = 3.0,
        expire: float = math.inf,
    ) -> None:
        self.expire, self.expired = expire, 0
        self.directed, self.half_life, self.count_half_life = directed, half_life, count_half_life
        self.clock = -math.inf
        self.edges: set[Pair] = set()
        self.ghosts: dict[Pair, float] = {}
        self.pairs: dict[Pair, Held] = {}
        self.nodes: dict[int, Held] = {}

    def apply(self, events: Iterable[Event]) -> None:
        """Apply (src, dst, t, op, weight); minus infinity is the time of an event that has none."""
        for event in events:
            self._play(*event)
            self.forget()

    def apply_batch(self, events: Iterable[Event]) -> None:
        """Apply events as one batch: ghosts are forgotten after it, and with them nodes."""
        for event in events:
            self._play(*event)
            if self.half_life is None:
                self.forget()
            else:
                self._forget_pairs()
        self.forget()

    def _play(self, src: int, dst: int, t: float, op: int, _weight: float) -> None:
        pair = (src, dst) if self.directed or src < dst else (dst, src)
        self._pass(t)
        self._happen(pair, t, op)
        self._pass(t)

    def _pass(self, t: float) -> None:
        """Let time pass: who is due leaves, which is no contact."""
        self.clock = max(self.clock, t)
        if self.expire < math.inf:
            due = {pair for pair in self.edges if self.pairs[pair][0] + self.expire <= self.clock}
            self.edges -= due
            self.expired += len(due)
            self.forget()

    def _happen(self, pair: Pair, t: float, op: int) -> None:
        if pair[0] == pair[1] or (op < 0 and pair not in self.edges):
            return
        for node in pair:
            self.nodes[node] = self._touched(self.nodes.get(node, NOTHING), t)
        self.pairs[pair] = self._touched(self.pairs.get(pair, NOTHING), t)
        if op > 0:
            self.edges.add(pair)
            self.ghosts.pop(pair, None)
            return
        self.edges.remove(pair)
        if self.half_life is None:
            del self.pairs[pair]
        else:
            self.ghosts[pair] = t

    def _touched(self, held: Held, t: float) -> Held:
        last, count = held
        if t == last:
            return t, count + 1
        if t > last:
            return t, count * 2 ** (-(t - last) / self.count_half_life) + 1
        return last, count + 2 ** ((t - last) / self.count_half_life)

    def wait(self, now: float) -> None:
        """Let time pass."""
        self._pass(now)
        self.forget()

    def remove_node(self, node: int) -> None:
        """Take a node away, with its edges and ghosts; it is no contact of the others."""
        self.edges = {pair for pair in self.edges if node not in pair}
        self.ghosts = {pair: t for pair, t in self.ghosts.items() if node not in pair}
        self.forget()

    def _forget_pairs(self) -> None:
        if self.half_life is not None:
            alive = _STEPS * self.half_life
            self.ghosts = {pair: t for pair, t in self.ghosts.items() if self.clock - t < alive}
        self.pairs = {p: held for p, held in self.pairs.items() if p in self.edges or p in self.ghosts}

    def forget(self) -> None:
        """Forget ghosts that are too old, pairs that are neither edge nor ghost, and nodes without either."""
        self._forget_pairs()
        here = {node for pair in self.pairs for node in pair}
        self.nodes = {node: held for node, held in self.nodes.items() if node in here}

    def _now(self, held: Held) -> Held:
        last, count = held
        if math.isinf(self.clock):
            return math.inf, count
        return self.clock - last, count * 2 ** (-(self.clock - last) / self.count_half_life)

    def pair_now(self, a: int, b: int) -> tuple[int, float, float]:
        """Return link, time since the last contact, and count, as `Graph.pair_contacts` does."""
        ways = {(a, b), (b, a)} if a != b else set()
        link = 1 if ways & self.edges else -1 if ways & self.ghosts.keys() else 0
        held = [self._now(self.pairs[way]) for way in ways if way in self.pairs]
        return link, min((since for since, _ in held), default=math.inf), sum(count for _, count in held)

    def _known(self, names: list[int]) -> Bool:
        """Say of every two names whether there is anything to tell of them: of most there is not."""
        place, known = {name: at for at, name in enumerate(names)}, np.zeros((len(names),) * 2, np.bool_)
        for one, other in {*self.pairs, *self.edges, *self.ghosts}:
            if one in place and other in place:
                known[place[one], place[other]] = known[place[other], place[one]] = True
        return known.ravel()

    def disagreement(self, graph: Graph) -> float:
        """Return how far a graph is from this, in anything: counts by part, all else in full."""
        nodes = graph.nodes()
        names = graph.ids.names(nodes).values.tolist()
        if names != sorted(self.nodes) or graph.contacts is None:
            return math.inf
        mine = [self._now(self.nodes[name]) for name in names]
        found = zip(
            graph.contacts.since(nodes).tolist(), graph.contacts.activity(nodes).tolist(), strict=True
        )
        worst = max((_apart(*both) for both in zip(mine, found, strict=True)), default=0.0)
        a, b = (side.ravel() for side in np.meshgrid(nodes, nodes))
        name, seen = dict(zip(nodes.tolist(), names, strict=True)), graph.pair_contacts(a, b)
        for i in np.flatnonzero((seen[0] != 0) | (seen[1] != np.inf) | (seen[2] != 0) | self._known(names)):
            link, since, count = (column[i].item() for column in seen)
            expected = self.pair_now(name[int(a[i])], name[int(b[i])])
            worst = max(worst, _apart(expected[1:], (since, count)), math.inf if link != expected[0] else 0.0)
        return worst


def _apart(one: Held, other: Held) -> float:
    since = 0.0 if one[0] == other[0] else math.inf
    return max(since, abs(one[1] - other[1]) / max(1.0, one[1]))
