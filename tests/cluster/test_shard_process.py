"""Processes of shards, as threads of this one: with real sockets, real files and a front that comes again."""

import itertools
import threading
import time

import numpy as np
import pytest

from dygcn.cluster import process_front, queries, shard_process
from dygcn.cluster.front import FrontState
from dygcn.cluster.messages import (
    Beat,
    Entries,
    Events,
    Failed,
    Member,
    Members,
    Move,
    Register,
    Replaced,
    Resize,
    ShardSnapshot,
    Welcome,
)
from dygcn.cluster.process_front import Epochs, ProcessFront, Registry
from dygcn.cluster.shard_process import ShardProcess
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.store import SnapshotFolder, read_note
from dygcn.engine.events import id_column, read_events
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.errors import ClusterError
from dygcn.live.files import digest_of
from dygcn_lab.testbed.simulated_world import DiskLog

MODEL = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
_numbers = itertools.count()


class ThreadShards(ProcessFront):
    """Shards whose processes are threads here."""

    def __init__(self, folder, store, log, shards=(), model=MODEL):
        self.store, self.model, self.running, self.ended = store, model, {}, []
        super().__init__(folder, store, log, shards, "127.0.0.1")

    def add(self, number, snapshot):
        SnapshotFolder(self.store, number).save(snapshot)
        self.registry.want(number)
        self.start(number)

    def start(self, number):
        store = SnapshotFolder(self.store, number)
        find, end = lambda: read_note(self.store), self.ended.append
        process = ShardProcess(number, self.model, store, self.certificates.read(), find, every=20, end=end)
        self.running[number] = process
        return process

    def retire(self, number):
        self.registry.forget(number)
        self.running.pop(number).close()

    def close(self):
        for process in self.running.values():
            process.close()
        self.leave()


class Numbers:
    """Writes the log, and tells shards."""

    def __init__(self, log):
        self.log, self.shards = log, None

    def commit(self, entry):
        sequence = self.log.append(entry, "test", self.log.end)
        self.shards.announce(Entries(sequence - 1, (entry,), sequence))
        return sequence


class Cluster:
    """A cluster, and one process with the same events."""

    def __init__(self, folder, shards, seed=1):
        self.folder, self.log = folder, DiskLog()
        self.store = f"memory://processes-{next(_numbers)}"
        self.processes = ThreadShards(folder, self.store, self.log)
        for number in range(shards):
            self.processes.add(number, ShardSnapshot(0, SlotMap.even(shards), shards, None))
        self.numbers = Numbers(self.log)
        self.numbers.shards = self.processes
        self.front = FrontState(MODEL, self.processes, self.numbers.commit, 0)
        self.one, self.random = State(MODEL), np.random.default_rng(seed)

    def step(self):
        batch = self.batch()
        self.front.apply(batch)
        self.one.apply(batch)

    def batch(self):
        n = int(self.random.integers(1, 30))
        ends = self.random.integers(0, 60, (2, n))
        return read_events({"src": ends[0], "dst": ends[1], "op": self.random.choice([1, 1, -1], n)})

    def restart_front(self):
        running = self.processes.running
        self.processes.leave()
        self.processes = ThreadShards(self.folder, self.store, self.log, running)
        self.processes.running = running
        self.numbers.shards = self.processes
        self.front = FrontState(MODEL, self.processes, self.numbers.commit, self.log.end)

    def check(self):
        assert digest_of(self.front) == digest_of(self.one)
        ids = self.one.graph.nodes()
        names = self.one.graph.ids.names(ids)
        reply = self.front.queries.owners(queries.VectorQuery(self.front.queries.at, names))
        assert reply.here.all()
        assert (reply.vectors == self.one.reading().vectors(ids)).all()


@pytest.fixture
def cluster(tmp_path):
    made = []

    def make(shards, **how):
        made.append(Cluster(tmp_path, shards, **how))
        return made[-1]

    yield make
    for one in made:
        one.processes.close()


def test_shards_are_one_graph(cluster):
    run = cluster(3)
    for _ in range(60):
        run.step()
    run.check()
    assert all(process.post.sent for process in run.processes.running.values())


def test_a_process_that_comes_again_catches_up(cluster):
    run = cluster(2)
    for step in range(60):
        run.step()
        if step % 20 == 10:
            run.processes.running[step % 40 > 20].close()
            run.processes.start(int(step % 40 > 20))
    run.check()
    assert run.processes.running[0].post.epoch > 3


def test_the_front_comes_again(cluster):
    run = cluster(2)
    for step in range(45):
        run.step()
        if step % 20 == 10:
            before = run.processes.post.epoch
            run.restart_front()
            assert run.processes.post.epoch > before
    run.check()


def test_a_backlog_is_worked_off(cluster):
    """Entries that were not announced are fetched, also when there are many."""
    run = cluster(2)
    for _ in range(300):
        batch = run.batch()
        run.log.append(Events(batch), "test", run.log.end)
        run.one.apply(batch)
    run.processes.announce(Entries(300, (), 300))
    run.front = FrontState(MODEL, run.processes, run.numbers.commit, 300)
    run.check()


