"""Where things lie: snapshots, leftovers, places of readers, and the lock on the folder."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.errors import DamagedFolder, FolderInUse, StorageError
from dygcn.live.durable.storage import layout
from dygcn.live.durable.storage.layout import (
    FolderLock,
    clear_leftovers,
    drop_old_snapshots,
    keep_cursor,
    list_snapshots,
    prepare_layout,
    read_cursor,
    set_aside,
    snapshot_path,
)


def make(folder, *sequences):
    for sequence in sequences:
        place = snapshot_path(folder, sequence)
        place.mkdir(parents=True)
        (place / "manifest.json").write_text(str(sequence))


# ---- the lock ----------------------------------------------------------------------------------------


def test_one_at_a_time(tmp_path):
    held = FolderLock(tmp_path)
    with pytest.raises(FolderInUse, match="open already"):
        FolderLock(tmp_path)
    held.release()
    held.release()
    FolderLock(tmp_path).release()


def test_a_process_that_died_holds_nothing(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from dygcn.live.durable.storage.layout import FolderLock; "
        f"held = FolderLock(Path({str(tmp_path)!r})); print('held', flush=True); "
        "sys.stdin.read(1); os._exit(9)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path)
    child.communicate(b"x")
    FolderLock(tmp_path).release()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nowhere"])
def test_a_lock_that_cannot_be_one(tmp_path, kind):
    """Without waiting for somebody to write into a pipe, and without writing elsewhere."""
    folder = tmp_path / "folder"
    if kind != "nowhere":
        folder.mkdir()
    if kind == "link":
        (folder / "lock").symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        (folder / "lock").mkdir()
    elif kind == "pipe":
        os.mkfifo(folder / "lock")
        FolderLock(folder).release()  # a pipe can be locked, and nobody waits for it
        return
    with pytest.raises(StorageError, match="cannot be written to"):
        FolderLock(folder)
    assert not (tmp_path / "elsewhere").exists()


# ---- snapshots ---------------------------------------------------------------------------------------


def test_snapshots_newest_first(tmp_path):
    assert list_snapshots(tmp_path) == []
    make(tmp_path, 3, 20, 100)
    assert [sequence for sequence, _ in list_snapshots(tmp_path)] == [100, 20, 3]
    assert list_snapshots(tmp_path)[0][1] == snapshot_path(tmp_path, 100)


@pytest.mark.parametrize("name", ["²", "1", ".5", "abc", "١" * 20, "0" * 30, "-" + "1" * 19, "1" * 19 + " "])
def test_other_names_are_no_snapshots(tmp_path, name):
    make(tmp_path, 3)
    (tmp_path / "snapshots" / name).mkdir()
    assert [sequence for sequence, _ in list_snapshots(tmp_path)] == [3]


def test_files_and_links_are_no_snapshots(tmp_path):
    make(tmp_path, 3)
    (tmp_path / "snapshots" / f"{5:020d}").write_text("")
    (tmp_path / "snapshots" / f"{6:020d}").symlink_to(snapshot_path(tmp_path, 3))
    assert [sequence for sequence, _ in list_snapshots(tmp_path)] == [3]


def test_only_the_newest_are_kept(tmp_path):
    make(tmp_path, 3)
    assert drop_old_snapshots(tmp_path) is None
    make(tmp_path, 20)
    assert drop_old_snapshots(tmp_path) == 3
    make(tmp_path, 100, 200)
    assert drop_old_snapshots(tmp_path) == 100
    assert [sequence for sequence, _ in list_snapshots(tmp_path)] == [200, 100]
    assert drop_old_snapshots(tmp_path, keep=1) == 200


def test_the_last_damaged_snapshot_is_kept_aside(tmp_path):
    make(tmp_path, 3, 5, 7)
    set_aside(snapshot_path(tmp_path, 5))
    set_aside(snapshot_path(tmp_path, 7))
    set_aside(snapshot_path(tmp_path, 7))  # gone already
    assert [sequence for sequence, _ in list_snapshots(tmp_path)] == [3]
    assert (tmp_path / "snapshots" / "damaged" / "manifest.json").read_text() == "7"


# ---- leftovers ---------------------------------------------------------------------------------------


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    make(tmp_path, 3)
    keep_cursor(tmp_path, "pg", "7")
    for workdir in ("snapshots", "cursors"):
        (tmp_path / workdir / ".half").mkdir()
        (tmp_path / workdir / ".half" / "file").write_text("")
        (tmp_path / workdir / ".file").write_text("")
    (tmp_path / ".mine").write_text("")
    clear_leftovers(tmp_path)
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir()) == [f"{3:020d}"]
    assert len(list((tmp_path / "cursors").iterdir())) == 1
    assert read_cursor(tmp_path, "pg") == "7"
    assert (tmp_path / ".mine").exists()


@pytest.mark.parametrize("workdir", ["snapshots", "cursors"])
def test_what_a_link_leads_to_is_left_alone(tmp_path, workdir):
    """A folder from a stranger must not make us tidy another one."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    (home / ".keys").mkdir(parents=True)
    (home / ".profile").write_text("mine")
    for sequence in (1, 2, 3):
        (home / f"{sequence:020d}").mkdir()
    folder.mkdir()
    (folder / workdir).symlink_to(home)
    with pytest.raises(DamagedFolder, match="not a folder of this one"):
        prepare_layout(folder)
    clear_leftovers(folder)
    drop_old_snapshots(folder)
    assert len(list(home.iterdir())) == 5


