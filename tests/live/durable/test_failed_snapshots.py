"""A snapshot that cannot be written stops no update, is tried again, and loses nothing."""

import itertools
import logging
import resource
from types import SimpleNamespace

import pytest

import dygcn
from dygcn import cluster
from dygcn.cluster import store
from dygcn.engine import _disk
from dygcn.errors import StorageError, WriteFailed
from dygcn.live.durable import snapshots
from dygcn.live.durable.snapshots import SnapshotWriter
from dygcn.live.durable.storage import layout
from dygcn.live.durable.storage.layout import list_snapshots
from dygcn.live.durable.storage.sqlite_file import Watermark
from dygcn.live.durable.write_ahead import Observer
from dygcn.live.files import Snapshot
from tests.forked import in_child
from tests.live.crashing import begin, comes_back, crash, same, small_model


class FullDisk:
    """A disk that has no room for snapshots, while it is `full`."""

    def __init__(self, monkeypatch):
        self.full, self.tries, whole = True, 0, Snapshot.write

        def write(taken, path, beside=None):
            self.tries += beside is not None
            if self.full and beside is not None:
                raise OSError(28, "No space left on device")
            whole(taken, path, beside)

        monkeypatch.setattr(Snapshot, "write", write)


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(snapshots, "_PAUSES", (0.0, 0.0))
    return FullDisk(monkeypatch)


def check_updates_go_on(folder, disk):
    live = begin(folder, snapshot_every=5)
    for step in range(12):
        live.update(add=[(step, step + 1)])
        live._snapshots.wait()
    assert live._log.failure is None
    assert disk.tries == 8  # from the fifth update on
    assert "No space left" in live._snapshots.failure
    assert (list_snapshots(folder), live._ahead.saved_at) == ([], 0)
    disk.full = False
    live.update(add=[(20, 21)])
    live._snapshots.wait()
    assert (live._snapshots.failure, live._ahead.saved_at) == (None, 13)
    tries = disk.tries
    live.update(add=[(21, 22)])
    live._snapshots.wait()
    assert disk.tries == tries
    comes_back(live)


def test_updates_go_on_and_the_snapshot_is_tried_again(tmp_path, disk):
    check_updates_go_on(tmp_path / "x", disk)


def test_a_snapshot_that_stops_updates_would_be_noticed(tmp_path, disk, monkeypatch):
    """The mutant: whatever fails, nothing more is accepted."""
    whole = SnapshotWriter._write
    monkeypatch.setattr(SnapshotWriter, "_write", lambda self, taken, needed=False: whole(self, taken, True))
    with pytest.raises(WriteFailed):
        check_updates_go_on(tmp_path / "x", disk)


def test_a_snapshot_that_is_not_tried_again_would_be_noticed(tmp_path, disk, monkeypatch):
    """The mutant: after a failure, as many events as ever have to come first."""
    monkeypatch.setattr(SnapshotWriter, "is_due", lambda self, every: self._ahead.events >= every)
    with pytest.raises(AssertionError):
        check_updates_go_on(tmp_path / "x", disk)


def test_tries_are_further_and_further_apart(tmp_path, monkeypatch):
    disk, now, tried = FullDisk(monkeypatch), itertools.count(), []
    live = begin(tmp_path / "x", snapshot_every=1)
    seconds = [0]
    clock = SimpleNamespace(monotonic=lambda: seconds[0], perf_counter=lambda: 0.0, time=lambda: 0.0)
    monkeypatch.setattr(snapshots, "time", clock)
    for seconds[0] in itertools.islice(now, 200):
        before = disk.tries
        live.update(add=[(seconds[0] % 7, 8)])
        live._snapshots.wait()
        tried += [seconds[0]] * (disk.tries - before)
    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    disk.full = False
    seconds[0] = 243
    live.update(add=[(1, 9)])
    live._snapshots.wait()
    disk.full = True
    live.update(add=[(1, 10)])
    live._snapshots.wait()
    seconds[0] = 244
    live.update(add=[(1, 11)])
    live._snapshots.wait()
    assert disk.tries == len(tried) + 3  # after one that was written, pauses are short again
    crash(live)


def test_a_snapshot_that_was_asked_for_says_that_it_failed(tmp_path, disk):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    with pytest.raises(StorageError, match=r"No space left.*events are accepted") as raised:
        live.snapshot()
    assert not isinstance(raised.value, WriteFailed)
    live.update(add=[(2, 3)])
    disk.full = False
    live.snapshot()
    assert (live._snapshots.failure, live._ahead.saved_at) == (None, 2)
    crash(live)


def test_the_end_is_one_without_a_snapshot(tmp_path, disk):
    with begin(tmp_path / "x") as live:
        live.update(add=[(1, 2)])
    assert live._snapshots.failure is not None
    with dygcn.open(live._folder) as again:
        assert same(again, live)


