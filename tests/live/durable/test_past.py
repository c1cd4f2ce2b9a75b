"""The past of a folder: `as_of` gives the digest that was there, or says that it is not kept."""

import hashlib
import itertools
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.models import folder as folders
from dygcn.errors import (
    DamagedFolder,
    DamagedLog,
    DygcnError,
    FolderError,
    MissingFolder,
    NoSuchPast,
    OptionError,
    StorageError,
    UnsupportedFolder,
)
from dygcn.live.durable import past, recovery, snapshots
from dygcn.live.durable.snapshots import KeepLog, OldSnapshot
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage import layout, times
from dygcn.live.durable.storage.entries import Kind
from dygcn.live.durable.storage.layout import LOG_FILE, list_snapshots, own_bytes
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.storage.sqlite_file import LogReader
from dygcn.live.files import Snapshot
from dygcn.paper import BaseRecipe
from dygcn_lab.testbed.seeding import small_model
from tests.live.crashing import begin, crash, many_folders, refuse_one
from tests.live.steps import step, take

SECOND = 1_000_000
NODES = st.integers(0, 9)
EVENT = st.tuples(NODES, NODES, st.just(0), st.sampled_from([1, 1, -1]), st.sampled_from([1.0, 2.5]))
EVENTS = st.lists(EVENT, max_size=4)
KEPT = ["0B", "3KB", "20KB", "1MB", "0s", "5s", "20s", "1d"]


# ---- any sequence of anything ------------------------------------------------------------------------


