"""Everything in a durable folder is for its owner alone, whatever the umask and whoever made it."""

import os
import shutil
from contextlib import contextmanager

import pytest

import dygcn
from dygcn import cluster
from dygcn.cluster.certificates import made_in
from dygcn.cluster.process_front import Epochs
from dygcn.cluster.store import leave_folder, leave_note
from dygcn.engine import _disk
from dygcn.engine.events import read_events
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage import layout, sqlite_file
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.durable.storage.layout import keep_cursor, list_snapshots
from tests.live.crashing import begin, crash, many_folders


@contextmanager
def umask(mode):
    before = os.umask(mode)
    try:
        yield
    finally:
        os.umask(before)


def shown_to_others(folder):
    """Return what is neither 0600 (files) nor 0700 (folders)."""
    found = {"": folder} | {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    modes = {name: (path.is_dir(), path.stat().st_mode & 0o777) for name, path in found.items()}
    assert len(modes) > 5
    return {name: oct(mode) for name, (inner, mode) in modes.items() if mode != (0o700 if inner else 0o600)}


def life(folder):
    """Do everything that writes into a folder; return what of it others may see, at any time."""
    seen = {}
    live = begin(folder, snapshot_every=2)
    for step in range(4):
        live.update(add=[(step, step + 1)], stream="a", offset=step)
    live._snapshots.wait()
    live._ingest([SourceBatch(read_events([(1, 2)]), dead=(DeadLetter("a", 9, -1, "no", "{}"),))])
    live.update(remove_nodes=[1])
    keep_cursor(folder, "pg", "7")
    seen |= shown_to_others(folder)  # with the journals of SQLite
    crash(live)
    with dygcn.open(folder) as again:
        again.update(add=[(7, 8)])
    seen |= shown_to_others(folder)
    dygcn.restore(folder, folder.with_name("restored"))
    return seen | shown_to_others(folder.with_name("restored"))


def life_on_shards(folder):
    """Do everything that shards write."""
    begin(folder).close()
    seen = {}
    with cluster.launch(folder, 2, on="here", batches=1) as shards:
        shards.update(add=[(1, 9)])
        shards.resize(3)
        Epochs(folder / "epoch").next()
        made_in(folder)
        leave_note(str(folder / "shards"), "here")
        shards.snapshot()
        leave_folder(str(folder / "shards"), "model", list_snapshots(folder)[0][1])
        seen |= shown_to_others(folder)
    return seen | shown_to_others(folder)


@pytest.fixture
def place():
    with many_folders() as new:
        yield new()


@pytest.mark.parametrize("mask", [0, 0o022])
@pytest.mark.parametrize("lived", [life, life_on_shards])
def test_nobody_else_sees_anything(place, mask, lived):
    with umask(mask):
        assert lived(place) == {}


@pytest.mark.parametrize(
    ("module", "name"),
    [(_disk, "open_own"), (layout.disk, "make_folder"), (sqlite_file, "open_own")],
)
def test_what_others_may_see_would_be_noticed(place, monkeypatch, module, name):
    """The mutants: files or folders with the modes of the umask."""
    careless = {
        "open_own": lambda path, flags: os.open(path, flags, 0o666),
        "make_folder": lambda folder: folder.mkdir(exist_ok=True),
    }
    monkeypatch.setattr(module, name, careless[name])
    with umask(0o022):
        assert life(place) != {}


def widen(folder):
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_wide_folder_is_narrowed_when_it_is_opened_for_writing(tmp_path):
    with begin(tmp_path / "x") as live:
        live.update(add=[(1, 2)])
    widen(tmp_path / "x")
    (tmp_path / "x" / "mine.sh").write_text("")
    (tmp_path / "x" / "mine.sh").chmod(0o755)
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "elsewhere").chmod(0o644)
    (tmp_path / "x" / "link").symlink_to(tmp_path / "elsewhere")
    dygcn.open(tmp_path / "x", as_of="now")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o755
    with dygcn.open(tmp_path / "x"):
        pass
    assert shown_to_others(tmp_path / "x") == {"mine.sh": "0o700", "link": "0o644"}  # the owner's rights stay
    assert (tmp_path / "x" / "link").is_symlink()


def test_nobody_sees_a_folder_before_it_is_narrowed(tmp_path, monkeypatch):
    monkeypatch.setattr(layout.disk, "keep_private", lambda folder: None)
    with umask(0), begin(tmp_path / "x"):
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_saved_folder_is_as_private_as_the_one_that_it_replaces(tmp_path, mode):
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    live.save(tmp_path / "x")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o755
    (tmp_path / "x").chmod(mode)
    live.save(tmp_path / "x")
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


def test_a_copy_of_a_wide_backup_is_private(tmp_path):
    with begin(tmp_path / "x") as live:
        live.update(add=[(1, 2)])
    shutil.copytree(tmp_path / "x", tmp_path / "backup")
    widen(tmp_path / "backup")
    dygcn.restore(tmp_path / "backup", tmp_path / "y")
    assert shown_to_others(tmp_path / "y") == {}


def test_a_wide_copy_would_be_noticed(tmp_path, monkeypatch):
    """The mutant: what is wide stays wide."""
    monkeypatch.setattr(layout.disk, "keep_private", lambda folder: None)
    with pytest.raises(AssertionError):
        test_a_copy_of_a_wide_backup_is_private(tmp_path)
