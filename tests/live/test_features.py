import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dygcn
from dygcn.engine.training import Recipe
from dygcn.errors import FeatureError
from dygcn_lab.testbed.dense import dense_messages, dense_vectors
from dygcn_lab.testbed.graphs import GraphOracle, random_events

QUICK = Recipe(rounds=20)
EVENTS = [(a, b) for a in range(12) for b in range(a + 1, 12) if (a * 7 + b) % 3 == 0]


def table(nodes, width=5, seed=0):
    return list(nodes), np.random.default_rng(seed).normal(size=(len(list(nodes)), width)).astype(
        np.float32
    ) * 3


def twin(live, oracle, known):
    """The dense twin where only some nodes have features."""
    ids = live.ids().tolist()
    place = {node: i for i, node in enumerate(ids)}
    A = np.zeros((len(ids), len(ids)))
    for (a, b), weight in oracle.weights().items():
        A[place[a], place[b]] = A[place[b], place[a]] = weight
    x = np.zeros((len(ids), live.model.width))
    has = np.zeros(len(ids), bool)
    for node, row in known.items():
        if node in place:
            x[place[node]], has[place[node]] = row, True
    levels = dense_messages(A, x, has, live.model.orders)
    return dense_vectors(levels, [w.astype(np.float64) for w in live.model.weights], live.model.floor)


@pytest.mark.parametrize("orders", [1, 2, 3])
def test_given_features_with_gaps_equal_the_dense_twin(orders):
    """The mean is over the neighbours that have a message; a newcomer without features halves nobody."""
    ids, values = table(range(0, 40, 2))
    events = random_events("sparse", 2, nodes=40)
    live = dygcn.fit(events[:40], dim=6, orders=orders, features=(ids, values), recipe=QUICK)
    oracle = GraphOracle(grid=live.model.grid)
    oracle.apply(sorted(events[:40], key=lambda event: event[2]))
    known = dict(zip(ids, values, strict=True))
    random = np.random.default_rng(1)
    for at in range(40, len(events), 9):
        live.update(events[at : at + 9])
        oracle.apply(events[at : at + 9])
        chosen = random.integers(0, 80, 3).tolist()
        rows = random.normal(size=(3, 5)).astype(np.float32)
        live.set_features(chosen, rows)
        known.update(zip(chosen, rows, strict=True))
        gone = int(random.integers(0, 80))
        live.update(remove_nodes=[gone])
        oracle.remove_node(gone)
        known.pop(gone, None)
        assert set(live.ids().tolist()) == oracle.nodes() | set(known)
        np.testing.assert_allclose(live.vectors(live.ids()), twin(live, oracle, known), atol=1e-5)
        assert live.recompute().digest() == live.digest()


def test_features_are_state_not_history():
    ids, values = table(range(12))
    one = dygcn.fit(EVENTS, dim=4, features=(ids, values))
    two = dygcn.start(one.model)
    two.set_features(ids[:5], values[:5] * 0.5)
    two.update(add=EVENTS)
    two.set_features(ids[::-1], values[::-1])
    assert one.digest() == two.digest()
    change = two.set_features(ids[:1], values[:1])
    assert len(change) == 0


def test_set_features_moves_order_0_and_creates_nodes():
    ids, values = table(range(12))
    live = dygcn.fit(EVENTS, dim=4, features=(ids, values))
    change = live.set_features([3, 99], values[:2])
    orders = dict(zip(change.ids.tolist(), change.orders.tolist(), strict=True))
    assert (orders[3], orders[99]) == (0, 0)
    assert 99 in live
    assert np.isfinite(live[99]).all()
    assert live.features([99]).shape == (1, 5)
    np.testing.assert_allclose(live.features([3])[0], values[0], atol=1e-5)
    assert live.update(remove_nodes=[99]).left.tolist() == [99]


@pytest.mark.parametrize(
    "form",
    [
        lambda ids, values: (ids, values),
        lambda ids, values: dict(zip(ids, values.tolist(), strict=True)),
        lambda ids, values: pa.table({"id": ids, "x": values.tolist()}),
        lambda ids, values: pd.DataFrame({"id": ids, **{f"f{j}": values[:, j] for j in range(5)}}),
        lambda ids, values: {"id": ids, **{f"f{j}": values[:, j] for j in range(5)}},
    ],
)
def test_every_form_of_features(form):
    ids, values = table(range(12))
    live = dygcn.fit(EVENTS, dim=4, features=form(ids, values))
    np.testing.assert_allclose(live.features(ids), values, atol=1e-6)


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        (([1, 2], [[1.0], [float("nan")]]), "NaN"),
        (([1, 2], [[1.0]]), "2 ids need values"),
        (([1, 2], [[1.0], [1.0, 2.0]]), "features are"),
        ((["a"], [[1.0]]), "string ids"),
        (([1.5], [[1.0]]), "never through floats"),
        (7, "cannot read features"),
        ({"id": [1, 2], "x": np.zeros((2, 2))}, "cannot read features"),
        (("ab", [[1.0], [2.0]]), "one id"),
        ("nowhere.parquet", "no file"),
        ({"id": [1]}, "values of shape"),
    ],
)
def test_bad_features_are_refused(features, reason):
    with pytest.raises(FeatureError, match=reason):
        dygcn.fit(EVENTS, features=features)


