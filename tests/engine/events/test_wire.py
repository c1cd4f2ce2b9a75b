"""Events off the wire: typed results whatever the bytes are, and no bad event stops another."""

import json
import math
from functools import cache

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import python_ids, read_events, row_errors, wire, wire_arrow
from dygcn.engine.events.row_errors import TooManyRows
from dygcn.engine.events.wire import Decoded, decode_events
from dygcn.errors import EventError, OptionError

BIG = 9007199254740993  # 2^53 + 1: no float holds it
FORMS = ("json", "ndjson", "arrow")


def encoded(events, form):
    """The events, which may be of any types where the form allows it."""
    if form == "json":
        return json.dumps(events).encode()
    if form == "ndjson":
        return b"\n".join(json.dumps(event).encode() for event in events)
    return stream(pa.Table.from_pylist(events))


def stream(table, chunk=None, **options):
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return out.getvalue().to_pybytes()


def in_rows(batch):
    """A batch as tuples, which compare with exact types."""
    count = len(batch)
    weight = [None] * count if batch.weight is None else batch.weight.tolist()
    t = [None] * count if batch.t is None else batch.t.tolist()
    return list(
        zip(
            python_ids(batch.src).tolist(),
            python_ids(batch.dst).tolist(),
            batch.op.tolist(),
            weight,
            t,
            strict=True,
        )
    )


def assert_sound(found, kind):
    """What is promised of the result of any bytes at all."""
    assert isinstance(found, Decoded)
    batch = found.batch
    assert batch.src.kind == batch.dst.kind == kind
    assert len(batch.src) == len(batch.dst) == len(batch.op) == len(found.rows)
    assert batch.op.dtype == np.int8
    assert set(batch.op.tolist()) <= {1, -1}
    assert found.rows.dtype == np.int64
    places = found.rows.tolist()
    bad = [event.row for event in found.bad]
    assert places == sorted(set(places))
    assert bad == sorted(set(bad))
    assert sorted(places + bad) == ([-1] if bad == [-1] else list(range(found.total)))
    for event in found.bad:
        assert 0 < len(event.reason) <= 500
        assert len(event.text) <= 1000
        event.text.encode("utf-8")
        event.reason.encode("utf-8")
    for column in (batch.src, batch.dst):
        ids = python_ids(column).tolist()
        if kind == "string":
            assert all(len(name.encode("utf-8")) <= 256 for name in ids)
    if batch.weight is not None:
        assert batch.weight.dtype == np.float64
        assert (np.isfinite(batch.weight) & (batch.weight > 0)).all()
    if batch.t is not None:
        assert len(batch.t) == len(batch)
        assert np.isfinite(batch.t).all()


