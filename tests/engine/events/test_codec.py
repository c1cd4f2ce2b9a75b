import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dygcn
from dygcn.engine.events import (
    codec,
    id_column,
    python_ids,
    read_events,
    read_update,
    seconds,
    sort_by_time,
    take,
)
from dygcn.errors import EventError

INTS = {"src": [1, 2], "dst": [2, 9007199254740993], "t": [5, 6], "op": [1, -1], "weight": [0.5, 2.0]}
TIMED = ("src", "dst", "t")
TEXT = {"src": ["ann", "bøb"], "dst": ["bøb", "cat"]}


def forms(columns):
    yield "dict of lists", columns
    yield "dict of arrays", {name: np.array(values) for name, values in columns.items()}
    yield "arrow", pa.table(columns)
    yield "arrow slice", pa.concat_tables([pa.table(columns)] * 3).slice(2, 2)
    yield "record batch", pa.RecordBatch.from_pydict(columns)
    yield "pandas", pd.DataFrame(columns)
    yield "pandas with another index", pd.DataFrame(columns, index=[7, 3])
    yield "polars", pl.DataFrame(columns)
    yield "tuples", list(zip(*columns.values(), strict=True))
    yield "generator", iter(list(zip(*columns.values(), strict=True)))


@pytest.mark.parametrize(
    ("name", "events"), list(forms(INTS)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_form_of_integer_events(name, events):
    batch = read_events(events)
    assert batch.src.values.tolist() == [1, 2]
    assert batch.dst.values.tolist() == [2, 9007199254740993]
    assert batch.t.tolist() == [5, 6]
    assert batch.op.tolist() == [1, -1]
    assert batch.weight.tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("name", "events"), list(forms(TEXT)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_form_of_string_events(name, events):
    batch = read_events(events)
    assert python_ids(batch.src).tolist() == ["ann", "bøb"]
    assert python_ids(batch.dst).tolist() == ["bøb", "cat"]
    assert batch.t is None
    assert batch.weight is None


def test_categories_and_small_integers_are_read():
    frame = pd.DataFrame({"src": pd.Categorical(["a", "b"]), "dst": pd.Categorical(["b", "a"])})
    assert python_ids(read_events(frame).dst).tolist() == ["b", "a"]
    assert read_events(
        {"src": np.array([1], np.int8), "dst": np.array([2], np.uint16)}
    ).dst.values.tolist() == [2]


def test_files(tmp_path):
    pq.write_table(pa.table({**INTS, "paper": [7, 8]}), tmp_path / "e.parquet")
    pd.DataFrame(INTS).to_csv(tmp_path / "e.csv", index=False)
    pd.DataFrame(INTS).to_csv(tmp_path / "e.tsv", index=False, sep="\t")
    pd.DataFrame(INTS).to_json(tmp_path / "e.ndjson", orient="records", lines=True)
    for name in ("e.parquet", "e.csv", "e.tsv", "e.ndjson"):
        for path in (tmp_path / name, str(tmp_path / name)):
            batch = read_events(path)
            assert batch.dst.values.tolist() == [2, 9007199254740993], name
            assert batch.weight.tolist() == [0.5, 2.0]


def test_more_kinds_of_columns():
    for kind in (pl.Categorical, pl.Enum(["a", "b"])):
        frame = pl.DataFrame({"src": ["a", "b"], "dst": ["b", "a"]}).with_columns(pl.all().cast(kind))
        assert python_ids(read_events(frame).src).tolist() == ["a", "b"]
    nullable = pd.DataFrame({"src": pd.array([1, 2], dtype="Int64"), "dst": pd.array([2, 3], dtype="Int64")})
    assert read_events(nullable).dst.values.tolist() == [2, 3]


def test_nothing_is_a_batch_of_nothing(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,t,op,weight\n")
    for empty in (
        tmp_path / "e.csv",
        pd.DataFrame(columns=["src", "dst", "t", "op"]),
        [],
        {"src": [], "dst": []},
    ):
        assert len(read_events(empty)) == 0


def test_a_csv_does_not_tell_7_from_7(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n7,8\n")
    assert read_events(tmp_path / "e.csv").src.kind == "int64"
    assert read_events(tmp_path / "e.csv", ids="string").src.kind == "string"


def test_ids_that_look_like_dates(tmp_path):
    (tmp_path / "e.ndjson").write_text('{"src": "2026-01-01", "dst": "2026-01-02 10:00:00"}\n')
    assert python_ids(read_events(tmp_path / "e.ndjson").dst).tolist() == ["2026-01-02 10:00:00"]


def test_whole_times_sort_exactly():
    base = 1_700_000_000_000_000_000
    batch = sort_by_time(
        read_events([(1, 2, base + 1), (3, 4, base + 2), (5, 6, base), (7, 8, base + 3)], columns=TIMED)
    )
    assert batch.src.values.tolist() == [5, 1, 3, 7]


def test_a_missing_weight_on_a_remove_is_not_looked_at():
    frame = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "op": [1, -1], "weight": [2.0, None]})
    assert read_events(frame).op.tolist() == [1, -1]


def test_leading_zeros_in_csv_stay(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n007,8\n7,8\n")
    assert python_ids(read_events(tmp_path / "e.csv").src).tolist() == ["007", "7"]


def test_dates_are_seconds_whatever_their_resolution(tmp_path):
    stamps = pd.to_datetime(["2026-01-01 00:00:00", "2026-01-02 00:00:01"])
    expected = [1767225600.0, 1767312001.0]
    for unit in ("s", "ms", "us", "ns"):
        frame = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "t": stamps.astype(f"datetime64[{unit}]")})
        assert read_events(frame).t.tolist() == expected
        assert read_events(pl.DataFrame(frame.to_dict("list"))).t.tolist() == expected
        frame.to_csv(tmp_path / "e.csv", index=False)
        assert read_events(tmp_path / "e.csv").t.tolist() == expected
    zoned = pd.DataFrame(
        {"src": [1, 2], "dst": [2, 3], "t": stamps.tz_localize("UTC").tz_convert("Asia/Tokyo")}
    )
    assert read_events(zoned).t.tolist() == expected
    assert read_events([(1, 2, dt.date(1970, 1, 3))], columns=TIMED).t.tolist() == [172800.0]
    assert seconds(stamps[0]) == seconds(np.datetime64("2026-01-01")) == expected[0]
    assert seconds(pd.Timedelta("1h")) == seconds(np.timedelta64(60, "m")) == 3600.0
    assert seconds(None) is None


def test_dicts_and_named_columns():
    rows = [{"src": 1, "dst": 2, "t": 5}, {"src": 2, "dst": 3, "t": 6}]
    assert read_events(rows).t.tolist() == [5, 6]
    with pytest.raises(EventError, match=r"columns: source, target"):
        read_events(pd.DataFrame({"source": [1], "target": [2]}))


def test_integers_written_as_floats_are_refused(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n1.0,2.0\n3.0,4.0\n")
    with pytest.raises(EventError, match=r"written as floats"):
        read_events(tmp_path / "e.csv")


REJECTED = {
    "no column 'dst'": {"src": [1]},
    "one type": {"src": [1], "dst": ["a"]},
    "row 1: .*weight is nan": {"src": [1, 1], "dst": [2, 3], "weight": [1.0, float("nan")]},
    "weight is -1": {"src": [1], "dst": [2], "weight": [-1.0]},
    "weight is 0": {"src": [1], "dst": [2], "weight": [0.0]},
    "weight is inf": {"src": [1], "dst": [2], "weight": [float("inf")]},
    "op is 3": {"src": [1], "dst": [2], "op": [3]},
    "row 0: t is missing .NaN, NaT": {"src": [1], "dst": [2], "t": [float("nan")]},
    "never through floats": {"src": [1.0], "dst": [2.0]},
    "float and int": {"src": [1, 2.5], "dst": [2, 3]},
    "row 0: .*int and str": {"src": ["a", 1], "dst": ["b", "c"]},
    "NoneType": {"src": [None, "a"], "dst": ["b", "c"]},
    "bool": {"src": [True], "dst": [False]},
    "257 bytes": {"src": ["x" * 257], "dst": ["y"]},
    "not UTF-8": {"src": ["\ud800"], "dst": ["y"]},
    "outside int64": {"src": [2**63], "dst": [1]},
    "above 2.63": {"src": np.array([2**63], np.uint64), "dst": np.array([1], np.uint64)},
    "has 1 rows": {"src": [1, 2], "dst": [1]},
    "empty cell": pa.table({"src": pa.array([1, None]), "dst": pa.array([1, 2])}),
    "weight is nan": {"src": [1], "dst": [2], "weight": [None]},
    "t is missing .*; allowed is a finite number or a date in every row": {
        "src": [1],
        "dst": [2],
        "t": [None],
    },
    "op is nan": {"src": [1], "dst": [2], "op": [None]},
    "'t' cannot be read": {"src": [1], "dst": [2], "t": 5},
    "'op' cannot be read": {"src": [1], "dst": [2], "op": [2**70]},
    "'src' cannot be read": {"src": pd.Series([1, "a"], dtype=object), "dst": [2, 3]},
    "two columns 'src'": pa.table([[1], [2], [3]], names=["src", "src", "dst"]),
    "is not an event": ["ab", "cd"],
    "all of one length": [(1, 2), (1, 2, 3)],
    "cannot read events from int": 7,
    "is unknown": "events.xlsx",
    "there is no file": "nowhere.csv",
    "one dimension": {"src": np.zeros((2, 2), np.int64), "dst": np.zeros((2, 2), np.int64)},
    "'op' is not numeric|op": {"src": [1], "dst": [2], "op": ["add"]},
}


@pytest.mark.parametrize("reason", sorted(REJECTED))
def test_bad_events_are_refused_by_name(reason):
    with pytest.raises(EventError, match=reason):
        read_events(REJECTED[reason])


def test_a_missing_cell_never_turns_an_id_into_a_float():
    frame = pd.DataFrame({"src": [9007199254740993, None], "dst": [1, 2]})
    with pytest.raises(EventError):
        read_events(frame)


def test_a_weight_on_a_remove_is_not_looked_at():
    assert read_events([(1, 2, 0, -1, 0.0)]).op.tolist() == [-1]


def test_a_broken_file_is_an_event_error(tmp_path):
    for name in ("e.parquet", "e.ndjson"):
        (tmp_path / name).write_bytes(b"\x00\x01 not a table")
        with pytest.raises(EventError, match="cannot read"):
            read_events(tmp_path / name)


def test_removes_come_first_and_sides_may_be_empty():
    batch = read_update(None, [("a", "b")], [("c", "d"), ("e", "f")], None)
    assert batch.op.tolist() == [-1, -1, 1]
    assert python_ids(batch.src).tolist() == ["c", "e", "a"]
    assert len(read_update(None, [], [], None)) == 0
    assert len(read_update(None, None, None, None)) == 0
    with pytest.raises(EventError, match="op column"):
        read_update(None, None, {"src": [1], "dst": [2], "op": [1]}, None)


def test_arrays_with_columns():
    batch = read_events(np.array([[1, 2, 7], [3, 4, 8]]), columns=TIMED)
    assert batch.src.values.tolist() == [1, 3]
    assert batch.t.tolist() == [7, 8]
    assert python_ids(read_events(np.array([["a", "b"]])).dst).tolist() == ["b"]
    with pytest.raises(EventError, match="floats"):
        read_events(np.array([[1.0, 2.0]]))


def test_take_keeps_strings_whole():
    column = id_column(["ann", "", "bøb", "cat"])
    assert python_ids(take(column, np.array([2, 1, 2]))).tolist() == ["bøb", "", "bøb"]


@pytest.fixture
def read_at_length(monkeypatch):
    """Counts the pairs that were read in the way that looks at everything."""
    calls, whole = [], codec.read_pairs
    monkeypatch.setattr(codec, "read_pairs", lambda *arguments: calls.append(arguments) or whole(*arguments))
    return calls


def same(left, right):
    """Not only equal values: the same types, as kernels are compiled for them."""
    assert (left.weight, left.t) == (right.weight, right.t) == (None, None)
    for a, b in (
        (left.src.values, right.src.values),
        (left.dst.values, right.dst.values),
        (left.op, right.op),
    ):
        assert (a.dtype, a.shape, a.tolist()) == (b.dtype, b.shape, b.tolist())
        assert a.flags.c_contiguous
    assert left.src.data is left.dst.data is None


@pytest.mark.parametrize("op", [1, -1])
@pytest.mark.parametrize("pair", [(1, 2), (0, 0), (-5, 7), (2**63 - 1, -(2**63)), (9007199254740993, 1)])
def test_one_pair_of_numbers_is_read_as_any_other(pair, op, read_at_length):
    sides = ([pair], None) if op > 0 else (None, [pair])
    short = codec.read_update(None, *sides, "int64")
    assert not read_at_length
    same(short, codec.read_pairs([pair], op))


AT_LENGTH = {
    "strings": [("ann", "bob")],
    "numpy integers": [(np.int64(1), np.int64(2))],
    "a list": [[1, 2]],
    "three columns": [(1, 2, 5)],
    "a weight": [(1, 2, 5, None, 2.0)],
    "two pairs": [(1, 2), (3, 4)],
    "a tuple of pairs": ((1, 2),),
    "a generator": None,
    "none": [],
    "one end": [(1,)],
    "booleans": [(True, False)],
    "one boolean": [(1, True)],
    "floats": [(1.0, 2.0)],
    "too great": [(1, 2**63)],
    "too small": [(-(2**63) - 1, 2)],
    "a missing end": [(1, None)],
    "two types": [(1, "bob")],
    "a string": ["ab"],
    "numbers": [1],
}


def taken(read):
    try:
        batch = read()
    except EventError as error:
        return type(error), str(error)
    t, weight = (None if column is None else column.tolist() for column in (batch.t, batch.weight))
    return python_ids(batch.src).tolist(), python_ids(batch.dst).tolist(), batch.op.tolist(), t, weight


@pytest.mark.parametrize("name", sorted(AT_LENGTH))
def test_everything_else_is_read_at_length(name, read_at_length):
    def pairs():
        return iter([(1, 2)]) if name == "a generator" else AT_LENGTH[name]

    found = taken(lambda: codec.read_update(None, pairs(), None, None))
    assert len(read_at_length) == 1
    assert found == taken(lambda: codec.read_pairs(pairs(), 1))
    refused = {"one end", "booleans", "one boolean", "floats", "too great", "too small", "a missing end"}
    refused |= {"two types", "a string", "numbers", "a weight", "three columns"}
    assert isinstance(found[1], str) == (name in refused)


def test_the_operations_of_single_pairs_are_shared_and_never_written_to():
    first = codec.read_update(None, [(1, 2)], None, "int64")
    second = codec.read_update(None, None, [(1, 2)], "int64")
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    live.update(add=[(1, 3)])
    live.update(remove=[(1, 3)])
    assert (first.op.tolist(), second.op.tolist()) == ([1], [-1])
    with pytest.raises(EventError, match="one type a graph"):
        dygcn.fit([("ann", "bob")], dim=4).update(add=[(1, 2)])


@pytest.mark.parametrize("name", ["src", "dst", "weight", "op", "t"])
def test_a_masked_cell_is_refused(name):
    table = {
        "src": np.array([1, 2]),
        "dst": np.array([3, 4]),
        "weight": np.ones(2),
        "op": np.ones(2),
        "t": np.ones(2),
    }
    whole = np.ma.array(table[name], mask=[False, False])
    assert len(read_events(table | {name: whole})) == 2
    with pytest.raises(EventError, match="masked cell"):
        read_events(table | {name: np.ma.array(table[name], mask=[False, True])})


@pytest.mark.parametrize("year", [1, 1500, 2600, 9999])
def test_dates_of_any_year_keep_their_order(year):
    t = read_events({"src": [1, 1], "dst": [2, 3], "t": [dt.datetime(1970, 1, 1), dt.datetime(year, 6, 1)]}).t
    assert (t[1] > t[0]) == (year > 1970)
    assert abs(t[1] / 31_556_952 - (year - 1970 + 0.41)) < 0.1


def test_dicts_are_read_by_the_keys_of_all_of_them():
    with pytest.raises(EventError, match="op"):
        read_events([{"src": 3, "dst": 4}, {"src": 1, "dst": 2, "op": -1}])
    rows = [{"src": 3, "dst": 4, "op": 1}, {"op": -1, "dst": 2, "src": 1}]
    assert read_events(rows).op.tolist() == [1, -1]
