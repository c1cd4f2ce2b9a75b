"""Ways to an embedding without fitting: what may be opened, by whom, and what may not."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dygcn
from dygcn.errors import (
    DamagedFolder,
    DygcnError,
    FolderError,
    FolderInUse,
    MissingFolder,
    OptionError,
    StorageError,
)
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage.layout import list_snapshots
from tests.live.crashing import begin, crash, small_model


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(1, 2), (2, 3)])
    yield live
    live.close()


# ---- beginning ---------------------------------------------------------------------------------------


def test_a_new_folder(tmp_path):
    plain = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    with dygcn.open(tmp_path / "deep" / "x", plain) as live:
        assert isinstance(live, dygcn.DurableEmbedding)
        assert (live.digest(), live.sequence, live.streams, live._ahead.damage) == (plain.digest(), 0, {}, [])
        live.update(add=[("cat", "dan")])
        assert "dan" not in plain
    with dygcn.open(str(tmp_path / "deep" / "x")) as again:
        assert "dan" in again
    assert dygcn.open is open_folder


def test_a_saved_folder_becomes_durable(tmp_path):
    plain = dygcn.fit([(1, 2), (2, 3)], dim=8)
    plain.save(tmp_path / "x")
    with dygcn.open(tmp_path / "x") as live:
        assert live.digest() == plain.digest()
        live.update(add=[(3, 4)])
    with dygcn.open(tmp_path / "x") as again:
        assert 4 in again


def test_an_empty_folder_may_be_begun(tmp_path):
    (tmp_path / "x").mkdir()
    with begin(tmp_path / "x") as live:
        assert len(live) == 0


def test_a_durable_one_may_begin_another(live, tmp_path):
    with dygcn.open(tmp_path / "y", live) as other:
        assert other.digest() == live.digest()
        assert (other.sequence, other.streams) == (0, {})
        other.update(add=[(8, 9)])
        assert 8 not in live


def test_what_is_there_is_not_begun_again(live, tmp_path):
    for path in (live._folder, tmp_path):
        with pytest.raises(FolderError, match="exists"):
            begin(path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="exists"):
        begin(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_not_there(tmp_path):
    with pytest.raises(MissingFolder, match="check the name, or pass what to begin it with"):
        dygcn.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="is not a folder"):
        dygcn.open(tmp_path / "file")
    with pytest.raises(MissingFolder):
        dygcn.open("x" * 5000)
    with pytest.raises(FolderError):
        begin(Path("x" * 5000))
    (tmp_path / "photos").mkdir()
    for inside in ([], ["cat.jpg"]):
        for name in inside:
            (tmp_path / "photos" / name).write_text("miaow")
        with pytest.raises(DamagedFolder, match="is not a dygcn folder"):
            dygcn.open(tmp_path / "photos")
        assert [path.name for path in (tmp_path / "photos").iterdir()] == inside
    with pytest.raises(OptionError, match="after is LiveEmbedding"):
        begin(tmp_path / "y", after=dygcn.start(small_model()))
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("every", [0, -1, "5", 2.5, float("nan"), True])
def test_snapshots_are_at_least_an_event_apart(tmp_path, every):
    with pytest.raises(OptionError, match="snapshot_every"):
        begin(tmp_path / "x", snapshot_every=every)
    assert not (tmp_path / "x").exists()


def test_a_folder_that_was_damaged_before_it_was_durable(tmp_path):
    dygcn.start(small_model()).save(tmp_path / "x")
    (tmp_path / "x" / "graph.safetensors").write_bytes(b"")
    with pytest.raises(DamagedFolder):
        dygcn.open(tmp_path / "x")
    assert not (tmp_path / "x" / "log.sqlite3").exists()


# ---- one at a time -----------------------------------------------------------------------------------


def test_one_at_a_time(live):
    with pytest.raises(FolderInUse):
        dygcn.open(live._folder)
    live.update(add=[(3, 4)])
    live.close()
    dygcn.open(live._folder).close()


def test_one_process_at_a_time(live):
    code = (
        "import sys, dygcn\n"
        "try:\n    dygcn.open(sys.argv[1])\n"
        "except dygcn.errors.FolderInUse as error:\n    print('in use', end='')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(live._folder)], capture_output=True, text=True, check=True
    )
    assert run.stdout == "in use"


def test_one_that_was_dropped_lets_go(tmp_path):
    dygcn.open(tmp_path / "x", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4))
    gc.collect()
    dygcn.open(tmp_path / "x").close()


def test_after_a_failed_opening_it_can_be_tried_again(live):
    live.close()
    log = live._folder / "log.sqlite3"
    log.rename(live._folder / "away")
    for _ in range(3):
        with pytest.raises(DygcnError):
            dygcn.open(live._folder)
    (live._folder / "away").rename(log)
    with dygcn.open(live._folder) as again:
        assert again.digest() == live.digest()


def test_no_descriptor_is_left_open(live):
    live.close()
    (live._folder / "log.sqlite3").write_bytes(b"garbage" * 1000)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(DygcnError):
            dygcn.open(live._folder)
    assert len(os.listdir("/proc/self/fd")) == before


# ---- not by accident ---------------------------------------------------------------------------------


def test_a_durable_folder_is_not_loaded(live):
    with pytest.raises(FolderError, match=r"use dygcn\.open"):
        dygcn.load(live._folder)


def test_a_durable_folder_is_not_saved_over(live):
    """Its log would be gone, and with it what was acknowledged."""
    other = dygcn.start(small_model())
    for _ in range(2):
        with pytest.raises(FolderError, match="perhaps a log"):
            other.save(live._folder)
        live.close()
    with dygcn.open(live._folder) as again:
        assert again.digest() == live.digest()


def test_saving_over_a_log_would_be_noticed(live, monkeypatch):
    """The mutant: whatever lies beside a manifest is ours to remove."""
    monkeypatch.setattr("dygcn.engine.models.folder.check_target", Path)
    with pytest.raises(pytest.fail.Exception):
        test_a_durable_folder_is_not_saved_over(live)
    live._let_go()


def test_a_snapshot_can_be_loaded_and_begun_with(live, tmp_path):
    live.snapshot()
    loaded = dygcn.load(list_snapshots(live._folder)[0][1])
    assert loaded.digest() == live.digest()
    with dygcn.open(tmp_path / "y", loaded) as other:
        assert other.digest() == live.digest()


# ---- leftovers and strangers -------------------------------------------------------------------------


def test_what_a_crash_left_half_written_is_removed(live):
    live.snapshot()
    half = live._folder / "snapshots" / ".00000000000000000007.abc"
    half.mkdir()
    (half / "graph.safetensors").write_bytes(b"half")
    crash(live)
    with dygcn.open(live._folder) as again:
        assert again.digest() == live.digest()
    assert not half.exists()


@pytest.mark.parametrize("name", ["snapshots", "cursors"])
def test_a_room_that_leads_elsewhere_is_refused(live, tmp_path, name):
    live.close()
    home = tmp_path / "home"
    home.mkdir()
    (home / ".keys").write_text("mine")
    shutil.rmtree(live._folder / name, ignore_errors=True)
    (live._folder / name).symlink_to(home)
    with pytest.raises(DygcnError):
        dygcn.open(live._folder)
    assert (home / ".keys").read_text() == "mine"


@pytest.mark.parametrize("name", ["lock", "log.sqlite3", "log.watermark", "manifest.json", "snapshots"])
def test_a_pipe_in_the_place_of_a_file_stops_nobody(live, name):
    """Whoever opens one for reading waits for ever."""
    live.close()
    path = live._folder / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    os.mkfifo(path)
    try:
        dygcn.open(live._folder).close()
    except DygcnError:
        pass
    else:
        assert name in ("lock", "manifest.json")  # the first is only held; the second is not needed any more


def test_a_folder_without_the_right_to_write(live, monkeypatch):
    live.close()

    def denied(path, flags, *mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StorageError, match="Permission denied"):
        dygcn.open(live._folder)


def test_start_and_load_are_as_they_were(tmp_path):
    live = dygcn.start(small_model())
    live.update(add=[(1, 2)])
    live.save(tmp_path / "x")
    assert dygcn.load(tmp_path / "x").digest() == live.digest()
    live.update(add=[(2, 3)])
    live.save(tmp_path / "x")
    assert dygcn.load(tmp_path / "x").digest() == live.digest()
