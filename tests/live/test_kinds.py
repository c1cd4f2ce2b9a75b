"""Nodes with kinds: the graph is the one whose ids were mapped apart, however it came about."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.events import python_ids, read_events
from dygcn.engine.events.kinds import Kinds, infer_kinds, kinds_of
from dygcn.engine.events.wire import decode_events
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.model import Model, order_weights
from dygcn.errors import AmbiguousId, DamagedFolder, EventError, OptionError, UnknownNode
from dygcn_lab.testbed.dense import twin_vectors
from tests.seeded import assert_noticed

TWO = "user:int64,item:int64"
APART = 1_000_000  # what is added to an item's id
NODES, DIM = 8, 6
ids = st.integers(0, NODES - 1)
events = st.lists(st.tuples(ids, ids, st.sampled_from([1, 1, -1])), min_size=1, max_size=40)


def rows_of_both(nodes=NODES, dim=DIM, seed=0):
    """Return two models with the same first rows: of nodes with kinds, and of ids that were mapped apart."""
    values = np.random.default_rng(seed).integers(-127, 128, (2 * nodes, dim)).astype(np.int8)
    known = kinds_of(TWO)
    named = [("user", one) for one in range(nodes)] + [("item", one) for one in range(nodes)]
    mapped = np.concatenate((np.arange(nodes), np.arange(nodes) + APART))
    weights, scales = order_weights(2), np.full(dim, 1.0)
    with_kinds = Model(weights, TWO, "walks", scales, table=RowTable(known.column(named), values, 1.0))
    apart = Model(weights, "int64", "walks", scales, table=RowTable(IdMap("int64").read(mapped), values, 1.0))
    return with_kinds, apart


def columns(some):
    return {name: [row[at] for row in some] for at, name in enumerate(("src", "dst", "op"))}


def mapped(some):
    return columns([(a, b + APART, op) for a, b, op in some])


def assert_same(live, apart):
    """Compare sums of every order, and vectors, node by node."""
    named = live.ids()
    other = [one.id + APART * (one.kind == "item") for one in named]
    assert sorted(other) == apart.ids().tolist()
    assert live.vectors().tobytes() == apart.vectors(other).tobytes()
    here, there = (one._find(some) for one, some in ((live, list(named)), (apart, other)))
    for order in range(3):
        sums = [
            one._state.exact.messages(one._state.graph, nodes, order)[0]
            for one, nodes in ((live, here), (apart, there))
        ]
        assert np.array_equal(*sums)


# ---- the same as ids that were mapped apart -----------------------------------------------------------


@given(some=events, cuts=st.integers(1, 7))
@settings(max_examples=30)
def test_any_events_in_any_cuts_are_as_if_mapped_apart(some, cuts):
    live, apart = map(dygcn.start, rows_of_both())
    for begin in range(0, len(some), cuts):
        live.update(columns(some[begin : begin + cuts]))
        apart.update(mapped(some[begin : begin + cuts]))
    assert_same(live, apart)
    assert live.digest() == live.recompute().digest()


def test_an_id_that_loses_its_kind_would_be_noticed(tmp_path):
    line = "kinds = pa.scalar(kind, pa.large_string()) if isinstance(kind, str) else kind"
    wrong = 'kinds = pa.scalar("user", pa.large_string()) if isinstance(kind, str) else kind'
    assert_noticed(
        tmp_path,
        "dygcn.engine.events.kinds",
        line,
        wrong,
        test_a_short_history_is_as_if_mapped_apart,
    )


def test_a_short_history_is_as_if_mapped_apart():
    live, apart = map(dygcn.start, rows_of_both())
    some = [(1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 2, -1)]
    live.update(columns(some))
    apart.update(mapped(some))
    assert_same(live, apart)


@given(some=events, cut=st.integers(0, 40))
@settings(max_examples=10)
def test_a_restart_keeps_kinds(some, cut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds") / "folder"
    with_kinds, plain = rows_of_both()
    apart = dygcn.start(plain)
    with dygcn.open(folder, dygcn.start(with_kinds)) as live:
        live.update(columns(some[:cut]) if some[:cut] else [])
    with dygcn.open(folder) as live:
        live.update(columns(some[cut:]) if some[cut:] else [])
        before = live.digest()
    apart.update(mapped(some))
    with dygcn.open(folder) as live:
        assert live.digest() == before
        assert_same(live, apart)


@pytest.mark.large
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_events_over_two_kinds_are_as_if_mapped_apart(count):
    """With the same integers on both sides, and first rows given."""
    nodes, part = 3000, count // 10
    live, apart = map(dygcn.start, rows_of_both(nodes, 8))
    random = np.random.default_rng(1)
    for _ in range(count // part):
        src, dst = (nodes * random.random((2, part)) ** 2).astype(np.int64)
        op = np.where(random.random(part) < 0.3, -1, 1)
        live.update({"src": src, "dst": dst, "op": op})
        apart.update({"src": src, "dst": dst + APART, "op": op})
    assert len(live) > nodes
    assert_same(live, apart)


# ---- ids, in every form -------------------------------------------------------------------------------


@pytest.fixture
def shop():
    table = {"user": [1, 1, 2, 3, 3, 4], "item": [1, 2, 2, 3, 1, 9], "t": range(6)}
    return dygcn.fit(table, src="user", dst="item", kinds=True, dim=8)


def test_an_id_is_a_tuple_or_text(shop):
    assert shop["item", 1].tolist() == shop["item:1"].tolist() == shop.vector(("item", np.int64(1))).tolist()
    assert ("user", 9) not in shop
    assert "item:9" in shop
    assert len(shop.neighbors(9)) == 1  # only an item has this id
    assert shop.vectors([("user", 1), "item:1", 9]).shape == (3, 8)
    assert list(shop) == sorted(shop, key=str)
    assert shop.score(("user", 1), [("item", 3), ("item", 9)]).shape == (2,)


@pytest.mark.parametrize("ask", ["vector", "neighbors", "nearest", "explain"])
def test_an_id_without_kind_that_several_have_is_an_error_that_names_them(shop, ask):
    with pytest.raises(AmbiguousId, match=r"1 is the id of 2 nodes, user:1, item:1"):
        getattr(shop, ask)(1)


def test_the_dense_twin_reads_kinds(shop):
    edges = {(("user", a), ("item", b)): 1.0 for a, b in [(1, 1), (1, 2), (2, 2), (3, 3), (3, 1), (4, 9)]}
    np.testing.assert_allclose(shop.vectors(shop.ids()), twin_vectors(shop, edges), atol=2e-5, rtol=0)


@pytest.mark.parametrize("ask", ["vectors", "features", "error_bound", "link_vectors"])
def test_one_id_in_the_place_of_several_is_read_as_one(shop, ask):
    with pytest.raises(AmbiguousId):
        getattr(shop, ask)(1)
    for wrong in (77, 2.5, b"12", None):
        with pytest.raises(UnknownNode):
            getattr(shop, ask)([wrong])
    with pytest.raises(EventError):
        shop.update(remove_nodes=b"12")


def test_unknown_ids_and_kinds(shop):
    for wrong in (("item", 77), "item:77", 77, ("shop", 1), "shop:1", ("item", "x"), "item:01", "user:"):
        assert wrong not in shop
        with pytest.raises(UnknownNode):
            shop.vector(wrong)
    with pytest.raises(OptionError, match="the kinds of this graph are user, item"):
        shop.nearest("item:1", kind="shop")
    with pytest.raises(OptionError, match="have no kinds"):
        dygcn.fit([(1, 2), (2, 3)], dim=4).nearest(1, kind="item")


def test_answers_are_of_the_kind_that_is_meant(shop):
    assert {one.kind for one, _ in shop.recommend(1)} == {"item"}  # an id without kind asks as a user
    assert {one.kind for one, _ in shop.recommend(("item", 1))} == {"user"}
    assert {one.kind for one, _ in shop.recommend(1, kind="user")} == {"user"}
    assert {one.kind for one, _ in shop.nearest(("item", 1))} == {"item"}
    assert {one.kind for one, _ in shop.nearest(("item", 1), kind="*")} == {"user", "item"}
    assert {one.kind for one, _ in shop.nearest(shop["item", 1], k=9)} == {"user", "item"}
    assert shop.nearest([("item", 1), ("user", 1)])[1] == shop.nearest(("user", 1))
    assert [one for one, _ in shop.nearest(("item", 1), among=[("user", 2)])] == [("user", 2)]
    assert all(one.id > 1 for one, _ in shop.recommend(1, among=lambda one: one.kind == "item"))


def test_text_is_split_only_where_a_kind_is_declared():
    table = {"user": ["ann", "user:bob"], "item": ["a:b", "tea"]}
    live = dygcn.fit(table, src="user", dst="item", kinds=True, dim=4)
    assert list(live) == [("item", "a:b"), ("item", "tea"), ("user", "ann"), ("user", "bob")]
    live.update(add=[("item:tea", "user:ann")])  # the other way round
    assert len(live.neighbors("ann")) == 2
    with pytest.raises(
        EventError, match=r"row 1: 'item:tea' of kind user reads as .* write \"user:item:tea\""
    ):
        dygcn.fit(table | {"user": ["ann", "item:tea"]}, src="user", dst="item", kinds=True)
    live.update(add=[("user:item:tea", "a:b")])  # the escape
    assert ("user", "item:tea") in live
    assert "user:item:tea" in live


def test_one_type_of_ids_a_kind():
    live = dygcn.fit({"user": [1, 2], "item": ["tea", "7"]}, src="user", dst="item", kinds=True, dim=4)
    assert live.model.ids == "user:int64,item:string"
    assert ("item", "7") in live
    assert ("item", 7) not in live
    with pytest.raises(EventError, match=r"'x' is no id of kind user, whose ids are int64"):
        live.update(add=[("x", "tea")])
    with pytest.raises(EventError, match="ids of kind user are numbers and text"):
        infer_kinds(("user", "item"), [([1, "a"], "user"), ([1, 2], "item")])


def test_frames_and_tables_have_a_column_of_kinds(shop):
    frame = shop.to_pandas()
    assert frame.index.names == ["kind", "id"]
    assert frame.loc["item"].index.tolist() == [1, 2, 3, 9]
    assert shop.to_arrow().column_names == ["kind", "id", "vector"]
    edges = shop.edges()
    assert edges.column_names == ["src_kind", "src", "dst_kind", "dst", "weight"]
    again = dygcn.fit(edges, dim=8)
    assert set(again) == set(shop)
    assert again.edge_count == shop.edge_count


def test_changes_explanations_and_trials(shop):
    change = shop.update(add=[(7, 7)])
    assert set(change.ids) == {("user", 7), ("item", 7)}
    assert ("user", 7) in change.ids
    assert change.orders[change.ids == ("user", 7)].tolist() == [1]
    assert change.to_pandas().index.names == ["kind", "id"]
    assert set(shop.explain(("user", 1)).neighbors) == {("item", 1), ("item", 2)}
    before = shop.digest()
    with shop.what_if(add=[(1, 9)], remove_nodes=[("user", 7)]) as trial:
        assert len(trial.neighbors(("user", 1))) == 3
    assert shop.digest() == before
    found = shop.explain_change(("user", 1), add=[(1, 9)])
    assert found.to_pandas()["dst"].tolist() == [("item", 9)]
    assert set(shop.update(remove_nodes=[("user", 7)]).left) == {("user", 7), ("item", 7)}


def test_more_than_two_kinds():
    table = {
        "src_kind": ["user", "user", "item", "user"],
        "src": [1, 1, 1, 2],
        "dst_kind": ["item", "shop", "shop", "item"],
        "dst": [1, 1, 1, 2],
    }
    live = dygcn.fit(table, dim=4)
    assert live.model.ids == "user:int64,item:int64,shop:int64"
    assert {one.kind for one, _ in live.recommend(("shop", 1), exclude_linked=False)} == {"user", "item"}
    with pytest.raises(EventError, match="has no kind"):
        live.update(add=[(1, 2)])
    live.update({"user": [3], "shop": [4]}, src="user", dst="shop")  # columns say it by their names
    assert live.neighbors(("user", 3)).tolist() == [("shop", 4)]
    with pytest.raises(EventError, match=r"src_kind is 'users'; the kinds are user, item, shop"):
        live.update(table | {"src_kind": ["users"] * 4})


def test_saved_and_spoilt(shop, tmp_path):
    shop.save(tmp_path / "shop")
    again = dygcn.load(tmp_path / "shop")
    assert (again.digest(), list(again)) == (shop.digest(), list(shop))
    assert not Kinds(("user", "item"), ("int64", "int64")).fit(IdMap("string").read(["user:1", "shop:1"]))
    assert not Kinds(("user", "item"), ("int64", "int64")).fit(IdMap("string").read(["user:1", "item:01"]))
    assert not Kinds(("user", "item"), ("int64", "int64")).fit(IdMap("string").read([f"user:{2**63}"]))


@pytest.mark.parametrize("wrong", ["user", "user:int64", "user:float,item:int64", "a b:int64,c:int64", ""])
def test_types_that_are_none(wrong):
    with pytest.raises(OptionError):
        kinds_of(wrong)


# ---- what others hold ---------------------------------------------------------------------------------


def test_networkx_graphs_with_bipartite_are_taken_as_they_are():
    graph = nx.Graph()
    graph.add_nodes_from(["ann", "bob"], bipartite=0)
    graph.add_nodes_from([1, 2], bipartite=1)
    graph.add_edges_from([("ann", 1), (2, "ann"), ("bob", 2)])
    assert list(dygcn.fit(graph, dim=4)) == [("0", "ann"), ("0", "bob"), ("1", 1), ("1", 2)]
    live = dygcn.fit(graph, kinds=("user", "item"), dim=4)
    assert set(live) == {("user", "ann"), ("user", "bob"), ("item", 1), ("item", 2)}


def test_a_matrix_of_users_and_items():
    matrix = sparse.csr_array(np.array([[1, 0, 2], [0, 3, 0]]))
    live = dygcn.fit(matrix, kinds=("user", "item"), dim=4)
    assert (len(live), live.edge_count) == (5, 3)
    square = sparse.csr_array(np.array([[1, 1], [1, 0]]))
    assert dygcn.fit(square, kinds=("user", "item"), dim=4).edge_count == 3


def test_hetero_data():
    geometric = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    data = geometric.HeteroData()
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
    data["item", "rev_buys", "user"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 1]])
    live = dygcn.fit(data, dim=4)
    assert (set(live), live.edge_count) == ({("user", 0), ("user", 1), ("item", 0), ("item", 1)}, 3)


def test_frames_with_kinds_of_different_types(tmp_path):
    frame = pd.DataFrame({"user": [1, 2], "item": ["tea", "jam"]})
    frame.to_csv(tmp_path / "orders.csv", index=False)
    for table in (frame, tmp_path / "orders.csv"):
        live = dygcn.fit(table, src="user", dst="item", kinds=("user", "item"), dim=4)
        assert set(live) == {("user", 1), ("user", 2), ("item", "tea"), ("item", "jam")}
        live.update(tmp_path / "orders.csv", src="user", dst="item")
        assert live.edge_count == 2


def test_kinds_relations_and_features_together(tmp_path):
    random = np.random.default_rng(0)
    orders = {"user": random.integers(0, 40, 300), "item": random.integers(0, 30, 300)}
    orders["action"] = random.choice(["view", "buy"], 300)
    items = pd.DataFrame({"item": range(30), "price": random.random(30), "brand": list("abc") * 10})
    options = {"kinds": True, "relation": "action", "relation_weights": {"view": 1, "buy": 4}, "dim": 16}
    live = dygcn.fit(pd.DataFrame(orders), src="user", dst="item", nodes=items, **options)
    live.set_features(nodes=pd.DataFrame({"item": [77], "price": [0.5], "brand": ["z"]}))
    assert ("item", 77) in live
    live.update(
        [{"src": 7, "dst": 77, "relation": "buy"}, {"src": "item:3", "dst": "user:7", "relation": "view"}]
    )
    assert {("item", 77), ("item", 3)} <= set(live.neighbors(("user", 7)))
    assert live.digest() == live.recompute().digest()
    live.save(tmp_path / "all")
    assert dygcn.load(tmp_path / "all").digest() == live.digest()
    both = {"kind": ["user", "item"], "id": [1, 1], "age": [3.0, 4.0]}
    found = dygcn.fit(pd.DataFrame(orders), src="user", dst="item", kinds=True, nodes=both, dim=8)
    assert not np.array_equal(found["user", 1][-1:], found["item", 1][-1:])
    x = {("user", 1): [1.0, 0.0], ("user", 2): [0.0, 1.0], ("item", 3): [1.0, 1.0]}
    given = dygcn.fit(
        pd.DataFrame(orders),
        src="user",
        dst="item",
        kinds=True,
        features=["walks", x],
        dim=8,
    )
    assert ("item", 5) in given.set_features([("item", 5)], [[1.0, 0.0]]).ids


# ---- messages -----------------------------------------------------------------------------------------


def test_messages_name_kinds_by_place_by_field_or_in_text():
    body = b"""[{"src": 1, "dst": 1}, {"src": "item:5", "dst": "user:1", "op": "remove", "weight": -1},
        {"src": 4, "dst": 5, "src_kind": "item", "dst_kind": "user"}, {"src": "x", "dst": 1},
        {"src": 1, "dst": 1, "dst_kind": "shop"}, {"op": "forget", "id": "item:3"},
        {"op": "forget", "id": 3}]"""
    found = decode_events(body, "json", TWO)
    assert python_ids(found.batch.src).tolist() == ["user:1", "item:5", "item:4"]
    assert python_ids(found.batch.dst).tolist() == ["item:1", "user:1", "user:5"]
    assert found.rows.tolist() == [0, 1, 2]
    assert [one.id for one in found.forgets] == ["item:3"]
    assert [one.row for one in found.bad] == [3, 4, 6]
    assert "'shop' is no kind of this graph; its kinds are user, item" in found.bad[1].reason


@given(body=st.binary(max_size=60), form=st.sampled_from(["json", "ndjson", "arrow"]))
def test_any_bytes_are_decoded_or_bad(body, form):
    found = decode_events(body, form, TWO)
    assert found.total == len(found.batch) + len(found.bad) + len(found.forgets)


def test_a_folder_whose_ids_have_other_kinds_is_damaged(shop, tmp_path):
    from tests.live.test_files import put, reseal  # noqa: PLC0415

    shop.save(tmp_path / "shop")
    reseal(tmp_path / "shop", change_settings=lambda settings: put(settings, "ids", "user:int64,thing:int64"))
    with pytest.raises(DamagedFolder, match="another kind"):
        dygcn.load(tmp_path / "shop")


# ---- what was tried to merge nodes --------------------------------------------------------------------


def test_a_batch_that_was_read_without_kinds_gets_them(shop, tmp_path):
    shop.update(read_events([(60, 60)]))
    assert {("user", 60), ("item", 60)} <= set(shop)
    with pytest.raises(EventError, match="is no id of kind user"):
        shop.update(read_events([("zed", "q")]))
    live = dygcn.fit(read_events([(1, 1), (1, 2)]), kinds=("user", "item"), dim=4)
    assert list(live) == [("item", 1), ("item", 2), ("user", 1)]
    shop.save(tmp_path / "shop")
    assert dygcn.load(tmp_path / "shop").digest() == shop.digest()


@pytest.mark.parametrize("beside", [[], [{"src": "q", "dst": "x"}], [{"src": 1.5, "dst": "x"}]])
def test_an_id_beside_its_kind_is_taken_literally_whatever_else_is_in_the_message(beside):
    row = {"src": "item:7", "src_kind": "user", "dst": "x", "dst_kind": "item"}
    found = decode_events(json.dumps([row, *beside]).encode(), "json", "user:string,item:string")
    assert python_ids(found.batch.src)[0] == "user:item:7"


def test_recommend_never_answers_for_a_node_of_another_kind():
    live = dygcn.fit({"user": [1, 1, 2, 3], "item": [1, 2, 2, 9]}, src="user", dst="item", kinds=True, dim=4)
    with pytest.raises(UnknownNode, match=r"\('user', 9\)"):
        live.recommend(9)


def test_both_ends_never_get_one_kind_by_mistake(shop):
    named = {"src": "user", "dst": "friend"}
    live = dygcn.fit({"user": [1, 2], "friend": [1, 2]}, **named, kinds=("follower", "user"), dim=4)
    assert set(live) == {("follower", 1), ("follower", 2), ("user", 1), ("user", 2)}
    shop.update({"item": [50], "who": [60]}, src="item", dst="who")
    assert {("item", 50), ("user", 60)} <= set(shop)
    with pytest.raises(OptionError, match="differ by more than case"):
        dygcn.fit([(1, 1)], kinds=("User", "user"))


def test_kinds_that_do_not_fit_the_table_are_refused():
    with pytest.raises(OptionError, match="two columns of ids: name two"):
        dygcn.fit([(1, 1), (1, 2)], kinds=("a", "b", "c"))
    with pytest.raises(EventError, match="there is no column 'dst_kind'"):
        dygcn.fit({"src": [1, 2], "dst": [1, 1], "src_kind": ["user"] * 2})
    table = {"src": [1], "dst": [1], "src_kind": ["u"], "dst_kind": ["item"]}
    with pytest.raises(EventError, match=r"'u' is the kind of a node, and kinds= names user, item"):
        dygcn.fit(table, kinds=("user", "item"))
    mixed = {"src": [1, "a"], "dst": [1, 2], "src_kind": ["u", "v"], "dst_kind": ["i", "i"]}
    assert dygcn.fit(mixed, dim=4).model.ids == "u:int64,v:string,i:int64"


def test_arrays_of_ids_compare_with_tuples_and_lists(shop):
    ids = shop.ids()
    assert (ids != ("item", 1)).sum() == len(ids) - 1
    assert (ids == list(shop)).all()
    assert np.str_("user:1") in shop
    with pytest.raises(OptionError, match="kind is ''"):
        shop.nearest(("user", 1), kind="")


def test_a_graph_comes_back_from_networkx_with_its_kinds(shop):
    assert set(dygcn.fit(shop.to_networkx(), dim=4)) == set(shop)
    graph = nx.Graph([(1, 2), (2, 3)])
    nx.set_node_attributes(graph, 0, "bipartite")
    assert list(dygcn.fit(graph, dim=4)) == [1, 2, 3]  # one side alone is no kind


def test_tables_of_nodes_by_index_and_by_the_name_of_a_kind():
    orders = {"user": [1, 2, 3], "item": [1, 1, 2]}
    users = pd.DataFrame({"age": [30.0, 40.0], "code": pd.Categorical([1, 2])}, pd.Index([1, 2], name="user"))
    live = dygcn.fit(orders, src="user", dst="item", kinds=True, nodes=users, dim=8)
    assert live.model.projection.columns.forms == ("number", "value")
    live.set_features(nodes={"item": [7], "age": [None], "code": ["2"]})
    assert ("item", 7) in live


def hunt_long_messages():
    """Every bad row of a long message is a dead letter; the first thousand have a reason of their own."""
    bad, good = {"src": "x", "dst": 1}, {"src": 1, "dst": 2}
    found = decode_events(json.dumps([bad] * 1500 + [good]).encode(), "json", TWO)
    assert len(found.batch) == 1
    assert [one.row for one in found.bad] == list(range(1500))
    own = ["'x' is no id of kind" in one.reason for one in found.bad]
    assert own == [True] * 1000 + [False] * 500
    assert all(one.reason.startswith("src: no id of a kind") for one in found.bad[1000:])


def test_long_messages_of_bad_ids_explain_a_thousand():
    hunt_long_messages()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("keep[list(reasons)] = False", "keep[list(reasons)[:1000]] = False"),
        ("few = len(reasons) < _EXPLAINED", "few = True"),
    ],
)
def test_a_seeded_bug_of_bad_rows_is_noticed(tmp_path, line, wrong):
    assert_noticed(tmp_path, "dygcn.engine.events.row_errors", line, wrong, hunt_long_messages)


@given(st.one_of(st.text(), st.integers(), st.tuples(st.text(), st.integers()), st.none(), st.booleans()))
def test_text_is_missing_exactly_where_an_error_is_raised(one):
    kinds = kinds_of(TWO)
    for kind in (None, *kinds.names):
        text = kinds.text_of(one, kind)
        if text is None:
            with pytest.raises(EventError):
                kinds.written(one, kind)
        else:
            assert kinds.written(one, kind) == text
