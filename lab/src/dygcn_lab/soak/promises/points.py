"""Where a process can be made to die, by name; and the bugs that the fault tests must notice."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from functools import wraps
from typing import Any

from dygcn.engine.models import folder
from dygcn.errors import WriteFailed
from dygcn.live.durable import opening
from dygcn.live.durable.storage import layout, sqlite_file
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.storage.sqlite_file import Watermark
from dygcn.live.durable.write_ahead import WriteAhead

BEFORE, AFTER = "before", "after"
_COMMIT = "COMMIT"
ACKNOWLEDGED = "applied, not acknowledged"  # the writer itself dies there

# Name -> what is called there, and on which side of the call death comes.
POINTS: dict[str, tuple[object, str, str]] = {
    "before the commit": (EventLog, _COMMIT, BEFORE),
    "committed, not applied": (EventLog, _COMMIT, AFTER),
    ACKNOWLEDGED: (None, "", BEFORE),
    "a file of a snapshot is written": (folder, "save_file", AFTER),
    "files of a snapshot are synced": (folder, "sync_file", AFTER),
    "before a snapshot gets its name": (folder, "_swap", BEFORE),
    "after a snapshot gets its name": (folder, "_swap", AFTER),
    "between snapshot and pruning": (layout, "drop_old_snapshots", BEFORE),
    "old snapshots are gone, the log is whole": (layout, "drop_old_snapshots", AFTER),
    "the log is pruned": (EventLog, "prune", AFTER),
    "leftovers are cleared": (layout, "clear_leftovers", AFTER),
    "the log is opened": (EventLog, "_prepare", AFTER),
    "before a snapshot is loaded": (opening, "newest_good", BEFORE),
    "before the log is replayed": (opening, "newest_good", AFTER),
    "while the log is replayed": (WriteAhead, "_replayed", AFTER),
    "before the log is closed": (EventLog, "close", BEFORE),
    "the log is closed, the folder is held": (layout.FolderLock, "release", BEFORE),
}
RECOVERY = (
    "leftovers are cleared",
    "the log is opened",
    "before a snapshot is loaded",
    "before the log is replayed",
    "while the log is replayed",
)


def die_at(point: str, count: int, die: Callable[[], None]) -> None:
    """Die when a point is reached for the n-th time."""
    owner, name, side = POINTS[point]
    if owner is None:
        return
    left = [count]

    def reached(where: str) -> None:
        if where == side:
            left[0] -= 1
            if left[0] == 0:
                die()

    if name == _COMMIT:
        _around_statements(lambda where, sql: reached(where) if sql == _COMMIT else None)
        return
    call = getattr(owner, name)

    @wraps(call)
    def watched(*args: Any, **options: Any) -> Any:
        reached(BEFORE)
        result = call(*args, **options)
        reached(AFTER)
        return result

    setattr(owner, name, watched)


def kill_myself() -> None:
    """Die as from kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


class _Statements:
    """A connection whose statements are seen before and after they run, or left out."""

    def __init__(self, db: Any, seen: Callable[[str, str], Any]) -> None:
        self._db, self._seen = db, seen

    def execute(self, sql: str, *args: Any) -> Any:
        if self._seen(BEFORE, sql) == "leave out":
            return self._db.execute("SELECT 0")
        result = self._db.execute(sql, *args)
        self._seen(AFTER, sql)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def _around_statements(seen: Callable[[str, str], Any]) -> None:
    prepare: Callable[[EventLog], None] = EventLog._prepare

    def prepared(self: EventLog) -> None:
        prepare(self)
        self._db = _Statements(self._db, seen)  # type: ignore[assignment]

    EventLog._prepare = prepared  # type: ignore[method-assign]


# ---- bugs -----------------------------------------------------------------------------------------------


def commit_later() -> None:
    """Acknowledge before the commit: four requests share one that comes with the last of them.

    The watermark would tell that the end of the log is missing, so that it has to go, too.
    """
    waiting = [0]
    Watermark.reach = lambda self, reached: None  # type: ignore[method-assign]

    def seen(where: str, sql: str) -> str | None:
        if where == AFTER or not sql.startswith(("BEGIN IMMEDIATE", _COMMIT, "PRAGMA wal_checkpoint")):
            return None
        if sql == _COMMIT:
            waiting[0] = (waiting[0] + 1) % 4
            return "leave out" if waiting[0] else None
        return "leave out" if waiting[0] else None

    _around_statements(seen)


def forget_positions() -> None:
    """Do not restore, in recovery, how far the streams had come."""
    replayed = WriteAhead._replayed

    def forgetful(self: WriteAhead, one: Any) -> None:
        streams = dict(self.offsets.streams)
        replayed(self, one)
        self.offsets.streams = streams

    WriteAhead._replayed = forgetful  # type: ignore[method-assign]


def forget_the_clock() -> None:
    """Do not restore, in recovery, how far the clock had come beyond the events."""
    replay = WriteAhead._replay_batch

    def forgetful(self: WriteAhead, one: Any) -> None:
        replay(self, dataclasses.replace(one, now=None))

    WriteAhead._replay_batch = forgetful  # type: ignore[method-assign]


def synchronous_off() -> None:
    """Let SQLite sync nothing."""
    prepare = EventLog._prepare

    def careless(self: EventLog) -> None:
        prepare(self)
        self._db.execute("PRAGMA synchronous = OFF")

    EventLog._prepare = careless  # type: ignore[method-assign]


def snapshots_not_synced() -> None:
    """Write snapshots without a sync, and forget the log before them all the same."""
    vars(folder).update(sync_file=lambda path: None, sync_names=lambda path: None)


def settle_nothing() -> None:
    """Take what a process that died left for durable, wherever it stands."""
    EventLog._checkpoint = lambda self: None  # type: ignore[method-assign]
    vars(sqlite_file).update(write_again=lambda file: None)
    vars(layout).update(sync_names=lambda folder: None)


def trust_the_next_sync() -> None:
    """Take what a failed sync left in the cache for written, once another sync has worked."""
    vars(sqlite_file).update(write_again=lambda file: None)


def leave_the_journal_to_sqlite() -> None:
    """Let SQLite put the pages of its journal in their place: it does not tell when that fails."""
    prepare = EventLog._prepare

    def trusting(self: EventLog) -> None:
        prepare(self)
        self._db.execute("PRAGMA wal_autocheckpoint = 4")

    EventLog._prepare = trusting  # type: ignore[method-assign]
    EventLog._tidy_journal = lambda self, grown: None  # type: ignore[method-assign]


def swallow_errors() -> None:
    """Go on when a commit fails, as if it had not."""
    append = EventLog.append

    def careless(self: EventLog, entries: Any, batch_id: int, dead: Any = (), settled: Any = ()) -> int:
        try:
            return append(self, entries, batch_id, dead, settled)
        except WriteFailed:
            self.failure = None
            return self.last

    EventLog.append = careless  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "commit later": commit_later,
    "forget positions": forget_positions,
    "forget the clock": forget_the_clock,
    "synchronous off": synchronous_off,
    "snapshots not synced": snapshots_not_synced,
    "recovered, not settled": settle_nothing,
    "trust the next sync": trust_the_next_sync,
    "swallow errors": swallow_errors,
    "journal left to SQLite": leave_the_journal_to_sqlite,
}
