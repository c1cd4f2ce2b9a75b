"""One process writes to a folder: no fork of it, no second one without the lock file, none into a copy."""

import fcntl
import gc
import itertools
import os
import shutil
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import dygcn
from dygcn import cluster
from dygcn.engine.events import read_events
from dygcn.errors import FolderInUse, WriteFailed
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage import layout, sqlite_file
from dygcn.live.durable.storage.layout import FolderLock, list_snapshots
from tests.forked import in_child
from tests.live.crashing import begin, crash, reopened


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)], stream="a", offset=0)
    yield live
    live._let_go()


# ---- a fork --------------------------------------------------------------------------------------------

WRITES = {
    "update": lambda live: live.update(add=[(1, 9)]),
    "ingest": lambda live: live._ingest([SourceBatch(read_events([(1, 9)]))]),
    "snapshot": lambda live: live.snapshot(),
    "remove_nodes": lambda live: live.update(remove_nodes=[1]),
    "bulk": lambda live: live.bulk([[(1, 9)]]),
    "tolerate": lambda live: live.publish(tolerance=0.5),
    "begin_epoch": lambda live: live.feed.begin_epoch(),
    "forget_stream": lambda live: live._forget_stream("a"),
    "discard": lambda live: live._log.discard([1]),
    "prune": lambda live: live._log.prune(1),
}
READS = {
    "vector": lambda live: live.vector(1).tobytes().hex(),
    "nearest": lambda live: live.nearest(1, 1),
    "digest": lambda live: live.digest(),
    "streams": lambda live: live.streams,
}


def check_child_writes_nothing(live):
    for name, write in WRITES.items():
        said = in_child(lambda write=write: write(live))
        assert said.startswith("FolderInUse"), f"{name}: {said}"
        assert "forked" in said
        assert "spawn" in said
    live.update(add=[(2, 3)])
    assert live._log.failure is None
    assert same_again(live)


def same_again(live):
    again = reopened(live)
    try:
        return (again.digest(), again.streams) == (live.digest(), live.streams)
    finally:
        crash(again)


def test_a_forked_process_writes_nothing(live):
    check_child_writes_nothing(live)


def test_a_forked_process_that_writes_would_be_noticed(live, monkeypatch):
    """The mutant: nobody asks which process it is."""
    monkeypatch.setattr(FolderLock, "inherited", False)
    with pytest.raises(AssertionError):
        check_child_writes_nothing(live)


@pytest.mark.parametrize("read", READS)
def test_a_forked_process_reads(live, read):
    assert in_child(lambda: READS[read](live)) == repr(READS[read](live))


def test_a_forked_process_does_not_read_the_file_of_the_log(live):
    """SQLite forbids it; vectors and what is in memory need no file."""
    assert in_child(live._log.count_dead_letters).startswith("FolderInUse")


def leave(live):
    with live:
        pass


@pytest.mark.parametrize("end", [lambda live: live.close(), lambda live: live._let_go(), leave])
def test_the_end_in_a_forked_process_is_none(live, end):
    assert in_child(lambda: end(live)) == "None"
    with pytest.raises(FolderInUse):
        dygcn.open(live._folder)
    live.update(add=[(2, 3)])
    assert list_snapshots(live._folder) == []
    assert same_again(live)


def test_shards_are_not_ended_by_a_forked_process(tmp_path):
    begin(tmp_path / "x").close()
    with cluster.launch(tmp_path / "x", 2, on="here") as live:
        live.update(add=[(1, 2)])
        ended = []
        processes = live._front.queries.processes
        processes.close, close = lambda: ended.append(1), processes.close
        try:
            assert in_child(lambda: (live.close(), live._let_go(), ended)) == "(None, None, [])"
        finally:
            processes.close = close
        live.update(add=[(2, 3)])


def held_by(db):
    gc.collect()
    return sys.getrefcount(db)


def test_a_connection_of_the_parent_is_never_closed_in_a_fork(live):
    """Neither by `close`, nor by being forgotten: one reference more than there are owners keeps it."""
    db = live._log._db
    assert in_child(lambda: (held_by(db), db.close(), db.execute("SELECT 1").fetchone())) == repr(
        (held_by(db) + 1, None, (1,))
    )


def test_a_connection_that_a_fork_closes_would_be_noticed(live, monkeypatch):
    """The mutant: `close` closes, whoever calls it."""
    monkeypatch.setattr(sqlite_file.OwnConnection, "close", sqlite_file.sqlite3.Connection.close)
    with pytest.raises(AssertionError):
        test_a_connection_of_the_parent_is_never_closed_in_a_fork(live)


