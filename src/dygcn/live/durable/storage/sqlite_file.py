"""The SQLite file of a log: how it is opened, what its errors mean, what a forked process does with it."""

from __future__ import annotations

import ctypes
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from dygcn.engine._disk import open_own
from dygcn.errors import DamagedLog, StorageError
from dygcn.live.durable.storage.tables import RESTORE

_PERMISSION = sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM
_SURROUNDINGS = (
    *_PERMISSION,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOLFS,
)
_BLOCK = 1 << 20
_DAMAGE = sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS


class OwnConnection(sqlite3.Connection):
    """A connection that only the process ends which made it.

    What SQLite does when it closes a file that several processes share is meant for processes that opened it
    themselves. In a process that was forked, the connection is neither closed nor collected.
    """

    process = 0

    def close(self) -> None:
        """Close the file, unless this process was forked from the one that opened it."""
        if os.getpid() == self.process:
            super().close()


_open: WeakSet[OwnConnection] = WeakSet()


def connect(path: Path) -> OwnConnection:
    """Open the file of a log for writing; a new one is for its owner alone, as are journals beside it."""
    with suppress(FileExistsError):
        os.close(open_own(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    db = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=32, factory=OwnConnection
    )
    db.process = os.getpid()
    _open.add(db)
    return db


def write_again(file: Path) -> None:
    """Write a file over itself and sync it, if it is there.

    After a sync that failed, the system may hold what it never wrote and take it for written: another sync
    does nothing, and the next power cut shows it.
    """
    if not file.is_file() or file.is_symlink():
        return
    with file.open("r+b", buffering=0) as handle:
        while (block := handle.read(_BLOCK)) and block.count(0) < len(block):  # holes would be filled
            handle.seek(-len(block), os.SEEK_CUR)
            handle.write(block)
        os.fsync(handle.fileno())


def _keep_open() -> None:
    for db in list(_open):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_open)


def is_permission(error: Exception) -> bool:
    """Say whether SQLite may not open or write a file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PERMISSION


def storage_error(path: Path, error: Exception) -> StorageError:
    """Return what an error of SQLite says of a log: that it is damaged, or that it cannot be used now.

    Examples
    --------
    >>> error = sqlite3.OperationalError("database or disk is full")
    >>> error.sqlite_errorcode = sqlite3.SQLITE_FULL
    >>> storage_error(Path("log.sqlite3"), error)  # doctest: +ELLIPSIS
    StorageError('log.sqlite3 cannot be used now: database or disk is full; ...')
    """
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF in _SURROUNDINGS and code not in _DAMAGE:
        return StorageError(
            f"{path} cannot be used now: {error}; what was acknowledged is in it. Free space, mend the disk "
            "or its permissions, and open the folder again"
        )
    return DamagedLog(f"{path} cannot be read: {error}; {RESTORE}")
