"""Snapshots of a durable folder: taken under the lock, written at once or by a thread meanwhile."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import UNSET

from dygcn.engine.models.folder import MANIFEST
from dygcn.engine.records import Nodes
from dygcn.errors import OptionError, StorageError
from dygcn.live.changed import FeedImage
from dygcn.live.durable.storage import layout, times
from dygcn.live.durable.storage.entries import Kind
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.files import Snapshot, take_snapshot
from dygcn.live.model_files import LogPosition

_PAUSES = 1.0, 60.0  # seconds before a snapshot that failed is tried again: at first, and at most


class SnapshotWriter:
    """Writes snapshots, and prunes the log before the oldest one kept.

    A snapshot that cannot be written stops no update: the log holds what the snapshot would, and is kept.
    It is tried again with later updates, after pauses that grow.
    """

    def __init__(self, folder: Path, ahead: WriteAhead, keep_log: KeepLog) -> None:
        self._folder, self._ahead, self.seconds = folder, ahead, 0.0  # that the last one took
        self.saved_time = _written_at(folder, ahead.saved_at)
        self._keep_log, self.keep_log = keep_log, str(keep_log)
        self._log_bytes: dict[tuple[int, int], int] = {}  # of the entries between two snapshots
        self._thread: threading.Thread | None = None
        self.failure: str | None = None
        self._pause = self._again = 0.0

    def write(self, needed: bool = False) -> None:
        """Write a snapshot now."""
        self._write(self._take(), needed)

    def is_due(self, every: int) -> bool:
        """Return whether a snapshot is due: after so many events, or after a pause if one failed."""
        if self.failure is not None:
            return time.monotonic() >= self._again
        return self._ahead.events >= every

    def write_behind(self) -> None:
        """Take a snapshot now and write it in a thread, unless one is being written."""
        if self._thread is None or not self._thread.is_alive():
            try:
                work = partial(self._behind, self._take())
                thread = threading.Thread(target=work, name="dygcn-snapshot", daemon=True)
                thread.start()
            except Exception as error:  # no memory, no thread: what was applied is in the log
                self._failed(self._ahead.sequence, error)
                return
            self._thread = thread  # only one that has begun can be waited for

    def wait(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()

    def _behind(self, taken: Snapshot) -> None:
        with suppress(StorageError):  # it is noted, and tried again
            self._write(taken)

    def _take(self) -> Snapshot:
        ahead, log, live = self._ahead, self._ahead.log, self._ahead.live
        with live._guard.lock:
            where = ahead.sequence, log.last_batch_id, log.chain.hex()
            standing = ahead.histories.epoch.pack().hex(), live._tolerance
            streams, heard, forgotten = ahead.offsets.image()
            refused = ahead.histories.refused()
            position = LogPosition(*where, streams, *standing, heard, forgotten, refused=refused)
            position.erasures = len(ahead.erasures) or UNSET
            state = live._state.to_save()
            feed = ahead.feed.image if state is live._state else self._unknown_moves
            taken = take_snapshot(state, live.version, position, feed)
            ahead.events = 0
        return taken

    def _unknown_moves(self, nodes: Nodes) -> tuple[FeedImage, int]:
        """Return an image without moves, for a state that is saved to another folder."""
        none = np.empty(0, np.int64)
        return FeedImage(none, self._ahead.live._names(nodes[:0]), none), self._ahead.sequence

    def _write(self, taken: Snapshot, needed: bool = False) -> None:
        begun, log = time.perf_counter(), self._ahead.log
        assert taken.settings.log is not None
        sequence = taken.settings.log.sequence
        try:
            log.check()  # the name of the folder may be another one's by now
            taken.write(layout.snapshot_path(self._folder, sequence), self._folder)
            log.note_snapshot(sequence)
        except Exception as error:  # whatever it was, it is not on disk
            failed = self._failed(sequence, error)
            if needed or log.failure is not None:
                raise log.fail(error) from None
            with suppress(OSError):  # it may have a name that a loss of power takes away again
                layout.drop_snapshots(self._folder, [sequence])
            raise failed from None
        self._ahead.saved_at, self.saved_time = max(self._ahead.saved_at, sequence), time.time()
        self.seconds = time.perf_counter() - begun
        self.failure, self._pause = None, 0.0
        self._ahead.observer.snapshot_written(sequence, self.seconds)
        self._tidy(sequence)

    def _failed(self, sequence: int, error: Exception) -> StorageError:
        """Record that a snapshot failed and when to retry; return the exception to raise."""
        self.failure = str(error) or type(error).__name__
        self._pause = min(max(2 * self._pause, _PAUSES[0]), _PAUSES[1])
        self._again = time.monotonic() + self._pause
        self._ahead.observer.snapshot_failed(sequence, error)
        return StorageError(
            f"a snapshot of {self._folder} failed ({self.failure}); what was acknowledged is in the log, and "
            "events are accepted. Free space or mend the disk: updates try again"
        )

    def _tidy(self, sequence: int) -> None:
        """Delete snapshots that neither recovery nor `as_of` needs, then log entries before the oldest."""
        also = self._past()
        try:
            oldest = layout.drop_old_snapshots(self._folder, also=also)
        except OSError as error:
            raise self._failed(sequence, error) from None
        if oldest is not None:
            self._ahead.log.prune(oldest)

    def _past(self) -> list[int]:
        """Return which snapshots are kept for `as_of` alone."""
        log, found, places = self._ahead.log, [], layout.list_snapshots(self._folder)[layout.KEPT - 1 :]
        sizes, newer, behind = {}, places[0][0] if places else 0, 0
        for sequence, path in [*places, (0, self._folder)]:
            entry = log.kind_and_time(sequence)
            if entry is None or (sequence == 0 and log.kind_and_time(1) is None):
                break  # the log does not reach back to it
            kind, logged = entry
            sizes[sequence, newer] = size = self._between(sequence, newer)
            behind, newer = behind + size, sequence
            alone = layout.own_bytes(path) if sequence else 0  # the first state is always there
            found.append(OldSnapshot(sequence, logged, alone, behind, kind == Kind.BARRIER))
        self._log_bytes = sizes
        now = max(times.clock(), log.last_logged)
        return self._keep_log.choose(found[1:], found[0], now) if found else []

    def _between(self, older: int, newer: int) -> int:
        known = self._log_bytes.get((older, newer))
        return self._ahead.log.bytes_between(older, newer) if known is None else known


def _written_at(folder: Path, sequence: int) -> float:
    """Return when the snapshot of a sequence was written; 0 is the state that the folder began with."""
    place = layout.snapshot_path(folder, sequence) if sequence else folder
    try:
        return (place / MANIFEST).stat().st_mtime
    except OSError:
        return 0.0


# ---- how much of the past is kept -----------------------------------------------------------------------

KEEP_LOG = "256MB"
MOST_OLD = 8  # snapshots of the past that no operation needs
_STEPS = MOST_OLD - 2  # of a span, between snapshots
_SPANS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SHORT_SPANS = [(unit, _SPANS[unit]) for unit in ("d", "h", "min", "s")]
_SHORT_SIZES = [(unit, _SIZES[unit]) for unit in ("TB", "GB", "MB", "KB", "B")]
_MOST = 1 << 46
_FORM = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,3})")


@dataclass(frozen=True, slots=True)
class OldSnapshot:
    """A snapshot that recovery does not need."""

    sequence: int
    logged: int  # when its last entry was logged, in microseconds
    size: int  # bytes that it takes alone
    log: int  # bytes of the log behind it, up to the snapshots that recovery needs
    needed: bool  # it holds an operation that the log does not


@dataclass(frozen=True, slots=True)
class KeepLog:
    """A span in seconds, or a size in bytes; the other one is None."""

    seconds: int | None = None
    size: int | None = None

    @classmethod
    def read(cls, value: object) -> KeepLog:
        """Read what a user wrote."""
        if isinstance(value, KeepLog):
            return value
        if isinstance(value, timedelta) and timedelta(0) <= value < timedelta(seconds=_MOST):
            return cls(seconds=-(value // timedelta(seconds=-1)))
        form = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
        if form is not None:
            number, unit = float(form[1]), form[2]
            if unit.lower() in _SPANS and number * _SPANS[unit.lower()] < _MOST:
                return cls(seconds=round(number * _SPANS[unit.lower()]))
            if unit.upper() in _SIZES and number * _SIZES[unit.upper()] < _MOST:
                return cls(size=round(number * _SIZES[unit.upper()]))
        raise OptionError(
            f"keep_log is {value!r}; allowed is a span ('7d', '12h', '30min', '90s' or a timedelta) or a "
            "size ('2GB', '500MB'; '0B' keeps what recovery needs)"
        )

    def __str__(self) -> str:
        """In the greatest unit that needs no fraction, such as ``"7d"`` or ``"256MB"``."""
        units = _SHORT_SIZES if self.seconds is None else _SHORT_SPANS
        number = self.size if self.seconds is None else self.seconds
        assert number is not None
        unit, one = units[-1] if number == 0 else next(each for each in units if number % each[1] == 0)
        return f"{number // one}{unit}"

    def choose(self, old: Sequence[OldSnapshot], newer: OldSnapshot, now: int) -> list[int]:
        """Return which old snapshots to keep; the log is kept from the oldest of them on."""
        if self.seconds is not None:
            span = self.seconds * 1_000_000
            reached = [i for i, one in enumerate((newer, *old)) if one.logged <= now - span]
            kept = _spread(old[: reached[0] if reached else None], lambda one: -one.logged, span // _STEPS)
            return [one.sequence for one in kept]
        assert self.size is not None
        most = max(2, min(MOST_OLD, self.size // 2 // max(newer.size, 1)))
        apart = max(self.size - most * newer.size, 0) // most
        stay, taken = [], 0
        for one in _spread(old, lambda one: one.log, apart):
            taken += one.size
            if taken + one.log > self.size:
                break
            stay.append(one.sequence)
        return stay


def _spread(old: Sequence[OldSnapshot], age: Callable[[OldSnapshot], int], apart: int) -> list[OldSnapshot]:
    """Return the oldest snapshot, those that operations need, and others spaced apart in age."""
    kept: list[OldSnapshot] = []
    for one in reversed(old):
        if not kept or one.needed or age(kept[-1]) - age(one) >= apart:
            kept.append(one)
    return kept[::-1]