class PastMachine(RuleBasedStateMachine):
    """Everything that can be done to a folder; after each step the digest is written down."""

    @initialize(keep_log=st.sampled_from(KEPT), every=st.sampled_from([4, 10**9]), memory=st.booleans())
    def start(self, keep_log, every, memory):
        self.clock[0] = self.now = time.time_ns() // 1000 + SECOND
        self.keep_log, self.every = KeepLog.read(keep_log), every
        model = small_model(half_life=3.0 if memory else None)
        self.times = {"now": 1.0} if memory else {}
        self.live = dygcn.open(self.new_folder(), dygcn.start(model), snapshot_every=every, keep_log=keep_log)
        self.digests, self.versions = {0: self.live.digest()}, {0: 0}
        self.logged, self.last = {0: 0}, 0

    def note(self):
        """Write down what is served, and let a second pass."""
        self.live._snapshots.wait()
        sequence = self.live.sequence
        if sequence not in self.digests:
            self.logged[sequence] = self.last = max(self.last, self.clock[0])
        self.digests[sequence], self.versions[sequence] = self.live.digest(), self.live.version
        self.clock[0] += SECOND
        self.now = max(self.now, self.clock[0])

    # -- changes

    @rule(events=EVENTS)
    def update(self, events):
        self.live.update(events, **self.times)
        self.note()

    @rule(lists=st.lists(EVENTS, min_size=2, max_size=4))
    def ingest(self, lists):
        now, whole = self.times.get("now"), self.live._commit

        def commit(parts):
            done = whole(parts)
            self.note()  # parts with a time are batches of their own
            return done

        self.live._commit = commit
        self.live._ingest([SourceBatch(read_events(events, "int64"), now=now) for events in lists])
        del self.live._commit

    @rule(nodes=st.lists(NODES, max_size=2))
    def remove_nodes(self, nodes):
        self.live.update(remove_nodes=nodes)
        self.note()

    @rule(events=EVENTS)
    def bulk(self, events):
        self.live.bulk(
            [{"src": [e[0] for e in events], "dst": [e[1] for e in events], "t": [1.0] * len(events)}]
        )
        self.note()

    @rule()
    def refuse(self):
        refuse_one(self.live)
        self.note()

    @rule(tolerance=st.sampled_from([0.0, 0.05, 1.0]))
    def tolerate(self, tolerance):
        self.live.publish(tolerance=tolerance)
        self.note()

    @rule()
    def flush(self):
        self.live.publish()
        self.note()

    @rule()
    def begin_epoch(self):
        self.live.feed.begin_epoch()
        self.note()

    # -- what makes and drops the past

    @rule()
    def snapshot(self):
        self.live.snapshot()

    @rule()
    def crash(self):
        crash(self.live)
        self.live = dygcn.open(self.live._folder, snapshot_every=self.every)
        self.note()

    @rule()
    def restore(self):
        folder = self.new_folder()
        self.live.close()
        self.digests[self.live.sequence] = self.live.digest()  # what was kept back is published first
        if self.live.sequence not in self.logged:
            self.logged[self.live.sequence] = self.last = max(self.last, self.clock[0])
        self.versions[self.live.sequence] = self.live.version
        dygcn.restore(self.live._folder, folder)
        self.live = dygcn.open(folder, snapshot_every=self.every)
        self.note()

    @rule(seconds=st.sampled_from([-100, 1, 8, 50]))
    def pass_time(self, seconds):
        self.clock[0] += seconds * SECOND
        self.now = max(self.now, self.clock[0])

    # -- looking back

    def recorded(self, sequence):
        """Return the sequence whose state was served at another one, or in the middle of its batch."""
        return max(known for known in self.digests if known <= sequence)

    def look(self, as_of, sequence):
        """Compare the past with what was written down; return whether it is there."""
        known = self.recorded(sequence)
        try:
            found = dygcn.open(self.live._folder, as_of=as_of)
        except NoSuchPast:
            return False
        assert (found.digest(), found.version) == (self.digests[known], self.versions[known])
        assert known in (found.sequence, self.recorded(found.sequence))
        return True

    @rule(data=st.data())
    def look_back(self, data):
        sequence = data.draw(st.integers(0, self.live.sequence))
        there = self.look(sequence, sequence)
        kept = [at for at, _ in list_snapshots(self.live._folder)]
        if sequence >= (kept[1] if len(kept) > 1 else 0):
            assert there

    @rule(data=st.data())
    def look_back_in_time(self, data):
        seconds = data.draw(st.integers(0, 40))
        moment = max(self.clock[0], self.last) - seconds * SECOND
        sequence = max((at for at, logged in self.logged.items() if logged <= moment), default=0)
        there = self.look(times.as_datetime(moment), sequence)
        span = self.keep_log.seconds
        begun = self.live._log.kind_and_time(0)[1] <= moment
        assert there or span is None or moment < self.now - span * SECOND or not begun

    @rule(ahead=st.integers(1, 3))
    def look_ahead(self, ahead):
        with pytest.raises(NoSuchPast, match="still to come"):
            dygcn.open(self.live._folder, as_of=self.live.sequence + ahead)

    @invariant()
    def no_more_is_kept_than_is_said(self):
        log, kept = self.live._log, list_snapshots(self.live._folder)
        barriers = [at for at, _ in kept[2:] if log.kind_and_time(at)[0] == Kind.BARRIER]
        assert len(kept) <= 2 + len(barriers) + snapshots.MOST_OLD
        first = log._db.execute("SELECT min(seq) FROM entries").fetchone()[0]
        if len(kept) >= 2:
            floor = kept[-1][0] if first == kept[-1][0] else 0
            assert first == (floor or 1)
            if self.keep_log.size is not None:
                beside = sum(own_bytes(path) for _, path in kept[2:])
                assert beside + log.bytes_between(floor, kept[1][0]) <= self.keep_log.size

    def teardown(self):
        if not hasattr(self, "live"):
            return
        there = [self.look(sequence, sequence) for sequence in sorted(self.digests)]
        assert there == sorted(there)  # what is kept ends once
        crash(self.live)


RUN = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
HUNT = settings(
    RUN,
    max_examples=600,  # of real clocks, so that no two runs are the same
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
)


@pytest.fixture
def machine(monkeypatch):
    clock = [0]
    monkeypatch.setattr(times, "clock", lambda: clock[0])
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "3")
    with many_folders() as new_folder:
        monkeypatch.setattr(PastMachine, "new_folder", staticmethod(new_folder), raising=False)
        monkeypatch.setattr(PastMachine, "clock", clock, raising=False)
        yield PastMachine


def test_any_sequence_of_anything(machine):
    run_state_machine_as_test(machine, settings=RUN)


