"""The tables of a log, and rows of it as they are, for whoever writes the log or only reads it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dygcn.errors import DamagedLog, UnsupportedFolder

FORMAT = 4
RESTORE = "restore a copy"
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


@dataclass(frozen=True, slots=True)
class Entry:
    """What was appended. Entries of one `batch_id` were applied together."""

    seq: int
    batch_id: int
    kind: str
    stream: str
    position: int
    body: bytes
    chain: bytes  # checksum of this entry and, through the one before it, of all before
    logged: int = 0  # when, in microseconds since 1970; never less than that of the entry before
    seal: bytes = b""  # checksum of the time


def some_entries(db: sqlite3.Connection, after: int) -> list[Entry]:
    """Return the next entries behind one, not checked yet, and not more than fit into memory."""
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
    """Make sure that a file has the tables of a log, or none yet; return whether it has them.

    Raises
    ------
    UnsupportedFolder
        If they are those of another format.
    DamagedLog
        If they are those of no log.
    """
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
        raise _other_format(path, about.get("format"))
    if not isinstance(about.get("genesis"), bytes) or len(about["genesis"]) != 16:
        raise DamagedLog(f"{path} does not say which log it is; {RESTORE}")
    return about


def _other_format(path: Path, found: object) -> UnsupportedFolder:
    return UnsupportedFolder(f"{path} has format {found!r}; this dygcn reads {FORMAT}")