GOOD = {
    "the least": ("int64", [{"src": 1, "dst": 2}]),
    "beyond floats": ("int64", [{"src": BIG, "dst": -BIG}, {"src": 2**63 - 1, "dst": -(2**63)}]),
    "strings": ("string", [{"src": "ann", "dst": "bøb"}, {"src": "", "dst": "x" * 256}]),
    "strings that look like others": ("string", [{"src": "7", "dst": "2026-01-01"}]),
    "a NUL in an id": ("string", [{"src": "a\0b", "dst": "c"}]),
    "all there is": ("int64", [{"src": 1, "dst": 2, "op": 1, "weight": 0.5, "t": 3}]),
    "removes": ("int64", [{"src": 1, "dst": 2, "op": -1}, {"src": 1, "dst": 2, "op": 1}]),
    "other fields": ("string", [{"src": "a", "dst": "b", "note": "hm", "size": 3}]),
    "whole times": ("int64", [{"src": 1, "dst": 2, "t": BIG}, {"src": 1, "dst": 2, "t": BIG + 2}]),
    "times that are not whole": ("int64", [{"src": 1, "dst": 2, "t": 0.5}, {"src": 1, "dst": 2, "t": 3.0}]),
    "loops": ("int64", [{"src": 1, "dst": 1}]),
    "whole weights": ("int64", [{"src": 1, "dst": 2, "weight": 3}]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(GOOD))
def test_good_events_are_what_read_events_reads(name, form):
    kind, events = GOOD[name]
    found = decode_events(encoded(events, form), form, kind)
    assert_sound(found, kind)
    assert found.bad == ()
    expected = read_events(events)
    assert in_rows(found.batch) == in_rows(expected)
    for one, other in ((found.batch.t, expected.t), (found.batch.weight, expected.weight)):
        assert (one is None) == (other is None)
        assert one is None or one.dtype == other.dtype


# What is wrong with the second of three events, the ids, and what the reason says.
BAD = {
    "no src": ({"dst": 2}, "int64", "no src"),
    "no dst": ({"src": 2}, "int64", "no dst"),
    "a float": ({"src": 7.0, "dst": 2}, "int64", "src is 7.0; allowed are whole numbers"),
    "a boolean": ({"src": 1, "dst": True}, "int64", "dst is true"),
    "null": ({"src": None, "dst": 2}, "int64", "src is null"),
    "a string among numbers": ({"src": "7", "dst": 2}, "int64", 'src is "7"; allowed are whole'),
    "a number among strings": ({"src": 7, "dst": "b"}, "string", "src is 7; allowed are strings"),
    "beyond int64": ({"src": 2**63, "dst": 2}, "int64", "src is 9223372036854775808; allowed"),
    "below int64": ({"src": 1, "dst": -(2**63) - 1}, "int64", "dst is -9223372036854775809"),
    "far beyond int64": ({"src": 10**400, "dst": 2}, "int64", r"src is 1000.*\.\.\.; allowed"),
    "a list as id": ({"src": [1], "dst": 2}, "int64", "src is a list"),
    "too long": ({"src": "x" * 257, "dst": "b"}, "string", "257 bytes"),
    "too long in bytes": ({"src": "ø" * 129, "dst": "b"}, "string", "258 bytes"),
    "op 2": ({"src": 1, "dst": 2, "op": 2}, "int64", 'op is 2; allowed are 1 or "add", and -1'),
    "op true": ({"src": 1, "dst": 2, "op": True}, "int64", "op is true"),
    "another word": ({"src": 1, "dst": 2, "op": "delete"}, "int64", 'op is "delete"'),
    "op null": ({"src": 1, "dst": 2, "op": None}, "int64", "op is null"),
    "weight 0": ({"src": 1, "dst": 2, "weight": 0}, "int64", "weight is 0; allowed is a finite"),
    "weight below 0": ({"src": 1, "dst": 2, "weight": -0.5}, "int64", "weight is -0.5"),
    "weight null": ({"src": 1, "dst": 2, "weight": None}, "int64", "weight is null; allowed is"),
    "weight text": ({"src": 1, "dst": 2, "weight": "1"}, "int64", 'weight is "1"'),
    "t text": ({"src": 1, "dst": 2, "t": "2026-01-01"}, "int64", "t is .2026-01-01.; allowed is a finite"),
    "t true": ({"src": 1, "dst": 2, "t": True}, "int64", "t is true"),
    "t beyond int64": ({"src": 1, "dst": 2, "t": 2**64}, "int64", "t is 18446744073709551616"),
    "a number": (5, "int64", "5 is not an event"),
    "a string": ("ann", "string", '"ann" is not an event'),
    "a list": ([1, 2], "int64", "a list is not an event"),
    "nothing": (None, "int64", "null is not an event"),
    "an empty object": ({}, "int64", "no src"),
}


@pytest.mark.parametrize("form", ["json", "ndjson"])
@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_event_is_set_apart_with_its_reason(name, form):
    event, kind, reason = BAD[name]
    good = {"src": 1, "dst": 2} if kind == "int64" else {"src": "a", "dst": "b"}
    found = decode_events(encoded([good, event, good], form), form, kind)
    assert_sound(found, kind)
    assert found.rows.tolist() == [0, 2]
    (bad,) = found.bad
    assert bad.row == 1
    assert bad.text == json.dumps(event)[:1000]
    with pytest.raises(EventError, match=reason):
        raise EventError(bad.reason)
    alone = decode_events(encoded([event], form), form, kind)
    assert [(bad.row, len(alone.batch)) for bad in alone.bad] == [(0, 0)]
    if isinstance(event, dict):
        found = decode_events(json.dumps(event).encode(), "json", kind)
        assert ([bad.row for bad in found.bad], found.total) == ([0], 1)


# Rows that no JSON writer of this language makes; each stands between two good ones.
RAW = {
    "a lone surrogate": rb'{"src": "\ud800", "dst": "b"}',
    "half a pair": rb'{"src": "\ud83d", "dst": "b"}',
    "not UTF-8": b'{"src": "\xff\xfe", "dst": "b"}',
    "a surrogate in UTF-8": b'{"src": "\xed\xa0\x80", "dst": "b"}',
    "a raw NUL": b'{"src": "a\x00", "dst": "b"}',
    "not a number": b'{"src": "a", "dst": "b", "weight": NaN}',
    "infinite": b'{"src": "a", "dst": "b", "t": Infinity}',
    "too great for a float": b'{"src": "a", "dst": "b", "t": 1e999}',
    "ten thousand digits": b'{"src": "a", "dst": "b", "t": ' + b"9" * 10_000 + b"}",
    "no comma": b'{"src": "a" "dst": "b"}',
    "two objects": b'{"src": "a", "dst": "b"} {"src": "a", "dst": "b"}',
    "single quotes": b"{'src': 'a', 'dst': 'b'}",
    "a word": b"event",
    "deep": b'{"src": "a", "dst": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep where nobody looks": b'{"src": "a", "dst": "b", "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}


@pytest.mark.parametrize("form", ["json", "ndjson"])
@pytest.mark.parametrize("name", sorted(RAW))
def test_a_row_that_is_no_json_stops_nobody(name, form):
    good = b'{"src": "a", "dst": "b"}'
    body = (
        b"[" + b", ".join([good, RAW[name], good]) + b"]"
        if form == "json"
        else b"\n".join([good, RAW[name], good])
    )
    found = decode_events(body, form, "string")
    assert_sound(found, "string")
    assert found.rows.tolist() == [0, 2]
    assert [bad.row for bad in found.bad] == [1]
    assert "JSON" in found.bad[0].reason
    alone = decode_events(RAW[name], "json", "string")
    assert_sound(alone, "string")
    assert alone.bad[0].row in (-1, 0)


BODIES = {
    "nothing": b"",
    "spaces": b"   \n",
    "a number": b"7",
    "a string": b'"events"',
    "null": b"null",
    "noise": bytes(range(256)),
    "cut off": b'[{"src": 1, "dst": 2}, {"src"',
    "not closed": b'[{"src": 1, "dst": 2}',
    "closed twice": b'[{"src": 1, "dst": 2}]]',
    "closed by the wrong bracket": b'[{"src": 1, "dst": 2}}',
    "two lists": b'[{"src": 1, "dst": 2}] [{"src": 1, "dst": 2}]',
    "more behind it": b'[{"src": 1, "dst": 2}] x',
    "an open string": b'[{"src": 1, "dst": 2}, "]',
    "a byte order mark": b'\xef\xbb\xbf[{"src": 1, "dst": 2}]',
    "an object cut off": b'{"src": 1, "dst": ',
    "deep": b"[" * 100_000,
    "UTF-16": '[{"src": 1, "dst": 2}]'.encode("utf-16"),
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_body_that_is_no_json_is_one_bad_event(name):
    found = decode_events(BODIES[name], "json", "int64")
    assert_sound(found, "int64")
    assert (len(found.batch), found.total) == (0, 1)
    assert found.bad[0].row == -1
    assert found.bad[0].text == repr(BODIES[name][:1000])[:1000]


def test_nothing_is_a_message_without_events():
    table = pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())})
    empty = (b"[]", "json"), (b" [ ] ", "json"), (b"", "ndjson"), (b"\n \n\r\n", "ndjson")
    for kind in ("int64", "string"):
        for body, form in (*empty, *([(stream(table), "arrow")] if kind == "int64" else [])):
            found = decode_events(body, form, kind)
            assert_sound(found, kind)
            assert found.total == 0


def test_lines_of_every_kind():
    body = b'\n{"src": 1, "dst": 2}\r\n\n  \nno\n{"src": 3, "dst": 4}'
    found = decode_events(body, "ndjson", "int64")
    assert in_rows(found.batch) == [(1, 2, 1, None, None), (3, 4, 1, None, None)]
    assert found.rows.tolist() == [0, 2]
    assert (found.bad[0].row, found.bad[0].text) == (1, "no")
    split = decode_events(b'{"src": 1,\n"dst": 2}', "ndjson", "int64")
    assert (len(split.batch), split.total) == (0, 2)


def test_words_are_operations():
    events = [{"src": 1, "dst": 2, "op": word} for word in ("add", "remove")]
    mixed = [*events, {"src": 1, "dst": 2, "op": -1}, {"src": 1, "dst": 2}]
    assert decode_events(encoded(events, "arrow"), "arrow", "int64").batch.op.tolist() == [1, -1]
    for form in ("json", "ndjson"):
        assert decode_events(encoded(mixed, form), form, "int64").batch.op.tolist() == [1, -1, -1, 1]
    words = pa.table({"src": [1, 1], "dst": [2, 2], "op": pa.array(["remove", "what"]).dictionary_encode()})
    found = decode_events(stream(words), "arrow", "int64")
    assert (found.batch.op.tolist(), found.bad[0].text) == ([-1], '{"src":1,"dst":2,"op":"what"}')
    assert '"remove"' in found.bad[0].reason


def test_a_weight_that_is_not_given_is_1():
    found = decode_events(b'[{"src": 1, "dst": 2}, {"src": 1, "dst": 2, "weight": 3}]', "json", "int64")
    assert found.batch.weight.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("weight", ["null", "-3", "0", '"x"', "true", "[1]"])
def test_the_weight_of_a_removal_is_not_looked_at(weight):
    body = b'[{"src": 1, "dst": 2, "weight": 2.0}, {"src": 1, "dst": 2, "op": %s, "weight": %s}]'
    for op in (b"-1", b'"remove"', b'"re\\u006dove"', b" -1 "):
        found = decode_events(body % (op, weight.encode()), "json", "int64")
        assert_sound(found, "int64")
        assert (found.bad, found.batch.op.tolist()) == ((), [1, -1])
        assert found.batch.weight[0] == 2.0
    adding = decode_events(body % (b"1", weight.encode()), "json", "int64")
    assert [bad.row for bad in adding.bad] == [1]


def test_the_weight_of_a_removal_in_arrow():
    table = pa.table({"src": [1, 1, 1], "dst": [2] * 3, "op": [-1, 1, -1], "weight": [None, None, -math.inf]})
    found = decode_events(stream(table), "arrow", "int64")
    assert_sound(found, "int64")
    assert (found.rows.tolist(), found.batch.weight.tolist()) == ([0, 2], [1.0, 1.0])


@pytest.mark.parametrize("form", FORMS)
def test_events_without_t_beside_others_with_one(form):
    events = [{"src": 1, "dst": 2, "t": BIG}, {"src": 3, "dst": 4}, {"src": 5, "dst": 6, "t": BIG + 2}]
    found = decode_events(encoded(events, form), form, "int64")
    assert_sound(found, "int64")
    assert (found.rows.tolist(), found.batch.t.tolist()) == ([0, 2], [BIG, BIG + 2])
    assert [bad.row for bad in found.bad] == [1]
    assert "give every event a t, or none" in found.bad[0].reason


def test_a_bad_event_with_a_t_does_not_ask_for_one_of_others():
    events = [{"src": 1, "dst": 2}, {"src": 1, "dst": 2, "weight": 0, "t": 3}, {"src": 1, "dst": 2}]
    for form in FORMS:
        events[1]["weight"] = 0.0
        good = [dict(event, weight=1.0) for event in (events[0], events[2])]
        found = decode_events(encoded([good[0], events[1], good[1]], form), form, "int64")
        assert (found.rows.tolist(), found.batch.t) == ([0, 2], None)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_ahead_of_the_clock_is_bad(form):
    events = [{"src": 1, "dst": 2, "t": t} for t in (5, 10, 11, 9)]
    found = decode_events(encoded(events, form), form, "int64", latest=10)
    assert (found.rows.tolist(), [bad.row for bad in found.bad]) == ([0, 1, 3], [2])
    assert "t is 11; allowed is at most 10" in found.bad[0].reason
    assert decode_events(encoded(events, form), form, "int64").bad == ()


@pytest.mark.parametrize("form", FORMS)
def test_the_limit_is_on_events(form):
    body = encoded([{"src": 1, "dst": 2}] * 10, form)
    assert len(decode_events(body, form, "int64", limit=10).batch) == 10
    with pytest.raises(EventError, match="more than 9 events"):
        decode_events(body, form, "int64", limit=9)
    if form != "arrow":
        body = encoded([5] * 10, form)
        with pytest.raises(EventError, match="more than 9 events"):
            decode_events(body, form, "int64", limit=9)


def test_a_list_beyond_the_limit_is_not_taken_apart(monkeypatch):
    """Two bytes a row, and sixty for each in a list of them."""
    monkeypatch.setattr(wire, "_RAWS", None)
    for element in (b"1", b'{"src": 1}'):
        body = b"[" + b",".join([element] * 1_000_000) + b"]"
        with pytest.raises(EventError, match="more than 1,000 events"):
            decode_events(body, "json", "int64", limit=1000)
    body = b"[" + b",".join([b"1"] * 1_500_000) + b"]"  # fewer than a million events could have
    with pytest.raises(EventError, match="more than 1,000,000 events"):
        decode_events(body, "json", "int64")


def test_arguments_are_checked():
    with pytest.raises(OptionError, match="'json', 'ndjson', 'arrow'"):
        decode_events(b"[]", "csv", "int64")
    with pytest.raises(OptionError, match="allowed are"):
        decode_events(b"[]", "json", "float")


def test_long_events_and_reasons_are_cut():
    row = b'{"src": "a", "dst": 7, "note": "' + "ø€😀".encode() * 5000 + b'"}'
    found = decode_events(b"[" + row + b"]", "json", "string")
    assert len(found.bad[0].text) == 1000
    assert found.bad[0].text == row.decode()[:1000]
    found = decode_events(b"[" + row.replace(b"7", b'"' + b"x" * 9000 + b'"') + b"]", "json", "string")
    assert len(found.bad[0].reason) < 500


# Arrow


def columns(**others):
    return {"src": ["a", "b", "c"], "dst": ["x", "y", "z"]} | others


SAME = {
    "plain": columns(),
    "large": columns(src=pa.array(["a", "b", "c"], pa.large_string())),
    "words": columns(src=pa.array(["a", "b", "c"]).dictionary_encode()),
    "large words": columns(src=pa.array(["a", "b", "c"], pa.large_string()).dictionary_encode()),
    "other columns": columns(x=[[1], None, [2, 3]], y=[{"z": 1}] * 3, z=pa.nulls(3)),
    "a slice": pa.table(columns(src=["a", "b", "c"])).slice(0),
}


@pytest.mark.parametrize("chunk", [None, 1, 2])
@pytest.mark.parametrize("name", sorted(SAME))
def test_strings_of_every_kind_in_arrow(name, chunk):
    found = decode_events(stream(pa.table(SAME[name]), chunk), "arrow", "string")
    assert_sound(found, "string")
    assert found.bad == ()
    assert in_rows(found.batch) == in_rows(read_events(columns()))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integers_of_every_kind_in_arrow(kind):
    table = pa.table({"src": pa.array([1, 2], kind), "dst": pa.array([3, 4], kind).dictionary_encode()})
    found = decode_events(stream(table), "arrow", "int64")
    assert (found.batch.src.values.tolist(), found.batch.dst.values.tolist()) == ([1, 2], [3, 4])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int8(), pa.uint64(), pa.float16()])