@pytest.mark.parametrize(
    "change",
    [
        lambda live: live.update(remove_nodes=[1]),
        lambda live: live.bulk([[(3, 4)]]),
        lambda live: live.bulk([]),
    ],
)
def test_a_change_that_only_a_snapshot_holds_fails_with_it(tmp_path, disk, change):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    before = live.digest()
    with pytest.raises(WriteFailed, match="No space left"):
        change(live)
    for use in (live.snapshot, lambda: live.update(add=[(8, 9)]), live.publish):
        with pytest.raises(WriteFailed, match="No space left"):
            use()
    live.close()
    disk.full = False
    with dygcn.open(live._folder) as again:
        assert again.digest() == before


def test_old_snapshots_that_cannot_be_dropped_stop_nobody(tmp_path, monkeypatch):
    live = begin(tmp_path / "x", keep_log="0B")
    for step in range(3):
        live.update(add=[(step, step + 1)])
        if step < 2:
            live.snapshot()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layout, "drop_old_snapshots", full)
    with pytest.raises(StorageError, match="No space left"):
        live.snapshot()
    assert (live._ahead.saved_at, live._log.failure) == (3, None)
    monkeypatch.undo()
    live.update(add=[(7, 8)])
    live.snapshot()
    assert [sequence for sequence, _ in list_snapshots(live._folder)] == [4, 3]
    assert live._snapshots.failure is None
    comes_back(live)


def test_a_watermark_that_cannot_be_written_is_of_the_log(tmp_path, monkeypatch):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Watermark, "reach", fails)
    with pytest.raises(WriteFailed, match="Input/output"):
        live.snapshot()
    monkeypatch.undo()
    with pytest.raises(WriteFailed, match="Input/output"):
        live.update(add=[(2, 3)])
    live.close()


def test_no_memory_for_a_snapshot_stops_nobody(tmp_path, monkeypatch):
    live = begin(tmp_path / "x", snapshot_every=1)

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(snapshots, "take_snapshot", no_memory)
    live.update(add=[(1, 2)])
    assert live._snapshots.failure == "MemoryError"
    live.update(add=[(2, 3)])
    comes_back(live)


def test_a_failure_is_told_where_nobody_observes(tmp_path, disk, caplog):
    live = begin(tmp_path / "x", snapshot_every=1)
    with caplog.at_level(logging.WARNING, "dygcn"):
        live.update(add=[(1, 2)])
        live._snapshots.wait()
    assert "snapshot of entry 1 failed" in caplog.text
    told = []

    class Counting(Observer):
        def snapshot_failed(self, sequence, error):
            told.append((sequence, str(error)))

    live._ahead.observe(Counting())
    live.update(add=[(2, 3)])
    live._snapshots.wait()
    assert told == [(2, "[Errno 28] No space left on device")]
    crash(live)


def with_room_for_the_log_alone(folder):
    """Write with a limit for files that is above the log and below a snapshot, then without it."""
    snapshots._PAUSES = (0.0, 0.0)
    live = dygcn.open(folder, snapshot_every=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    for step in range(5):
        live.update(add=[(step, step + 100_000)])
        live._snapshots.wait()
    failed, saved = live._snapshots.failure is not None, live._ahead.saved_at
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    live.update(add=[(7, 8)])
    live._snapshots.wait()
    told = (
        failed,
        saved,
        live._snapshots.failure,
        live._ahead.saved_at,
        live._log.failure,
        live.digest(),
    )
    live._let_go()
    return told


def test_a_real_disk_without_room_for_snapshots(tmp_path):
    started = begin(tmp_path / "x")
    started.bulk([[(n, n + 1) for n in range(20_000)]])
    started.close()
    said = in_child(lambda: with_room_for_the_log_alone(started._folder))
    with dygcn.open(started._folder) as again:
        assert said == repr((True, 1, None, 7, None, again.digest()))


def check_shards_go_on(folder, monkeypatch):
    begin(folder).close()
    twin, whole = dygcn.start(small_model()), store.replace_own
    live = cluster.launch(folder, 2, on="here", batches=2)

    def full(path, beside, *parts):
        if path.suffix == ".snapshot":
            raise OSError(28, "No space left on device")
        whole(path, beside, *parts)

    monkeypatch.setattr(store, "replace_own", full)
    kept = sorted(folder.rglob("*.snapshot"))
    for step in range(7):
        for one in (live, twin):
            one.update(add=[(step, step + 1)])
    assert sorted(folder.rglob("*.snapshot")) == kept
    monkeypatch.setattr(store, "replace_own", whole)
    for one in (live, twin):
        one.update(add=[(8, 9)])
    assert sorted(folder.rglob("*.snapshot")) != kept
    live._let_go()
    with cluster.launch(folder, on="here") as again:
        assert again.digest() == twin.digest()


def test_shards_go_on_too(tmp_path, monkeypatch):
    check_shards_go_on(tmp_path / "x", monkeypatch)


def test_a_file_that_cannot_be_written_leaves_nothing_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(_disk, "sync_file", lambda file: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        _disk.replace_own(tmp_path / "a", tmp_path / "b", b"x")
    assert list(tmp_path.iterdir()) == []
