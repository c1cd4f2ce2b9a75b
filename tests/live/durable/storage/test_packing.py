"""Batches become bytes and come back to the bit; anything else is refused."""

import math

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import python_ids, read_events, rows_of
from dygcn.engine.records import EventBatch, IdColumn
from dygcn.errors import DamagedLog
from dygcn.live.durable.storage import entries
from dygcn.live.durable.storage.entries import pack, pack_tolerance, unpack, unpack_tolerance
from dygcn.live.durable.storage.sqlite_file import LONGEST_BODY

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.floats(allow_nan=False, allow_infinity=False)


def assert_same(one: EventBatch, other: EventBatch) -> None:
    """To the bit, and of the same types."""
    assert one.src.kind == other.src.kind
    for name in ("src", "dst"):
        assert python_ids(getattr(one, name)).tolist() == python_ids(getattr(other, name)).tolist()
    for name in ("op", "weight", "t"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()


@st.composite
def batches(draw):
    ids = draw(st.sampled_from([INTS, TEXTS]))
    n = draw(st.integers(1, 12))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    columns = {"src": column(ids), "dst": column(ids), "op": column(st.sampled_from([1, -1]))}
    if draw(st.booleans()):
        columns["weight"] = column(st.floats(1e-300, 1e300))
    dated = draw(st.sampled_from(["no", "whole", "any"]))
    if dated != "no":
        columns["t"] = column(st.integers(-(2**62), 2**62) if dated == "whole" else TIMES)
    return read_events(columns)


@settings(deadline=None)
@given(batches(), st.none() | TIMES)
def test_any_batch_comes_back(batch, now):
    found, then = unpack(pack(batch, now))
    assert_same(found, batch)
    assert then == now
    assert then is None or math.copysign(1, then) == math.copysign(1, now)


@settings(deadline=None)
@given(batches(), st.data())
def test_rows_of_a_batch_come_back(batch, data):
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(batch) - 1)))), np.int64)
    part = rows_of(batch, rows)
    assert len(unpack(pack(part))[0]) == len(rows)
    if len(rows):
        assert_same(unpack(pack(part))[0], part)


def test_columns_that_do_not_lie_in_one_piece():
    words = pa.array(["zero", "ann", "bob", "cät"]).slice(1, 3)
    batch = read_events({"src": words, "dst": words, "t": np.arange(9)[::3]})
    assert_same(unpack(pack(batch))[0], batch)
    assert pack(batch) == pack(unpack(pack(batch))[0])


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_nothing_is_something(kind):
    batch = read_events([(1, 2)] if kind == "int64" else [("a", "b")])
    empty = rows_of(batch, np.empty(0, np.int64))
    found, now = unpack(pack(empty, 3.0))
    assert (len(found), found.src.kind, now) == (0, kind, 3.0)
    assert len(unpack(pack(read_events([])))[0]) == 0


def test_a_time_given_as_a_whole_number_is_read_as_a_time():
    assert unpack(pack(read_events([(1, 2)]), 7))[1] == 7.0


def test_the_most_events_of_an_entry_fit():
    """With the longest ids there are, and everything else they may have."""
    few, most = 100, 100_000
    longest = "x" * 256
    events = {"src": [longest] * few, "dst": [longest] * few, "weight": np.ones(few), "t": np.ones(few)}
    assert len(pack(read_events(events), 1.0)) * most // few < LONGEST_BODY


# ---- what is not what was written --------------------------------------------------------------------


def packed(**changes):
    """A batch of two events, with some fields replaced."""
    batch = read_events([("ann", "bob", 1.0, 1, 2.0), ("bob", "cät", 2.0, -1, 1.0)])
    fields = msgspec.to_builtins(
        msgspec.msgpack.decode(pack(batch, 5.0), type=entries._Packed), builtin_types=(bytes,)
    )
    names = [field.name for field in msgspec.structs.fields(entries._Packed)]
    return msgspec.msgpack.encode(
        [changes.get(name, value) for name, value in zip(names, fields, strict=True)]
    )