def test_a_link_among_leftovers_is_removed_not_followed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mine").write_text("")
    make(tmp_path, 3)
    (tmp_path / "snapshots" / ".link").symlink_to(tmp_path / "home")
    clear_leftovers(tmp_path)
    assert not (tmp_path / "snapshots" / ".link").is_symlink()
    assert (tmp_path / "home" / "mine").exists()


def test_tidying_through_links_would_be_noticed(tmp_path, monkeypatch):
    """The mutant: a link to a folder counts as a folder."""
    monkeypatch.setattr(layout, "_is_own_folder", lambda path: path.is_dir())
    (tmp_path / "a").mkdir()
    with pytest.raises(AssertionError):
        test_what_a_link_leads_to_is_left_alone(tmp_path / "a", "snapshots")


def test_the_shelf_is_made_once(tmp_path):
    prepare_layout(tmp_path)
    prepare_layout(tmp_path)
    assert (tmp_path / "snapshots").is_dir()
    (tmp_path / "cursors").write_text("a file")
    with pytest.raises(DamagedFolder):
        prepare_layout(tmp_path)
    with pytest.raises(StorageError):
        prepare_layout(tmp_path / "nowhere")


# ---- places ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "ü/..", "x" * 500]), st.text(max_size=9)), max_size=9))
def test_places_are_kept_by_name(tmp_path_factory, kept):
    folder, model = tmp_path_factory.mktemp("folder"), {}
    for name, text in kept:
        text = text.encode("utf-8", "replace").decode()
        keep_cursor(folder, name, text)
        model[name] = text
        assert {name: read_cursor(folder, name) for name in model} == model
    assert read_cursor(folder, "another") is None


def test_a_damaged_place_is_none(tmp_path):
    keep_cursor(tmp_path, "pg", "7")
    [file] = (tmp_path / "cursors").iterdir()
    whole = file.read_bytes()
    for at in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[at] ^= 1
        file.write_bytes(spoilt)
        assert read_cursor(tmp_path, "pg") is None
        file.write_bytes(whole[:at])
        assert read_cursor(tmp_path, "pg") is None
    file.write_bytes(whole)
    assert read_cursor(tmp_path, "pg") == "7"


def test_the_place_of_another_is_none(tmp_path):
    keep_cursor(tmp_path, "pg", "7")
    keep_cursor(tmp_path, "kafka", "8")
    first, second = (tmp_path / "cursors").iterdir()
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert read_cursor(tmp_path, "pg") is None
    assert read_cursor(tmp_path, "kafka") is None


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_place_is_a_file(tmp_path, kind):
    keep_cursor(tmp_path, "pg", "7")
    [file] = (tmp_path / "cursors").iterdir()
    file.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.mkdir()
    assert read_cursor(tmp_path, "pg") is None


def test_places_without_a_checksum_would_be_noticed(tmp_path, monkeypatch):
    """The mutant: what is readable is believed."""

    class Believed(bytes):
        __hash__ = bytes.__hash__

        def __eq__(self, other):
            return True

    whole = layout._sealed
    monkeypatch.setattr(layout, "_sealed", lambda *cursor: Believed(whole(*cursor)))
    with pytest.raises(AssertionError):
        test_a_damaged_place_is_none(tmp_path)
