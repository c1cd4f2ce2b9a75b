"""Records as bytes: every record comes back, and anything else is a `ClusterError`."""

from dataclasses import dataclass, fields, is_dataclass, replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.cluster import queries, wire
from dygcn.cluster.messages import (
    BatchUpdate,
    Entries,
    Events,
    Fetch,
    HandedOver,
    MirrorRows,
    MirrorUpdate,
    Move,
    PastRequest,
    Progress,
    Remove,
    Resend,
    Resize,
    RowsRequest,
    ShardSnapshot,
)
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.wire import RECORDS, pack, pack_parts, unpack
from dygcn.engine.events import id_column, python_ids, read_events
from dygcn.engine.models.model import Model
from dygcn.errors import ClusterError

MODEL = Model((np.eye(4, dtype=np.float32),) * 3, "string", "hashed", np.ones(4), half_life=2.0, unit=1.0)
BATCH = read_events(
    {"src": ["a", "b", "é"], "dst": ["b", "c", "a"], "op": [1, 1, -1], "weight": [1, 0.5, 2], "t": [1, 2, 3]}
)
EMPTY = id_column(np.empty(0, "U1"))
FORWARD = MirrorUpdate(
    id_column(["a"]), id_column(["b"]), np.array([4]), id_column(["c"]), np.array([1]), np.array([[5, -6]])
)


def shard():
    one = Shard(MODEL, 0, SlotMap.even(1), 1)
    one.plan(BATCH)
    one.apply({})
    one.plan(read_events({"src": ["a"], "dst": ["b"], "op": [-1], "t": [4.0]}))
    one.apply({})
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
        BatchUpdate(1, 2, FORWARD, -1),
        Resend(0, 2**62),
        Progress(-1, 5),
        RowsRequest(1, 3, 5, id_column([7, -(2**63)])),
        PastRequest(1, 2, 3, 4),
        MirrorRows(1, 2, 3, FORWARD),
        ShardSnapshot(3, SlotMap.even(4), 4, None),
        ShardSnapshot(3, SlotMap.even(4), 4, one.image()),
        HandedOver(one.image()),
        Remove(EMPTY),
        queries.VectorReply(5, np.array([1, 0], np.int8), np.ones((1, 3), np.float32)),
    ]


def assert_same(a, b):
    assert type(a) is type(b)
    names = [field.name for field in fields(a)] if is_dataclass(a) else getattr(a, "__struct_fields__", ())
    if names:
        for name in names:
            assert_same(getattr(a, name), getattr(b, name))
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


def test_every_record_can_be_sent():
    assert {"BatchUpdate", "Events", "ShardSnapshot", "HandedOver", "VectorQuery"} <= set(RECORDS)
    for kind in RECORDS.values():
        msgspec.msgpack.Decoder(kind)  # which reads the types of all fields


def test_integers_are_as_narrow_as_they_can_be():
    for numbers, size in (([3, -2], 2), ([256, 512], 2), ([1, 300], 4), ([2**40 + 1, 0], 16), ([], 0)):
        reply = queries.RowReply(0, np.empty((0, 1), np.int64), np.array(numbers, np.int64))
        assert sum(map(len, pack_parts(reply)[2:])) == size


def test_what_is_sent_again_is_the_same():
    assert pack(unpack(pack(BatchUpdate(1, 2, FORWARD, 3)))) == pack(BatchUpdate(1, 2, FORWARD, 3))


IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=40)
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
    told = MirrorUpdate(column[0], column[1], numbers[0], column[2], numbers[1], numbers[2].reshape(-1, 3))
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
        msgspec.structs.replace(FORWARD, new=["c"]),
        Progress(1, "many"),
        Progress(1, 2**70),
        Entries(0, (Stranger(1),), 1),
        queries.VectorReply(5, np.ones(1), np.ones((1, 3), np.float32)),
        queries.VectorReply(5, np.array(["object"], object), np.ones((1, 3), np.float32)),
    ],
)
def test_records_of_other_parts_never_arrive(record):
    with pytest.raises(ClusterError, match=r"cannot be (sent|read)"):
        unpack(pack(record))


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
        *(msgspec.structs.replace(FORWARD, **{name: np.array([1, 2])}) for name in ("change", "degree")),
        msgspec.structs.replace(FORWARD, rows=np.array([1])),
        ShardSnapshot(3, SlotMap(np.zeros(17, np.int16)), 4, None),
        ShardSnapshot(3, SlotMap(np.full(4_096, -1, np.int16)), 4, None),
        HandedOver(replace(image, a=image.a + 100)),
        HandedOver(replace(image, weight=image.weight[:-1])),
        Events(replace(BATCH, op=BATCH.op[:-1])),
        Remove(replace(id_column(["a", "b"]), values=np.array([0, 3, 2]))),
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
    head = min(len(body), 200)
    for at in range(head):
        for bit in range(8):
            try_changed(body, {at: 1 << bit})
    for _ in range(300):
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
    if isinstance(record, MirrorUpdate):
        python_ids(record.new)


def test_a_seeded_bug_is_noticed(monkeypatch):
    """Offsets of text that are not checked read beyond it."""
    monkeypatch.setitem(wire._CHECKS, wire.IdColumn, lambda ids: True)
    with pytest.raises(pytest.fail.Exception):
        test_parts_that_do_not_fit_are_refused()