def numbers(*values, dtype=np.int64):
    return np.array(values, dtype).tobytes()


WRONG = {
    "one event more": {"count": 3},
    "fewer than none": {"count": -1},
    "too many": {"count": 2**62},
    "more than can be": {"count": 2**64 - 1},
    "a count that is text": {"count": "2"},
    "ids backwards": {"src": numbers(0, 6, 3)},
    "ids that begin later": {"src": numbers(1, 3, 6)},
    "ids behind the end": {"src": numbers(0, 3, 99)},
    "ids before the end": {"src": numbers(0, 3, 5)},
    "an id cut inside a letter": {"dst": numbers(0, 5, 7)},
    "not UTF-8": {"src_text": b"ann\xff\xff\xff"},
    "an id that is too long": {"src": numbers(0, 0, 300), "src_text": b"x" * 300},
    "bytes that are no numbers": {"src": b"123"},
    "no ids": {"src": b""},
    "ids of two types": {"src": numbers(1, 2), "src_text": None},
    "no operation": {"op": b""},
    "another operation": {"op": numbers(1, 0, dtype=np.int8)},
    "weight zero": {"weight": numbers(0, 1, dtype=np.float64)},
    "weight below zero": {"weight": numbers(-1, 1, dtype=np.float64)},
    "weight infinite": {"weight": numbers(np.inf, 1, dtype=np.float64)},
    "weight that is none": {"weight": numbers(np.nan, 1, dtype=np.float64)},
    "one weight": {"weight": numbers(1, dtype=np.float64)},
    "a time that is none": {"t": numbers(1, np.nan, dtype=np.float64)},
    "one time": {"t": numbers(1, dtype=np.float64)},
    "endless now": {"now": math.inf},
    "no now": {"now": math.nan},
    "now in words": {"now": "today"},
}


@pytest.mark.parametrize("what", sorted(WRONG))
def test_what_no_event_can_be_is_refused(what):
    with pytest.raises(DamagedLog):
        unpack(packed(**WRONG[what]))


def test_unchanged_it_is_taken():
    assert len(unpack(packed())[0]) == 2
    assert unpack(packed(weight=numbers(2, np.nan, dtype=np.float64)))[0].weight[0] == 2  # of a removal


def test_without_the_check_it_would_be_noticed(monkeypatch):
    """The mutant: lengths are looked at, and nothing else."""
    monkeypatch.setattr(entries, "_check", lambda batch, now: None)
    passed = 0
    for what in WRONG:
        try:
            unpack(packed(**WRONG[what]))
            passed += 1
        except DamagedLog:
            pass
    assert passed >= 9


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused_by_name(content):
    with pytest.raises(DamagedLog):
        unpack(content)


@settings(deadline=None)
@given(batches(), st.integers(0, 10**6), st.integers(0, 7))
def test_any_flipped_bit_is_refused_by_name_or_gives_events(batch, at, bit):
    """The chain notices it before; this is what stands behind the chain."""
    content = bytearray(pack(batch, 1.0))
    content[at % len(content)] ^= 1 << bit
    try:
        found, _ = unpack(bytes(content))
    except DamagedLog:
        return
    assert isinstance(found.src, IdColumn)
    assert set(found.op.tolist()) <= {1, -1}
    python_ids(found.src), python_ids(found.dst)


@pytest.mark.parametrize(
    "content", [b"\x91" * 5000, b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x80\x04K\x01."]
)
def test_hostile_bytes_are_refused(content):
    with pytest.raises(DamagedLog):
        unpack(content)


# ---- tolerances --------------------------------------------------------------------------------------


@given(st.floats(0, allow_infinity=False))
def test_any_tolerance_comes_back(tolerance):
    assert unpack_tolerance(pack_tolerance(tolerance)) == tolerance


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_what_is_no_tolerance_is_refused(value):
    for body in (pack_tolerance(value), b"", bytes(7), bytes(9)):
        with pytest.raises(DamagedLog, match="no tolerance"):
            unpack_tolerance(body)
