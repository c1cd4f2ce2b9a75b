"""The checks of sinks, checked: a sink in memory passes, and each seeded bug is found by one of them."""

import threading
import time
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from dygcn.engine.records import History
from dygcn.errors import SinkError
from dygcn.serving.sinks.sink import Shape, kind_of
from dygcn.testing import SinkTarget
from dygcn.testing.sink_checks import SINK_CHECKS, check_random_sequences, check_sink
from dygcn.testing.sink_model import SinkModel, made_up_history, made_up_vector, make_rows, named, replayed


def opened(shape, name):
    if shape is None:
        raise SinkError(f"{name} is not open")
    return shape


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

    def open(self, ids, dim):
        self.shape, shape = None, Shape(ids, dim)
        if self.memory.shape is not None:
            shape.refuse(self.name, str(self.memory.shape))
        self.shape = self.memory.shape = shape
        return self.memory.model.newest

    def write(self, rows):
        opened(self.shape, self.name).check(rows, self.name)
        with self.memory.lock:
            self.reach()
            self.put(rows)

    def put(self, rows):
        self.memory.model.write(rows)

    def delete_below(self, floor, history):
        opened(self.shape, self.name)
        with self.memory.lock:
            self.reach()
            self.memory.model.delete_below(floor, history)

    def close(self):
        self.shape = None

    def reach(self):
        if not self.memory.runs:
            raise SinkError("memory is down")

    @staticmethod
    def read(memory):
        rows = memory.model.held()
        with_kinds = memory.shape is not None and memory.shape.with_kinds
        return {named(id_, kind_of(id_) if with_kinds else None): row for id_, row in rows.items()}


def fresh(sink=MemorySink, server=Memory):
    memory = server()
    return SinkTarget(lambda: sink(memory), lambda: sink.read(memory), memory.restart)


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
        super().put(replace(rows, vectors=rows.vectors + np.float32(0)))


class VersionsAreDoubles(MemorySink):
    def put(self, rows):
        super().put(rows)
        for id_, (at, vector) in self.memory.model.known.items():
            double = replace(at, sequence=min(int(float(at.sequence)), 2**62))
            self.memory.model.known[id_] = (double, vector)


class IdsAreFolded(MemorySink):
    def put(self, rows):
        if rows.ids.dtype == object:
            rows = replace(rows, ids=np.array([id_.strip().lower() for id_ in rows.ids], object))
        super().put(rows)


class IdsAreDoubles(MemorySink):
    def put(self, rows):
        if rows.ids.dtype == np.int64:
            rows = replace(rows, ids=rows.ids.astype(np.float64).clip(max=2**62).astype(np.int64))
        super().put(rows)


class NulEndsAText(MemorySink):
    def put(self, rows):
        if rows.ids.dtype == object:
            rows = replace(rows, ids=np.array([id_.partition("\0")[0] for id_ in rows.ids], object))
        super().put(rows)


class FirstThousand(MemorySink):
    def put(self, rows):
        super().put(replace(rows, ids=rows.ids[:1000], vectors=rows.vectors[:1000]))


class SettlingForgets(MemorySink):
    def delete_below(self, floor, history):
        opened(self.shape, self.name)


class SettlingTakesTooMuch(MemorySink):
    def delete_below(self, floor, history):
        super().delete_below(floor + 1, history)


class KindsAreForgotten(MemorySink):
    @staticmethod
    def read(memory):
        return memory.model.held()


class KindsAreCutAtTheLastColon(MemorySink):
    @staticmethod
    def read(memory):
        rows = MemorySink.read(memory)
        return {
            (id_[1].rpartition(":")[0], id_[1]) if isinstance(id_, tuple) else id_: row
            for id_, row in rows.items()
        }


class KindsAreNotPartOfTheShape(MemorySink):
    def open(self, ids, dim):
        there = self.memory.shape
        if there is not None and there.stored == Shape(ids, dim).stored:
            ids = there.ids
        return super().open(ids, dim)


class AnyShape(MemorySink):
    def open(self, ids, dim):
        self.shape = Shape(ids, dim)
        return self.memory.model.newest


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
        mine = SinkModel(dict(self.memory.model.known), self.memory.model.newest)
        mine.write(rows)
        time.sleep(0.002)
        self.memory.model.known, self.memory.model.newest = mine.known, mine.newest