def test_numbers_of_every_kind_in_arrow(kind):
    values = (
        pa.array([1, 2], pa.int64()).cast(kind) if kind != pa.float16() else pa.array(np.array([1, 2], "f2"))
    )
    table = pa.table(
        {"src": [1, 2], "dst": [3, 4], "weight": values, "t": values, "op": pa.array([1, -1], pa.int8())}
    )
    batch = decode_events(stream(table), "arrow", "int64").batch
    assert (batch.weight.tolist(), batch.t.tolist()) == ([1, 2], [1, 2])


def test_dates_in_arrow_are_seconds():
    for unit in ("s", "ms", "us", "ns"):
        t = (
            pa.array([1, None], pa.timestamp(unit, "Asia/Tokyo"))
            if unit == "s"
            else pa.array([1, 2], pa.timestamp(unit))
        )
        table = pa.table({"src": [1, 2], "dst": [3, 4], "t": t})
        found = decode_events(stream(table), "arrow", "int64", latest=1e9)
        assert found.batch.t.dtype == np.float64
        assert found.batch.t[0] == {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
        assert len(found.bad) == (unit == "s")


SINGLE = {
    "no src": (columns(src=["a", None, "c"]), "string", "src is empty"),
    "no dst": (columns(dst=[None, None, "c"]), "string", "dst is empty"),
    "no word": (columns(src=pa.array(["a", None, "c"]).dictionary_encode()), "string", "src is empty"),
    "too long": (columns(src=["a", "x" * 300, "c"]), "string", "bytes"),
    "a long word": (columns(src=pa.array(["a", "x" * 300, "c"]).dictionary_encode()), "string", "bytes"),
    "no number": ({"src": [1, None, 3], "dst": [1, 2, 3]}, "int64", "src is empty"),
    "above int64": (
        {"src": pa.array([1, 2**63, 3], pa.uint64()), "dst": [1, 2, 3]},
        "int64",
        "src is 9223372036854775808; ids are below 2.63",
    ),
    "above int64, and none": (
        {"src": pa.array([1, 2**63, None], pa.uint64()), "dst": [1, 2, 3]},
        "int64",
        "src is 9223372036854775808; ids are below 2.63|src is empty",
    ),
    "op": (columns(op=[1, 3, -1]), "string", "op is 3"),
    "no op": (columns(op=[1, None, -1]), "string", "op is empty"),
    "another word": (columns(op=["add", "put", "remove"]), "string", "op is empty or another word"),
    "weight": (columns(weight=[1, 0, 2]), "string", "weight is 0"),
    "not a weight": (columns(weight=[1, math.nan, 2]), "string", "weight is nan"),
    "no weight": (columns(weight=[1, None, 2]), "string", "weight is nan"),
    "not a time": (columns(t=[1, math.nan, 2]), "string", "t is missing"),
    "an infinite time": (columns(t=[1, -math.inf, 2]), "string", "t is -inf"),
    "no time": (columns(t=[1, None, 2]), "string", "t is missing"),
}


@pytest.mark.parametrize("chunk", [None, 1])
@pytest.mark.parametrize("name", sorted(SINGLE))
def test_single_cells_of_arrow(name, chunk):
    table, kind, reason = SINGLE[name]
    found = decode_events(stream(pa.table(table), chunk), "arrow", kind)
    assert_sound(found, kind)
    assert found.total == 3
    assert 1 in [bad.row for bad in found.bad]
    assert len(found.batch) >= 1
    for bad in found.bad:
        with pytest.raises(EventError, match=reason):
            raise EventError(bad.reason)
        assert msgspec.json.decode(bad.text.encode()) if len(bad.text) < 1000 else True


WHOLE = {
    "no dst": (pa.table({"src": [1]}), "no column src or dst"),
    "src twice": (pa.table([[1], [2], [3]], names=["src", "src", "dst"]), "two columns 'src'"),
    "floats": (pa.table({"src": [1.0], "dst": [2.0]}), "holds double, the graph has int64 ids"),
    "strings": (pa.table(columns()), "holds string, the graph has int64 ids"),
    "booleans": (pa.table({"src": [True], "dst": [False]}), "holds bool"),
    "lists": (pa.table({"src": [[1]], "dst": [[2]]}), "holds list"),
    "structs": (pa.table({"src": [{"a": 1}], "dst": [2]}), "holds struct"),
    "bytes": (pa.table({"src": [b"a"], "dst": [b"b"]}), "holds binary"),
    "dates": (pa.table({"src": pa.array([1], pa.date32()), "dst": [2]}), "holds date32"),
    "words of floats": (pa.table({"src": pa.array([1.0]).dictionary_encode(), "dst": [2]}), "holds double"),
    "runs": (
        pa.table({"src": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), [1]), "dst": [1]}),
        "holds run_end_encoded",
    ),
    "a boolean op": (pa.table({"src": [1], "dst": [2], "op": [True]}), "'op' holds bool"),
    "a weight in words": (pa.table({"src": [1], "dst": [2], "weight": ["1"]}), "'weight' holds string"),
    "a time in words": (pa.table({"src": [1], "dst": [2], "t": ["1"]}), "'t' holds string"),
    "a list of weights": (pa.table({"src": [1], "dst": [2], "weight": [[1.0]]}), "'weight' holds list"),
}


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_column_of_a_wrong_type_is_the_whole_body(name):
    table, reason = WHOLE[name]
    found = decode_events(stream(table), "arrow", "int64")
    assert_sound(found, "int64")
    assert [bad.row for bad in found.bad] == [-1]
    assert reason in found.bad[0].reason


