"""A log that is gone is missed, and one that a full disk keeps from being opened is not taken for damaged."""

import resource
import sqlite3

import pytest

import dygcn
from dygcn import cluster
from dygcn.errors import DamagedLog, FolderError, StorageError
from dygcn.live.durable.storage import layout, sqlite_file
from dygcn.live.durable.storage.layout import MARK_FILE
from tests.forked import in_child
from tests.live.crashing import begin, crash


@pytest.fixture
def folder(tmp_path):
    live = begin(tmp_path / "folder")
    live.update(add=[(1, 2)])
    crash(live)
    return live._folder


def lose_log(folder, how):
    """Lose all that names the log, of a folder without snapshots."""
    live = begin(folder)
    live.update(add=[(1, 2)])
    crash(live)
    for path in folder.glob("log.*"):
        path.unlink()
    if how == "emptied":
        (folder / "log.sqlite3").write_bytes(b"")


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_log_that_is_gone_with_all_that_names_it_is_missed(tmp_path, how):
    """By whatever opens the folder, again and again, until somebody decides to go on without it."""
    folder = tmp_path / "x"
    lose_log(folder, how)
    before = sorted(path.name for path in folder.iterdir() if path.name != "lock")
    for use in (
        dygcn.open,
        lambda path: dygcn.open(path, as_of="now"),
        lambda path: dygcn.restore(path, tmp_path / "y"),
        lambda path: cluster.launch(path, 2, on="here"),
        dygcn.open,
    ):
        with pytest.raises(DamagedLog, match=r"missing or empty.* restore a copy"):
            use(folder)
    with pytest.raises(FolderError, match="is durable"):
        dygcn.load(folder)
    assert sorted(path.name for path in folder.iterdir() if path.name != "lock") == before
    (folder / MARK_FILE).unlink()
    (folder / "snapshots").rmdir()
    with dygcn.open(folder) as live:
        assert sorted(live) == []


def test_a_log_that_shards_had_is_missed(tmp_path):
    begin(tmp_path / "x").close()
    cluster.launch(tmp_path / "x", 2, on="here")._let_go()
    for path in (tmp_path / "x").glob("log.*"):
        path.unlink()
    with pytest.raises(DamagedLog, match="missing or empty"):
        cluster.launch(tmp_path / "x", on="here")


def test_a_folder_from_before_there_were_marks_is_opened_and_marked(folder):
    (folder / MARK_FILE).unlink()
    with dygcn.open(folder) as live:
        assert sorted(live) == [1, 2]
    assert (folder / MARK_FILE).read_text().startswith("This folder has a log")


def test_a_mark_that_is_not_made_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "mark_durable", lambda folder: None)
    with pytest.raises(pytest.fail.Exception):
        test_a_log_that_is_gone_with_all_that_names_it_is_missed(tmp_path, "removed")


def test_a_first_start_that_died_before_the_log_was_whole_begins_again(tmp_path, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(layout, "mark_durable", dies)
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path / "x")
    monkeypatch.undo()
    for path in (tmp_path / "x").glob("log.*"):
        path.unlink()
    (tmp_path / "x" / "log.sqlite3").write_bytes(b"")
    dygcn.open(tmp_path / "x").close()


# ---- a disk that is full -------------------------------------------------------------------------------


def opened_on_a_full_disk(folder):
    """Open a folder in a process that cannot make any file longer."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    return dygcn.open(folder)


def test_a_full_disk_at_the_start_is_not_damage(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2)])
    crash(live)
    said = in_child(lambda: opened_on_a_full_disk(live._folder))
    assert said.startswith("StorageError")
    assert "disk" in said or "File too large" in said
    with dygcn.open(live._folder) as again:
        assert again.digest() == live.digest()


@pytest.mark.parametrize("code", ["FULL", "IOERR", "IOERR_SHMSIZE", "CANTOPEN", "READONLY", "BUSY", "PERM"])
@pytest.mark.parametrize("when", ["check_tables", "read_about"])
def test_a_disk_that_fails_at_the_start_is_not_damage(folder, monkeypatch, code, when):
    error = sqlite3.OperationalError("it cannot")
    error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{code}")

    def fails(*_):
        raise error

    monkeypatch.setattr(sqlite_file, when, fails)
    with pytest.raises(StorageError, match=r"it cannot.*open the folder again") as raised:
        dygcn.open(folder)
    assert type(raised.value) is StorageError


@pytest.mark.parametrize("code", ["CORRUPT", "NOTADB", "ERROR", "IOERR_SHORT_READ"])
def test_a_file_that_is_damaged_is_damage(folder, monkeypatch, code):
    with pytest.raises((AssertionError, DamagedLog)):
        test_a_disk_that_fails_at_the_start_is_not_damage(folder, monkeypatch, code, "check_tables")


def test_a_full_disk_that_counts_as_damage_would_be_noticed(tmp_path, monkeypatch):
    """The mutant: whatever SQLite says, it is damage."""
    monkeypatch.setattr(sqlite_file, "_SURROUNDINGS", ())
    with pytest.raises(AssertionError):
        test_a_full_disk_at_the_start_is_not_damage(tmp_path)
