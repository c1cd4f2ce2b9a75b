"""Graphs and tensors of other libraries, each with the real library: the batch is that of the plain table."""

import os
import subprocess
import sys
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.events import adapters, read_events, read_update
from dygcn.errors import EventError, OptionError
from tests.engine.events.test_bare_rows import same
from tests.live.crashing import begin, crash

PATH = {"src": [0, 1, 2, 3], "dst": [1, 2, 3, 4]}  # each edge once
BOTH = np.array([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])  # in both directions
TWICE = {"src": BOTH[0], "dst": BOTH[1]}
WEIGHTS = [1.5, 2.5, 3.5, 4.5]


def friends(kind="Graph"):
    networkx = pytest.importorskip("networkx")
    graph = getattr(networkx, kind)()
    graph.add_edge("ann", "bob", weight=5.0, since=3)
    graph.add_edge("bob", "cat", weight=2.0, since=1)
    return graph


FRIENDS = {"src": ["ann", "bob"], "dst": ["bob", "cat"]}
HEAVY = FRIENDS | {"weight": [5.0, 2.0]}


# ---- networkx ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_networkx(kind):
    graph = friends(kind)
    for directed in (None, False):
        same(read_events(graph, directed=directed), read_events(HEAVY))
    same(read_events(graph, t="since"), read_events(HEAVY | {"t": [3, 1]}))
    same(read_events(graph, weight="since"), read_events(FRIENDS | {"weight": [3.0, 1.0]}))
    same(read_events(graph.edges()), read_events(FRIENDS))
    assert len(read_events(type(graph)())) == len(read_events(type(graph)().edges)) == 0


def test_an_undirected_graph_has_both_directions_in_a_directed_one():
    turned = {"src": ["ann", "bob", "bob", "cat"], "dst": ["bob", "ann", "cat", "bob"]}
    same(read_events(friends(), directed=True), read_events(turned | {"weight": [5.0, 5.0, 2.0, 2.0]}))
    same(read_events(friends("DiGraph"), directed=True), read_events(HEAVY))


def test_parallel_edges_are_one_event_each():
    graph = friends("MultiDiGraph")
    graph.add_edge("ann", "bob", weight=7.0, since=9)
    wanted = {"src": ["ann", "ann", "bob"], "dst": ["bob", "bob", "cat"], "weight": [5.0, 7.0, 2.0]}
    same(read_events(graph), read_events(wanted))
    same(read_events(graph.edges()), read_events({name: wanted[name] for name in ("src", "dst")}))
    live = dygcn.fit(graph, dim=4)
    assert live.edge_count == 2


def test_edges_without_a_weight_weigh_one_and_times_are_for_all():
    graph = friends()
    graph.add_edge("cat", "dan")
    assert read_events(graph).weight.tolist() == [5.0, 2.0, 1.0]
    with pytest.raises(EventError, match="row 2: since is missing"):
        read_events(graph, t="since")
    with pytest.raises(EventError, match=r"no edge has the attribute 'age'.*attributes: weight, since"):
        read_events(graph, weight="age")


def test_the_time_of_a_graph_is_its_attribute_t():
    graph = friends()
    for _, _, data in graph.edges(data=True):
        data["t"] = data.pop("since")
    assert read_events(graph).t.tolist() == [3, 1]


def test_names_that_a_graph_does_not_have_are_refused():
    graph = friends()
    with pytest.raises(OptionError, match="names columns of a table; these events are bare rows"):
        read_events(graph.edges, t="since")
    with pytest.raises(OptionError, match="src= names a column of a table"):
        read_events(graph, src="ann")
    with pytest.raises(OptionError, match="names of their own"):
        read_events(graph, columns=("src", "dst"))


def test_nodes_that_are_no_ids_are_refused_with_what_helps():
    networkx = pytest.importorskip("networkx")
    grid, mixed = networkx.grid_2d_graph(3, 3), networkx.Graph([(1, "a")])
    for graph in (grid, mixed, networkx.Graph([(1.5, 2.5)])):
        with pytest.raises(EventError, match=r"networkx.relabel_nodes\(G, str\)"):
            read_events(graph)
    assert len(read_events(networkx.relabel_nodes(grid, str))) == grid.number_of_edges()
    assert len(read_events(networkx.convert_node_labels_to_integers(grid))) == grid.number_of_edges()