@pytest.mark.parametrize("body", [b"", b"\0" * 64, b"ARROW1\0\0", b"\xff" * 64, b'[{"src": 1, "dst": 2}]'])
def test_what_is_no_stream(body):
    found = decode_events(body, "arrow", "int64")
    assert_sound(found, "int64")
    assert [bad.row for bad in found.bad] == [-1]


def test_every_truncation_of_a_stream():
    whole = stream(pa.table(columns(op=[1, -1, 1], t=[1, 2, 3])), 1)
    for size in range(len(whole)):
        assert_sound(decode_events(whole[:size], "arrow", "string"), "string")


def test_empty_columns_and_all_empty_times():
    table = pa.table({"src": [1, 2], "dst": [3, 4], "t": pa.nulls(2)})
    found = decode_events(stream(table), "arrow", "int64")
    assert (found.bad, found.batch.t) == ((), None)
    table = pa.table({"src": pa.nulls(2), "dst": pa.nulls(2)})
    for kind in ("int64", "string"):
        assert [bad.row for bad in decode_events(stream(table), "arrow", kind).bad] == [0, 1]


def check_compressed():
    zeros = pa.table({"src": np.zeros(300_000, np.int64), "dst": np.zeros(300_000, np.int64)})
    words = pa.table({"src": pa.array(["x" * 10_000_000, "b"]).dictionary_encode(), "dst": ["a", "b"]})
    for table, kind in ((zeros, "int64"), (words, "string")):
        for method in ("zstd", "lz4"):
            found = decode_events(stream(table, compression=method), "arrow", kind)
            assert [bad.row for bad in found.bad] == [-1]
            assert "without compression" in found.bad[0].reason


