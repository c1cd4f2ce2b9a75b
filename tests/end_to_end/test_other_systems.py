"""What Windows lacks: library and service are imported and used without it, and folders are locked."""

import subprocess
import sys

import pytest

LACKING = """
import asyncio, os, subprocess, sys, tempfile, types

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in (
    "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "fork", "getuid", "pread", "pwrite", "register_at_fork",
    "sched_getaffinity",
):
    delattr(os, name)
held, close = {}, os.close
windows = types.ModuleType("msvcrt")
windows.LK_NBLCK = 2


def locking(handle, how, count):
    assert (how, count) == (2, 1)
    file = os.fstat(handle).st_ino
    if file in held.values():
        raise OSError("taken")
    held[handle] = file


def closing(handle):
    held.pop(handle, None)
    close(handle)


windows.locking, os.close = locking, closing
sys.modules["msvcrt"] = windows
"""
USE = """
import dygcn
from dygcn.errors import FolderInUse

folder = sys.argv[1]
live = dygcn.open(folder, dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8))
live.update(add=[("cat", "dan")])
try:
    dygcn.open(folder)
except FolderInUse:
    print("held")
live.close()
with dygcn.open(folder) as again:
    print(sorted(again))
"""


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", LACKING + script, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_durable_folder_without_fcntl(tmp_path):
    assert run(USE, tmp_path / "folder") == ["held", "['ann', 'bob', 'cat', 'dan']"]


@pytest.mark.parametrize("module", ["live", "serving.service.app", "cli.main", "serving.sinks.parquet"])
def test_importing_without_what_windows_lacks(module):
    assert run(f"import dygcn.{module}; print('fcntl' in sys.modules and sys.modules['fcntl'])") == ["None"]


def test_the_trial_would_notice():
    done = subprocess.run([sys.executable, "-c", LACKING + "import fcntl"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in done.stderr
