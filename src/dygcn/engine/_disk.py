"""What systems do not do alike with files: locks, and the wait until something is on disk."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows

    def lock(handle: int) -> None:
        """Lock an open file, an `OSError` if another one has it; whoever closes it or dies lets go."""
        windows = importlib.import_module("msvcrt")
        os.lseek(handle, 0, os.SEEK_SET)
        windows.locking(handle, windows.LK_NBLCK, 1)
else:

    def lock(handle: int) -> None:
        """Lock an open file, an `OSError` if another one has it; whoever closes it or dies lets go."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


_OURS = ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")
_SYNCS_NAMES = os.name != "nt"  # Windows has no handle of a folder, and writes names down by itself


def open_own(path: Path, flags: int) -> int:
    """Open a file that should be ours: no link is followed, no pipe waited for, where the system can."""
    for name in _OURS:
        flags |= getattr(os, name, 0)
    return os.open(path, flags, 0o644)


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file beside its name, and then give it the name: nobody ever sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with open(open_own(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_names(path.parent)


def sync_file(file: Path) -> None:
    """Wait until a file is on disk."""
    _sync(open_own(file, os.O_RDONLY if _SYNCS_NAMES else os.O_RDWR))


def sync_names(folder: Path) -> None:
    """Put the names in a folder on disk: who was created, renamed or removed."""
    if _SYNCS_NAMES:
        _sync(os.open(folder, os.O_RDONLY))


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