def test_compressed_streams_are_not_unpacked():
    """Some kilobytes could become gigabytes."""
    check_compressed()


def test_unpacking_would_be_noticed(monkeypatch):
    monkeypatch.setattr(wire_arrow, "_is_compressed", lambda message: False)
    with pytest.raises(AssertionError):
        check_compressed()


def test_a_few_long_words_do_not_become_gigabytes():
    """50,000 events that name one word of a megabyte would be 50 GB."""
    indices = pa.array(np.zeros(50_000, np.int32))
    long = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 1_000_000]))
    table = pa.table({"src": long, "dst": long, "op": long})
    before = pa.default_memory_pool().max_memory()
    found = decode_events(stream(table), "arrow", "string")
    assert len(found.bad) == 50_000
    assert pa.default_memory_pool().max_memory() - before < 1e9


def test_string_views_are_refused():
    """They may point anywhere; following those of empty cells once ended the process."""
    for views in (
        pa.array(["a"], pa.string_view()),
        pa.nulls(1, pa.dictionary(pa.int32(), pa.string_view())),
    ):
        found = decode_events(stream(pa.table({"src": ["b"], "dst": views})), "arrow", "string")
        assert [(bad.row, "string views" in bad.reason) for bad in found.bad] == [(-1, True)]


def test_batches_are_counted():
    table = pa.table({"src": np.arange(1001), "dst": np.arange(1001)})
    assert decode_events(stream(table.slice(1), 1), "arrow", "int64").bad == ()
    found = decode_events(stream(table, 1), "arrow", "int64")
    assert "more than 1,000 batches" in found.bad[0].reason


