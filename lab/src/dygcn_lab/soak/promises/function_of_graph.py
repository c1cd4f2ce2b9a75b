"""State is a function of the graph: a random walk against a dict of edges, and all ways to the same graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.model import Model
from dygcn.engine.propagation import ExactRule, set_threads, spreading
from dygcn.engine.records import Changed, Written
from dygcn.live.embedding import LiveEmbedding, start
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GraphOracle
from dygcn_lab.testbed.seeding import own_state, seeded, small_model

BATCHES, THREADS = (1, 7, 100, 10_000), (1, 2)
_NODES, _MOST_EVENTS = 60, 12
_WAYS: tuple[dict[str, Any], ...] = (
    {"kind": "int64"},
    {"kind": "string", "directed": True, "orders": 3},
    {"kind": "int64", "half_life": 40.0},
    {"kind": "int64", "features": "walks"},
    {"kind": "string", "features": "walks", "directed": True, "orders": 3},
    {"kind": "int64", "features": "walks", "half_life": 40.0, "orders": 4},
)
_LARGE = 6_000  # nodes of the graph on which several threads have something to do
Event = tuple[Any, Any, float, int, float]


@dataclass(slots=True)
class WalkTally(Tally):
    """What was compared."""

    steps: int = 0
    dense: int = 0
    digests: int = 0

    def check(self, right: bool, what: str) -> None:
        """Count one comparison."""
        self.digests += 1
        Tally.check(self, right, what)


class Walk:
    """One embedding and its dict of edges, changed together, step by step."""

    def __init__(self, seed: int, way: dict[str, Any], tally: WalkTally) -> None:
        self.model = small_model(**way)
        self.live = start(self.model)
        self.oracle = GraphOracle(self.model.directed, self.model.half_life)
        self.events: list[Event] = []
        self._random = np.random.default_rng(seed)
        self._name = f"seed {seed}, {way}"
        self._tally = tally

    def event(self, new: bool = True) -> Event:
        """Return an event; a removal is mostly one of an edge that is there."""
        random = self._random
        a, b = (self._id(node) for node in random.integers(0, _NODES, 2))
        add = new and (not self.oracle.edges or random.random() < 0.55)
        if not add and self.oracle.edges and random.random() < 0.9:
            a, b = list(self.oracle.edges)[int(random.integers(len(self.oracle.edges)))]
        t = float(len(self.events) // 20 - int(random.integers(3)))
        return a, b, t, 1 if add else -1, float(random.choice([1.0, 1.0, 2.0, 0.25, 7.5]))

    def _id(self, node: int) -> Any:
        return f"n{node}" if self.model.ids == "string" else int(node)

    def step(self, number: int) -> None:
        """Change the graph, and compare: counts always, bits often, dense vectors now and then."""
        batch = [self.event() for _ in range(int(self._random.integers(1, _MOST_EVENTS)))]
        self.live.update(batch)
        self.oracle.apply(batch)
        self.events += batch
        live, tally = self.live, self._tally
        tally.steps += 1
        sizes = len(live), live.edge_count
        tally.check(
            sizes == (len(self.oracle.nodes()), len(self.oracle.edges)), f"{self._name}: {number}: counts"
        )
        if number % 10 == 0:
            tally.check(
                live.digest() == live.recompute().digest(), f"{self._name}: step {number}: recomputed"
            )
        if number % 25 == 0:
            self.there_and_back(number)
        if number % 50 == 0:
            tally.dense += 1
            near = np.allclose(
                live.vectors(live.ids()), twin_vectors(live, self.oracle.weights()), atol=1e-5, rtol=0
            )
            tally.check(near, f"{self._name}: step {number}: the dense twin")

    def there_and_back(self, number: int) -> None:
        """Add edges that are not there and remove them again: nothing must remain of it."""
        if self.model.half_life is not None:
            return  # it remembers them, as it should
        before, there = self.live.digest(), self.oracle.weights()
        pairs = {(self._id(a), self._id(b)) for a, b in self._random.integers(0, 2 * _NODES, (9, 2)) if a < b}
        pairs -= {pair for a, b in there for pair in ((a, b), (b, a))}
        extra = sorted(pairs)
        self.live.update(add=extra)
        self.live.update(remove=extra[::-1])
        self._tally.check(self.live.digest() == before, f"{self._name}: step {number}: added and removed")

    def end(self) -> None:
        """Go every other way to the same graph, then remove all of it."""
        digest = self.live.digest()
        for size in BATCHES:
            other = in_batches(self.model, self.events, size)
            self._tally.check(other.digest() == digest, f"{self._name}: batches of {size}")
        if self.model.half_life is not None:
            return
        edges = [(a, b, 0.0, 1, weight) for (a, b), weight in self.oracle.edges.items()]
        self._random.shuffle(edges)
        built = in_batches(self.model, edges, 13)
        self._tally.check(built.digest() == digest, f"{self._name}: its edges in any order")
        self.live.update(remove=[edge[:2] for edge in edges])
        self._tally.check(is_empty(self.live), f"{self._name}: all edges removed")


def in_batches(model: Model, events: Sequence[Event], size: int) -> LiveEmbedding:
    """Return a new embedding that got events so many at a time."""
    live = start(model)
    for at in range(0, len(events), size):
        live.update(list(events[at : at + size]))
    return live


def is_empty(live: LiveEmbedding) -> bool:
    """Say whether nothing at all is left: no node, no row, no weight."""
    zero = all(not sums.narrow.any() and not sums.wide.any() for sums in own_state(live).exact.sums)
    no_weight = all(not sums.degree.any() for sums in own_state(live).exact.sums)
    return (
        len(live) == live.edge_count == 0
        and zero
        and no_weight
        and live.digest() == start(live.model).digest()
    )


def by_threads(events: int, seed: int, tally: WalkTally) -> None:
    """Build a larger graph in large batches, with one thread and with two: the same bits."""
    random = np.random.default_rng(seed)
    ends = np.minimum(random.zipf(1.3, (events, 2)), _LARGE) * 7919 % _LARGE
    op = np.where(random.random(events) < 0.8, 1, -1)
    model, digests = small_model(seed=seed), set()
    for count, size in itertools.product(THREADS, BATCHES[2:]):
        live = start(model)
        try:
            set_threads(count)
            with seeded(spreading, "SHARED", 200):  # else this graph is too small to be worth a thread
                for at in range(0, events, size):
                    part = slice(at, at + size)
                    live.update({"src": ends[part, 0], "dst": ends[part, 1], "op": op[part]})
        finally:
            set_threads(None)
        digests.add(live.digest())
    tally.check(len(digests) == 1, f"seed {seed}: threads {THREADS} and batches {BATCHES[2:]}")


def walk(size: int, seed: int) -> WalkTally:
    """Walk so many steps in all, over every kind of graph, and by every other way to the same place."""
    tally = WalkTally()
    for number, way in enumerate(_WAYS):
        one = Walk(seed + number, way, tally)
        for step in range(1, size // len(_WAYS) + 1):
            one.step(step)
        one.end()
    by_threads(min(20 * size, 60_000), seed, tally)
    return tally


def lose_a_push(self: ExactRule, transaction: Transaction) -> tuple[Written, Changed]:
    """The seeded bug: now and then a row of the last order keeps what it was."""
    sums = self.sums[-1]
    before = sums.narrow.copy()
    delta, moved = _write(self, transaction)
    far = moved.nodes[moved.orders == self.orders]
    if len(far) and sums.narrow.shape == before.shape and sums.narrow.dtype == before.dtype:
        sums.narrow[far[-1]] = before[far[-1]]
    return delta, moved


_write = ExactRule.write


def look(size: int, seed: int) -> Found:
    """Walk, then see whether the walk would notice a push that is lost."""
    tally = walk(size, seed)
    with seeded(ExactRule, "write", lose_a_push):
        caught = walk(min(size, 90), seed).bad > 0
    figures = {"compared": tally.digests, "dense": tally.dense, "batches": BATCHES, "threads": THREADS}
    return Found(tally.steps, tally.bad, caught, figures, tally.notes)


CHECK = Check(
    "function_of_graph",
    900,
    15_000,
    "state is a function of the graph",
    "a random walk; the same graph by other batches, orders and threads",
    "the last push of an update is lost",
    look,
)
