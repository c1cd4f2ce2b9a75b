"""What new users met on their first day, one test for each: it was so once, and is not any more.

Other tests look at each of these in depth; here is the least that a new user would notice.
"""

import copy
import inspect
import json
import pickle
import re
import subprocess
import sys
import time
import tomllib
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.csv
import pytest
from click.testing import CliRunner

import dygcn
from dygcn import _progress, cluster
from dygcn.cli import main
from dygcn.client.operations import Operations
from dygcn.engine.records import DEFAULT_K
from dygcn.schema import requests
from dygcn.serving import service
from dygcn.serving.service.app import ROUTES
from tests.end_to_end import test_core_install

ROOT = Path(__file__).parents[2]
FRIENDS = [("ann", "bob"), ("bob", "cat"), ("cat", "dan")]


@pytest.fixture
def live():
    return dygcn.fit(FRIENDS, dim=8)


@pytest.fixture(scope="module")
def learned():
    random = np.random.default_rng(0)
    ends = random.integers(0, 60, (2, 1500))
    return dygcn.fit({"src": ends[0], "dst": ends[1] + 60, "t": np.arange(1500) // 75}, dim=8)


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


# ---- installing and starting -----------------------------------------------------------------------------


def test_core_install_help_needs_no_extra():
    for command in ((), ("serve",), ("run",)):
        done = test_core_install.dygcn(*command, "--help")
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.large
def test_first_run_takes_seconds_and_not_a_minute():
    script = (
        "import time, dygcn\n"
        f"live = dygcn.fit({FRIENDS!r})\n"
        "live.update(add=[('dan', 'eve')])\n"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 10  # it was 54


@pytest.mark.large
def test_fit_of_3000_events_takes_seconds():
    random = np.random.default_rng(0)
    events = {"src": random.integers(0, 500, 3000), "dst": random.integers(500, 1000, 3000)}
    begun = time.process_time()
    dygcn.fit(events, progress=False)
    assert time.process_time() - begun < 10  # it was 43


def test_extras_the_product_needs_no_torch():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not [one for one in needed if "torch" in one or "cuda" in one]


def test_typing_is_shipped():
    assert resources.files("dygcn").joinpath("py.typed").is_file()


def test_progress_is_one_bar_with_named_phases_and_lines_outside_terminals(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    random = np.random.default_rng(0)
    rows = np.stack([random.integers(0, 40, 600), random.integers(40, 80, 600), np.arange(600) // 30], axis=1)
    np.savetxt(tmp_path / "e.csv", rows, "%d", ",", header="src,dst,t", comments="")
    done = run("fit", tmp_path / "e.csv", "--out", tmp_path / "f", "--dim", 8)
    *lines, last = [line.removeprefix("dygcn: ") for line in done.stderr.splitlines()]
    phases = "playing events", "factorising walks", "looking at held-out steps", "factorising walks", "saving"
    assert [line.partition(":")[0] for line in lines] == list(phases)
    shown = [int(line.partition(": ")[2].partition("%")[0]) for line in lines]
    assert shown == sorted(shown)
    assert last.startswith("done in")


# ---- events in -------------------------------------------------------------------------------------------


def test_a_weight_is_never_silently_a_time():
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=5.0)
    with pytest.raises(dygcn.EventError, match="weight or a time") as caught:
        dygcn.fit([("a", "b", 5.0)])
    assert 'columns=("src", "dst", "weight")' in str(caught.value)
    for live in (
        dygcn.fit([("a", "b", 5.0)], dim=4, columns=("src", "dst", "weight")),
        dygcn.fit(graph.edges(data="weight"), dim=4, columns=("src", "dst", "weight")),
        dygcn.fit(graph, dim=4),
    ):
        assert live.edges()["weight"].to_pylist() == [5.0]
        assert live._state.graph.clock is None


def test_other_column_names_are_named_in_fit_update_and_on_the_command_line(tmp_path):
    pd, nx = pytest.importorskip("pandas"), pytest.importorskip("networkx")
    frame = pd.DataFrame({"user_id": ["u1", "u2"], "item_id": ["i1", "i1"], "when": [1, 2]})
    names = {"src": "user_id", "dst": "item_id", "t": "when"}
    live = dygcn.fit(frame, dim=4, **names)
    live.update(frame.replace("u1", "u3"), **names)
    assert live.neighbors("i1").tolist() == ["u1", "u2", "u3"]
    frame.to_csv(tmp_path / "e.csv", index=False)
    options = [word for name, column in names.items() for word in (f"--{name}", column)]
    run("fit", tmp_path / "e.csv", "--out", tmp_path / "f", "--dim", 4, *options)
    with pytest.raises(dygcn.EventError, match='src="source", dst="target"'):
        dygcn.fit(nx.to_pandas_edgelist(nx.path_graph(3)))


def test_networkx_igraph_scipy_and_an_edge_index_are_events():
    nx, igraph, sparse = map(pytest.importorskip, ("networkx", "igraph", "scipy.sparse"))
    graph = nx.karate_club_graph()
    pairs = np.array(graph.edges()).T
    matrix = sparse.coo_array((np.ones(78), pairs), (34, 34))
    for events in (graph, graph.edges, igraph.Graph(n=34, edges=list(graph.edges())), matrix, pairs):
        live = dygcn.fit(events, dim=4)
        assert (len(live), live.edge_count) == (34, 78)


def test_tensors_and_data_of_geometric_are_events():
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    pairs = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]])
    for events in (
        pairs,
        data.Data(edge_index=pairs),
        data.TemporalData(src=pairs[0], dst=pairs[1], t=torch.arange(6)),
    ):
        assert dygcn.fit(events, dim=4).edge_count == 6


def test_an_error_is_never_longer_than_a_screen():
    for events in ([["x"] * 100_000], {f"c{i}": [1] for i in range(100_000)}, [object()] * 100_000):
        with pytest.raises(dygcn.EventError) as caught:
            dygcn.fit(events)
        assert len(str(caught.value)) <= 500


def test_a_data_set_is_named_in_python_too():
    assert dygcn.fit("hepth-collab", dim=4, steps=2, progress=False).edge_count > 10_000


# ---- asking ----------------------------------------------------------------------------------------------


def test_recommending_is_by_the_learned_score_without_known_links(learned):
    found = learned.recommend(3, k=5, among=range(60, 120))
    assert learned.model.score_kind() == "log-odds"
    assert not {item for item, _ in found} & set(learned.neighbors(3).tolist())
    assert [score for _, score in found] == pytest.approx(learned.score(3, [item for item, _ in found]))
    assert {item for item, _ in found} <= set(range(60, 120))


def test_reading_the_graph(live):
    assert live.neighbors("bob").tolist() == ["ann", "cat"]
    assert len(live.neighbors("bob")) == 2
    assert live.edges().num_rows == 3
    assert set(zip(*live.edges().to_pydict().values(), strict=True)) == {
        (*sorted(edge), 1.0) for edge in FRIENDS
    }


def test_matrices_out(live):
    pytest.importorskip("pandas")
    whole = live.vectors()
    assert whole.shape == (4, 8)
    assert np.array_equal(live.vectors(["bob"])[0], live["bob"])
    assert np.array_equal(live.to_pandas().loc["cat"], live["cat"])
    assert live.to_arrow().column_names == ["id", "vector"]
    with pytest.raises(TypeError, match=r"live.vectors\(\)"):
        np.asarray(live)


def test_score_says_what_it_is(live, learned, tmp_path):
    assert (live.model.score_kind(), learned.model.score_kind()) == ("cosine", "log-odds")
    assert 0 < learned.score(3, 70, probability=True) < 1
    live.save(tmp_path / "f")
    assert json.loads(run("score", tmp_path / "f", "ann", "bob", "--json").stdout)["score_kind"] == "cosine"
    assert "cosine" in run("score", tmp_path / "f", "ann", "bob").stdout


def test_pickle_is_always_refused_and_deepcopy_always_works(live):
    for _ in range(2):
        with pytest.raises(TypeError, match=r"live.save\(path\)"):
            pickle.dumps(live)
        assert copy.deepcopy(live).digest() == live.digest()
        live.update(add=[("dan", "eve")])


# ---- the command line ------------------------------------------------------------------------------------


def test_vector_out_obeys_the_suffix(live, tmp_path):
    live.save(tmp_path / "f")
    run("vector", tmp_path / "f", "--out", tmp_path / "v.csv")
    assert pyarrow.csv.read_csv(tmp_path / "v.csv").num_rows == 4
    assert run("vector", tmp_path / "f", "--out", "-").stdout == (tmp_path / "v.csv").read_text()
    run("vector", tmp_path / "f", "--out", tmp_path / "v.doc", code=2)


def test_ctrl_c_and_a_misspelt_command(monkeypatch, live, tmp_path):
    live.save(tmp_path / "f")
    assert "did you mean `dygcn fit`?" in run("ft", code=2).stderr

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dygcn.cli.options.load_as_of", interrupted)
    run("nearest", tmp_path / "f", "ann", code=130)


def test_repr_of_a_model_is_one_line(live, learned):
    assert repr(live.model) == (
        "Model(dim=8, orders=2, rule='exact', features='walks', rows=4, ids='string', directed=False, "
        "links='cosine')"
    )
    assert repr(learned.model).endswith("links='new, all, next')")
    hashed = dygcn.fit({"src": [1], "dst": [2], "t": [3]}, dim=4, features="hashed", memory=2.5)
    assert "features='hashed', ids='int64', directed=False, memory=2.5" in repr(hashed.model)


def test_json_is_all_that_machines_see(live, tmp_path):
    live.save(tmp_path / "f")
    done = run("info", tmp_path / "f", "--json")
    assert json.loads(done.stdout)["nodes"] == 4
    assert done.stderr == ""


# ---- errors that were to be mended -----------------------------------------------------------------------


def test_ragged_features_are_told_by_their_row():
    with pytest.raises(dygcn.DygcnError, match="row 1 has 1 values, row 0 has 2"):
        dygcn.fit(FRIENDS, features=(["ann", "bob"], [[1, 2], [3]]))


def test_columns_by_place_are_told_by_keyword():
    with pytest.raises(dygcn.DygcnError, match=r"fit\(df, src='src', dst='dst'\)"):
        dygcn.fit({"src": [1], "dst": [2]}, "src", "dst")


def test_a_small_edge_index_is_told_how_to_say_so():
    pairs = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    with pytest.raises(dygcn.EventError, match="if it is an edge_index, say columns="):
        dygcn.fit(pairs)
    assert dygcn.fit(pairs, columns=("src", "dst"), dim=4).edge_count == 5


NAMES = {"src": "user", "dst": "item", "t": "time", "op": "sign", "weight": "stars"}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"time": ["yesterday", "today"]}, "column 'time' holds string; allowed are numbers and dates"),
        ({"time": [1.0, float("nan")]}, "row 1: time is missing .* or no time at all"),
        ({"item": ["i1", None]}, "row 1: column 'item' "),
        ({"user": [1, 2]}, "user holds int64 ids and item string; one type a graph: .astype.str. makes"),
        ({"user": [1.0, 2.0]}, "column 'user' holds float; .*; .astype.\"int64\". makes integers"),
        ({"sign": [1, 3]}, "row 1: sign is 3; allowed"),
        ({"stars": [1, -3]}, "row 1: stars is -3; allowed"),
        ({"stars": [1]}, "column 'stars' has 1 rows"),
        ({"item": ["i1"]}, "column 'item' has 1 rows, user has 2"),
    ],
)
def test_errors_call_columns_as_the_user_does(wrong, reason):
    right = {"user": ["u1", "u2"], "item": ["i1", "i1"], "time": [1, 2], "sign": [1, 1], "stars": [1, 1]}
    with pytest.raises(dygcn.EventError, match=reason):
        dygcn.fit(right | wrong, **NAMES)
    pd = pytest.importorskip("pandas")
    if all(len(values) == 2 for values in wrong.values()):
        with pytest.raises(dygcn.EventError, match=reason):
            dygcn.fit(pd.DataFrame(right | wrong), **NAMES)