def test_slots_move_to_a_new_process_and_back(cluster):
    run = cluster(1)
    for _ in range(10):
        run.step()
    sequence = run.log.end + 1
    run.processes.add(1, ShardSnapshot(sequence, SlotMap.even(1), 2, None))
    for entry in (Resize(2), Move(tuple(range(2_048)), 1)):
        run.numbers.commit(entry)
    run.front = FrontState(MODEL, run.processes, run.numbers.commit, run.log.end)
    for _ in range(10):
        run.step()
    run.check()
    for entry in (Move(tuple(range(4_096)), 0), Resize(1)):
        run.numbers.commit(entry)
    run.front = FrontState(MODEL, run.processes, run.numbers.commit, run.log.end)
    run.processes.retire(1)
    for _ in range(10):
        run.step()
    run.check()


def test_a_process_that_has_a_successor_ends(cluster):
    run = cluster(1)
    run.step()
    stale = run.processes.running[0]
    run.processes.start(0)
    end = time.monotonic() + 60
    while not run.processes.ended:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert run.processes.ended == [0]
    stale.close()
    run.step()
    run.check()


def test_queries_wait_and_others_are_refused(cluster):
    run = cluster(1)
    run.step()
    later = queries.VectorQuery(2, id_column([1]))
    got = []
    asker = threading.Thread(target=lambda: got.append(run.processes.query({0: later})))
    asker.start()
    time.sleep(1.5)
    assert not got
    run.step()
    asker.join(60)
    assert got[0][0].position == 2
    with pytest.raises(ClusterError, match="Resize"):
        run.processes.query({0: Resize(1)})
    run.step()
    run.check()


def test_why_a_shard_does_not_start_is_told(cluster, monkeypatch):
    run = cluster(1)
    run.step()
    run.processes.running.pop(0).close()
    place = SnapshotFolder(run.store, 0)
    place._files.pipe_file(place._place(0, f"{0:020}.snapshot"), b"damaged")
    monkeypatch.setattr(process_front, "_LONG", 4.0)
    run.processes.start(0)
    with pytest.raises(ClusterError, match=r"0000\.snapshot is damaged"):
        run.processes.query({0: queries.ShardQuery(1)})
    assert run.processes.ended == [1]


# ---- the registry ----------------------------------------------------------------------------------------


def registry(tmp_path, wanted=(0, 1)):
    changes = []
    epochs = Epochs(tmp_path / "epoch")
    return Registry(epochs, Member(-1, epochs.next(), "front"), wanted, changes.append), changes


def beat(number, epoch):
    return Beat(Member(number, epoch, f"at-{number}-{epoch}"), 1)


def test_epochs_never_repeat(tmp_path):
    first, _ = registry(tmp_path)
    given = [first.reply(Register(0, f"a{one}")).epoch for one in range(3)]
    again, _ = registry(tmp_path)
    assert again.reply(Register(0, "b")).epoch > max(given)
    (tmp_path / "epoch").write_text("much")
    with pytest.raises(ClusterError, match="is damaged"):
        registry(tmp_path)


def test_a_front_that_comes_again_learns_from_beats(tmp_path):
    one, changes = registry(tmp_path)
    assert isinstance(one.reply(beat(0, 7)), Members)
    assert one.location(0) == "at-0-7"
    assert isinstance(one.reply(beat(0, 6)), Replaced)
    assert isinstance(one.reply(beat(5, 9)), Replaced)
    assert isinstance(one.reply(Register(0, "new")), Welcome)
    assert [len(members.all) for members in changes] == [2, 2]


def test_whoever_is_silent_is_named_once(tmp_path):
    one, _ = registry(tmp_path)
    one.reply(beat(0, 7))
    assert one.silent(0.0) == [0]
    assert one.silent(0.0) == []
    one.reply(beat(0, 7))
    assert one.silent(3.0) == []
    assert one.silent(0.0) == [0]
    assert isinstance(one.reply(Failed(0, "why")), Replaced)
    assert one.failures == {0: "why"}
    with pytest.raises(ClusterError, match="no query to the front"):
        one.reply(Resize(2))


def test_a_seeded_bug_is_noticed(cluster, monkeypatch):
    """Vectors of slots that moved, as they were before."""
    monkeypatch.setattr(shard_process.QueryHandlers, "note", lambda *_: None)
    with pytest.raises(AssertionError):
        test_what_moved_is_known(cluster)


def test_what_moved_is_known(cluster):
    run = cluster(2)
    batch = read_events([(1, 2), (3, 4)])
    assert run.front.apply(batch).moved.rows == run.one.apply(batch).moved.rows


def ask_slowly(cluster, monkeypatch):
    """Ask what takes longer than a question waits for its turn."""
    run, answer = cluster(1), shard_process.QueryHandlers.reply

    def slow(self, query):
        if isinstance(query, queries.SizeQuery):
            time.sleep(0.5)
        return answer(self, query)

    monkeypatch.setattr(shard_process.QueryHandlers, "reply", slow)
    monkeypatch.setattr(shard_process, "_PATIENCE", 0.1)
    monkeypatch.setattr(process_front, "_LONG", 5.0)
    return run.processes.query({0: queries.SizeQuery(0)})[0].edges


def test_an_answer_that_takes_long_arrives(cluster, monkeypatch):
    assert ask_slowly(cluster, monkeypatch) == 0


def test_a_shard_that_gives_up_while_it_answers_would_be_noticed(cluster, monkeypatch):
    monkeypatch.setattr(shard_process, "_LONGEST", 0.0)
    with pytest.raises(ClusterError, match="no answer"):
        ask_slowly(cluster, monkeypatch)
