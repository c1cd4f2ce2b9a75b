"""A log that another process may be writing: read without a lock, and without a byte written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from dygcn.errors import DamagedLog, StorageError
from dygcn.live.durable.storage import sqlite_file, times
from dygcn.live.durable.storage.entries import RESTORE, Entry, Epoch, check_entries

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
                if not sqlite_file.check_tables(self._db, path):
                    raise DamagedLog(f"{path} is empty; {RESTORE}")
                about = sqlite_file.read_about(self._db, path)
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
            if sqlite_file.is_permission(error):
                raise StorageError(_NO_PERMISSION.format(path=self.path, error=error)) from None
            raise sqlite_file.storage_error(self.path, error) from None
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
            return sqlite_file.some_entries(self._db, after)