def test_a_misspelt_kind_of_features_is_guessed():
    with pytest.raises(dygcn.DygcnError, match="features is 'walk'; did you mean 'walks'"):
        dygcn.fit(FRIENDS, features="walk")


@pytest.mark.parametrize("events", [[(1, 1)], [("a", "a"), ("bcd", "bcd")]])
def test_self_loops_alone_are_refused(events):
    with pytest.raises(dygcn.EventError, match="every event is a self loop"):
        dygcn.fit(events)
    features = {one: [1.0, 2.0] for one, _ in events}
    assert len(dygcn.fit(events, dim=2, features=features)) == len(events)
    assert dygcn.fit([("ab", "c"), ("d", "abc")], dim=2).edge_count == 2


# ---- asking ------------------------------------------------------------------------------------------------


def test_k_has_one_default_everywhere(live):
    questions = "nearest", "recommend", "explain", "what_if"
    asked = [inspect.signature(getattr(Operations, name)).parameters["k"].default for name in questions]
    asked += [inspect.signature(getattr(live, name)).parameters["k"].default for name in questions[:2]]
    for wanted in (requests.NearestRequest, requests.RecommendRequest, requests.WhatIfRequest):
        asked += [field.default for field in msgspec.structs.fields(wanted) if field.name == "k"]
    for name in ("nearest", "recommend", "explain", "what-if"):
        command = main.get_command(None, name)
        asked += [option.default for option in command.params if option.name == "k"]
    assert asked == [DEFAULT_K] * 13
    said = [param.about for route in ROUTES for param in route.params if param.name == "k"]
    assert said
    assert all(f"{DEFAULT_K} by default" in text for text in said)
    page = (Path(service.__file__).parent / "page.html").read_text()
    assert re.findall(r"nearest[^\n]*\bk\b ?[:=]", page) == []  # it takes what the service says


