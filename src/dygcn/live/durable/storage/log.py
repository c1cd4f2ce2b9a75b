"""The durable log: batches of events in SQLite, each chained to the one before it by a checksum.

An entry is on disk before it is applied, and applied before it is acknowledged. A wrong byte anywhere in an
entry, or an entry that is missing between two others, breaks the chain and is noticed when it is read. A
watermark beside the log notices an end that is missing.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dygcn.engine._disk import sync_names
from dygcn.errors import DamagedLog, DygcnError, StorageError, WriteFailed
from dygcn.live.durable.storage import dead_letters as letter_table
from dygcn.live.durable.storage import entries as entry_form
from dygcn.live.durable.storage import sqlite_file, times
from dygcn.live.durable.storage.entries import RESTORE, Entry, Epoch, Kind, NewEntry
from dygcn.live.durable.storage.layout import FolderLock
from dygcn.live.durable.storage.sqlite_file import Reached, Watermark

LONGEST_JOURNAL = 4 << 20
_COMMIT = 8192  # bytes that a commit adds to the journal, beside its entries
_ENTRY = 64  # bytes that an entry takes beside its body and the name of its stream
MOST_CHAINS = 1 << 20  # 16 MB; at a thousand commits a second the last 17 minutes
_CHAIN = 16  # bytes
_COUNTED = 10_000  # entries whose bytes are counted at once


class EventLog:
    """One SQLite file: a write-ahead journal, synced at every commit. Safe to use from several threads."""

    last: int  # the sequence of the last entry; 0 before the first
    last_batch_id: int
    last_logged: int  # when it was logged; before the first, when the log was made
    chain: bytes  # the checksum of everything up to the last entry

    def __init__(self, path: str | os.PathLike[str], held: FolderLock | None = None) -> None:
        self.path, self._held = Path(path), held
        self.failure: WriteFailed | None = None
        self.on_failure: Callable[[WriteFailed], None] | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._journal = 0  # bytes, about
        self._chains = Chains()
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise DamagedLog(f"{self.path} is not a file, so it is not a log of dygcn")
        self._watermark = Watermark(self.path.with_suffix(".watermark"))
        try:
            sqlite_file.write_again(self.path.with_name(f"{self.path.name}-wal"))
            self._db = sqlite_file.connect(self.path)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: what SQLite says of damaged text
            self._watermark.close()
            raise sqlite_file.storage_error(self.path, error) from None
        except OSError as error:
            self._watermark.close()
            if isinstance(error, DygcnError):
                raise
            raise StorageError(f"{self.path} cannot be opened: {error.strerror}") from None

    def _prepare(self) -> None:
        db = self._db
        found = sqlite_file.check_tables(db, self.path)
        reached = self._watermark.read()
        if not found and reached is not None:
            raise DamagedLog(f"{self.path} is empty, and reached entry {reached.sequence}; {RESTORE}")
        if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StorageError(f"{self.path} cannot have a journal here; its disk must be a local one")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # SQLite would not tell that it failed; see _tidy_journal
        if not found:
            self._create()
        # What is wrong in lists of free pages, say, would only be noticed by what it destroys.
        damage = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if damage != "ok":
            raise DamagedLog(f"{self.path} is damaged: {damage}; {RESTORE}")
        self._read_end(reached)
        self._checkpoint()
        self.saved = 0 if reached is None else reached.saved  # sequence of the newest snapshot that is known
        self._watermark.reach(Reached(self.genesis, self.last, self.chain, self.saved))

    def _truncated(self) -> bool:
        """Move every page of the journal to the database and empty it; False while it is being read."""
        return not self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    def _checkpoint(self) -> None:
        """Sync what a dead process may have left in the cache only: from here on it counts as committed."""
        if not self._truncated():
            raise StorageError(f"{self.path} is being read by another program; stop that one first")
        sync_names(self.path.parent)

    def _read_end(self, reached: Reached | None) -> None:
        """Read the end of the log, and compare it with the watermark."""
        about = sqlite_file.read_about(self._db, self.path)
        genesis = about["genesis"]
        self.genesis: bytes = genesis
        kept = about.get("keep_log")
        self.keep_log = kept if isinstance(kept, str) else None  # how much of the past is kept
        row = self._db.execute(
            "SELECT seq, batch_id, chain, logged, seal FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        made = min(Epoch.unpack(genesis).generation * 1000, times.LATEST)
        end = (0, 0, genesis, made, times.seal(genesis, made)) if row is None else row
        self.last, self.last_batch_id, self.chain, self.last_logged, mark = end
        ends = isinstance(self.last_batch_id, int) and isinstance(self.chain, bytes) and len(self.chain) == 16
        if not ends or not 0 <= self.last < 1 << 62 or not 0 <= self.last_batch_id < 1 << 62:
            raise DamagedLog(f"{self.path}: entry {self.last} is not what was written; {RESTORE}")
        if not times.is_time(self.last_logged) or mark != times.seal(self.chain, self.last_logged):
            raise DamagedLog(f"{self.path}: the time of entry {self.last} is not what was written; {RESTORE}")
        if reached is None:
            return
        if reached.genesis != genesis or self.chain_at(reached.sequence) not in (None, reached.chain):
            raise DamagedLog(f"{self.path} is not the log that {self._watermark.path} is of; {RESTORE}")
        if reached.sequence > self.last:
            raise DamagedLog(
                f"{self.path} ends with entry {self.last} and reached {reached.sequence}: its end is lost; "
                f"restore a copy, or remove {self._watermark.path} to go on without what is lost"
            )

    def _create(self) -> None:
        with self._transaction() as db:
            for table in sqlite_file.TABLES.values():
                db.execute(table)
            about = [("format", sqlite_file.FORMAT), ("genesis", Epoch.begin().pack())]
            db.executemany("INSERT INTO about VALUES (?, ?)", about)

    # ---- writing -----------------------------------------------------------------------------------

    def append(
        self,
        entries: Sequence[NewEntry],
        batch_id: int,
        dead: Sequence[letter_table.DeadLetter] = (),
        settled: Sequence[int] = (),
    ) -> int:
        """Write the entries of one batch and dead letters, synced to disk; return the last sequence."""
        with self._lock:
            self.check()
            last, chain, rows = self.last, self.chain, []
            logged = max(times.clock(), self.last_logged)  # the machine's clock may be set back
            for entry in entries:
                last += 1
                chain = entry_form.chained(chain, last, batch_id, entry)
                fields = last, batch_id, entry.kind, entry.stream, entry.offset, entry.body, chain
                rows.append((*fields, logged, times.seal(chain, logged)))
            try:
                with self._transaction() as db:
                    db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
                    if settled:
                        letter_table.settle(db, settled)
                    if dead:
                        letter_table.bury(db, dead)
                self._watermark.reach(Reached(self.genesis, last, chain, self.saved))
                self.last, self.last_batch_id, self.chain, self.last_logged = last, batch_id, chain, logged
                for sequence, *_, value, _, _ in rows:
                    self._chains.note(sequence, value)
                self._tidy_journal(_COMMIT + sum(len(entry.body) for entry in entries))
            except (sqlite3.Error, OSError) as error:
                raise self.fail(error) from None
            except BaseException as error:  # an interrupt: what it came between is unknown
                self.fail(error)
                raise
            return last

    def _tidy_journal(self, grown: int) -> None:
        """Move the pages of a long journal to the database; if that fails, the journal has all entries."""
        self._journal += grown
        if self._journal < LONGEST_JOURNAL:
            return
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._journal = 0
        except (sqlite3.Error, OSError) as error:
            self.fail(error)

    def discard(self, numbers: Sequence[int]) -> int:
        """Delete dead letters; return how many of them existed."""
        with self._lock:
            self.check()
            known = [number for number, _ in self.letters(numbers)]
            with self._failing(), self._transaction() as db:
                letter_table.settle(db, known)
            return len(known)

    def prune(self, below: int) -> None:
        """Delete entries before a sequence, which a snapshot covers. The last entry always stays."""
        with self._lock:
            self.check()
            with self._failing():
                self._db.execute("DELETE FROM entries WHERE seq < ?", (min(below, self.last),))
            self._tidy_journal(LONGEST_JOURNAL)

    def redact(
        self, left_of: Callable[[int, bytes], bytes | None], drop: Callable[[letter_table.DeadLetter], bool]
    ) -> tuple[int, int]:
        """Rewrite events and drop dead letters, leaving no old byte in the file; return how many of each.

        `left_of` returns what is left of the body of a sequence, None: all of it.
        """
        with self._lock:
            self.check()
            bodies: list[tuple[bytes, int]] = []
            after = 0
            while entries := self._some(after):
                after = entries[-1].seq
                for entry in entries:
                    if entry.kind != Kind.EVENTS:
                        continue
                    left = left_of(entry.seq, entry_form.clear_body(entry.body))
                    if left is not None:
                        bodies.append((entry_form.redacted(entry, left), entry.seq))
            dead = self.drop_letters(drop, bodies)
            try:
                sqlite_file.purge(self._db, self.path, self._truncated)
            except sqlite3.Error as error:
                raise StorageError(
                    f"{self.path} cannot be written anew: {error}; free space, try again"
                ) from None
            self._journal = 0
            return len(bodies), dead

    def drop_letters(
        self, drop: Callable[[letter_table.DeadLetter], bool], bodies: Sequence[tuple[bytes, int]] = ()
    ) -> int:
        """Drop events of dead letters and replace bodies of entries; return how many dead letters changed."""
        with self._lock:
            self.check()
            dead, left = letter_table.without_dropped(self.dead_letters(letter_table.MOST_DEAD_LETTERS), drop)
            with self._failing(), self._transaction() as db:
                db.executemany("UPDATE entries SET body = ? WHERE seq = ?", bodies)
                letter_table.settle(db, dead)
                letter_table.bury(db, left)
            return len(dead)

    def remember_keep_log(self, text: str) -> None:
        """Store how much of the past is kept, for the next opening."""
        with self._lock:
            self.check()
            if text == self.keep_log:
                return
            with self._failing():
                self._db.execute("INSERT OR REPLACE INTO about VALUES ('keep_log', ?)", (text,))
            self.keep_log = text

    def note_snapshot(self, sequence: int) -> None:
        """Record that the snapshot of a sequence is on disk, so that a missing one is noticed."""
        with self._lock, self._failing():
            self.saved = max(self.saved, sequence)
            self._watermark.reach(Reached(self.genesis, self.last, self.chain, self.saved))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Accept nothing after a failed write: only reopening the log shows what it holds."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self.fail(error) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        yield self._db
        self._db.execute("COMMIT")

    def fail(self, error: BaseException) -> WriteFailed:
        """Accept no more writes after a failure; return the exception to raise."""
        if self.failure is None:
            said = str(error) or type(error).__name__
            self.failure = WriteFailed(
                f"a write to {self.path.parent} failed ({said}); nothing more is accepted. "
                "What was acknowledged is on disk: free space or mend the disk, and open the folder again"
            )
            if self.on_failure is not None:
                self.on_failure(self.failure)
        return self.failure

    def check(self) -> None:
        """Raise unless this process may write."""
        self.check_process()
        if self.failure is not None:
            raise self.failure
        if self._closed:
            raise StorageError(f"{self.path} was closed; open the folder again")
        if self._held is not None and not self._held.stands():
            raise self.fail(OSError("it was moved, removed or replaced since it was opened"))

    def check_process(self) -> None:
        """Refuse a forked process: SQLite connections must not cross a fork, not even for reading."""
        if self._held is not None:
            self._held.check_process()

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._db.close()
            self._watermark.close()

    # ---- reading -----------------------------------------------------------------------------------

    def chain_at(self, seq: int) -> bytes | None:
        """Return the checksum of everything up to an entry; None if neither file nor memory holds it."""
        if seq == 0:
            return self.genesis
        known = self._chains.at(seq)
        if known is not None or not 0 < seq <= self.last:
            return known
        with self._lock, reading(self):
            row = self._db.execute("SELECT chain FROM entries WHERE seq = ?", (seq,)).fetchone()
        if row is not None and not isinstance(row[0], bytes):
            raise DamagedLog(f"{self.path}: entry {seq} is not what was written; {RESTORE}")
        return None if row is None else row[0]

    def kind_and_time(self, seq: int) -> tuple[str, int] | None:
        """Return the kind of an entry and when it was logged, None if the file does not have it."""
        if seq == 0:
            return "", min(Epoch.unpack(self.genesis).generation * 1000, times.LATEST)
        with self._lock, reading(self):
            row = self._db.execute("SELECT kind, logged FROM entries WHERE seq = ?", (seq,)).fetchone()
        return None if row is None or not times.is_time(row[1]) else (str(row[0]), row[1])

    def bytes_between(self, after: int, upto: int) -> int:
        """Return about how many bytes the entries after one, up to another, take in the file."""
        total = 0
        for start in range(after, upto, _COUNTED):  # writers may come between
            with self._lock, reading(self):
                total += self._db.execute(
                    "SELECT coalesce(sum(length(body) + length(stream) + ?), 0) FROM entries "
                    "WHERE seq > ? AND seq <= ?",
                    (_ENTRY, start, min(start + _COUNTED, upto)),
                ).fetchone()[0]
        return total

    def entries(self, after: int, chain: bytes) -> Iterator[Entry]:
        """Yield the entries after a sequence, each checked against the checksum of all before it."""
        self._chains.note(after, chain)
        for entry in entry_form.check_entries(self.path, self._some, after, chain):
            self._chains.note(entry.seq, entry.chain)
            yield entry

    def _some(self, after: int) -> list[Entry]:
        with self._lock, reading(self):
            return sqlite_file.some_entries(self._db, after)

    def dead_letters(
        self,
        limit: int = 100,
        before: int | None = None,
        *,
        stream: str | None = None,
        reason: str | None = None,
    ) -> list[tuple[int, letter_table.DeadLetter]]:
        """Return dead letters with their numbers, newest first."""
        with self._lock, reading(self):
            return self._checked(letter_table.newest(self._db, limit, before, stream, reason))

    def letters(self, numbers: Collection[int]) -> list[tuple[int, letter_table.DeadLetter]]:
        """Return dead letters by number, in order; unknown numbers are left out."""
        with self._lock, reading(self):
            return self._checked(letter_table.named(self._db, numbers))

    def _checked(self, rows: list[Any]) -> list[tuple[int, letter_table.DeadLetter]]:
        if any(letter_table.letter_sum(tuple(fields)) != checksum for _, checksum, *fields in rows):
            raise DamagedLog(f"{self.path}: a dead letter is not what was written; {RESTORE}")
        return [(number, letter_table.DeadLetter(*fields)) for number, _, *fields in rows]

    def count_dead_letters(self) -> int:
        """Return how many dead letters there are."""
        with self._lock, reading(self):
            return int(self._db.execute("SELECT count(*) FROM dead_letters").fetchone()[0])


@contextmanager
def reading(log: EventLog) -> Iterator[None]:
    """Turn SQLite's errors about an unreadable file into errors of dygcn."""
    log.check_process()
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.ProgrammingError):
            log.check()
        raise sqlite_file.storage_error(log.path, error) from None


class Chains:
    """Chain values of consecutive sequences; the oldest are dropped first.

    It has a lock of its own: readers must not wait for the log, which holds its lock while the disk syncs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an interrupt at the end of a `with` leaves it locked
        self._first = 0
        self._values = bytearray()

    def note(self, sequence: int, chain: bytes) -> None:
        """Record the chain value of a sequence; after a gap, the record starts over."""
        with self._lock:
            following = self._first + len(self._values) // _CHAIN
            if sequence < following and self._values:
                return
            if sequence > following or not self._values:
                self._first, self._values = sequence, bytearray()
            self._values += chain
            if len(self._values) > MOST_CHAINS * _CHAIN:
                del self._values[:_CHAIN]
                self._first += 1

    def at(self, sequence: int) -> bytes | None:
        """Return the chain value of a sequence, None if it is not remembered."""
        with self._lock:
            start = (sequence - self._first) * _CHAIN
            known = 0 <= start < len(self._values)
            return bytes(self._values[start : start + _CHAIN]) if known else None