# ---- igraph and scipy --------------------------------------------------------------------------------------


def test_igraph():
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(edges=list(zip(*PATH.values(), strict=True)))
    same(read_events(graph), read_events(PATH))
    graph.es["weight"] = WEIGHTS
    graph.es["when"] = [4, 3, 2, 1]
    wanted = PATH | {"weight": WEIGHTS, "t": [4, 3, 2, 1]}
    same(read_events(graph, t="when"), read_events(wanted))
    graph.vs["name"] = ["a", "b", "c", "d", "e"]
    named = {"src": ["a", "b", "c", "d"], "dst": ["b", "c", "d", "e"], "weight": WEIGHTS}
    same(read_events(graph), read_events(named))
    assert len(read_events(graph, directed=True)) == 8
    graph.to_directed("arbitrary")
    assert len(read_events(graph, directed=True)) == 4
    graph.vs["name"] = ["a", "a", "c", "d", "e"]
    with pytest.raises(EventError, match="two vertices have the same name"):
        read_events(graph)


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_scipy(form, kind):
    sparse = pytest.importorskip("scipy.sparse")
    make = getattr(sparse, f"{form}_{kind}")
    upper = np.zeros((5, 5))
    upper[PATH["src"], PATH["dst"]] = WEIGHTS
    wanted = read_events(PATH | {"weight": WEIGHTS})
    for matrix in (make(upper), make(upper + upper.T)):
        same(read_events(matrix, directed=False), wanted)
    same(read_events(make(upper), directed=True), wanted)
    assert len(read_events(make(upper + upper.T), directed=True)) == 8
    for ones in ((upper > 0).astype(np.int64), (upper > 0).astype(float), upper > 0):
        same(read_events(make(ones)), read_events(PATH))
    with pytest.raises(EventError, match=r"a matrix of 4 x 5 .* kinds=\(\"user\", \"item\"\)"):
        read_events(make(upper[:4]))


def test_entries_of_scipy_that_come_twice_are_added():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_array(([1.0, 2.0, 3.0], ([0, 1, 0], [1, 2, 1])), shape=(3, 3))
    same(read_events(matrix), read_events({"src": [0, 1], "dst": [1, 2], "weight": [4.0, 2.0]}))
    assert matrix.nnz == 3  # the user's own is left alone
    with pytest.raises(EventError, match="weight is 0"):
        read_events(sparse.csr_array(([0.0], ([0], [1])), shape=(2, 2)))
    with pytest.raises(OptionError, match="a matrix has no names"):
        read_events(matrix, weight="w")


# ---- arrays and tensors ------------------------------------------------------------------------------------


def forms(ends):
    yield np.array(ends)
    yield np.array(ends, np.int32)
    torch = pytest.importorskip("torch")
    yield torch.tensor(np.array(ends))


def test_an_edge_index_has_two_rows():
    for ends in forms(BOTH):
        same(read_events(ends), read_events(TWICE))
        same(read_events(ends, directed=True), read_events(TWICE))
        same(read_events(ends, directed=False), read_events(PATH))
        same(read_events(ends.T), read_events(TWICE))  # rows of two columns
        same(read_events(ends[:, :7], directed=False), read_events({"src": BOTH[0, :7], "dst": BOTH[1, :7]}))


def test_a_small_edge_index_is_said_to_be_one():
    ends = ("src", "dst")
    for count in (3, 4, 5):
        for small in forms(BOTH[:, :count]):
            with pytest.raises(EventError, match=r'if it is an edge_index, say columns=\("src", "dst"\)'):
                read_events(small)
            table = {"src": BOTH[0, :count], "dst": BOTH[1, :count]}
            same(read_events(small, columns=ends), read_events(table))
            turned = {"src": BOTH[1, :count], "dst": BOTH[0, :count]}
            same(read_events(small, columns=ends[::-1]), read_events(turned))
    for two in forms([[7, 8], [9, 5]]):  # rows of two columns, as an array of any other length
        same(read_events(two), read_events([(7, 8), (9, 5)]))
        same(read_events(two, columns=ends), read_events([(7, 8), (9, 5)]))
    for one in forms([[7], [8]]):
        same(read_events(one), read_events([(7, 8)]))
    assert len(read_events(np.empty((2, 0), np.int64))) == 0


