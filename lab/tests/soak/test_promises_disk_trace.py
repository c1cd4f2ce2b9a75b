"""The library that records what a process does to its files, and lets operations fail."""

import os
import signal
import subprocess
import sys

import pytest

from dygcn.errors import MissingExtra
from dygcn_lab.soak.promises import disk_trace
from dygcn_lab.soak.promises.disk import Disk, files_of
from dygcn_lab.soak.promises.disk_trace import DiskTrace, compile_trace, read_trace

# The module alone: its package would import everything that dygcn has.
PROLOGUE = f"""
import importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("disk_trace", {disk_trace.__file__!r})
module = sys.modules["disk_trace"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
folder, trace = Path(sys.argv[1]), sys.argv[2]
disk = module.DiskTrace()
disk.watch(str(folder), trace)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_trace(tmp_path_factory.mktemp("library"))


@pytest.fixture
def record(library, tmp_path):
    """Return a function that runs a program under the library: what it printed, and what was recorded."""
    folder, trace = (tmp_path / "folder").resolve(), tmp_path / "trace"
    folder.mkdir()

    def run(program, status=0):
        done = subprocess.run(
            [sys.executable, "-c", PROLOGUE + program, str(folder), str(trace)],
            env=os.environ | {"LD_PRELOAD": str(library)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout, list(read_trace(trace))

    run.folder = folder
    return run


def kinds(calls, *wanted):
    return [call.kind for call in calls if not wanted or call.kind in wanted]


def test_without_a_compiler_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_trace.shutil, "which", lambda name: None)
    with pytest.raises(MissingExtra, match="install gcc"):
        compile_trace(tmp_path)


def test_a_source_that_does_not_compile_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_trace, "_SOURCE", "page.md")
    with pytest.raises(MissingExtra, match=r"page\.md cannot be compiled"):
        compile_trace(tmp_path)


def test_a_process_that_was_not_started_with_it_is_told():
    with pytest.raises(MissingExtra, match="LD_PRELOAD"):
        DiskTrace()


def test_calls_are_recorded_in_their_order_with_their_bytes(record):
    _, calls = record(
        """
file = os.open(folder / "a", os.O_WRONLY | os.O_CREAT)
os.write(file, b"one"); os.write(file, b"two")
os.pwrite(file, b"X", 1)
disk.note("here")
os.fsync(file); os.ftruncate(file, 4); os.fdatasync(file); os.close(file)
os.rename(folder / "a", folder / "b")
os.mkdir(folder / "s"); os.rmdir(folder / "s"); os.unlink(folder / "b")
"""
    )
    assert kinds(calls) == [
        *("process", "open", "write", "write", "write", "note", "sync", "truncate", "sync", "close"),
        *("rename", "mkdir", "rmdir", "unlink"),
    ]
    assert [(call.first, call.data) for call in calls if call.kind == "write"] == [
        (0, b"one"),
        (3, b"two"),
        (1, b"X"),
    ]
    assert [call.data for call in calls if call.kind in ("note", "rename")] == [b"here", b"b"]
    assert [call.path for call in calls if call.kind in ("open", "rename", "unlink")] == ["a", "a", "b"]


def test_other_folders_are_left_alone(record, tmp_path):
    _, calls = record(
        f"""
Path({str(tmp_path / "elsewhere")!r}).write_bytes(b"x")
Path(str(folder) + "-beside").write_bytes(b"x")
"""
    )
    assert kinds(calls) == ["process"]


def test_the_record_of_real_libraries_leads_to_the_files_that_are_there(record):
    disk = Disk(record.folder)
    _, calls = record(
        """
