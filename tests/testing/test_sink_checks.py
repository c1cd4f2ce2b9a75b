"""The checks of sinks, checked: a sink in memory passes, and each seeded bug is found by one of them."""

import threading
import time

import numpy as np
import pytest

from dygcn.errors import SinkError
from dygcn.sinks.shape import Shape, opened
from dygcn.testing.sink_checks import SINK_CHECKS, SinkPlace, check_random_sequences, check_sink
from dygcn.testing.sink_model import SinkModel, made_up_vector, make_rows, replayed


class Memory:
    """A server in memory: what is on its disk, and whether it runs."""

    def __init__(self):
        self.model, self.shape = SinkModel(), None
        self.lock, self.runs = threading.Lock(), True

    def restart(self):
        self.runs = False
        time.sleep(0.01)
        self.runs = True


class MemorySink:
    name = "memory"

    def __init__(self, memory):
        self.memory, self.shape = memory, None

    def open(self, kind, dim):
        self.shape, shape = None, Shape(kind, dim)
        if self.memory.shape is not None:
            shape.refuse(self.name, str(self.memory.shape))
        self.shape = self.memory.shape = shape

    def write(self, rows):
        opened(self.shape, self.name).check(rows, self.name)
        with self.memory.lock:
            self.reach()
            self.put(rows)

    def put(self, rows):
        self.memory.model.write(rows)

    def settle(self, floor):
        opened(self.shape, self.name)
        with self.memory.lock:
            self.reach()
            self.memory.model.settle(floor)

    def close(self):
        self.shape = None

    def reach(self):
        if not self.memory.runs:
            raise SinkError("memory is down")


def fresh(sink=MemorySink, server=Memory):
    memory = server()
    return SinkPlace(lambda: sink(memory), lambda: memory.model.held(), memory.restart)


def test_a_sink_in_memory_passes():
    check_sink(fresh, examples=20)


class OlderWins(MemorySink):
    def put(self, rows):
        for id_ in rows.ids.tolist():
            self.memory.model.known.pop(id_, None)
        super().put(rows)


class LeftIsForgotten(MemorySink):
    def put(self, rows):
        super().put(rows)
        known = self.memory.model.known
        self.memory.model.known = {id_: row for id_, row in known.items() if row[1] is not None}


class LateLeavingWins(MemorySink):
    def put(self, rows):
        super().put(rows)
        for id_ in rows.left.tolist():
            self.memory.model.known.pop(id_, None)


class Rounded(MemorySink):
    def put(self, rows):
        rows.vectors[:] = np.where(np.abs(rows.vectors) < 1e-40, 0, rows.vectors)
        super().put(rows)


class NoMinusZero(MemorySink):
    def put(self, rows):
        super().put(type(rows)(rows.ids, rows.vectors + np.float32(0), *self.rest(rows)))

    def rest(self, rows):
        return rows.versions, rows.left, rows.left_versions


class VersionsAreDoubles(NoMinusZero):
    def put(self, rows):
        doubles = rows.versions.astype(np.float64).clip(max=2**62).astype(np.int64)
        MemorySink.put(self, type(rows)(rows.ids, rows.vectors, doubles, *self.rest(rows)[1:]))


class IdsAreFolded(NoMinusZero):
    def put(self, rows):
        if rows.ids.dtype == object:
            ids = np.array([id_.strip().lower() for id_ in rows.ids], object)
            rows = type(rows)(ids, rows.vectors, *self.rest(rows))
        MemorySink.put(self, rows)


class IdsAreDoubles(NoMinusZero):
    def put(self, rows):
        if rows.ids.dtype == np.int64:
            ids = rows.ids.astype(np.float64).clip(max=2**62).astype(np.int64)
            rows = type(rows)(ids, rows.vectors, *self.rest(rows))
        MemorySink.put(self, rows)


class NulEndsAText(NoMinusZero):
    def put(self, rows):
        if rows.ids.dtype == object:
            ids = np.array([id_.partition("\0")[0] for id_ in rows.ids], object)
            rows = type(rows)(ids, rows.vectors, *self.rest(rows))
        MemorySink.put(self, rows)


