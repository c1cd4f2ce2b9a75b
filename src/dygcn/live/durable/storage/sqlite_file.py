"""The SQLite file of a log: tables, how it is opened, what its errors mean, and forked processes."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from dygcn.engine._disk import open_own
from dygcn.errors import DamagedLog, StorageError, UnsupportedFolder
from dygcn.live.durable.storage.entries import RESTORE, Entry

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

FORMAT = 4
LONGEST_BODY = 64 << 20
_READ_AT_ONCE = 256, 16 << 20  # entries, bytes
TABLES = {
    "about": "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
    "entries": "CREATE TABLE entries (seq INTEGER PRIMARY KEY, batch_id INTEGER NOT NULL, "
    "kind TEXT NOT NULL, "
    "stream TEXT NOT NULL, position INTEGER NOT NULL, body BLOB NOT NULL, chain BLOB NOT NULL, "
    "logged INTEGER NOT NULL, seal BLOB NOT NULL)",
    "dead_letters": "CREATE TABLE dead_letters (id INTEGER PRIMARY KEY, received REAL NOT NULL, "
    "stream TEXT NOT NULL, position INTEGER NOT NULL, row INTEGER NOT NULL, reason TEXT NOT NULL, "
    "event TEXT NOT NULL, checksum BLOB NOT NULL, UNIQUE (stream, position, row))",
}
_SCHEMA = sorted(
    [("table", name, name, sql) for name, sql in TABLES.items()]
    + [("index", f"sqlite_autoindex_{name}_1", name, "") for name in ("about", "dead_letters")]
)
_PATIENCE, _BETWEEN = 10.0, 0.05  # seconds that readers in other processes are waited for


class OwnConnection(sqlite3.Connection):
    """A connection that only the process that made it closes.

    SQLite must not close a file in a process that was forked from the one that opened it: there, the
    connection is neither closed nor collected.
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

    After a failed sync the system may take cached pages for written: another sync does nothing, and the next
    power cut loses them.
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
    """Return whether an error of SQLite is a missing permission."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PERMISSION


def storage_error(path: Path, error: Exception) -> StorageError:
    """Return the error for a failure of SQLite: damaged log, or a log that cannot be used now."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF in _SURROUNDINGS and code not in _DAMAGE:
        return StorageError(
            f"{path} cannot be used now: {error}; what was acknowledged is in it. Free space, mend the disk "
            "or its permissions, and open the folder again"
        )
    return DamagedLog(f"{path} cannot be read: {error}; {RESTORE}")


def some_entries(db: sqlite3.Connection, after: int) -> list[Entry]:
    """Return the next entries after one, unchecked, as many as fit into memory."""
    found, size = [], 0
    rows = db.execute("SELECT * FROM entries WHERE seq > ? ORDER BY seq LIMIT ?", (after, _READ_AT_ONCE[0]))
    for row in rows:
        entry = Entry(*row)
        found.append(entry)
        size += len(entry.body) if isinstance(entry.body, bytes) else 0
        if size > _READ_AT_ONCE[1]:
            break
    rows.close()
    return found


def check_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Check that a file has the tables of a log, or none yet; return whether it has them."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_BODY + 4096)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    found = sorted(db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))
    if found and found != _SCHEMA:
        if ("table", "about", "about", TABLES["about"]) in found:
            read_about(db, path)  # another format has other tables
        raise DamagedLog(f"{path} is not a log of dygcn: it has other tables than a log has")
    return bool(found)


def read_about(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return what a log says of itself: its format, which is this one, and its genesis."""
    about = dict(db.execute("SELECT name, value FROM about WHERE length(value) <= 16"))
    if about.get("format") != FORMAT:
        found = about.get("format")
        raise UnsupportedFolder(f"{path} has format {found!r}; this dygcn reads {FORMAT}")
    if not isinstance(about.get("genesis"), bytes) or len(about["genesis"]) != 16:
        raise DamagedLog(f"{path} does not say which log it is; {RESTORE}")
    return about


def purge(db: sqlite3.Connection, path: Path, truncated: Callable[[], bool]) -> None:
    """Rewrite the file so that no free page holds deleted data, and empty the journal."""
    db.execute("VACUUM")
    until = time.monotonic() + _PATIENCE
    while not truncated():
        if time.monotonic() > until:
            raise StorageError(f"{path} is being read by another program, so old bytes of it stay; try again")
        time.sleep(_BETWEEN)
