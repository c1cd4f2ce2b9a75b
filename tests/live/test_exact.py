"""Live vectors equal the dense twin: 500 random graphs, K = 1..4, every shape, directed and not."""

import numpy as np
import pytest

import dygcn
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.models.model import Model
from dygcn.engine.training import Recipe
from dygcn.engine.training.matrices import starting_matrices
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GRAPHS, GraphOracle, random_events
from dygcn_lab.testbed.seeding import small_model

WIDTH, DIM, SEEDS_PER_CASE = 48, 12, 6


def fresh(
    orders: int, directed: bool, seed: int, half_life: float | None = None, features: str = "hashed"
) -> dygcn.LiveEmbedding:
    random = np.random.default_rng(seed)
    if features == "walks":
        return dygcn.start(
            small_model(directed=directed, orders=orders, half_life=half_life, seed=seed, features="walks")
        )
    weights = tuple(random.standard_normal((WIDTH, DIM)).astype(np.float32) / 7 for _ in range(orders + 1))
    model = Model(weights, "int64", "hashed", np.ones(WIDTH), seed, directed, half_life=half_life)
    return dygcn.start(model)


def check(live: dygcn.LiveEmbedding, oracle: GraphOracle) -> None:
    assert set(live.ids().tolist()) == oracle.nodes()
    assert live.edge_count == len(oracle.edges)
    np.testing.assert_allclose(
        live.vectors(live.ids()), twin_vectors(live, oracle.weights()), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("features", ["hashed", "walks"])
@pytest.mark.parametrize("orders", [1, 2, 3, 4])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
def test_vectors_equal_the_dense_twin(shape, directed, orders, features):
    for seed in range(SEEDS_PER_CASE):
        weighted = (seed + orders + directed) % 2 == 0
        events = random_events(shape, seed, nodes=12 + 9 * seed, weighted=weighted)
        live, oracle = fresh(orders, directed, seed, features=features), GraphOracle(directed)
        random = np.random.default_rng(seed)
        while events:
            cut = int(random.integers(1, 40))
            batch, events = events[:cut], events[cut:]
            live.update(batch)
            oracle.apply(batch)
        check(live, oracle)
        assert live.digest() == live.recompute().digest()


@pytest.mark.parametrize("features", ["hashed", "walks"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
def test_vectors_with_memory_equal_the_dense_twin(shape, directed, features):
    for seed in range(2):
        events = random_events(shape, seed)
        live, oracle = fresh(2, directed, seed, 3.5, features), GraphOracle(directed, 3.5)
        for at in range(0, len(events), 13):
            live.update(events[at : at + 13])
            oracle.apply(events[at : at + 13])
            check(live, oracle)
        assert live.digest() == live.recompute().digest()


@pytest.mark.parametrize("draw", ["uniform", "gamma", "lognormal", "integers"])
@pytest.mark.parametrize("fitted", ["on weights", "without weights"])
@pytest.mark.parametrize(("features", "apart"), [("hashed", 1e-5), ("walks", 3e-5)])
def test_weights_of_any_kind_equal_the_dense_twin(draw, fitted, features, apart):
    """Weights are rounded to a grid; the twin takes them as they are. Walk vectors have length one."""
    random = np.random.default_rng(7)
    weights = {
        "uniform": random.uniform(0.1, 3, 400),
        "gamma": random.gamma(0.8, size=400) + 0.01,
        "lognormal": random.lognormal(size=400),
        "integers": random.integers(1, 50, 400).astype(float),
    }[draw]
    pairs = random.integers(0, 90, (400, 2))
    events = {"src": pairs[:, 0], "dst": pairs[:, 1], "weight": weights}
    start = events if fitted == "on weights" else [(0, 1), (1, 2)]
    live = dygcn.fit(start, dim=16, features=features, recipe=Recipe(rounds=30))
    live.update(events)
    edges = {(0, 1): 1.0, (1, 2): 1.0} if fitted == "without weights" else {}
    for (a, b), weight in zip(pairs.tolist(), weights.tolist(), strict=True):
        if a != b:
            edges[min(a, b), max(a, b)] = weight
    np.testing.assert_allclose(live.vectors(live.ids()), twin_vectors(live, edges), atol=apart, rtol=0)


def test_the_twin_would_notice_a_wrong_message():
    """The mutant of this safety test: one sum is wrong in half of its columns."""
    live, oracle = fresh(2, False, 0), GraphOracle()
    events = random_events("hub", 0)
    live.update(events)
    oracle.apply(events)
    check(live, oracle)
    node, sums = live._state.graph.nodes()[3], live._state.rule.sums[0]
    row = sums.narrow[node] if sums.slot[node] < 0 else sums.wide[sums.slot[node]]
    row[::2] *= 2
    with pytest.raises(AssertionError):
        check(live, oracle)


def test_starting_matrices_are_orthogonal_and_shared():
    first, second, third = starting_matrices(32, 8, 2, seed=0)
    assert first is second is third
    np.testing.assert_allclose(first.T @ first, np.eye(8), atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", ["hub", "sparse"])
def test_bulk_leaves_the_bits_of_updates(shape, directed):
    """Loading in parts, with removes in them, and updates after it: no gap in the pool changes a value."""
    events = random_events(shape, 7, nodes=120)
    model = fresh(2, directed, 0).model
    one, other = dygcn.start(model), dygcn.start(model)
    half = len(events) // 2
    one.update(events[:half])
    change = other.bulk([events[: half // 3], events[half // 3 : half]])
    assert len(change) == len(other) == len(one)
    arcs = other._state.graph.pull
    assert int(arcs._tail[0]) <= len(arcs.others)
    assert one.digest() == other.digest() == other.recompute().digest()
    for start in range(half, len(events), 9):
        one.update(events[start : start + 9])
        other.update(events[start : start + 9])
        assert one.digest() == other.digest()


def test_a_pool_that_forgets_its_end_would_be_noticed(monkeypatch):
    """The seeded bug: after gaps are closed, new blocks are cut where old ones lie."""
    whole = Adjacency.compact

    def compact(self):
        whole(self)
        self._tail[0] = 0

    monkeypatch.setattr(Adjacency, "compact", compact)
    with pytest.raises(AssertionError):
        test_bulk_leaves_the_bits_of_updates("hub", False)
