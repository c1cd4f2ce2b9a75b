"""File operations that differ between systems: locks, permissions, syncing to disk.

What `open_own`, `write_own`, `replace_own` and `make_folder` make is for its owner alone, whatever the umask
says; `keep_private` narrows what others made.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import stat
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows

    def lock(handle: int) -> None:
        """Lock an open file, `OSError` if another process has the lock; closing the file releases it."""
        windows = importlib.import_module("msvcrt")
        os.lseek(handle, 0, os.SEEK_SET)
        windows.locking(handle, windows.LK_NBLCK, 1)

    def unlock(handle: int) -> None:
        """Release a lock, and close the file."""
        os.close(handle)

    def lock_folder(folder: Path) -> int | None:
        """Return None: Windows has no handle of a folder, and does not remove a file that is open."""
        return None
else:

    def lock(handle: int) -> None:
        """Lock an open file, `OSError` if another process has the lock; closing the file releases it."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(handle: int) -> None:
        """Release a lock, also for processes that were forked meanwhile, and close the file."""
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
        finally:  # an interrupt leaves no file locked
            os.close(handle)

    def lock_folder(folder: Path) -> int | None:
        """Lock a folder and return its handle, None where only files can be; `OSError` if it is locked."""
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            lock(handle)
        except BaseException as error:
            os.close(handle)
            if isinstance(error, OSError) and error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                return None
            raise
        return handle


_OURS = ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")
_OTHERS = 0o077  # what a mode allows to others than the owner
_SYNCS_NAMES = os.name != "nt"  # Windows has no handle of a folder, and writes names down by itself


def open_own(path: Path, flags: int) -> int:
    """Open a file of our own; where the system allows it, refuse links and do not wait for pipes."""
    for name in _OURS:
        flags |= getattr(os, name, 0)
    return os.open(path, flags, 0o600)


def write_own(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file that only its owner can read, without syncing it."""
    with os.fdopen(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        for part in parts:
            file.write(part)


def replace_own(path: Path, beside: Path, *parts: bytes | memoryview) -> None:
    """Write a file under a temporary name, then rename it; on return all of it is on disk."""
    try:
        write_own(beside, *parts)
        sync_file(beside)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the disk may be full
            beside.unlink()
        raise
    sync_names(path.parent)


def make_folder(folder: Path, parents: bool = False) -> None:
    """Make a folder that only its owner can read; with `parents`, its parents too. Existing ones stay."""
    if parents and not folder.parent.exists():
        make_folder(folder.parent, parents)
    folder.mkdir(0o700, exist_ok=True)


def is_private(path: Path) -> bool:
    """Return whether a path exists and only its owner can read it."""
    return path.exists() and not path.stat().st_mode & _OTHERS


def keep_private(folder: Path) -> None:
    """Make a folder and everything in it readable by the owner alone; others' files stay as they are."""
    _narrow(folder)
    for inside, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _narrow(Path(inside, name))


def _narrow(path: Path) -> None:
    with contextlib.suppress(OSError):  # only the owner may, and readers remove files meanwhile
        mode = path.stat(follow_symlinks=False).st_mode
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def sync_file(file: Path) -> None:
    """Wait until a file is on disk."""
    _sync(open_own(file, os.O_RDONLY if _SYNCS_NAMES else os.O_RDWR))


def sync_names(folder: Path) -> None:
    """Sync a folder, so that created, renamed or removed names are on disk."""
    if _SYNCS_NAMES:
        _sync(os.open(folder, os.O_RDONLY))


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