def test_two_rows_of_events_stay_events():
    rows = [[1, 2, 30, 1], [3, 4, 40, -1]]
    for form in forms(rows):
        same(read_events(form), read_events(rows))
    weighted = [[1, 2, 30, 1, 5], [3, 4, 40, -1, 6]]
    same(read_events(np.array(weighted)), read_events(weighted))


@settings(deadline=None)
@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.tuples(*[st.integers(1, 3)] * n), max_size=9)))
def test_arrays_are_read_whatever_their_shape_or_refused(rows):
    array = np.array(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 2)
    try:
        batch = read_events(array)
    except EventError:
        return
    assert len(batch) in array.shape


def test_long_rows_are_refused_with_what_helps():
    for wrong in (BOTH.tolist(), tuple(BOTH), list(BOTH)):
        with pytest.raises(EventError, match=r'pass {"src": ..., "dst": ...}'):
            read_events(wrong)
    with pytest.raises(EventError, match=r"pass scipy.sparse.coo_array\(A\)"):
        read_events(np.eye(9, dtype=int))
    with pytest.raises(EventError, match="never through floats"):
        read_events(BOTH * 1.0)


def test_tensors_are_columns():
    torch = pytest.importorskip("torch")
    src, dst = torch.tensor(BOTH)
    weight = torch.arange(1.0, 9.0, requires_grad=True)
    table = {"src": src, "dst": dst, "weight": weight, "t": torch.arange(8), "op": torch.ones(8)}
    plain = {"src": BOTH[0], "dst": BOTH[1], "weight": np.arange(1.0, 9.0), "t": np.arange(8), "op": [1] * 8}
    same(read_events(table), read_events(plain))
    with pytest.raises(EventError, match="never through floats"):
        read_events({"src": src * 1.0, "dst": dst})
    with pytest.raises(EventError, match="sparse tensor; pass"):
        read_events(torch.eye(3).to_sparse())
    with pytest.raises(EventError, match="weight cannot be read"):
        read_events({"src": src, "dst": dst, "weight": weight.detach().to(torch.bfloat16)})


# ---- PyG ---------------------------------------------------------------------------------------------------


def test_data_of_geometric():
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    index, heavy = torch.tensor(BOTH), torch.tensor(np.repeat(WEIGHTS, 2))
    weighted = read_events(PATH | {"weight": WEIGHTS})
    same(read_events(data.Data(edge_index=index, x=torch.ones(5, 2)), directed=False), read_events(PATH))
    for more in ({"edge_weight": heavy}, {"edge_attr": heavy}, {"edge_attr": heavy[:, None]}):
        same(read_events(data.Data(edge_index=index, **more), directed=False), weighted)
    same(read_events(data.Data(edge_index=index, edge_attr=torch.ones(8, 3))), read_events(TWICE))
    for name, given_name in (("edge_time", None), ("t", None), ("time", "time")):
        timed = data.Data(edge_index=index, **{name: torch.arange(8)})
        same(read_events(timed, t=given_name), read_events(TWICE | {"t": np.arange(8)}))
        # Other times in the other direction: these are eight contacts.
        assert len(read_events(timed, directed=False, t=given_name)) == 8
    with pytest.raises(EventError, match="'t' has 3 rows"):
        read_events(data.Data(edge_index=index, t=torch.arange(3)), directed=False)
    for wrong in (data.Data(), data.HeteroData()):
        with pytest.raises(EventError, match="has no edge_index of two rows"):
            read_events(wrong)


def test_temporal_data_of_geometric():
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    src, dst = torch.tensor(BOTH)
    contacts = data.TemporalData(
        src=src, dst=dst, t=torch.arange(8), msg=torch.ones(8, 3), y=torch.ones(8) * 2
    )
    same(read_events(contacts, directed=False), read_events(TWICE | {"t": np.arange(8)}))
    weighted = read_events(contacts, weight="y")
    assert weighted.weight.tolist() == [2.0] * 8