@pytest.mark.slow
def test_many_more_of_them(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


def one_entry_too_few_is_replayed(monkeypatch):
    whole = LogReader.entries
    monkeypatch.setattr(
        LogReader, "entries", lambda self, after, chain, upto: whole(self, after, chain, upto - 1)
    )


def the_snapshot_above_is_taken(monkeypatch):
    def wrong(folder):
        found = list_snapshots(folder)
        return [(at, above) for (at, _), (_, above) in zip(found[1:], found, strict=False)]

    monkeypatch.setattr(past, "list_snapshots", wrong)
    monkeypatch.setattr(
        recovery,
        "load_snapshot",
        lambda path: (*(loaded := whole_load(path))[:2], _moved(path, loaded[2]), loaded[3]),
    )


whole_load = recovery.load_snapshot


def _moved(path, position):
    """Say of a snapshot that it is the one before it."""
    if position is None:
        return None
    folder = path.parents[1]
    below = [at for at, _ in list_snapshots(folder) if at < position.sequence]
    if not below:
        return position
    with_log = LogReader(folder / LOG_FILE)
    position.sequence, position.chain = below[0], (with_log.chain_at(below[0]) or b"").hex()
    with_log.close()
    return position


def a_batch_in_the_middle_is_served(monkeypatch):
    monkeypatch.setattr(past, "_last_whole", lambda log, sequence: sequence)


def a_replay_ends_at_a_tolerance(monkeypatch):
    whole = LogReader.entries

    def entries(self, after, chain, upto):
        found = whole(self, after, chain, upto)
        return itertools.takewhile(lambda entry: entry.kind != Kind.TOLERANCE, found)

    monkeypatch.setattr(LogReader, "entries", entries)


def a_tolerance_is_no_version(monkeypatch):
    whole = past.logged_batches

    def logged_batches(entries):
        return whole(entry for entry in entries if entry.kind != Kind.TOLERANCE)

    monkeypatch.setattr(past, "logged_batches", logged_batches)


def snapshots_of_operations_are_thinned(monkeypatch):
    monkeypatch.setattr(snapshots, "Kind", type("Kinds", (Kind,), {"BARRIER": "nothing"}))


def the_log_is_pruned_to_the_newest(monkeypatch):
    whole = EventLog.prune
    monkeypatch.setattr(EventLog, "prune", lambda self, below: whole(self, self.last))


def a_span_is_too_short(monkeypatch):
    whole = KeepLog.choose
    monkeypatch.setattr(
        KeepLog, "choose", lambda self, old, newer, now: whole(self, old, newer, now + 5 * SECOND)
    )


def sizes_do_not_count(monkeypatch):
    monkeypatch.setattr(layout, "own_bytes", lambda path: 0)


def times_go_back(monkeypatch):
    whole = EventLog.append

    def append(self, entries, batch_id, dead=(), settled=()):
        self.last_logged = 0
        return whole(self, entries, batch_id, dead)

    monkeypatch.setattr(EventLog, "append", append)


MUTANTS = [
    one_entry_too_few_is_replayed,
    the_snapshot_above_is_taken,
    snapshots_of_operations_are_thinned,
    the_log_is_pruned_to_the_newest,
    sizes_do_not_count,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, DygcnError)):
        run_state_machine_as_test(machine, settings=HUNT)


def added(*pairs):
    return [(src, dst, 0, 1, 1.0) for src, dst in pairs]


BEGUN = [
    step("start", keep_log="1MB", every=10**9, memory=False),
    step("update", events=added((0, 1), (1, 2), (2, 3))),
]
SHOWN = {
    a_batch_in_the_middle_is_served: [
        *BEGUN,
        step("ingest", lists=[added((3, 4)), added((4, 5))]),  # one batch, two entries
        step("look", as_of=2, sequence=2),
    ],
    a_replay_ends_at_a_tolerance: [
        *BEGUN,
        step("tolerate", tolerance=1.0),
        step("update", events=added((0, 2))),
        step("snapshot"),
        step("update", events=added((3, 4))),
    ],
    a_tolerance_is_no_version: [
        *BEGUN,
        step("tolerate", tolerance=1.0),
    ],
}