def while_a_fork_lives(work):
    """Call a function while a process lives that was forked before."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the other end is closed
        os._exit(0)
    os.close(read)
    try:
        return work()
    finally:
        os.close(write)
        os.waitpid(child, 0)


def closed_and_opened(live):
    def work():
        live.close()
        dygcn.open(live._folder).close()

    while_a_fork_lives(work)


def test_a_closed_folder_can_be_opened_while_a_fork_lives(live):
    closed_and_opened(live)


def test_a_folder_whose_writer_died_can_be_opened_while_a_fork_lives(tmp_path):
    """A lock belongs to the file that was opened: it would be held until the last copy is closed."""
    begin(tmp_path / "x").close()
    read, write = os.pipe()
    ready, tell = os.pipe()
    writer = os.fork()
    if writer == 0:
        os.close(write)
        dygcn.open(tmp_path / "x")
        if os.fork() == 0:
            os.write(tell, b"x")
            os.read(read, 1)
        os._exit(0)
    os.waitpid(writer, 0)
    os.read(ready, 1)
    dygcn.open(tmp_path / "x").close()
    for end in (read, write, ready, tell):
        os.close(end)


def test_a_fork_that_keeps_the_lock_would_be_noticed(live, monkeypatch):
    """The mutant: locks are let go of by closing them alone, and a fork keeps its copies."""
    monkeypatch.setattr(FolderLock, "leave", lambda held: None)
    monkeypatch.setattr(layout.disk, "unlock", os.close)
    with pytest.raises(FolderInUse):
        closed_and_opened(live)


# ---- a lock file that is removed, a folder that is another one -----------------------------------------


def check_second_writer_stays_out(live):
    (live._folder / "lock").unlink()
    with pytest.raises(FolderInUse):
        dygcn.open(live._folder)._let_go()
    live.update(add=[(2, 3)])
    with pytest.raises(FolderInUse):
        cluster.launch(live._folder, 2, on="here")._let_go()


def test_a_lock_file_that_is_removed_lets_nobody_in(live):
    check_second_writer_stays_out(live)


def test_a_lock_on_the_file_alone_would_be_noticed(live, monkeypatch):
    """The mutant: the folder itself is not locked."""
    live._let_go()
    monkeypatch.setattr(layout.disk, "lock_folder", lambda folder: None)
    again = dygcn.open(live._folder)
    with pytest.raises(pytest.fail.Exception):
        check_second_writer_stays_out(again)
    again._let_go()


def test_where_folders_cannot_be_locked_the_first_writer_gives_way(live, monkeypatch):
    """Some file systems lock files alone: then whoever has lost the lock file acknowledges nothing more."""
    live._let_go()
    monkeypatch.setattr(layout.disk, "lock_folder", lambda folder: None)
    first = dygcn.open(live._folder)
    first.update(add=[(2, 3)])
    (live._folder / "lock").unlink()
    second = dygcn.open(live._folder)
    for write in (lambda: first.update(add=[(3, 4)]), first.snapshot, lambda: first.update(remove_nodes=[1])):
        with pytest.raises(WriteFailed, match="moved, removed or replaced"):
            write()
    second.update(add=[(4, 5)])
    first.close()
    assert list_snapshots(live._folder) == []
    assert sorted(second) == [1, 2, 3, 4, 5]
    second.close()


def check_no_writes_into_a_copy(live):
    moved = live._folder.rename(live._folder.with_name("moved"))
    shutil.copytree(moved, live._folder, ignore=shutil.ignore_patterns("lock"))
    with dygcn.open(live._folder) as other:
        for write in (
            lambda: live.update(add=[(3, 4)]),
            live.snapshot,
            lambda: live.update(remove_nodes=[1]),
        ):
            with pytest.raises(WriteFailed, match="moved, removed or replaced"):
                write()
        other.update(add=[(4, 5)])
        live.close()
        assert list_snapshots(live._folder) == []
    assert np.array_equal(live.vector(1), dygcn.open(moved, as_of="now").vector(1))


def test_a_folder_that_was_replaced_is_not_written(live):
    """What would be acknowledged would be in a folder that nobody finds, and snapshots in one of another."""
    check_no_writes_into_a_copy(live)


def test_writing_into_a_copy_would_be_noticed(live, monkeypatch):
    """The mutant: nobody looks whether the folder is still the same."""
    monkeypatch.setattr(FolderLock, "stands", lambda held: True)
    with pytest.raises(pytest.fail.Exception):
        check_no_writes_into_a_copy(live)


# ---- interrupts ----------------------------------------------------------------------------------------


@contextmanager
def interrupted_at(call):
    """Raise an interrupt in place of the call of flock with this number."""
    real, calls = fcntl.flock, itertools.count()

    def flock(handle, operation):
        if next(calls) == call:
            raise KeyboardInterrupt
        real(handle, operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        yield


def check_interrupts_leave_no_lock(folder):
    for call in range(4):  # two locks are taken, and let go
        with interrupted_at(call), pytest.raises(KeyboardInterrupt):
            FolderLock(folder).release()
        gc.collect()
        FolderLock(folder).release()


def test_an_interrupt_leaves_no_lock(tmp_path):
    check_interrupts_leave_no_lock(tmp_path)


def test_a_lock_that_an_interrupt_leaves_would_be_noticed(tmp_path, monkeypatch):
    """The mutant: the file is closed only where nothing interrupts."""

    def unlock(handle):
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)

    monkeypatch.setattr(layout.disk, "unlock", unlock)
    with pytest.raises(FolderInUse):
        check_interrupts_leave_no_lock(tmp_path)
