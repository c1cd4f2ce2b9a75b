"""Tables that call their columns otherwise: the batch is that of the same table with our names."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dygcn
from dygcn.engine.events import column_names, read_events, read_update
from dygcn.errors import DatasetError, EventError, OptionError
from tests.cli.test_commands import run, run_json
from tests.engine.events.test_bare_rows import same

OURS = {"src": [7, 8], "dst": [6, 9], "t": [2, 1], "op": [1, -1], "weight": [0.5, 2.0]}
NAMES = {"src": "user_id", "dst": "item_id", "t": "when", "op": "sign", "weight": "rating"}
THEIRS = {NAMES[field]: values for field, values in OURS.items()}


def forms(table, folder):
    """Yield a table in every form that has names."""
    frame = pd.DataFrame(table)
    yield table
    yield frame
    yield frame.to_dict("records")
    yield pa.table(table)
    yield pa.RecordBatch.from_pydict(table)
    frame.to_csv(folder / "e.csv", index=False)
    frame.to_csv(folder / "e.tsv", index=False, sep="\t")
    frame.to_json(folder / "e.ndjson", orient="records", lines=True)
    pq.write_table(pa.table(table), folder / "e.parquet")
    for ending in ("csv", "tsv", "ndjson", "parquet"):
        yield folder / f"e.{ending}"
        yield str(folder / f"e.{ending}")
    polars = pytest.importorskip("polars")
    yield polars.DataFrame(table)
    yield polars.LazyFrame(table)


@pytest.mark.parametrize("text", [False, True])
def test_named_columns_are_read(tmp_path, text):
    ends = {end: [f"n{one}" if text else one for one in OURS[end]] for end in ("src", "dst")}
    ours = OURS | ends
    wanted = read_events(ours)
    for form in forms({NAMES[field]: values for field, values in ours.items()}, tmp_path):
        same(read_events(form, **NAMES), wanted)
    for form in forms(ours, tmp_path):
        same(read_events(form), wanted)


def test_what_is_not_named_has_our_name(tmp_path):
    table = {"user_id": [1], "item_id": [2], "t": [5], "src": [9], "other": ["x"]}
    for form in forms(table, tmp_path):
        batch = read_events(form, src="user_id", dst="item_id")
        same(batch, read_events({"src": [1], "dst": [2], "t": [5]}))


def test_a_column_is_one_thing_only():
    table = {"src": [1], "dst": [2], "weight": [5]}
    batch = read_events(table, t="weight")
    assert (batch.t.tolist(), batch.weight) == ([5], None)
    with pytest.raises(OptionError, match="src and t name the same column, 'dst'"):
        read_events(table, src="dst", t="dst")
    swapped = read_events(table, src="dst", dst="src")
    assert swapped.src.values.tolist() == [2]


def test_ids_of_text_files_are_ids_whatever_their_column(tmp_path):
    (tmp_path / "e.csv").write_text("who,what\n007,2026-01-01\n008,2026-01-02\n")
    names = {"src": "who", "dst": "what"}
    batch = read_events(tmp_path / "e.csv", **names)
    same(batch, read_events([("007", "2026-01-01"), ("008", "2026-01-02")]))
    assert read_events(tmp_path / "e.csv", "string", **names).src.kind == "string"
    (tmp_path / "e.csv").write_text("who,what\n1.0,2.0\n")
    with pytest.raises(EventError, match="written as floats"):
        read_events(tmp_path / "e.csv", **names)


LIKELY = {
    "source target": 'src="source", dst="target"',
    "source target weight": 'src="source", dst="target"',
    "from to": 'src="from", dst="to"',
    "user item": 'src="user", dst="item"',
    "user_id item_id rating timestamp": 'src="user_id", dst="item_id", t="timestamp"',
    "userId movieId rating": 'src="userId", dst="movieId"',
    "u v w": 'src="u", dst="v", weight="w"',
    "head relation tail": 'src="head", dst="tail"',
    "sender receiver date": 'src="sender", dst="receiver", t="date"',
    "Source Target t": 'src="Source", dst="Target"',
    "from_node to_node": 'src="from_node", dst="to_node"',
    "src target": 'dst="target"',
    "source_id dst": 'src="source_id"',
    "id name": 'as in src="user", dst="item"',
    "i": 'as in src="user", dst="item"',
}


@pytest.mark.parametrize("columns", LIKELY)
def test_the_error_has_the_call(columns):
    """And the call works."""
    table = {name: [1, 2] for name in columns.split()}
    for form in (table, pd.DataFrame(table)):
        with pytest.raises(EventError) as caught:
            read_events(form)
        assert LIKELY[columns] in str(caught.value)
        assert f"columns: {', '.join(columns.split())}" in str(caught.value)
    if "as in" not in LIKELY[columns]:
        assert len(eval(f"read_events(table, {LIKELY[columns]}, shared_ids=True)")) == 2


def test_an_edge_list_of_networkx_is_refused_with_the_call():
    networkx = pytest.importorskip("networkx")
    frame = networkx.to_pandas_edgelist(networkx.path_graph(3))
    with pytest.raises(EventError, match='src="source", dst="target"'):
        dygcn.fit(frame)
    assert dygcn.fit(frame, src="source", dst="target", dim=4).edge_count == 2


def test_names_that_are_not_there_or_not_for_these_events():
    for names, reason in (({"src": "who"}, "'who', as src= says"), ({"t": "when"}, "'when', as t= says")):
        with pytest.raises(EventError, match=reason):
            read_events({"src": [1], "dst": [2]}, **names)
    for rows in ([(1, 2, 3)], [], pd.DataFrame(OURS).to_numpy()):
        with pytest.raises(OptionError, match="these events are bare rows"):
            read_events(rows, t="when")
    with pytest.raises(OptionError, match="were read before"):
        read_events(read_events(OURS), t="when")
    with pytest.raises(OptionError, match="names of their own"):
        read_events(OURS, columns=("src", "dst"), t="when")
    for wrong in (3, ["user"], pd.Series([1, 2]), b"user"):
        with pytest.raises(OptionError, match="allowed is the name of a column"):
            read_events(OURS, src=wrong)


def test_both_sides_of_an_update():
    table, names = {"user": [1], "item": [2]}, {"src": "user", "dst": "item"}
    batch = read_update(None, table, [(3, 4)], None, **names)
    same(batch, read_update(None, [(1, 2)], [(3, 4)], None))
    same(read_update(table, None, None, "int64", **names), read_events([(1, 2)]))
    same(read_update(None, table, None, "int64", **names), read_events([(1, 2)]))
    for add in ([(1, 2)], [(1, 2), (3, 4)]):
        with pytest.raises(OptionError, match="these events are bare rows"):
            read_update(None, add, None, "int64", **names)


def test_fit_takes_names():
    live = dygcn.fit(THEIRS, dim=4, **NAMES)
    assert live.digest() == dygcn.fit(OURS, dim=4).digest()
    with pytest.raises(OptionError, match=r"fit\(df, src='user', dst='item'\)"):
        dygcn.fit(THEIRS, "user", "item")
    with pytest.raises(OptionError, match=r"fit\(df, src='user', dst="):
        dygcn.fit(THEIRS, "user")


def test_the_commands_take_names(tmp_path):
    pd.DataFrame(THEIRS).to_csv(tmp_path / "theirs.csv", index=False)
    pd.DataFrame(OURS).to_csv(tmp_path / "ours.csv", index=False)
    options = [part for field, name in NAMES.items() for part in (f"--{field}", name)]
    run("fit", tmp_path / "theirs.csv", "--out", tmp_path / "a", "--dim", 4, *options)
    run("fit", tmp_path / "ours.csv", "--out", tmp_path / "b", "--dim", 4)
    assert dygcn.load(tmp_path / "a").digest() == dygcn.load(tmp_path / "b").digest()
    told = run_json("update", tmp_path / "a", tmp_path / "theirs.csv", *options)
    assert told["events"] == 2
    wrong = run("update", tmp_path / "a", tmp_path / "theirs.csv", code=1).stderr
    assert "--src user_id --dst item_id" in wrong


def test_data_sets_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    live = dygcn.fit("hepth-collab", dim=2, steps=2)
    assert len(live) > 10_000
    with pytest.raises(DatasetError, match="did you mean 'hepth-collab'"):
        dygcn.fit("hepth-colab")
    with pytest.raises(DatasetError, match="there is no file 'friends' and no data set"):
        dygcn.fit("friends")
    with pytest.raises(EventError, match="there is no file 'friends'"):
        live.update("friends")
    (tmp_path / "hepth-collab").write_text("a file of the user")
    with pytest.raises(EventError, match="the format of 'hepth-collab' is unknown"):
        dygcn.fit("hepth-collab")


def test_a_wrong_guess_would_be_noticed(monkeypatch):
    monkeypatch.setitem(column_names._ENDS, "from", ("from",))
    with pytest.raises(AssertionError):
        test_the_error_has_the_call("from to")
