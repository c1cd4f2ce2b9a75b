"""The durable log: batches of events in SQLite, each chained to the one before it by a checksum.

An entry is on disk before it is applied, and applied before it is acknowledged. A wrong byte anywhere in an
entry, or an entry that is missing between two others, breaks the chain and is noticed when it is read. A
watermark beside the log notices an end that is missing.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dygcn.engine._disk import sync_names
from dygcn.errors import DamagedLog, DygcnError, StorageError, UnsupportedFolder, WriteFailed
from dygcn.live.durable.storage.chains import Chains
from dygcn.live.durable.storage.epochs import Epoch
from dygcn.live.durable.storage.watermark import Reached, Watermark

FORMAT = 3
_RESTORE = "restore a copy"
EVENTS, REFUSAL, BARRIER, FORGET = "events", "refusal", "barrier", "forget"
EPOCH, TOLERANCE, FLUSH = "epoch", "tolerance", "flush"
KINDS = (EVENTS, REFUSAL, BARRIER, FORGET, EPOCH, TOLERANCE, FLUSH)
LONGEST_BODY = 64 << 20
MOST_DEAD_LETTERS = 100_000
LONGEST_JOURNAL = 4 << 20
_COMMIT = 8192  # bytes that a commit adds to the journal, beside its entries
_BLOCK = 1 << 20
_READ_AT_ONCE = 256, 16 << 20  # entries, bytes
_TABLES = {
    "about": "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
    "entries": "CREATE TABLE entries (seq INTEGER PRIMARY KEY, batch_id INTEGER NOT NULL, "
    "kind TEXT NOT NULL, "
    "stream TEXT NOT NULL, position INTEGER NOT NULL, body BLOB NOT NULL, chain BLOB NOT NULL)",
    "dead_letters": "CREATE TABLE dead_letters (id INTEGER PRIMARY KEY, received REAL NOT NULL, "
    "stream TEXT NOT NULL, position INTEGER NOT NULL, row INTEGER NOT NULL, reason TEXT NOT NULL, "
    "event TEXT NOT NULL, checksum BLOB NOT NULL, UNIQUE (stream, position, row))",
}
_SCHEMA = sorted(
    [("table", name, name, sql) for name, sql in _TABLES.items()]
    + [("index", f"sqlite_autoindex_{name}_1", name, "") for name in ("about", "dead_letters")]
)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What is to be appended."""

    kind: str  # of KINDS; REFUSAL: of a batch that cannot be applied, BARRIER: of what is in a snapshot
    stream: str = ""  # where it came from; "" where nobody asked for repeats to be noticed
    position: int = -1  # its place in that stream; -1: none, or only a part of what has that place
    body: bytes = b""


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


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be applied, and why."""

    stream: str
    position: int
    row: int  # inside its message, -1: the message itself
    reason: str
    event: str
    received: float = 0.0


class EventLog:
    """One SQLite file: a write-ahead journal, synced at every commit. Safe to use from several threads.

    Attributes
    ----------
    last, last_batch_id, last_kind
        Sequence, batch and kind of the last entry; 0 and empty before the first.
    chain
        The checksum of everything up to the last entry.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = EventLog(f"{folder}/log.sqlite3")
    ...     log.append([NewEntry(EVENTS, "clicks", 7, b"...")], batch_id=1)
    ...     [(entry.seq, entry.stream, entry.position) for entry in log.entries(0, log.genesis)]
    ...     log.close()
    1
    [(1, 'clicks', 7)]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.failure: WriteFailed | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._journal = 0  # bytes, about
        self._chains = Chains()
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise DamagedLog(f"{self.path} is not a file, so it is not a log of dygcn")
        self._watermark = Watermark(self.path.with_suffix(".watermark"))
        try:
            write_again(self.path.with_name(f"{self.path.name}-wal"))
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, cached_statements=32
            )
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: what SQLite says of damaged text
            self._watermark.close()
            raise DamagedLog(f"{self.path} cannot be used as a log: {error}") from None
        except OSError as error:
            self._watermark.close()
            if isinstance(error, DygcnError):
                raise
            raise StorageError(f"{self.path} cannot be opened: {error.strerror}") from None

    def _prepare(self) -> None:
        db = self._db
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_BODY + 4096)
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        found = sorted(db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))
        if found and found != _SCHEMA:
            raise DamagedLog(f"{self.path} is not a log of dygcn: it has other tables than a log has")
        reached = self._watermark.read()
        if not found and reached is not None:
            raise DamagedLog(f"{self.path} is empty, and reached entry {reached.sequence}; {_RESTORE}")
        if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StorageError(f"{self.path} cannot have a journal here; its disk must be a local one")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # SQLite would not tell that it failed; see _tidy_journal
        if not found:
            self._create()
        # What is wrong in lists of free pages, say, would only be noticed by what it destroys.
        damage = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if damage != "ok":
            raise DamagedLog(f"{self.path} is damaged: {damage}; {_RESTORE}")
        self._read_end(reached)
        self._checkpoint()
        self.saved = 0 if reached is None else reached.saved  # sequence of the newest snapshot that is known
        self._watermark.reach(Reached(self.genesis, self.last, self.chain, self.saved))

    def _checkpoint(self) -> None:
        """Put on disk what a process that died may have left in the cache alone: from here on it is done."""
        if self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise StorageError(f"{self.path} is being read by another program; stop that one first")
        sync_names(self.path.parent)

    def _read_end(self, reached: Reached | None) -> None:
        """Read where the log ends, and compare it with where it is known to have ended."""
        about = dict(self._db.execute("SELECT name, value FROM about WHERE length(value) <= 16"))
        genesis = about.get("genesis")
        if about.get("format") != FORMAT:
            raise UnsupportedFolder(
                f"{self.path} has format {about.get('format')!r}; this dygcn reads {FORMAT}"
            )
        if not isinstance(genesis, bytes) or len(genesis) != 16:
            raise DamagedLog(f"{self.path} does not say which log it is; {_RESTORE}")
        self.genesis: bytes = genesis
        row = self._db.execute(
            "SELECT seq, batch_id, chain, kind FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        end: tuple[int, int, bytes, str] = (0, 0, genesis, "") if row is None else row
        self.last, self.last_batch_id, self.chain, self.last_kind = end
        ends = isinstance(self.last_batch_id, int) and isinstance(self.chain, bytes) and len(self.chain) == 16
        if not ends or not 0 <= self.last < 1 << 62 or not 0 <= self.last_batch_id < 1 << 62:
            raise DamagedLog(f"{self.path}: entry {self.last} is not what was written; {_RESTORE}")
        if reached is None:
            return
        if reached.genesis != genesis or self.chain_at(reached.sequence) not in (None, reached.chain):
            raise DamagedLog(f"{self.path} is not the log that {self._watermark.path} is of; {_RESTORE}")
        if reached.sequence > self.last:
            raise DamagedLog(
                f"{self.path} ends with entry {self.last} and reached {reached.sequence}: its end is lost; "
                f"restore a copy, or remove {self._watermark.path} to go on without what is lost"
            )

    def _create(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for table in _TABLES.values():
            self._db.execute(table)
        about = [("format", FORMAT), ("genesis", Epoch.begin().pack())]
        self._db.executemany("INSERT INTO about VALUES (?, ?)", about)
        self._db.execute("COMMIT")

    # ---- writing -----------------------------------------------------------------------------------

    def append(self, entries: Sequence[NewEntry], batch_id: int, dead: Sequence[DeadLetter] = ()) -> int:
        """Write the entries of one batch, and dead letters, in one transaction; return the last sequence.

        It returns when they are on disk.

        Raises
        ------
        WriteFailed
            If they could not be written. From then on every call raises it: what the file holds is only
            known after it was opened again.
        """
        with self._lock:
            self.check()
            last, chain, rows = self.last, self.chain, []
            for entry in entries:
                last += 1
                chain = chained(chain, last, batch_id, entry)
                rows.append((last, batch_id, entry.kind, entry.stream, entry.position, entry.body, chain))
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                if dead:
                    self._bury(dead)
                self._db.execute("COMMIT")
                self._watermark.reach(Reached(self.genesis, last, chain, self.saved))
                self.last, self.last_batch_id, self.chain = last, batch_id, chain
                for sequence, _, self.last_kind, *_, value in rows:
                    self._chains.note(sequence, value)
                self._tidy_journal(_COMMIT + sum(len(entry.body) for entry in entries))
            except (sqlite3.Error, OSError) as error:
                raise self.fail(error) from None
            except BaseException as error:  # an interrupt, say: nobody knows what it came between
                self.fail(error)
                raise
            return last

    def _tidy_journal(self, grown: int) -> None:
        """Put the pages of a long journal in their place; if that fails, all entries are still in it."""
        self._journal += grown
        if self._journal < LONGEST_JOURNAL:
            return
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._journal = 0
        except (sqlite3.Error, OSError) as error:
            self.fail(error)

    def _bury(self, dead: Sequence[DeadLetter]) -> None:
        now = time.time()
        rows = []
        for d in dead:
            letter = _text(d.stream), d.position, d.row, _text(d.reason), _text(d.event), now
            rows.append((*letter, _letter_sum(letter)))
        self._db.executemany(
            "INSERT INTO dead_letters (stream, position, row, reason, event, received, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            rows,
        )
        self._db.execute(
            "DELETE FROM dead_letters WHERE id <= (SELECT max(id) FROM dead_letters) - ?",
            (MOST_DEAD_LETTERS,),
        )

    def prune(self, below: int) -> None:
        """Forget entries before a sequence: a snapshot holds them. The last one always stays."""
        with self._lock:
            self.check()
            try:
                self._db.execute("DELETE FROM entries WHERE seq < ?", (min(below, self.last),))
            except (sqlite3.Error, OSError) as error:
                raise self.fail(error) from None
            self._tidy_journal(LONGEST_JOURNAL)

    def note_snapshot(self, sequence: int) -> None:
        """Remember that the snapshot of a sequence is on disk, so that it is missed if it goes."""
        with self._lock:
            self.saved = max(self.saved, sequence)
            self._watermark.reach(Reached(self.genesis, self.last, self.chain, self.saved))

    def fail(self, error: BaseException) -> WriteFailed:
        """Accept nothing more, since a write failed; return the error to raise."""
        if self.failure is None:
            said = str(error) or type(error).__name__
            self.failure = WriteFailed(
                f"a write to {self.path.parent} failed ({said}); nothing more is accepted. "
                "What was acknowledged is on disk: free space or mend the disk, and open the folder again"
            )
        return self.failure

    def check(self) -> None:
        """Raise the failure of an earlier write, if there was one; or say that the log was closed."""
        if self.failure is not None:
            raise self.failure
        if self._closed:
            raise StorageError(f"{self.path} was closed; open the folder again")

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._db.close()
            self._watermark.close()

    # ---- reading -----------------------------------------------------------------------------------

    def chain_at(self, seq: int) -> bytes | None:
        """Return the checksum of everything up to an entry, None if neither file nor memory has it."""
        if seq == 0:
            return self.genesis
        known = self._chains.at(seq)
        if known is not None or not 0 < seq <= self.last:
            return known
        with self._lock, reading(self):
            row = self._db.execute("SELECT chain FROM entries WHERE seq = ?", (seq,)).fetchone()
        if row is not None and not isinstance(row[0], bytes):
            raise DamagedLog(f"{self.path}: entry {seq} is not what was written; {_RESTORE}")
        return None if row is None else row[0]

    def entries(self, after: int, chain: bytes) -> Iterator[Entry]:
        """Yield the entries behind a sequence, each checked against the checksum of all before it.

        Raises
        ------
        DamagedLog
            At the first one that is not what was written, or is missing.
        """
        expected = after
        self._chains.note(after, chain)
        while True:
            entries = self._some(expected)
            for entry in entries:
                expected += 1
                chain = _check(self.path, entry, expected, chain)
                self._chains.note(expected, chain)
                yield entry
            if not entries:
                return

    def _some(self, after: int) -> list[Entry]:
        """Return the next entries, not more than fit into memory."""
        found, size = [], 0
        with self._lock, reading(self):
            rows = self._db.execute(
                "SELECT * FROM entries WHERE seq > ? ORDER BY seq LIMIT ?", (after, _READ_AT_ONCE[0])
            )
            for row in rows:
                entry = Entry(*row)
                found.append(entry)
                size += len(entry.body) if isinstance(entry.body, bytes) else 0
                if size > _READ_AT_ONCE[1]:
                    break
            rows.close()
        return found

    def dead_letters(self, limit: int = 100, before: int | None = None) -> list[tuple[int, DeadLetter]]:
        """Return dead letters with their numbers, newest first; `before` a number, to page on."""
        bound = (1 << 63) - 1 if before is None else before
        with self._lock, reading(self):
            rows = self._db.execute(
                "SELECT id, checksum, stream, position, row, reason, event, received FROM dead_letters "
                "WHERE id < ? ORDER BY id DESC LIMIT ?",
                (bound, limit),
            ).fetchall()
        if any(_letter_sum(tuple(fields)) != checksum for _, checksum, *fields in rows):
            raise DamagedLog(f"{self.path}: a dead letter is not what was written; {_RESTORE}")
        return [(number, DeadLetter(*fields)) for number, _, *fields in rows]

    def count_dead_letters(self) -> int:
        """Return how many dead letters there are."""
        with self._lock, reading(self):
            return int(self._db.execute("SELECT count(*) FROM dead_letters").fetchone()[0])


@contextmanager
def reading(log: EventLog) -> Iterator[None]:
    """Turn what SQLite says of a file that it cannot read into `DamagedLog`."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.ProgrammingError):
            log.check()
        raise DamagedLog(f"{log.path} cannot be read: {error}; {_RESTORE}") from None


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


def chained(chain: bytes, seq: int, batch_id: int, entry: NewEntry | Entry) -> bytes:
    """Return the checksum of an entry and of all before it."""
    digest = hashlib.blake2b(chain, digest_size=16)
    head = (
        f"{seq} {batch_id} {entry.kind} {entry.position} {len(entry.stream)} {entry.stream} {len(entry.body)}"
    )
    digest.update(head.encode())
    digest.update(entry.body)
    return digest.digest()


def _text(text: str) -> str:
    """Return a text that can be kept: half a surrogate pair cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _letter_sum(letter: tuple[object, ...]) -> bytes:
    """Return the checksum of the fields of a letter, in the order of `DeadLetter`."""
    return hashlib.blake2b(repr(letter).encode("utf-8", "replace"), digest_size=8).digest()


def _check(path: Path, entry: Entry, expected: int, chain: bytes) -> bytes:
    whole = (
        entry.seq == expected
        and isinstance(entry.batch_id, int)
        and 0 <= entry.batch_id < 1 << 62
        and entry.kind in KINDS
        and isinstance(entry.stream, str)
        and isinstance(entry.position, int)
        and entry.position >= -1
        and isinstance(entry.body, bytes)
        and entry.chain == chained(chain, entry.seq, entry.batch_id, entry)
    )
    if not whole:
        raise DamagedLog(f"{path}: entry {expected} is not what was written, or is missing; {_RESTORE}")
    return entry.chain