def test_a_sink_and_a_source_of_ones_own_are_checked_as_contributing_says():
    done = test_core_install.python("from dygcn.testing import check_sink, check_source")
    assert (done.returncode, done.stderr) == (0, "")


def test_nodes_are_removed_by_update_as_in_a_trial(live, tmp_path):
    twin, sharded = copy.deepcopy(live), tmp_path / "sharded"
    for folder in (tmp_path / "durable", sharded):
        live.save(folder)
    with dygcn.open(tmp_path / "durable") as durable, cluster.launch(sharded, 2, on="here") as shards:
        wanted = twin.update(remove_nodes=["cat", "nobody"])
        with live.what_if(remove_nodes=["cat"]) as trial:
            tried = sorted(trial.ids().tolist())
        for one in (live, durable, shards):
            change = one.update(remove_nodes=["cat", "nobody"])
            assert (sorted(change.left), change.missing) == (sorted(wanted.left), 1)
            assert sorted(one.ids().tolist()) == tried == sorted(twin.ids().tolist())
            assert one.digest() == twin.digest()
            for more in (
                {"add": [("a", "b")]},
                {"remove": [("ann", "bob")]},
                {"events": FRIENDS},
                {"now": 3},
            ):
                with pytest.raises(
                    dygcn.errors.OptionError, match="remove_nodes= goes alone; make two updates"
                ):
                    one.update(remove_nodes=["ann"], **more)
        with pytest.raises(dygcn.errors.OptionError, match="goes alone"):
            durable.update(remove_nodes=["ann"], stream="s", offset=3)
        assert one.digest() == twin.digest()
    with dygcn.open(tmp_path / "durable") as again:
        assert again.digest() == twin.digest()