class Forgetful(Memory):
    """Loses the last write when it is killed."""

    def restart(self):
        with self.lock:
            for id_ in list(self.model.known)[-3:]:
                del self.model.known[id_]
        super().restart()


def one_epoch(history):
    """Return a position as a sink would note it that does not know of histories."""
    return History(0, "0" * 16, history.sequence, "0" * 32)


class GenerationsAreIgnored(MemorySink):
    """Versions alone decide, as they do where rows say nothing of their history."""

    def put(self, rows):
        known = {id_: (row, vector) for id_, (row, vector) in self.memory.model.known.items()}
        flat = SinkModel({id_: (one_epoch(row), vector) for id_, (row, vector) in known.items()})
        flat.write(replace(rows, history=one_epoch(rows.history)))
        super().put(rows)
        for id_, (row, vector) in flat.known.items():
            whole = known[id_][0] if id_ in known and one_epoch(known[id_][0]) == row else rows.history
            self.memory.model.known[id_] = (whole, vector)


class SettlesByVersionAlone(MemorySink):
    def delete_below(self, floor, history):
        others = {
            id_: row
            for id_, row in self.memory.model.known.items()
            if row[0].epoch != history.epoch and row[0].sequence >= floor
        }
        super().delete_below(floor, history)
        self.memory.model.known = others | self.memory.model.known


class AnOldLeavingHidesNewRows(MemorySink):
    """What left in an older generation is compared by its version alone."""

    def put(self, rows):
        known = self.memory.model.known
        newer = {id_ for id_, (at, _) in known.items() if at.sequence > rows.history.sequence}
        gone = {id_ for id_ in newer if known[id_][1] is None}
        kept = [row for row, id_ in enumerate(rows.ids.tolist()) if id_ not in gone]
        super().put(replace(rows, ids=rows.ids[kept], vectors=rows.vectors[kept]))


class NoFence(MemorySink):
    def put(self, rows):
        model, reached = self.memory.model, self.memory.model.newest
        model.newest = None
        super().put(rows)
        model.newest = reached if reached and reached.generation > rows.history.generation else model.newest


class NoFenceBeforeSettling(MemorySink):
    def delete_below(self, floor, history):
        newest = self.memory.model.newest
        self.memory.model.newest = None
        super().delete_below(floor, history)
        self.memory.model.newest = newest or history


class FenceAtOpenOnly(MemorySink):
    def open(self, ids, dim):
        self.reached = super().open(ids, dim)
        return self.reached

    def put(self, rows):
        self.memory.model.newest = self.reached
        super().put(rows)
        self.reached = self.memory.model.newest


class EpochsAreNotCompared(MemorySink):
    def put(self, rows):
        model = self.memory.model
        if model.newest and model.newest.generation == rows.history.generation:
            model.newest = replace(rows.history, sequence=0)
        super().put(rows)


class ChainsAreNotCompared(MemorySink):
    def put(self, rows):
        model = self.memory.model
        if model.newest and model.newest.epoch == rows.history.epoch:
            model.newest = replace(model.newest, chain=rows.history.chain)
        super().put(rows)


class ChainsAreNotKept(MemorySink):
    def open(self, ids, dim):
        held = super().open(ids, dim)
        return held and replace(held, chain="0" * 32)


class SaysTheFirstPosition(MemorySink):
    def open(self, ids, dim):
        held = super().open(ids, dim)
        return held and min((row[0] for row in self.memory.model.known.values()), default=held, key=repr)


class RowsSayTheNewestHistory(MemorySink):
    def put(self, rows):
        super().put(rows)
        model = self.memory.model
        model.known = {id_: (model.newest, vector) for id_, (_, vector) in model.known.items()}


class RepeatsOfAnEpochAreRefused(MemorySink):
    def put(self, rows):
        if self.memory.model.newest == rows.history:
            return
        super().put(rows)
        self.memory.model.known |= {
            id_: (rows.history, np.zeros(len(vector), np.float32))
            for id_, vector in zip(rows.ids.tolist(), rows.vectors, strict=True)
            if rows.history.generation > 1 and rows.history.sequence == 6
        }


