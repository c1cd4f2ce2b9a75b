"""Records as bytes: every record comes back, and anything else is a `ClusterError`."""

from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.cluster import questions, wire
from dygcn.cluster.messages import Forward
from dygcn.cluster.protocol import (
    Ahead,
    Ask,
    Entries,
    Events,
    Fetch,
    Hello,
    MirrorRows,
    Move,
    Resize,
    Snapshot,
    Status,
    Told,
)
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.wire import RECORDS, pack, pack_parts, unpack
from dygcn.engine.events import id_column, python_ids, read_events
from dygcn.engine.models import Model
from dygcn.errors import ClusterError

MODEL = Model((np.eye(4, dtype=np.float32),) * 3, "string", "hashed", np.ones(4), half_life=2.0, unit=1.0)
BATCH = read_events(
    {"src": ["a", "b", "é"], "dst": ["b", "c", "a"], "op": [1, 1, -1], "weight": [1, 0.5, 2], "t": [1, 2, 3]}
)
EMPTY = id_column(np.empty(0, "U1"))
FORWARD = Forward(
    id_column(["a"]), id_column(["b"]), np.array([4]), id_column(["c"]), np.array([1]), np.array([[5, -6]])
)


def shard():
    one = Shard(MODEL, 0, SlotMap.even(1), 1)
    one.settle(BATCH)
    one.spread({})
    one.settle(read_events({"src": ["a"], "dst": ["b"], "op": [-1], "t": [4.0]}))
    one.spread({})
    return one


def examples():
    one = shard()
    return [
        Events(BATCH),
        Events(read_events([(1, 2)]), now=4.5),
        Move((1, 2, 4_095), 3),
        Resize(8),
        Fetch(1, 7),
        Entries(7, (Events(BATCH), Move((), 0), Resize(2)), 10),
        Told(1, 2, FORWARD, -1),
        Ask(0, 2**62),
        Status(-1, 5),
        Hello(1, 3, 5, id_column([7, -(2**63)])),
        Ahead(1, 2, 3, 4),
        MirrorRows(1, 2, 3, FORWARD),
        Snapshot(3, SlotMap.even(4), 4, None),
        Snapshot(3, SlotMap.even(4), 4, one.image()),
        one.image(),
        BATCH,
        EMPTY,
        questions.Vectors(5, np.array([1, 0], np.int8), np.ones((1, 3), np.float32)),
    ]


def assert_same(a, b):
    assert type(a) is type(b)
    if is_dataclass(a):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    else:
        assert a == b


@pytest.mark.parametrize("record", examples(), ids=lambda one: type(one).__name__)
def test_records_come_back(record):
    again = unpack(pack(record))
    assert_same(again, record)
    assert b"".join(bytes(part) for part in pack_parts(record)) == pack(record)


def test_every_record_can_be_written():
    assert {"Told", "Events", "Snapshot", "GraphImage", "AskVectors"} <= set(RECORDS)
    for kind in RECORDS.values():
        wire._codec(kind)


def test_what_is_sent_again_is_the_same():
    assert pack(unpack(pack(Told(1, 2, FORWARD, 3)))) == pack(Told(1, 2, FORWARD, 3))


IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=100)
@given(st.data())
def test_any_forward_comes_back(data):
    kinds = [IDS, st.lists(st.text(max_size=6).filter(lambda one: one.isprintable()), max_size=5)]
    kind = data.draw(st.sampled_from(kinds))
    changes, new = data.draw(kind), data.draw(kind)
    empty = np.empty(0, np.int64) if kind is IDS else np.empty(0, "U1")
    numbers = [
        np.array(data.draw(st.lists(NUMBERS, min_size=size, max_size=size)), np.int64)
        for size in (len(changes), len(new), 3 * len(new))
    ]
    column = [id_column(ids if ids else empty) for ids in (changes, changes, new)]
    told = Forward(column[0], column[1], numbers[0], column[2], numbers[1], numbers[2].reshape(-1, 3))
    assert_same(unpack(pack(told)), told)


# ---- what is refused -------------------------------------------------------------------------------------


@dataclass
class Stranger:
    x: int


@pytest.mark.parametrize("record", [7, "text", None, Stranger(1), [Resize(2)]])
def test_only_records_are_written(record):
    with pytest.raises(ClusterError, match="is no record of a cluster"):
        pack(record)


@pytest.mark.parametrize(
    "record",
    [
        replace(FORWARD, node=[1]),
        Status(1, "many"),
        Status(1, 2**70),
        Entries(0, (Stranger(1),), 1),
        questions.Vectors(5, np.ones(1), np.ones((1, 3), np.float32)),
        questions.Vectors(5, np.array(["object"], object), np.ones((1, 3), np.float32)),
    ],
)
def test_records_of_other_parts_are_not_written(record):
    with pytest.raises(ClusterError, match="cannot be sent"):
        pack(record)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",
        b"\xff\xff\xff\xff",
        b"\x01\0\0\0\x93",
        b"nonsense",
        b"\x05\0\0\0\xdd\xff\xff\xff\xff",  # a list of 2^32 - 1
        b"\x10\0\0\0" + b"\x91" * 16,
        b"\xff\xff\0\0" + b"\x91" * 65_535,
        pack(Resize(3)) + b"\0",
    ],
)
def test_nonsense_is_refused(body):
    with pytest.raises(ClusterError, match="cannot be read"):
        unpack(body)


def test_parts_that_do_not_fit_are_refused():
    image = shard().image()
    wrong = [
        replace(FORWARD, change=np.array([1, 2])),
        replace(FORWARD, degree=np.array([1, 2])),
        SlotMap(np.zeros(17, np.int16)),
        SlotMap(np.full(4_096, -1, np.int16)),
        replace(image, a=image.a + 100),
        replace(image, weight=image.weight[:-1]),
        replace(BATCH, op=BATCH.op[:-1]),
        replace(id_column(["a", "b"]), values=np.array([0, 3, 2])),
    ]
    for record in wrong:
        with pytest.raises(ClusterError, match="cannot be read"):
            unpack(pack(record))


@pytest.mark.parametrize("record", examples(), ids=lambda one: type(one).__name__)
def test_cut_and_changed_bytes_are_refused_or_read(record):
    body, random = pack(record), np.random.default_rng(3)
    for size in {*range(min(len(body), 200)), *random.integers(0, len(body), 50).tolist()}:
        with pytest.raises(ClusterError):
            unpack(body[:size])
    head = min(len(body), 400)
    for at in range(head):
        for bit in range(8):
            try_changed(body, {at: 1 << bit})
    for _ in range(1_000):
        places = random.integers(0, len(body), int(random.integers(1, 5))).tolist()
        try_changed(body, {at: int(random.integers(1, 256)) for at in places})


def try_changed(body, changes):
    wrong = bytearray(body)
    for at, bits in changes.items():
        wrong[at] ^= bits
    try:
        record = unpack(bytes(wrong))
    except ClusterError:
        return
    assert type(record) in RECORDS.values()
    if isinstance(record, Forward):
        python_ids(record.new)


def test_a_seeded_bug_is_noticed(monkeypatch):
    """Offsets of text that are not checked read beyond it."""
    monkeypatch.setitem(wire._CHECKS, wire.IdColumn, lambda ids: True)
    wire._codec.cache_clear()
    try:
        with pytest.raises(pytest.fail.Exception):
            test_parts_that_do_not_fit_are_refused()
    finally:
        wire._codec.cache_clear()