# ---- ids, frames and doors ---------------------------------------------------------------------------------


def test_uuids_are_text():
    ends = [uuid.UUID(int=7), uuid.UUID(int=9)]
    wanted = read_events([tuple(map(str, ends))])
    table = {"src": ends[:1], "dst": ends[1:]}
    polars = pytest.importorskip("polars")
    for events in ([tuple(ends)], table, [{"src": ends[0], "dst": ends[1]}], polars.DataFrame(table)):
        same(read_events(events), wanted)
    same(read_events({"src": np.array(ends[:1]), "dst": np.array(ends[1:])}), wanted)
    same(read_update(None, [tuple(ends)], None, None), wanted)
    live = dygcn.fit([tuple(ends)], dim=4)
    live.update(add=[(ends[0], uuid.UUID(int=8))])
    np.testing.assert_array_equal(live.vectors(ends), live.vectors(list(map(str, ends))))
    assert ends[0] in live
    assert uuid.UUID(int=5) not in live
    assert uuid.UUID(int=5) not in dygcn.fit([(1, 2)], dim=4)
    moved, as_text = (live.explain_change(one, remove=[tuple(ends)]) for one in (ends[0], str(ends[0])))
    assert moved.before.any()
    np.testing.assert_array_equal(moved.by_event, as_text.by_event)
    with pytest.raises(EventError, match="holds UUID and str"):
        read_events({"src": [ends[0], "a"], "dst": ["b", "c"]})


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no UUIDs")
def test_uuids_of_arrow_and_pandas_are_text():
    ends = [uuid.UUID(int=7), uuid.UUID(int=9)]
    table = {"src": ends[:1], "dst": ends[1:]}
    wanted = read_events([tuple(map(str, ends))])
    stored = {name: pa.array([one.bytes for one in ids], pa.uuid()) for name, ids in table.items()}
    for events in (pa.table(stored), pd.DataFrame(table)):
        same(read_events(events), wanted)


def test_lazy_frames_are_collected():
    polars = pytest.importorskip("polars")
    same(read_events(polars.LazyFrame(PATH)), read_events(PATH))
    same(read_events(polars.LazyFrame(PATH).filter(polars.col("src") > 1)), read_events([(2, 3), (3, 4)]))


def test_graphs_pass_every_door(tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(5)
    live = dygcn.fit(graph, dim=4)
    assert live.digest() == dygcn.fit(PATH, dim=4).digest()
    assert dygcn.fit(BOTH, dim=4).digest() == live.digest()
    assert dygcn.fit(graph, dim=4, directed=True).edge_count == 8
    change = live.update(remove=graph.edges, add=networkx.cycle_graph(4))
    assert (live.edge_count, change.missing) == (4, 0)
    assert live.bulk([graph, BOTH]).version == 2
    durable = begin(tmp_path / "x")
    durable.update(graph)
    durable.update(add=BOTH)
    assert durable.edge_count == 4
    crash(durable)
    same(read_update(None, None, graph, None), read_update(None, None, PATH, None))


def test_nothing_is_imported_for_a_plain_table():
    script = (
        "import sys, dygcn\n"
        "dygcn.fit({'src': [1, 2, 3], 'dst': [2, 3, 1]}, dim=4).update(add=[(1, 4)])\n"
        "print(*sorted({'networkx', 'scipy', 'torch', 'torch_geometric', 'polars', 'igraph', 'pandas'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


# ---- seeded bugs -------------------------------------------------------------------------------------------


def test_edges_that_come_twice_would_be_noticed(monkeypatch):
    monkeypatch.setattr(adapters, "_each_once", lambda columns, directed: columns)
    with pytest.raises(AssertionError):
        test_an_edge_index_has_two_rows()


def test_a_direction_that_is_lost_would_be_noticed(monkeypatch):
    monkeypatch.setattr(adapters, "_both_ways", lambda columns: columns)
    with pytest.raises(AssertionError):
        test_an_undirected_graph_has_both_directions_in_a_directed_one()