# One in a hundred


@cache
def one_in_a_hundred(form):
    events = [{"src": i, "dst": i + 1, "t": float(i)} for i in range(5000)]
    for at in range(50, 5000, 100):
        event = events[at]
        if form == "arrow" or at % 3 == 0:
            event["t"] = math.inf if form == "arrow" else 1e300
        else:
            event["src"] = 1.5 if at % 3 == 1 else None
    return encoded(events, form)


def check_one_in_a_hundred(form):
    found = decode_events(one_in_a_hundred(form), form, "int64", latest=1e9)
    assert_sound(found, "int64")
    bad = range(50, 5000, 100)
    assert [event.row for event in found.bad] == list(bad)
    expected = np.setdiff1d(np.arange(5000), bad)
    assert np.array_equal(found.rows, expected)
    assert np.array_equal(found.batch.src.values, expected)
    assert np.array_equal(found.batch.t, expected.astype(float))


@pytest.mark.parametrize("form", FORMS)
def test_one_bad_event_in_a_hundred(form):
    check_one_in_a_hundred(form)


def one_too_far(columns, latest=None, *, whole=row_errors.bad_rows):
    return {row + 1: reason for row, reason in whole(columns, latest).items()}


MUTANTS = {
    "the wrong rows are left out": (row_errors, "bad_rows", one_too_far),
    "all is good": (row_errors, "bad_rows", lambda columns, latest=None: {}),
    "no clock": (
        row_errors,
        "bad_rows",
        lambda columns, latest=None, whole=row_errors.bad_rows: whole(columns),
    ),
    "nothing is left out": (row_errors, "keep_rows", lambda columns, keep: columns),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_events_that_are_sifted_wrongly_would_be_noticed(name, form, monkeypatch):
    if (name, form) == ("no clock", "arrow"):
        return  # nothing in it is ahead
    monkeypatch.setattr(*MUTANTS[name])
    with pytest.raises((AssertionError, IndexError)):
        check_one_in_a_hundred(form)


def test_ids_through_floats_would_be_noticed(monkeypatch):
    right = wire._columns
    monkeypatch.setattr(
        wire,
        "_columns",
        lambda events: right(events) | {"src": [int(float(event.src)) for event in events]},
    )
    with pytest.raises(AssertionError):
        test_good_events_are_what_read_events_reads("beyond floats", "json")


# The short way and the long way


IDS = {
    "int64": st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 5)),
    "string": st.one_of(st.text(max_size=8), st.sampled_from(["x" * 256, "ø" * 128])),
}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=300),
    st.integers(-(2**70), 2**70),
)