# ---- first calls that were answered in words of others -----------------------------------------------------


def answered(call, *words):
    """Return the error of a call, which has all of the words."""
    with pytest.raises((TypeError, AttributeError, dygcn.DygcnError)) as caught:
        call()
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert len(said) <= 500
    return said


def test_two_columns_without_a_table_are_told_their_names():
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame({"user_id": ["u1", "u2"], "item_id": ["i1", "i2"]})
    said = answered(lambda: dygcn.fit(df.user_id, df.item_id), "name the columns: ")
    call = said.partition("name the columns: ")[2].partition(", or pass")[0]
    assert len(eval(f"dygcn.{call}", {"dygcn": dygcn, "df": df})) == 4
    answered(lambda: dygcn.fit([1, 2], [2, 3]), 'src="...", dst="..."', '{"src": ..., "dst": ...}')
    answered(lambda: dygcn.fit(np.arange(3), np.arange(3)), "name the columns")


@pytest.mark.parametrize(
    "graph",
    [
        {"a": ["b", "c"]},
        {"a": ["b"], "b": ["a"]},
        {1: [2], 2: [1]},
        {"a": {"b", "c"}, "b": {"a"}},
        {"a": {"b": {"weight": 1}}, "b": {}},
        {"ann": ["bob", "cat"], "bob": ["dan"]},
    ],
)
def test_an_adjacency_dict_is_told_how_it_becomes_edges(graph):
    said = answered(lambda: dygcn.fit(graph), "adjacency dict")
    edges = eval(said.partition("pass its edges: ")[2].partition(";")[0], {"graph": graph})
    assert dygcn.fit(edges, dim=4).edge_count >= 1
    with pytest.raises(dygcn.EventError, match="adjacency dict"):
        dygcn.fit([(9, 8)], dim=4).update(graph)


def test_columns_of_other_names_are_no_adjacency_dict():
    answered(lambda: dygcn.fit({"user": ["ann", "bob"], "item": ["tea", "tea"]}), 'src="user", dst="item"')
    answered(lambda: dygcn.fit({"who": np.arange(2), "what": np.arange(2)}), "there is no column 'src'")


def test_mixed_types_in_a_column_are_told_how_they_become_one():
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame({"src": [1, "b", 3], "dst": ["x", "y", "z"]})
    answered(lambda: dygcn.fit(df), "row 1: column 'src' holds int and str", ".astype(str) makes strings")
    assert len(dygcn.fit(df.astype(str), dim=4)) == 6
    df = pd.DataFrame({"src": [1, 2], "dst": [3, 4], "note": [1, "b"]})  # a column that nobody asked for
    assert len(dygcn.fit(df, dim=4)) == 4


def test_a_missing_date_is_told_by_its_row():
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "date": pd.to_datetime(["2026-01-01", None])})
    answered(lambda: dygcn.fit(df, t="date"), "row 1: date is missing (NaN, NaT or an empty cell)")


def test_names_that_other_libraries_have(live):
    for name in ("topn", "top_k", "n_neighbors"):
        for call in (live.nearest, live.recommend):
            answered(lambda call=call, name=name: call("ann", **{name: 3}), name, "k= is how many nodes")
    answered(lambda: dygcn.fit_transform(FRIENDS), "dygcn.fit(events).vectors()", "NodeEmbedder")
    answered(
        lambda: dygcn.fit([(1, 2)], memory="a week"), "'a week'", "datetime.timedelta(days=7)", "units of t"
    )
