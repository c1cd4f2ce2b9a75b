"""Graphs that users will meet, each with the trap that it holds."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import dygcn
from dygcn.engine.models.model import Model
from dygcn.engine.training.matrices import starting_matrices
from tests.linked import link_auc


def start(orders=2, width=64, dim=32, **settings):
    return dygcn.start(
        Model(starting_matrices(width, dim, orders, 0), "int64", "hashed", np.ones(width), **settings)
    )


def test_exact_twins_share_all_messages_and_differ_by_order_0():
    live = start(3)
    live.update(add=[(0, 1), (0, 2), (0, 3), (3, 4)])
    state = live._state
    leaves = state.graph.find(dygcn.engine.events.id_column([1, 2]))
    for k in (1, 2, 3):
        rows, _ = state.rule.messages(state.graph, leaves, k)
        assert (rows[0] == rows[1]).all()
    assert not np.array_equal(live[1], live[2])


def test_bipartite_graph_with_one_order_needs_order_0():
    """h_1 of the two sides averages different nodes: without order 0 a link scores at chance."""
    random = np.random.default_rng(0)
    groups = random.integers(0, 8, 240)
    edges = [
        (a, b)
        for a in range(120)
        for b in range(120, 240)
        if groups[a] == groups[b] and random.random() < 0.5
    ]
    live = start(1)
    live.update(add=edges)
    array = np.array(edges)
    vectors = live.vectors(np.arange(240)) if len(live) == 240 else None
    assert vectors is not None
    with_order_0 = link_auc(vectors, array, np.random.default_rng(1))
    live._state.model = Model(
        (np.zeros((64, 32), np.float32), live.model.weights[1]), "int64", "hashed", np.ones(64)
    )
    without = link_auc(live.vectors(np.arange(240)), array, np.random.default_rng(1))
    assert without < 0.62
    assert with_order_0 > 0.85


def test_a_node_without_edges_is_not_in_the_graph():
    live = start()
    live.update(add=[(1, 2), (2, 3)])
    change = live.update(remove=[(1, 2)])
    assert change.left.tolist() == [1]
    assert 1 not in live
    with pytest.raises(KeyError):
        live[1]


def test_degree_one():
    live = start()
    live.update(add=[(1, 2)])
    x = live.features([1, 2])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    w = live.model.matrices
    np.testing.assert_allclose(live[1], unit[0] @ w["W0"] + unit[1] @ w["W1"] + unit[0] @ w["W2"], atol=1e-5)


def test_directed_edges_pull_from_the_target_only():
    live = start(1, directed=True)
    live.update(add=[(1, 2)])
    x = live.features([1, 2])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    w = live.model.matrices
    np.testing.assert_allclose(live[1], unit[0] @ w["W0"] + unit[1] @ w["W1"], atol=1e-5)
    np.testing.assert_allclose(live[2], unit[1] @ w["W0"], atol=1e-5)
    assert live.score(1, 2) == live.score(2, 1)


def test_an_outage_is_survived_with_memory():
    """A node that lost its links is still there, and fades."""
    live = start(half_life=10.0)
    live.update([(1, 2, 0.0), (2, 3, 0.0), (3, 4, 0.0)], columns=("src", "dst", "t"))
    before = live.vectors([1, 2])
    live.update(remove=[(1, 2), (2, 3)], now=1.0)
    assert 1 in live
    assert live.edge_count == 1
    assert live.score(1, 2) > 0.5
    np.testing.assert_allclose(live.vectors([1]), before[:1], atol=1e-6)
    live.update(now=50.0)
    assert 1 not in live


@pytest.mark.large
def test_a_million_adds_and_removes_leave_nothing():
    live = start()
    live.update(add=[(0, i) for i in range(1, 50)])
    digest = live.digest()
    random = np.random.default_rng(0)
    for _ in range(20):
        pairs = random.integers(0, 400, (25_000, 2))
        live.update({"src": pairs[:, 0], "dst": pairs[:, 1] + 1000, "weight": random.random(25_000) + 0.01})
        live.update({"src": pairs[:, 0], "dst": pairs[:, 1] + 1000, "op": np.full(25_000, -1)})
    assert live.digest() == digest
    assert live._state.graph.ids.high < 900


def test_memory_speaks_in_dates_too():
    frame = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "t": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    live = dygcn.fit(frame, dim=4, memory=pd.Timedelta("1D"))
    assert live.model.half_life == 86400.0
    live.update(remove=[(1, 2)], now=pd.Timestamp("2026-01-03"))
    assert 1 in live
    live.update(now=dt.datetime(2026, 2, 3, tzinfo=dt.UTC))
    assert 1 not in live


def test_iterating_gives_ids():
    live = start()
    live.update(add=[(3, 1), (1, 2)])
    assert list(live) == [1, 2, 3]


def test_the_output_is_an_embedding():
    live = dygcn.fit([("a", "b"), ("b", "c")], dim=4)
    frame = live.to_arrow().to_pandas()
    again = dygcn.fit([("a", "b"), ("b", "c")], features=dygcn.Embedding(frame.id, frame.vector))
    np.testing.assert_array_equal(again.vectors(["a", "b", "c"]), live.vectors(["a", "b", "c"]))
    table = live.to_arrow()
    assert repr(dygcn.Embedding(table["id"], table["vector"])) == "Embedding(nodes=3, dim=4)"