@pytest.mark.parametrize("mutant", SHOWN, ids=lambda mutant: mutant.__name__)
def test_steps_show_a_seeded_bug(mutant, machine, monkeypatch):
    take(machine, SHOWN[mutant])
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        take(machine, SHOWN[mutant])


@pytest.mark.parametrize("mutant", [None, times_go_back])
def test_times_never_go_back(mutant, tmp_path, monkeypatch):
    live, logged = begin(tmp_path / "x", keep_log="1d"), []
    if mutant is not None:
        mutant(monkeypatch)
    now = times.clock()
    for n, seconds in enumerate((10, 5, 20)):
        monkeypatch.setattr(times, "clock", lambda moment=now + seconds * 1_000_000: moment)
        live.update(add=[(n, n + 1)])
        logged.append(dygcn.open(tmp_path / "x", as_of=live.sequence).logged)
    live._let_go()
    assert (logged == sorted(logged)) is (mutant is None)


# ---- which moments may be asked for --------------------------------------------------------------------


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x", keep_log="1d")
    for n in range(6):
        live.update(add=[(n, n + 1)])
    yield live
    live.close()


def at(live, as_of):
    return dygcn.open(live._folder, as_of=as_of)


def test_a_sequence_or_a_time(live):
    for sequence in range(7):
        there = at(live, sequence)
        assert isinstance(there, dygcn.PastEmbedding)
        assert (there.sequence, there.version, there.edge_count) == (sequence, sequence, sequence)
        for moment in (
            there.logged,
            there.logged.astimezone(timezone(timedelta(hours=5))),
            there.logged.isoformat(),
            there.logged.timestamp() + 1e-6,  # a float has fewer digits than a microsecond needs
            str(sequence),
            np.int64(sequence),
        ):
            assert at(live, moment).sequence == sequence
    assert at(live, datetime.now(UTC)).digest() == live.digest()


@pytest.mark.parametrize(
    "as_of",
    [
        -1,
        True,
        None.__class__,
        float("nan"),
        float("inf"),
        "",
        "yesterday",
        "2026-11-10",
        [1],
        np.datetime64(1, "s"),
    ],
    ids=repr,
)
def test_what_is_no_moment(live, as_of):
    with pytest.raises(OptionError, match="as_of is"):
        at(live, as_of)


def test_a_time_without_a_zone(live):
    with pytest.raises(OptionError, match="names no time zone"):
        at(live, datetime(2026, 11, 10, 12))


def test_what_is_still_to_come(live):
    last = at(live, 6).logged
    for moment in (7, 10**12, datetime.now(UTC) + timedelta(minutes=1)):
        with pytest.raises(NoSuchPast, match=f"still to come; .* to 6 .{re.escape(last.isoformat())}"):
            at(live, moment)


def test_what_is_further_back_than_is_kept(tmp_path):
    with begin(tmp_path / "x", keep_log="0B") as live:
        for n in range(6):
            live.update(add=[(n, n + 1)])
            live.snapshot()
        oldest = at(live, 5)
        for moment in (0, 4, oldest.logged - timedelta(microseconds=1), 5.0):
            begun = re.escape(oldest.logged.isoformat())
            said = rf"further back than is kept.* from sequence 5 .{begun}.*keep_log="
            with pytest.raises(NoSuchPast, match=said):
                at(live, moment)


def test_options_that_do_not_go_together(live, tmp_path):
    for options in ({"begin": dygcn.start(small_model())}, {"keep_log": "7d"}):
        with pytest.raises(OptionError, match="as_of reads the past"):
            dygcn.open(live._folder, as_of=1, **options)


def test_folders_without_a_past(tmp_path):
    with pytest.raises(MissingFolder):
        dygcn.open(tmp_path / "nowhere", as_of=1)
    dygcn.start(small_model()).save(tmp_path / "saved")
    with pytest.raises(FolderError, match="it has no past"):
        dygcn.open(tmp_path / "saved", as_of=0)
    with begin(tmp_path / "new") as live:
        assert at(live, 0).digest() == live.digest()
        assert at(live, datetime.now(UTC)).sequence == 0


