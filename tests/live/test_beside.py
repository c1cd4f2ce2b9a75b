"""Given features beside walk rows: a function of graph and features, to the bit, whatever the way to them."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.cluster.shard import taken_features
from dygcn.errors import DamagedFolder, FeatureError, OptionError
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GraphOracle, random_events
from tests.seeded import assert_noticed

WIDTH = 6
IDS = list(range(0, 30, 2))


def table(ids, seed=0):
    random = np.random.default_rng(seed)
    return list(ids), random.normal(size=(len(list(ids)), WIDTH)).astype(np.float32)


def fitted(orders=2, directed=False, dim=10, events=None):
    events = random_events("sparse", 3, nodes=30)[:50] if events is None else events
    live = dygcn.fit(events, dim=dim, orders=orders, features=["walks", table(IDS)], directed=directed)
    oracle = GraphOracle(directed, grid=live.model.grid)
    oracle.apply(sorted(events, key=lambda event: event[2]))
    return live, oracle


def check(live, oracle, known):
    assert set(live.ids().tolist()) == oracle.nodes() | known
    np.testing.assert_allclose(
        live.vectors(live.ids()), twin_vectors(live, oracle.weights()), atol=2e-5, rtol=0
    )
    assert live.digest() == live.recompute().digest()


def play(seed, steps, orders=2, directed=False):
    """Updates, features that come and change, and nodes that go: always what the dense twin says."""
    live, oracle = fitted(orders, directed)
    known, random = set(IDS), np.random.default_rng(seed)
    events = random_events("hub", seed, nodes=40)
    for step in range(steps):
        batch = events[9 * step : 9 * step + 9]
        live.update(batch)
        oracle.apply(batch)
        chosen = random.integers(0, 60, 3).tolist()
        live.set_features(chosen, random.normal(size=(3, WIDTH)).astype(np.float32))
        known.update(chosen)
        gone = int(random.integers(0, 60))
        live.update(remove_nodes=[gone])
        oracle.remove_node(gone)
        known.discard(gone)
        check(live, oracle, known)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("orders", [1, 2, 3])
def test_both_blocks_equal_the_dense_twin(orders, directed):
    play(orders, 5, orders, directed)


@pytest.mark.mutant
@pytest.mark.parametrize(
    ("module", "line", "wrong"),
    [
        (
            "dygcn.engine.features.inputs",
            "return own.astype(np.int64) if self.walks is None else self.walks.units(nodes, names)[1] | own",
            "return own.astype(np.int64)",
        ),
        (
            "dygcn.engine.features.inputs",
            "stored[nodes], has[nodes] = rows, own",
            "stored[nodes], has[nodes] = rows, True",
        ),
        (
            "dygcn.engine.propagation.exact",
            "change, change_has = (features.new - features.old) >> stored.message_shift, has_now - had",
            "change, change_has = features.new >> stored.message_shift, has_now - had",
        ),
    ],
)
def test_wrong_blocks_are_noticed(tmp_path, module, line, wrong):
    assert_noticed(tmp_path, module, line, wrong, play, 2, 14)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("set"), st.integers(0, 12), st.integers(0, 5)),
        st.tuples(st.just("go"), st.integers(0, 12), st.just(0)),
    ),
    max_size=25,
)
ROWS = np.vstack((np.eye(4, WIDTH), np.zeros((1, WIDTH)), -np.ones((1, WIDTH)))).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(steps)
def test_any_way_to_the_same_graph_and_features_gives_the_same_bits(made):
    events = [(a, (a + s) % 8) for a in range(8) for s in (1, 2)]
    live = dygcn.fit(events, dim=6, features=["walks", (range(4), ROWS[:4])])
    edges, own = {frozenset(pair) for pair in events}, {node: node for node in range(4)}
    for what, a, b in made:
        if what == "add" and a != b:
            live.update(add=[(a, b)])
            edges.add(frozenset((a, b)))
        elif what == "remove" and a != b:
            live.update(remove=[(a, b)])
            edges.discard(frozenset((a, b)))
        elif what == "set":
            live.set_features([a], ROWS[[b]])
            own[a] = b
        elif what == "go":
            live.update(remove_nodes=[a])
            edges = {pair for pair in edges if a not in pair}
            own.pop(a, None)
    assert live.digest() == live.recompute().digest()
    other = dygcn.start(live.model)
    if own:
        other.set_features(list(own), ROWS[list(own.values())])
    other.update(add=sorted(tuple(sorted(pair)) for pair in edges))
    assert other.digest() == live.digest()
    assert other.ids().tolist() == live.ids().tolist()
    assert (other.vectors() == live.vectors()).all()


def test_setting_features_costs_what_it_touches():
    ring = [(a, (a + 1) % 400) for a in range(400)]
    live = dygcn.fit(ring, dim=8, features=["walks", table(range(400))])
    change = live.set_features([7], np.ones((1, WIDTH)))
    assert set(change.ids.tolist()) == {5, 6, 7, 8, 9}
    assert change.rows == 5  # two rows of order 1, three of order 2
    assert live.digest() == live.recompute().digest()


def test_a_newcomer_with_features_has_its_block_at_once():
    live, _ = fitted()
    first = live.model.table.rows.shape[1]
    live.set_features([77], np.ones((1, WIDTH)))
    assert not live[77][:first].any()
    assert np.linalg.norm(live[77][first:]) == pytest.approx(np.sqrt(live.model.projection.share))
    live.update(add=[(77, 0), (78, 0)])
    assert live[77][:first].any()
    assert live[78].any()
    assert np.isnan(live.features([78])).all()


def test_saved_copied_and_durable_embeddings_are_the_same(tmp_path):
    live, _ = fitted()
    live.set_features([77, 3], np.ones((2, WIDTH)))
    live.save(tmp_path / "saved")
    rows = table([5, 500], seed=9)
    found = []
    with dygcn.open(tmp_path / "durable", live) as durable:
        durable.set_features(*rows)
        durable.update(add=[(500, 77)])
    with dygcn.open(tmp_path / "durable") as durable:
        found.append((durable.digest(), durable.vectors()))
    for one in (live, copy.deepcopy(live), dygcn.load(tmp_path / "saved")):
        one.set_features(*rows)
        one.update(add=[(500, 77)])
        found.append((one.digest(), one.vectors()))
    assert len({digest for digest, _ in found}) == 1
    assert all((vectors == found[0][1]).all() for _, vectors in found)


def test_a_projection_that_does_not_fit_is_refused(tmp_path):
    live, _ = fitted()
    live.model.projection.matrix[0, 0] = np.nan
    live.save(tmp_path / "x")
    with pytest.raises(DamagedFolder, match="NaN"):
        dygcn.load(tmp_path / "x")


def test_questions_of_every_sort_are_answered():
    live, _ = fitted()
    before = live.digest()
    with live.what_if(add=[(0, 99)], remove_nodes=[2]) as trial:
        assert 99 in trial
        assert 2 not in trial
    assert live.digest() == before
    found = live.explain(0, shares=True)
    assert found.own + found.by_neighbor.sum() + found.rounding == pytest.approx(live[0] @ live[0])
    again = live.refit().embedding
    assert again.digest() == again.recompute().digest()
    assert not np.isnan(again.features([0])).any()
    live.publish(tolerance=0.05)
    live.set_features([0], -np.ones((1, WIDTH)))
    live.publish()
    assert live.digest() == live.recompute().digest()


def test_shards_refuse_features_that_change():
    with pytest.raises(FeatureError, match=r"walks\+given"):
        taken_features(fitted()[0].model)


def test_rows_of_a_node_are_the_same_alone_and_among_others():
    ids, values = table(range(500), seed=4)
    projection = dygcn.fit([(0, 1)], dim=8, features=["walks", (ids, values)]).model.projection
    together = projection.rows(values)
    assert (together == np.concatenate([projection.rows(values[[i]]) for i in range(500)])).all()
    assert (projection.rows(np.zeros((1, WIDTH), np.float32)) == 0).all()
    assert (projection.rows(values * np.float32(1e30)) == together).mean() > 0.99


def communities(random, signal):
    """Communities with few links; features say which one, or, without a signal, nothing."""
    side = np.arange(300) % 12
    ends = random.integers(0, 300, (9000, 2))
    ends = ends[(side[ends[:, 0]] == side[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])]
    return ends, (np.arange(300), signal * np.eye(12)[side] + random.normal(size=(300, 12)) * 0.1)


def test_features_weigh_what_held_out_links_say():
    random = np.random.default_rng(0)
    shares = [
        dygcn.fit(ends, dim=16, features=["walks", x]).model.projection.share
        for ends, x in (communities(random, 1.0), communities(random, 0.0))
    ]
    assert shares[0] == 0.7 > shares[1]


# ---- tables of nodes -----------------------------------------------------------------------------------

PEOPLE = {
    "id": ["ann", "bob", "cat", "dan"],
    "age": [30, 40, None, 60],
    "town": ["Rome", "Oslo", "Rome", None],
    "member": [True, False, True, None],
}
LINKS = [("ann", "bob"), ("bob", "cat"), ("cat", "dan")]


def forms():
    frame = pd.DataFrame(PEOPLE)
    yield "dict", PEOPLE
    yield "pandas", frame
    yield "index", frame.set_index("id")
    yield "categories", frame.astype({"town": "category"})
    polars = pytest.importorskip("polars")
    yield "polars", polars.DataFrame(PEOPLE)
    yield "arrow", polars.DataFrame(PEOPLE).to_arrow()


def test_every_form_of_a_table_gives_the_same_model(tmp_path):
    file = tmp_path / "people.parquet"
    pd.DataFrame(PEOPLE).to_parquet(file)
    found = [dygcn.fit(LINKS, dim=8, nodes=nodes) for _, nodes in forms()]
    found.append(dygcn.fit(LINKS, dim=8, nodes=file))
    assert len({live.digest() for live in found}) == 1
    assert found[0].model.projection.columns.forms == ("number", "value", "value")


def test_the_same_table_gives_the_same_rows_after_loading(tmp_path):
    live = dygcn.fit(LINKS, dim=8, nodes=PEOPLE)
    live.save(tmp_path / "x")
    loaded = dygcn.load(tmp_path / "x")
    assert loaded.model.projection.columns == live.model.projection.columns
    before = live.digest()
    assert len(loaded.set_features(nodes=pd.DataFrame(PEOPLE))) == 0
    assert loaded.digest() == before
    new = {"id": ["eve"], "age": [35.5], "town": ["Lima"], "member": [True]}
    live.set_features(nodes=new)
    loaded.set_features(nodes=new)
    assert live.digest() == loaded.digest() != before


def test_the_column_of_ids_may_be_called_as_in_the_events():
    buys = {"user": ["u1", "u2"], "item": ["tea", "tea"]}
    live = dygcn.fit(buys, src="user", dst="item", dim=8, nodes={"user": ["u1", "u2"], "age": [1, 2]})
    change = live.set_features(nodes={"user": ["u3"], "age": [3]})
    assert change.ids.tolist() == ["u3"]


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({"age": [1, 2]}, "no column 'id'"),
        ({"id": ["ann"]}, "no other column"),
        ({"id": ["ann"], "age": [1, 2]}, "2 cells of 'age'"),
        ({"id": ["ann"], "age": [np.inf]}, "infinite"),
        ({"id": ["ann"], "x": [[1.0, 2.0]]}, "takes vectors"),
        ({"id": [1, 2], "x": [1.0, 2.0]}, "int64 ids"),
        (pd.DataFrame({"age": [1, 2]}), "no column 'id'"),
        ([1, 2], "cannot read nodes"),
        ("nowhere.parquet", "no file"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(nodes, says):
    with pytest.raises(FeatureError, match=says):
        dygcn.fit(LINKS, dim=8, nodes=nodes)


def test_rows_of_another_shape_are_refused_later():
    live = dygcn.fit(LINKS, dim=8, nodes=PEOPLE)
    with pytest.raises(FeatureError, match="no column 'member'"):
        live.set_features(nodes={"id": ["eve"], "age": [1], "town": ["Rome"]})
    with pytest.raises(FeatureError, match="a column 'more'"):
        live.set_features(nodes={**PEOPLE, "more": [1, 2, 3, 4]})
    with pytest.raises(FeatureError, match="numbers when the model was fitted"):
        live.set_features(nodes={**PEOPLE, "age": ["a", "b", "c", "d"]})
    with pytest.raises(FeatureError, match="fitted with nodes="):
        live.set_features(["eve"], [[1.0]])
    with pytest.raises(FeatureError, match="pass one of them"):
        live.set_features()
    other, _ = fitted()
    with pytest.raises(FeatureError, match="not fitted with nodes="):
        other.set_features(nodes=PEOPLE)
    with pytest.raises(FeatureError, match="fitted on features of 6"):
        other.set_features([1], [[1.0, 2.0]])
    assert live.digest() == live.recompute().digest()


@pytest.mark.parametrize(
    ("features", "error"),
    [
        (["walks", {"ann": [1.0]}, {"bob": [1.0]}], FeatureError),
        ([{"ann": [1.0]}], FeatureError),
        (["hashed", {"ann": [1.0]}], FeatureError),
        (["walks", {"ann": [0.0]}], FeatureError),
    ],
)
def test_other_lists_are_refused(features, error):
    with pytest.raises(error):
        dygcn.fit(LINKS, dim=8, features=features)


def test_a_list_of_walks_alone_is_walks():
    assert dygcn.fit(LINKS, dim=8, features=["walks"]).digest() == dygcn.fit(LINKS, dim=8).digest()
    with pytest.raises(OptionError, match="nodes= puts features beside walks"):
        dygcn.fit(LINKS, dim=8, features="hashed", nodes=PEOPLE)
    with pytest.raises(OptionError, match="2 or more"):
        dygcn.fit(LINKS, dim=1, nodes=PEOPLE)


def test_few_directions_leave_the_columns_to_the_walks():
    live = dygcn.fit(LINKS, dim=16, features=["walks", {"ann": [1.0, 0.0], "bob": [0.0, 1.0]}])
    assert live.model.projection.matrix.shape == (2, 1)
    assert live.model.table.rows.shape[1] == 15
    assert dataclasses.replace(live.model).dim == 16