import shutil, sqlite3, tempfile
import numpy as np
from safetensors.numpy import save_file
db = sqlite3.connect(folder / "log", isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA wal_autocheckpoint = 5")
db.execute("CREATE TABLE t (a)")
for i in range(40):
    db.execute("INSERT INTO t VALUES (?)", (b"x" * 700 * (i % 9),))
(folder / "s").mkdir()
for i in range(3):
    staged = Path(tempfile.mkdtemp(dir=folder / "s"))
    save_file({"a": np.arange(5000) + i}, staged / "a.safetensors")
    (staged / "manifest").write_text("hello" * i)
    (staged / "a.safetensors").read_bytes()
    with (staged / "manifest").open("ab") as file:
        file.write(b"more")
    staged.rename(folder / "s" / str(i))
shutil.rmtree(folder / "s" / "1")
os.chdir(folder)
Path("relative").write_bytes(b"here")
os.replace("relative", "s/there")
if len(sys.argv) > 3:
    db.close()
os._exit(0)
"""
    )
    for call in calls:
        disk.apply(call)
    assert disk.now() == files_of(record.folder)
    assert {"log", "log-wal", "s/0/a.safetensors", "s/there"} <= set(disk.now())


@pytest.mark.parametrize(
    ("kind", "says"),
    [("error", "Input/output error"), ("disk full", "No space left on device"), ("short write", "wrote 3")],
)
def test_the_nth_operation_fails(record, kind, says):
    said, calls = record(
        f"""
file = os.open(folder / "a", os.O_WRONLY | os.O_CREAT)
disk.fail(2, {kind!r})
for text in (b"first", b"second", b"third"):
    try:
        print("wrote", os.write(file, text))
    except OSError as error:
        print(error.strerror)
print(disk.fault().on, disk.operations)
"""
    )
    first, second, third, fault = said.splitlines()
    assert first == "wrote 5"
    assert says in second
    assert third == ("No space left on device" if kind == "disk full" else "wrote 5")
    assert fault == "write a 4"
    assert [call.path for call in calls if call.kind == "fault"] == ["write a"]


@pytest.mark.parametrize(
    "operation",
    [
        "os.fsync(file)",
        "os.fdatasync(file)",
        "os.ftruncate(file, 1)",
        'os.rename(folder / "a", folder / "b")',
        'os.mkdir(folder / "s")',
        'os.open(folder / "new", os.O_CREAT | os.O_RDWR)',
        'os.open(folder / "a", os.O_RDWR)',
        'os.pwrite(file, b"xx", 0)',
        'os.writev(file, [b"xx", b"y"])',
    ],
)
def test_everything_that_changes_a_disk_can_fail(record, operation):
    said, _ = record(
        f"""
file = os.open(folder / "a", os.O_WRONLY | os.O_CREAT)
disk.fail(1, "error")
try:
    {operation}
except OSError as error:
    print(error.strerror)
    {operation}
"""
    )
    assert said == "Input/output error\n"


def test_reading_does_not_fail_and_does_not_count(record):
    said, _ = record(
        """
(folder / "a").write_bytes(b"x")
before = disk.operations
disk.fail(1, "error")
print((folder / "a").read_bytes(), list(os.listdir(folder)), disk.operations - before, disk.fault())
"""
    )
    assert said == "b'x' ['a'] 0 None\n"


def test_a_failed_sync_is_recorded_as_failed(record):
    _, calls = record(
        """
file = os.open(folder / "a", os.O_WRONLY | os.O_CREAT)
disk.fail(1, "error")
try:
    os.fsync(file)
except OSError:
    os.fsync(file)
"""
    )
    assert [call.first for call in calls if call.kind == "sync"] == [0, 1]


@pytest.mark.parametrize(("kind", "last"), [("die", "write"), ("die before sync", "write")])
def test_a_process_dies_before_an_operation(record, kind, last):
    _, calls = record(
        f"""
file = os.open(folder / "a", os.O_WRONLY | os.O_CREAT)
disk.fail(3, {kind!r})
while True:
    os.write(file, b"x"); os.write(file, b"y"); os.fsync(file)
""",
        status=-signal.SIGKILL,
    )
    assert calls[-1].kind == last
    assert calls[-1].data == b"y"


def test_dying_waits_for_calls_to_end(record):
    _, calls = record("disk.note('last'); disk.die()", status=-signal.SIGKILL)
    assert kinds(calls) == ["process", "note"]


_ENDS_WHILE_IT_RENAMES = """
import threading, time
names = [folder / name for name in "ab"]
names[0].touch()

def rename():
    while True:
        for old, new in (names, names[::-1]):
            if old.exists():
                os.rename(old, new)

for _ in range(40):
    child = os.fork()
    if not child:
        threading.Thread(target=rename, daemon=True).start()
        time.sleep(0.003)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_process_ends_between_two_calls(record):
    """Each renaming that happened is in the trace, also the last one of another thread."""
    disk = Disk(record.folder)
    for call in record(_ENDS_WHILE_IT_RENAMES)[1]:
        disk.apply(call)
    assert disk.now() == files_of(record.folder)