@st.composite
def messages(draw, kind, junk):
    """Events, some of them with a value that is allowed nowhere or elsewhere."""
    value = st.one_of(*[IDS[kind]] * 12, JUNK) if junk else IDS[kind]
    optional = {
        "op": st.sampled_from([1, -1, "add", "remove"]),
        "weight": st.floats(1e-300, 1e300),
        "t": st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(-1e300, 1e300)),
    }
    if junk:
        optional = {name: st.one_of(*[allowed] * 12, JUNK) for name, allowed in optional.items()}
    event = st.fixed_dictionaries({"src": value, "dst": value}, optional=optional)
    return draw(st.lists(event, max_size=12))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_short_way_and_the_long_way_agree(data):
    kind = data.draw(st.sampled_from(["int64", "string"]))
    events = data.draw(messages(kind, data.draw(st.booleans())))
    body = json.dumps(events).encode()
    latest = data.draw(st.sampled_from([None, 0.0, 1e18]))
    short = decode_events(body, "json", kind, latest=latest)
    assert_sound(short, kind)
    assert short.total == len(events)
    split = wire._split_by_brackets(body, 1000)
    assert split == [bytes(row) for row in wire._RAWS.decode(body)]
    lines = decode_events(encoded(events, "ndjson"), "ndjson", kind, latest=latest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(wire._LISTS, kind, msgspec.json.Decoder(int))
        long = decode_events(body, "json", kind, latest=latest)
    for other in (lines, long):
        assert in_rows(short.batch) == in_rows(other.batch)
        assert short.rows.tolist() == other.rows.tolist()
        assert short.bad == other.bad


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_all_forms_agree_with_each_other_and_with_read_events(data):
    kind = data.draw(st.sampled_from(["int64", "string"]))
    events = data.draw(messages(kind, junk=False))
    timed = bool(events) and type(events[0].get("t"))
    for event in events:
        event["op"] = -1 if event.get("op") in (-1, "remove") else 1
        event.setdefault("weight", 1.0)
        event.pop("t", None)
        if timed is int or timed is float:
            event["t"] = data.draw(st.integers(0, 2**53) if timed is int else st.floats(0, 1e300))
    expected = in_rows(read_events(events)) if events else []
    for form in FORMS if events else FORMS[:2]:
        found = decode_events(encoded(events, form), form, kind)
        assert found.bad == ()
        assert in_rows(found.batch) == expected


# Anything at all


@given(st.binary(max_size=200), st.sampled_from(FORMS), st.sampled_from(["int64", "string"]))
@settings(max_examples=200, deadline=None)
def test_any_bytes(body, form, kind):
    assert_sound(decode_events(body, form, kind, latest=1e9), kind)


SEEDS = {
    ("json", "int64"): encoded([{"src": 1, "dst": BIG, "op": -1, "weight": 0.5, "t": 7}] * 3, "json"),
    ("json", "string"): encoded([{"src": "ann", "dst": "bøb", "op": "add", "x": [1, {"y": 2}]}] * 3, "json"),
    ("ndjson", "int64"): encoded([{"src": 1, "dst": 2, "t": 1.5}] * 3, "ndjson"),
    ("ndjson", "string"): encoded([{"src": "ann", "dst": "bøb"}] * 3, "ndjson"),
    ("arrow", "int64"): stream(pa.table({"src": [1, 2, None], "dst": [1, 2, 3], "t": [1.0, None, 2.0]}), 2),
    ("arrow", "string"): stream(
        pa.table(
            {
                "src": pa.array(["ann", "bob", "ann"]).dictionary_encode(),
                "dst": pa.array(["x" * 20, "y", None], pa.large_string()),
                "op": ["add", "remove", "add"],
                "other": [[1], [2, 3], None],
            }
        )
    ),
}


@st.composite
def damaged(draw):
    """A good message with flipped bits, bytes put in, parts copied or cut off."""
    (form, kind), body = draw(st.sampled_from(sorted(SEEDS.items())))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(body) - 1, 0)))
        change = draw(st.sampled_from(["flip", "insert", "cut", "copy", "drop", "set"]))
        if change == "flip" and body:
            body = body[:at] + bytes([body[at] ^ (1 << draw(st.integers(0, 7)))]) + body[at + 1 :]
        elif change == "insert":
            body = body[:at] + draw(st.binary(min_size=1, max_size=8)) + body[at:]
        elif change == "cut":
            body = body[:at]
        elif change == "copy":
            body = body[:at] + body[at : at + draw(st.integers(1, 40))] + body[at:]
        elif change == "drop":
            body = body[:at] + body[at + draw(st.integers(1, 8)) :]
        else:
            worst = draw(st.sampled_from([b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0" * 4, b'"', b"[", b"}"]))
            body = body[:at] + worst + body[at + len(worst) :]
    return form, kind, body


def assert_typed(form, kind, body):
    """A sound result, or the one error that there is."""
    try:
        found = decode_events(body, form, kind, latest=1e9, limit=1000)
    except TooManyRows:
        return
    assert_sound(found, kind)


@given(damaged())
@settings(max_examples=400, deadline=None)
def test_damaged_messages(message):
    assert_typed(*message)


@pytest.mark.slow
@given(damaged())
@settings(max_examples=100_000, deadline=None)
def test_many_damaged_messages(message):
    assert_typed(*message)


def test_rows_behind_many_bad_ones_have_the_reason_of_the_decoder():
    body = b"[%b]" % b",".join([b'{"src":"a","dst":2}'] * 1_500)
    bad = decode_events(body, "json", "int64").bad
    assert [one.row for one in bad] == list(range(1_500))
    assert bad[999].reason == 'src is "a"; allowed are whole numbers within int64, never floats'
    assert bad[1_000].reason.startswith(
        "Expected `int`, got `str` - at `$.src`; an event is an object such as"
    )
