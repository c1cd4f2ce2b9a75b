"""The SQLite file of a log: tables, how it is opened, what its errors mean.

Also a log that another process may be writing, read without a lock and without a byte written; and the
watermark beside the log, which notices an end that is missing.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sqlite3
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakSet

from dygcn.engine._disk import open_own
from dygcn.errors import DamagedLog, StorageError, UnsupportedFolder
from dygcn.live.durable.storage import times
from dygcn.live.durable.storage.entries import RESTORE, Entry, Epoch, check_entries

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


_NO_PERMISSION = (
    "{path} cannot be read by this user ({error}); with a journal (-wal) beside it, that takes permission "
    "to write in the folder. Ask as a user who has it, or ask the service over HTTP (?as_of=)"
)
_ROW = "SELECT * FROM entries WHERE seq = ?"


class LogReader:
    """Reads a log, also while another connection writes it; every read is short, and sees complete batches.

    If no process has the log open there is no journal, and the file is opened as immutable: otherwise SQLite
    would make files beside it. A journal that appears meanwhile is an error, and the read is to be retried.
    """

    saved = 0  # which snapshots there should be is known to a writer alone

    def __init__(self, path: Path) -> None:
        self.path, self._journal = path, path.with_name(f"{path.name}-wal")
        if path.is_symlink() or not path.is_file():
            raise DamagedLog(f"{path} is not a file, so it is not a log of dygcn")
        self._still = not self._journal.exists()
        how = "immutable=1" if self._still else "mode=ro"
        try:
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise StorageError(f"{path} cannot be opened: {error}") from None
        try:
            with self._reading():
                if not check_tables(self._db, path):
                    raise DamagedLog(f"{path} is empty; {RESTORE}")
                about = read_about(self._db, path)
                self.genesis: bytes = about["genesis"]
                kept = about.get("keep_log")
                ends: tuple[int | None, int] = self._db.execute(
                    "SELECT min(seq), max(seq) FROM entries"
                ).fetchone()
            self.keep_log = kept if isinstance(kept, str) else None
            self.first, self.last = (0, 0) if ends[0] is None else (ends[0], ends[1])
            self.made = min(Epoch.unpack(self.genesis).generation * 1000, times.LATEST)
        except BaseException:
            self._db.close()
            raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if is_permission(error):
                raise StorageError(_NO_PERMISSION.format(path=self.path, error=error)) from None
            raise storage_error(self.path, error) from None
        if self._still and self._journal.exists():
            raise DamagedLog(f"{self.path} was opened by another program while it was read; try again")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def entry(self, seq: int) -> Entry | None:
        """Return an entry whose time is undamaged; None if the log does not have it."""
        with self._reading():
            row = self._db.execute(_ROW, (seq,)).fetchone()
        if row is None:
            return None
        entry = Entry(*row)
        timed = times.is_time(entry.logged) and isinstance(entry.chain, bytes)
        if not timed or entry.seal != times.seal(entry.chain, entry.logged):
            raise DamagedLog(f"{self.path}: the time of entry {seq} is not what was written; {RESTORE}")
        return entry

    def chain_at(self, seq: int) -> bytes | None:
        """Return the checksum of everything up to an entry, None if the log does not have it."""
        if seq == 0:
            return self.genesis
        entry = self.entry(seq)
        return None if entry is None else entry.chain

    def time_at(self, seq: int) -> int | None:
        """Return when an entry was logged, None if the log does not have it; 0: when the log was made."""
        if seq == 0:
            return self.made
        entry = self.entry(seq)
        return None if entry is None else entry.logged

    def last_before(self, moment: int) -> int | None:
        """Return the last entry that was logged at or before a time; None if the log does not reach back.

        0: the log was made by then, and had no entry yet.
        """
        low = self.first - 1 if self.first > 1 else 0  # logged by then, or not known
        high = self.last + 1  # logged later
        while high - low > 1:
            middle = (low + high) // 2
            logged = self.time_at(middle)
            if logged is None:
                raise DamagedLog(f"{self.path}: entry {middle} is missing; {RESTORE}")
            low, high = (middle, high) if logged <= moment else (low, middle)
        if low == 0:
            return 0 if self.made <= moment else None
        return low if low >= self.first else None

    def entries(self, after: int, chain: bytes, upto: int) -> Iterator[Entry]:
        """Yield the entries after one, up to another, each checked against the checksum of all before it."""
        last = after
        for entry in islice(check_entries(self.path, self._some, after, chain), max(upto - after, 0)):
            last = entry.seq
            yield entry
        if last < upto:
            raise DamagedLog(f"{self.path}: entry {last + 1} is missing; {RESTORE}")

    def _some(self, after: int) -> list[Entry]:
        with self._reading():
            return some_entries(self._db, after)


_FORM = struct.Struct("<16sq16sq")
_SIZE = _FORM.size + 16


@dataclass(frozen=True, slots=True)
class Reached:
    """The last entry that was known to be on disk."""

    genesis: bytes
    sequence: int
    chain: bytes
    saved: int  # the sequence of the newest snapshot


class Watermark:
    """A file of one record, written over in place."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file: int | None = open_own(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be opened: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self.close()
            raise StorageError(f"{self.path} is not a file")

    def read(self) -> Reached | None:
        """Return the last written record; None if the file is incomplete or damaged."""
        assert self._file is not None
        os.lseek(self._file, 0, os.SEEK_SET)
        content = os.read(self._file, _SIZE)
        if len(content) != _SIZE or content[_FORM.size :] != _checksum(content[: _FORM.size]):
            return None
        return Reached(*_FORM.unpack_from(content))

    def reach(self, reached: Reached) -> None:
        """Write how far the log reached; raise OSError if that fails."""
        assert self._file is not None
        record = _FORM.pack(reached.genesis, reached.sequence, reached.chain, reached.saved)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, record + _checksum(record))

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _checksum(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=16, person=b"dygcn watermark").digest()