def test_it_answers_what_an_embedding_answers(live, tmp_path):
    there, twin = at(live, 4), dygcn.start(live.model)
    twin.update(add=[(n, n + 1) for n in range(4)])
    assert there.digest() == twin.digest()
    assert (there.vectors() == twin.vectors()).all()
    assert there.nearest(1) == twin.nearest(1)
    assert there.recommend(1) == twin.recommend(1)
    assert (there.score([0, 1], [2, 3]) == twin.score([0, 1], [2, 3])).all()
    assert there.explain(1).own == twin.explain(1).own
    with there.what_if(add=[(0, 9)]) as trial:
        assert 9 in trial
    assert there.digest() == twin.digest()
    there.save(tmp_path / "then")
    assert dygcn.load(tmp_path / "then").digest() == twin.digest()
    assert not hasattr(there, "update")


QUICK = dygcn.RollingRecipe(rounds=3, base=BaseRecipe(epochs=3))


@pytest.mark.parametrize("rule", ["rolling", "spectral"])
def test_the_rules_of_the_paper(tmp_path, rule):
    """Their vectors depend on every batch, and a replay is made of batches."""
    events = [(n, (n * step + 3) % 40) for n in range(40) for step in (1, 7, 11, 13)]
    with dygcn.open(tmp_path / "x", dygcn.fit(events, dim=4, rule=rule, recipe=QUICK)) as live:
        digests = [live.digest()]
        for n in range(8):
            live.update(add=[(n, n + 2), (n, n + 5)])
            digests.append(live.digest())
            if n in (2, 5):
                live.snapshot()
        assert [at(live, sequence).digest() for sequence in range(9)] == digests


# ---- beside whoever writes ------------------------------------------------------------------------------


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("left", ["open", "crashed", "closed"])
def test_nothing_is_written(tmp_path, left):
    live = begin(tmp_path / "x")
    for n in range(6):
        live.update(add=[(n, n + 1)])
    if left != "open":
        (live._let_go if left == "crashed" else live.close)()
    before = contents(live._folder)
    assert at(live, 3).edge_count == 3
    assert contents(live._folder) == before
    if left == "open":
        live.update(add=[(3, 9)])
        live.close()
    with dygcn.open(live._folder) as again:
        assert again._ahead.damage == []


