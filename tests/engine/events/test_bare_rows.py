"""Rows without column names: a batch is the one that the same table with names gives, or it is refused."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.events import column_names, read_events, read_update
from dygcn.errors import EventError, OptionError
from tests.live.crashing import begin, crash

WEIGHTS, TIMES = ("src", "dst", "weight"), ("src", "dst", "t")
THREE = [("ann", "bob", 5.0), ("bob", "cat", 2.0)]
ASKS = re.escape(
    "events have three columns without names; is the third one a weight or a time? "
    'say columns=("src", "dst", "weight") or columns=("src", "dst", "t"), or pass a table with column names'
)
COLUMN = {
    "src": st.integers(-(2**63), 2**63 - 1),
    "dst": st.integers(-(2**63), 2**63 - 1),
    "t": st.integers(-(2**40), 2**40),
    "op": st.sampled_from([1, -1]),
    "weight": st.floats(0.001, 1000.0),
}


def same(one, other):
    for name in ("src", "dst"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.kind == theirs.kind
        np.testing.assert_array_equal(mine.values, theirs.values)
        if mine.data is not None:
            assert mine.data.tobytes() == theirs.data.tobytes()
    for name in ("op", "weight", "t"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)


@st.composite
def tables(draw, without=()):
    """A table with names, and its names in any order."""
    more = [name for name in ("t", "op", "weight") if name not in without and draw(st.booleans())]
    names = draw(st.permutations(["src", "dst", *more]))
    count = draw(st.integers(0, 5))
    table = {name: [draw(COLUMN[name]) for _ in range(count)] for name in names}
    if draw(st.booleans()):
        table |= {end: [f"n{one}" for one in table[end]] for end in ("src", "dst")}
    return table, tuple(names)


def bare_forms(table):
    """Yield the rows of a table in every form that has no names."""
    rows = list(zip(*table.values(), strict=True))
    yield rows
    yield tuple(rows)
    yield [list(row) for row in rows]
    yield iter(rows)
    yield (row for row in rows)
    cells = np.empty((len(rows), len(table)), object)
    cells[:] = [list(row) for row in rows] if rows else cells
    yield cells
    yield list(cells)


@settings(deadline=None)
@given(tables())
def test_named_columns_are_the_table(drawn):
    table, names = drawn
    wanted = read_events(table)
    for form in bare_forms(table):
        found = read_events(form, columns=names)
        if len(wanted):
            same(found, wanted)
        assert len(found) == len(wanted)


@settings(deadline=None)
@given(tables(), st.sampled_from([2, 4, 5]))
def test_what_needs_no_names_is_read_as_if_named(drawn, count):
    table, _ = drawn
    rows = {name: table.get(name, [1] * len(table["src"])) for name in column_names.COLUMNS[:count]}
    for form in bare_forms(rows):
        found = read_events(form)
        assert len(found) == len(table["src"])
        if len(found):
            same(found, read_events(rows))


@settings(deadline=None)
@given(tables(without=("op",)), tables(without=("op",)))
def test_both_sides_of_an_update(adds, removes):
    """Columns are for both sides; rows of two columns are ends, in the order of the names."""
    (add, names), (remove, _) = adds, removes
    text = any(isinstance(one, str) for one in add["src"] + remove["src"])
    add, remove = (
        {**side, **{end: [f"{one}" if text else one for one in side[end]] for end in ("src", "dst")}}
        for side in (add, remove)
    )
    ends = {name: remove[name] for name in names if name in ("src", "dst")}
    for side in (ends, {name: remove.get(name, [1] * len(remove["src"])) for name in names}):
        try:
            wanted = read_update(None, add, side, None)
        except EventError as error:  # one side has times, the other none
            with pytest.raises(EventError, match=str(error)):
                read_update(None, next(bare_forms(add)), next(bare_forms(side)), None, columns=names)
            continue
        for one, other in zip(bare_forms(add), bare_forms(side), strict=True):
            found = read_update(None, one, other, None, columns=names)
            assert len(found) == len(wanted)
            if len(found):
                same(found, wanted)


@pytest.mark.parametrize(
    "rows",
    [
        THREE,
        tuple(THREE),
        iter(THREE),
        set(THREE),
        [list(row) for row in THREE],
        np.array([[1, 2, 3]]),
        np.empty((0, 3)),
        np.array(THREE, object),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_three_columns_must_be_named(rows):
    with pytest.raises(EventError, match=ASKS):
        read_events(rows)


def test_every_door_asks(tmp_path):
    live, durable = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4), begin(tmp_path / "x")
    numbers = [(1, 2, 5.0)]
    for call in (
        lambda: dygcn.fit(THREE),
        lambda: live.update(THREE),
        lambda: live.update(add=THREE),
        lambda: live.update(remove=THREE),
        lambda: live.update(add=[("ann", "bob")], remove=THREE),
        lambda: live.bulk([THREE]),
        lambda: durable.update(numbers),
        lambda: durable.update(add=numbers),
        lambda: durable.update(remove=numbers),
        lambda: durable.bulk([numbers]),
    ):
        with pytest.raises(EventError, match=ASKS):
            call()
    assert live.edge_count == 2
    assert durable.edge_count == 0
    crash(durable)


def test_every_door_takes_names(tmp_path):
    table = {"src": ["ann", "bob"], "dst": ["bob", "cat"], "weight": [5.0, 2.0]}
    model = dygcn.fit(table, dim=4).model
    wanted = dygcn.start(model)
    wanted.update(table)
    assert dygcn.fit(THREE, dim=4, columns=WEIGHTS).digest() == dygcn.fit(table, dim=4).digest()
    for change in (
        lambda live: live.update(THREE, columns=WEIGHTS),
        lambda live: live.update(add=THREE, columns=WEIGHTS),
        lambda live: live.update(add=THREE, remove=[("dan", "eve")], columns=list(WEIGHTS)),
        lambda live: live.update(add=THREE, remove={"src": ["dan"], "dst": ["eve"]}, columns=WEIGHTS),
        lambda live: live.bulk([THREE[:1], THREE[1:]], columns=WEIGHTS),
    ):
        live = dygcn.start(model)
        change(live)
        assert live.digest() == wanted.digest()
    numbers = {"src": [1, 2], "dst": [2, 3], "weight": [5.0, 2.0]}
    rows = list(zip(*numbers.values(), strict=True))
    for number, change in enumerate(
        (
            lambda live: live.update(rows, columns=WEIGHTS),
            lambda live: live.update(add=rows, columns=WEIGHTS),
            lambda live: live.bulk([rows], columns=WEIGHTS),
        )
    ):
        durable, twin = begin(tmp_path / str(number)), begin(tmp_path / f"twin {number}")
        change(durable)
        twin.update(numbers)
        assert durable.digest() == twin.digest()
        crash(durable)
        crash(twin)


def test_times_are_times():
    batch = read_events(THREE, columns=TIMES)
    assert (batch.t.tolist(), batch.weight) == ([5.0, 2.0], None)
    batch = read_events(THREE, columns=WEIGHTS)
    assert batch.t is None
    assert batch.weight.tolist() == [5.0, 2.0]


def test_the_edges_of_networkx():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_weighted_edges_from(THREE)
    assert read_events(graph.edges(data="weight"), columns=WEIGHTS).weight.tolist() == [5.0, 2.0]
    for edges in (graph.edges, graph.edges(), networkx.DiGraph(graph).edges):
        same(read_events(edges), read_events(list(edges)))
    live = dygcn.fit(graph.edges(data="weight"), columns=WEIGHTS, dim=4)
    assert (
        live.digest()
        == dygcn.fit({"src": ["ann", "bob"], "dst": ["bob", "cat"], "weight": [5.0, 2.0]}, dim=4).digest()
    )


@pytest.mark.parametrize(
    "columns",
    [
        "src,dst,t",
        "src",
        (),
        ("src",),
        ("src", "t"),
        ("src", "dst", "dst"),
        ("src", "dst", "time"),
        ("src", "dst", 3),
        ("src", "dst", ["t"]),
        {"src": 1, "dst": 2},
        7,
    ],
)
def test_wrong_names(columns):
    for rows in ([], THREE, {"src": [1], "dst": [2]}):
        with pytest.raises(OptionError, match=r"allowed are different names out of src, dst, t, op, weight"):
            read_events(rows, columns=columns)
    with pytest.raises(OptionError, match="allowed are different names"):
        read_update(None, [(1, 2)], None, None, columns=columns)


def test_names_and_columns_are_as_many():
    for rows in ([(1, 2)], [(1, 2, 3, 1)], np.ones((1, 2), np.int64)):
        with pytest.raises(OptionError, match=r"columns has 3 names \(src, dst, t\), and the events have"):
            read_events(rows, columns=TIMES)
    with pytest.raises(OptionError, match="columns has 2 names"):
        read_update(None, THREE, None, None, columns=("src", "dst"))
    with pytest.raises(EventError, match=r"row 1: .*all of one length"):
        read_events([(1, 2, 3), (1, 2)], columns=TIMES)
    for rows in (np.array(7), [np.array(7)], np.ones((2, 6)), np.ones((2, 1)), np.ones(3)):
        with pytest.raises(EventError):
            read_events(rows)


def named_forms(tmp_path):
    table = {"src": [1], "dst": [2], "t": [3]}
    (tmp_path / "e.csv").write_text("src,dst,t\n1,2,3\n")
    yield table
    yield [{"src": 1, "dst": 2}]
    yield pa.table(table)
    yield pa.RecordBatch.from_pydict(table)
    yield pd.DataFrame(table)
    yield pl.DataFrame(table)
    yield tmp_path / "e.csv"
    yield str(tmp_path / "e.csv")
    yield read_events(table)


def test_tables_keep_their_own_names(tmp_path):
    for table in named_forms(tmp_path):
        for read in (
            lambda table=table: read_events(table, columns=TIMES),
            lambda table=table: read_update(None, table, None, None, columns=TIMES),
            lambda table=table: read_update(None, table, table, None, columns=TIMES),
        ):
            with pytest.raises(OptionError, match="these events have names of their own"):
                read()


def test_an_operation_has_no_place_in_add_and_remove():
    with pytest.raises(EventError, match="say the operation"):
        read_update(None, [(1, 2, 1)], None, None, columns=("src", "dst", "op"))
    with pytest.raises(EventError, match="say the operation"):
        read_update(None, read_events([(1, 2)]), None, None)


def test_times_on_one_side_alone_are_not_dropped():
    with pytest.raises(EventError, match="only one of add= and remove= has times"):
        read_update(None, [(1, 2, 7)], [(3, 4)], None, columns=TIMES)
    assert read_update(None, [(1, 2, 7)], [], None, columns=TIMES).t.tolist() == [7]
    assert read_update(None, [(1, 2, 7)], [(3, 4, 6)], None, columns=TIMES).t.tolist() == [6.0, 7.0]


def test_a_third_column_that_is_taken_as_time_would_be_noticed(monkeypatch):
    monkeypatch.setitem(column_names._UNDERSTOOD, 3, TIMES)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_three_columns_must_be_named(THREE)


def test_names_that_are_ignored_would_be_noticed(monkeypatch):
    def by_place(values, columns, pairs):
        return dict(zip(column_names.COLUMNS, values, strict=False))

    monkeypatch.setattr(column_names, "by_name", by_place)
    with pytest.raises(AssertionError):
        test_times_are_times()