BUGS = {
    OlderWins: "repeats",
    LeftIsForgotten: "left",
    LateLeavingWins: "left",
    Rounded: "rows_arrive",
    NoMinusZero: "rows_arrive",
    VersionsAreDoubles: "rows_arrive",
    IdsAreFolded: "ids",
    IdsAreDoubles: "ids",
    NulEndsAText: "nul",
    FirstThousand: "sizes",
    KindsAreForgotten: "kinds",
    KindsAreCutAtTheLastColon: "kinds",
    KindsAreNotPartOfTheShape: "kinds",
    SettlingForgets: "below",
    SettlingTakesTooMuch: "below",
    AnyShape: "other_shapes",
    Unchecked: "other_shapes",
    ClosedTakesRows: "opening_and_closing",
    LastWriterWins: "two_writers",
    GenerationsAreIgnored: "refit",
    SettlesByVersionAlone: "refit",
    AnOldLeavingHidesNewRows: "refit",
    NoFence: "stale_writer",
    NoFenceBeforeSettling: "stale_writer",
    FenceAtOpenOnly: "stale_writer",
    EpochsAreNotCompared: "equal_generation",
    ChainsAreNotCompared: "restored_copy",
    ChainsAreNotKept: "restored_copy",
    SaysTheFirstPosition: "rows_say_their_history",
    RowsSayTheNewestHistory: "rows_say_their_history",
    RepeatsOfAnEpochAreRefused: "repeated_histories",
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
    one, two = made_up_history(1), made_up_history(2)
    others = [(1, two), (2, one), (1, made_up_history(1, 2)), (1, made_up_history(1, branch="copy"))]
    for id_, history in others:
        assert made_up_vector(1, one, 5).tobytes() != made_up_vector(id_, history, 5).tobytes()


def test_rows_of_one_write_have_one_version():
    with pytest.raises(ValueError, match=r"rows of one write have one version; got \[1, 2\]"):
        make_rows({1: 1}, left={2: 2}, dim=3)


def said(generation, version, **what):
    return msgspec.json.encode(
        {"generation": generation, "epoch": f"e{generation}", "version": version, "chain": "c", **what}
    )


def amounts_to(bodies):
    return {
        (id_, at.generation, at.sequence, vector.tobytes()) for id_, (at, vector) in replayed(bodies).items()
    }


def test_messages_amount_to_what_the_model_says():
    bodies = [
        said(1, 1, id="a", vector=[1]),
        said(1, 2, id="b", vector=[2]),
        said(1, 3, id="a", left=True),
        said(1, 4, id="c", vector=[-0.0]),
        said(1, 4, deleted_below=3),
        said(1, 1, id="a", vector=[1]),
    ]
    for order in (bodies, bodies[::-1], bodies * 2):
        assert amounts_to(order) == {("c", 1, 4, b"\0\0\0\x80")}


def test_messages_of_a_later_generation_count_more_than_later_versions():
    one = np.float32(1).tobytes()
    bodies = [
        said(1, 900, id="a", vector=[0]),
        said(1, 900, id="b", vector=[0]),
        said(1, 900, id="c", left=True),
        said(2, 3, id="a", vector=[1]),
        said(2, 3, id="c", vector=[1]),
    ]
    for order in (bodies, bodies[::-1]):
        assert amounts_to(order) == {("a", 2, 3, one), ("b", 1, 900, b"\0\0\0\0"), ("c", 2, 3, one)}
    bodies += [said(2, 4, deleted_below=0), said(1, 900, deleted_below=900)]
    for order in (bodies, bodies[::-1]):
        assert amounts_to(order) == {("a", 2, 3, one), ("c", 2, 3, one)}


def test_the_model_takes_no_late_rows_and_no_rows_of_an_older_history():
    model = SinkModel()
    model.write(make_rows({7: 3}, left={8: 3}, dim=2))
    model.write(make_rows({7: 2, 8: 2}, dim=2))  # late: node 7 has version 3, node 8 left at 3
    assert {id_: at.sequence for id_, (at, _) in model.held().items()} == {7: 3}
    refit = make_rows({9: 1}, dim=2, generation=2)
    model.write(refit)
    model.delete_below(0, refit.history)
    assert {id_: at.sequence for id_, (at, _) in model.held().items()} == {9: 1}