@contextmanager
def as_a_reader(folder):
    """Be a user who may read a folder, and not write it."""
    root = os.geteuid() == 0
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_user_who_may_only_read_is_told_so():
    """A journal without its index can only be read by who may write one; nothing is damaged."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        live = begin(Path(place) / "x")
        for n in range(6):
            live.update(add=[(n, n + 1)])
        crashed = Path(shutil.copytree(live._folder, Path(place) / "crashed"))
        live.close()
        with as_a_reader(live._folder):
            assert dygcn.open(live._folder, as_of=3).edge_count == 3
        for index in crashed.glob("*-shm"):
            index.unlink()
        assert list(crashed.glob("*-wal"))
        with as_a_reader(crashed), pytest.raises(StorageError, match="by this user") as told:
            dygcn.open(crashed, as_of=3)
        assert not isinstance(told.value, DamagedLog)
        assert "restore" not in str(told.value)
        assert dygcn.open(crashed, as_of=3).edge_count == 3


def test_another_process_reads(live):
    code = "import dygcn, sys; print(dygcn.open(sys.argv[1], as_of=4).digest())"
    found = subprocess.run(
        [sys.executable, "-c", code, live._folder], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == at(live, 4).digest()
    live.update(add=[(1, 9)])


def test_a_writer_prunes_meanwhile(tmp_path):
    """What is dropped while it is read is looked for anew, or refused; the vectors are never others."""
    live = begin(tmp_path / "x", snapshot_every=3, keep_log="1KB")
    digests, ended, found = {0: live.digest()}, threading.Event(), []

    def read():
        while not ended.is_set():
            last = max(digests)
            for sequence in range(max(last - 12, 0), last + 1):
                try:
                    found.append((sequence, at(live, sequence).digest()))
                except NoSuchPast:
                    found.append((sequence, None))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(80):
        change = live.update(add=[(n % 17, n % 13 + 20)])
        digests[change.version] = live.digest()
        time.sleep(0.01)
    ended.set()
    for reader in readers:
        reader.join()
    live.close()
    assert len(found) > 20
    assert any(digest is not None for _, digest in found)
    assert all(digest in (None, digests[sequence]) for sequence, digest in found)


def test_a_snapshot_that_goes_while_it_is_read(live, monkeypatch):
    live.snapshot()
    digest, whole, gone = live.digest(), recovery.load_snapshot, []

    def load(path):
        if not gone:
            gone.append(path)
            raise DamagedFolder(f"{path}/graph.safetensors is missing")
        return whole(path)

    monkeypatch.setattr(recovery, "load_snapshot", load)
    assert at(live, 6).digest() == digest  # from the one before it


def test_a_log_that_goes_while_it_is_read(live, monkeypatch):
    whole, tries = LogReader.entries, []

    def entries(self, *where):
        tries.append(where)
        if len(tries) == 1:
            raise DamagedLog("entry 3 is missing")
        return whole(self, *where)

    monkeypatch.setattr(LogReader, "entries", entries)
    assert at(live, 6).digest() == live.digest()
    assert len(tries) == 2


def test_a_change_that_is_being_made(live, monkeypatch):
    """Until its snapshot is there, nobody was told of it."""
    asked, whole = [], Snapshot.write

    def write(self, *places):
        for sequence in (6, 7):
            try:
                asked.append(at(live, sequence).sequence)
            except NoSuchPast as error:
                asked.append(str(error))
        whole(self, *places)

    monkeypatch.setattr(Snapshot, "write", write)
    live.update(remove_nodes=[0])
    assert asked[0] == 6
    assert "was not over yet" in asked[1]
    assert at(live, 7).digest() == live.digest()


def test_damage_is_named(live):
    live.snapshot()
    live._let_go()
    file = live._folder / LOG_FILE
    content = file.read_bytes()
    where = content.rindex(b"events")
    file.write_bytes(content[:where] + b"evants" + content[where + 6 :])
    with pytest.raises((DamagedLog, DamagedFolder)):
        at(live, 5)


# ---- how much is kept ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds", "size"),
    [
        ("7d", 604_800, None),
        ("1w", 604_800, None),
        ("12h", 43_200, None),
        ("30min", 1800, None),
        ("1.5 h", 5400, None),
        ("90s", 90, None),
        (timedelta(days=2), 172_800, None),
        (timedelta(microseconds=1), 1, None),
        ("2GB", None, 2 * 10**9),
        ("1GiB", None, 1 << 30),
        ("500 mb", None, 5 * 10**8),
        ("0B", None, 0),
    ],
)
def test_spans_and_sizes(text, seconds, size):
    kept = KeepLog.read(text)
    assert (kept.seconds, kept.size) == (seconds, size)
    assert KeepLog.read(str(kept)) == kept
    assert len(str(kept)) <= 16  # the log reads no more


def test_spans_and_sizes_are_shown_short():
    shown = {"7d": "7d", "1w": "7d", "36h": "36h", "90s": "90s", "120s": "2min", "0s": "0s"}
    shown |= {"256MB": "256MB", "2000MB": "2GB", "1KiB": "1024B", "0B": "0B", "1.5GB": "1500MB"}
    assert {text: str(KeepLog.read(text)) for text in shown} == shown


@pytest.mark.parametrize(
    "text", ["", "7", 7, 7.5, "d", "-7d", "7 days", "1e9B", "9" * 15 + "TB", True, [], timedelta(-1)]
)
def test_what_is_neither(tmp_path, text):
    with pytest.raises(OptionError, match="keep_log is"):
        begin(tmp_path / "x", keep_log=text)
    assert not (tmp_path / "x" / LOG_FILE).exists()


def test_a_folder_remembers_what_to_keep(tmp_path):
    live = begin(tmp_path / "x", keep_log="7d")
    assert live._snapshots._keep_log == KeepLog.read("7d")
    assert live._snapshots.keep_log == "7d"
    live.close()
    with dygcn.open(live._folder) as again:
        assert again._snapshots._keep_log == KeepLog.read("7d")
    with dygcn.open(live._folder, keep_log="2GB"):
        pass
    assert dygcn.open(live._folder, as_of=0).keep_log == "2GB"
    dygcn.restore(live._folder, tmp_path / "y")
    with dygcn.open(tmp_path / "y") as copy:
        assert copy._snapshots._keep_log == KeepLog.read("2GB")
    with begin(tmp_path / "z") as plain:
        assert plain._snapshots._keep_log == KeepLog.read(snapshots.KEEP_LOG)


def test_a_restored_copy_has_the_past_and_shares_its_model(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "WORTH_A_LINK", 0)
    live = begin(tmp_path / "x")
    for n in range(4):
        live.update(add=[(n, n + 9)])
        live.snapshot()
    digests = [at(live, sequence).digest() for sequence in range(5)]
    live.close()
    assert (live._folder / "model.safetensors").stat().st_nlink == 3  # of the folder, and of two snapshots
    dygcn.restore(live._folder, tmp_path / "y")
    assert [dygcn.open(tmp_path / "y", as_of=sequence).digest() for sequence in range(5)] == digests
    assert (tmp_path / "y" / "model.safetensors").stat().st_nlink == 3


@pytest.mark.parametrize(("keep_log", "size"), [("60s", 1), ("6KB", 1), ("6KB", 600), ("6KB", 1500)])
def test_the_oldest_go_and_the_rest_is_spread(keep_log, size):
    """A snapshot a second, a hundred bytes of log between two."""
    keep, kept = KeepLog.read(keep_log), [0]

    def snapshot(sequence, newest):
        logged, log = sequence * SECOND, (newest - 1 - sequence) * 100
        return OldSnapshot(sequence, logged, size if sequence else 0, log, sequence == 150)

    for newest in range(2, 400):
        old = [snapshot(sequence, newest) for sequence in sorted({*kept, newest - 2}, reverse=True)]
        kept = keep.choose(old, snapshot(newest - 1, newest), newest * SECOND)
        if newest < 100:
            continue
        others = [sequence for sequence in kept if sequence != 150]
        gaps, reach = np.diff([*sorted(kept), newest]), newest - min([*kept, newest - 1])
        assert 150 in kept or not newest - reach <= 150 < newest - 1
        if keep.seconds is not None:
            assert keep.seconds <= reach <= 7 / 6 * keep.seconds + 1
            assert gaps.max() <= keep.seconds / 6 + 1
            assert len(others) <= snapshots.MOST_OLD
        else:
            assert size * len(kept) + 100 * (reach - 2) <= keep.size
            assert reach >= {1: 45, 600: 15, 1500: 9}[size]


def test_a_span_that_is_too_short_would_be_noticed(monkeypatch):
    a_span_is_too_short(monkeypatch)
    with pytest.raises(AssertionError):
        test_the_oldest_go_and_the_rest_is_spread("60s", 1)


def test_a_snapshot_loses_its_name_before_its_files(tmp_path, monkeypatch):
    """A crash in the middle of dropping one leaves none that looks whole."""
    live = begin(tmp_path / "x", keep_log="0B")
    monkeypatch.setattr(layout.shutil, "rmtree", lambda *_, **__: None)
    for n in range(4):
        live.update(add=[(n, n + 1)])
        live.snapshot()
    assert [sequence for sequence, _ in list_snapshots(live._folder)] == [4, 3]
    monkeypatch.undo()
    crash(live)
    with dygcn.open(live._folder):
        names = {path.name for path in (live._folder / "snapshots").iterdir()}
        assert not any(name.startswith(".") for name in names)


def test_an_older_log_is_refused_by_both_numbers(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    live.close()
    db = sqlite3.connect(live._folder / LOG_FILE)
    db.execute("ALTER TABLE entries DROP COLUMN seal")
    db.execute("ALTER TABLE entries DROP COLUMN logged")
    db.execute("UPDATE about SET value = 3 WHERE name = 'format'")
    db.commit()
    db.close()
    for options in ({}, {"as_of": 1}):
        with pytest.raises(UnsupportedFolder, match="has format 3; this dygcn reads 4"):
            dygcn.open(live._folder, **options)