def test_hashed_features_cannot_be_set_and_sizes_are_checked():
    for features, width in (("hashed", 256), ("walks", 4)):
        live = dygcn.fit(EVENTS, dim=4, features=features)
        with pytest.raises(FeatureError, match=f'features="{features}"'):
            live.set_features([1], [[1.0] * width])
    ids, values = table(range(12))
    live = dygcn.fit(EVENTS, dim=4, features=(ids, values))
    with pytest.raises(FeatureError, match="width 5"):
        live.set_features([1], [[1.0]])
    with pytest.raises(FeatureError, match="4 times"):
        live.set_features([1], [[1e6] * 5])


@pytest.mark.large
def test_hashed_features_follow_from_the_id():
    hashed = {"dim": 4, "features": "hashed"}
    one, two = dygcn.fit([("ann", "bob")], **hashed), dygcn.fit([("bob", "cat"), ("ann", "zed")], **hashed)
    np.testing.assert_array_equal(one.features(["ann", "bob"]), two.features(["ann", "bob"]))
    other = dygcn.fit([("ann", "bob")], **hashed, seed=1)
    assert not np.array_equal(one.features(["ann"]), other.features(["ann"]))
    long = [(i, i + 1) for i in range(2000)]
    x = dygcn.fit(long, **hashed, recipe=Recipe(rounds=1)).features(range(2000))
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert abs(x.mean()) < 0.01
    assert np.abs(np.corrcoef(x[:64]) - np.eye(64)).max() < 0.3


class TestEmbedding:
    """Keep the embedding that I already own fresh."""

    ids = tuple(f"n{i}" for i in range(12))
    events = tuple((f"n{a}", f"n{b}") for a, b in EVENTS)

    @pytest.fixture
    def live(self):
        self.mine = np.random.default_rng(3).normal(size=(12, 6)).astype(np.float32)
        return dygcn.fit(self.events, features=dygcn.Embedding(self.ids, self.mine), orders=2)

    def test_vectors_at_t0_are_mine(self, live):
        np.testing.assert_array_equal(live.vectors(self.ids), self.mine)

    def test_they_come_back_when_the_graph_does(self, live):
        live.update(add=[("n0", "n99"), ("n1", "n2")])
        live.update(remove=[("n0", "n99")])
        was_new = ("n1", "n2") not in self.events
        if was_new:
            live.update(remove=[("n1", "n2")])
        np.testing.assert_array_equal(live.vectors(self.ids), self.mine)

    def test_a_node_that_loses_its_links_keeps_its_vector(self, live):
        mine = [(a, b) for a, b in self.events if "n3" in (a, b)]
        assert mine
        live.update(remove=mine)
        np.testing.assert_array_equal(live["n3"], self.mine[3])
        np.testing.assert_array_equal(dygcn.start(live.model).vectors(self.ids), self.mine)

    def test_an_isolated_node_keeps_its_vector(self):
        mine = np.random.default_rng(3).normal(size=(13, 6)).astype(np.float32)
        live = dygcn.fit(self.events, features=dygcn.Embedding([*self.ids, "alone"], mine))
        np.testing.assert_array_equal(live["alone"], mine[12])

    def test_a_newcomer_stands_among_its_neighbours(self, live):
        live.update(add=[("new", "n3"), ("new", "n4")])
        np.testing.assert_allclose(live["new"], self.mine[[3, 4]].mean(axis=0), atol=1e-6)

    def test_it_is_saved_and_started(self, live, tmp_path):
        live.save(tmp_path / "e")
        again = dygcn.load(tmp_path / "e")
        assert again.digest() == live.digest()
        np.testing.assert_array_equal(again.vectors(self.ids), self.mine)
        fresh = dygcn.start(live.model)
        assert len(fresh) == 12
        fresh.update(add=self.events)
        assert fresh.digest() == live.digest()

    def test_weights_show_the_formula(self, live):
        np.testing.assert_array_equal(live.model.matrices["W0"], np.eye(6))
        live.set_features(["n0"], [[1.0] * 6])
        assert np.isfinite(live["n0"]).all()
