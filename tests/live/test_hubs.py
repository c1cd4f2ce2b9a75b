"""Streams with a hub: nodes cross every threshold (scan or table, narrow or wide rows, fine weights)."""

import numpy as np
import pytest

import dygcn
from dygcn.engine.models.model import Model
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GraphOracle


def model(random, seed):
    orders, width = int(random.integers(1, 5)), int(random.integers(3, 20))
    weights = tuple(random.standard_normal((width, 5)).astype(np.float32) / 5 for _ in range(orders + 1))
    half_life = [None, 3.0][random.integers(2)]
    return Model(
        weights, "int64", "hashed", np.ones(width), seed, bool(random.integers(2)), half_life=half_life
    )


def batch(random, nodes, clock, oracle, weights):
    count = int(random.integers(1, 400))
    src, dst = random.integers(0, nodes, (2, count))
    src[random.random(count) < 0.4] = 0
    op = np.where(random.random(count) < random.choice([0.2, 0.5, 0.8]), -1, 1)
    if oracle.edges and random.random() < 0.15:  # now and then everything goes
        src, dst = np.array(list(oracle.edges)).T
        op = np.full(len(src), -1)
    weight = {
        "one": np.ones(len(src)),
        "few": random.choice([0.5, 1, 2, 3.25], len(src)),
        "any": random.random(len(src)) * 3 + 1e-3,
    }[weights]
    rows = zip(src.tolist(), dst.tolist(), op.tolist(), weight.tolist(), strict=True)
    return [(a, b, clock, what, w) for a, b, what, w in rows]


def check(live, oracle):
    assert set(live.ids().tolist()) == oracle.nodes()
    assert len(live._state.graph.ids) == len(live)
    if len(live):
        twin = twin_vectors(live, oracle.weights())
        np.testing.assert_allclose(live.vectors(live.ids()), twin, atol=1e-5, rtol=0)
    assert live.recompute().digest() == live.digest()


def play(seed):
    random = np.random.default_rng(seed)
    live = dygcn.start(model(random, seed))
    oracle = GraphOracle(live.model.directed, live.model.half_life)
    nodes, clock = int(random.integers(20, 400)), 0.0
    later = random.choice(["one", "few", "any"])
    for step in range(14):
        clock += float(2 * random.random())
        events = batch(random, nodes, clock, oracle, later if step > 6 else "one")
        live.update(events)
        oracle.apply(events)
        if random.random() < 0.3:
            gone = random.integers(0, nodes, 3).tolist()
            live.update(remove_nodes=gone)
            for node in gone:
                oracle.remove_node(node)
        if step % 4 == 3 or step == 13:
            check(live, oracle)


@pytest.mark.parametrize(("block", "bound"), list(enumerate(["2", "16", "128", "inf"])))
def test_streams_with_a_hub(block, bound, monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", bound)
    for seed in range(50 * block, 50 * block + 20):
        play(seed)


@pytest.mark.slow
def test_five_thousand_streams_with_a_hub():
    for seed in range(1000, 6000):
        play(seed)