class FirstThousand(NoMinusZero):
    def put(self, rows):
        some = slice(1000)
        MemorySink.put(
            self, type(rows)(rows.ids[some], rows.vectors[some], rows.versions[some], *self.rest(rows)[1:])
        )


class SettlingForgets(MemorySink):
    def settle(self, floor):
        opened(self.shape, self.name)


class SettlingTakesTooMuch(MemorySink):
    def settle(self, floor):
        super().settle(floor + 1)


class AnyShape(MemorySink):
    def open(self, kind, dim):
        self.shape = Shape(kind, dim)


class Unchecked(MemorySink):
    def write(self, rows):
        opened(self.shape, self.name)
        with self.memory.lock:
            self.reach()
            self.put(rows)


class ClosedTakesRows(MemorySink):
    def close(self):
        pass


class ClosedOnce(MemorySink):
    def close(self):
        opened(self.shape, self.name)
        self.shape = None


class LastWriterWins(MemorySink):
    """Reads and writes without holding the lock."""

    def write(self, rows):
        opened(self.shape, self.name).check(rows, self.name)
        self.reach()
        mine = SinkModel(dict(self.memory.model.known))
        mine.write(rows)
        time.sleep(0.002)
        self.memory.model.known = mine.known


class Forgetful(Memory):
    """Loses the last write when it is killed."""

    def restart(self):
        with self.lock:
            for id_ in list(self.model.known)[-3:]:
                del self.model.known[id_]
        super().restart()


BUGS = {
    OlderWins: "repeats",
    LeftIsForgotten: "left",
    LateLeavingWins: "left",
    Rounded: "rows_arrive",
    NoMinusZero: "rows_arrive",
    VersionsAreDoubles: "repeats",
    IdsAreFolded: "ids",
    IdsAreDoubles: "ids",
    NulEndsAText: "nul",
    FirstThousand: "sizes",
    SettlingForgets: "settled",
    SettlingTakesTooMuch: "settled",
    AnyShape: "other_shapes",
    Unchecked: "other_shapes",
    ClosedTakesRows: "opening_and_closing",
    LastWriterWins: "two_writers",
}


@pytest.mark.parametrize("bug", BUGS)
def test_bug_would_be_noticed(bug):
    with pytest.raises(AssertionError):
        SINK_CHECKS[BUGS[bug]](lambda: fresh(bug))


def test_a_sink_that_cannot_be_closed_twice_would_be_noticed():
    with pytest.raises(SinkError, match="not open"):
        SINK_CHECKS["opening_and_closing"](lambda: fresh(ClosedOnce))


def test_a_server_that_forgets_would_be_noticed():
    with pytest.raises(AssertionError):
        SINK_CHECKS["interrupted"](lambda: fresh(server=Forgetful))


@pytest.mark.parametrize("bug", [OlderWins, SettlingTakesTooMuch])
def test_bug_would_be_noticed_by_random_sequences(bug):
    with pytest.raises(AssertionError):
        check_random_sequences(lambda: fresh(bug), examples=40)


def test_every_check_finds_some_bug():
    assert {*BUGS.values(), "interrupted"} == set(SINK_CHECKS)


def test_vectors_are_made_up_the_same_each_time():
    rows = make_rows({1: 1, 2: 1}, dim=300)
    assert rows.vectors.tobytes() == make_rows({1: 1, 2: 1}, dim=300).vectors.tobytes()
    assert np.isfinite(rows.vectors).all()
    assert made_up_vector(1, 1, 5).tobytes() != made_up_vector(1, 2, 5).tobytes()
    assert made_up_vector(1, 1, 5).tobytes() != made_up_vector(2, 1, 5).tobytes()


def test_messages_amount_to_what_the_model_says():
    bodies = [
        b'{"id":"a","version":1,"vector":[1]}',
        b'{"id":"b","version":2,"vector":[2]}',
        b'{"id":"a","version":3,"left":true}',
        b'{"id":"c","version":4,"vector":[-0.0]}',
        b'{"settled":3}',
        b'{"id":"a","version":1,"vector":[1]}',
    ]
    for order in (bodies, bodies[::-1], bodies * 2):
        held = replayed(order)
        assert [(id_, version, vector.tobytes()) for id_, (version, vector) in held.items()] == [
            ("c", 4, b"\0\0\0\x80")
        ]
