"""Snapshots of a durable folder: taken under the lock, written at once or by a thread meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from dygcn.errors import StorageError
from dygcn.live.durable.storage import drop_old_snapshots, snapshot_path
from dygcn.live.files import LogPosition, Snapshot, take_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from dygcn.live.durable.write_ahead import WriteAhead


class Snapshots:
    """Writes snapshots, and forgets what the log has from before the oldest that is kept."""

    def __init__(self, folder: Path, ahead: WriteAhead) -> None:
        self._folder, self._ahead, self.seconds = folder, ahead, 0.0  # that the last one took
        self._thread: threading.Thread | None = None

    def write(self) -> None:
        """Write a snapshot now."""
        self._write(self._take())

    def write_behind(self) -> None:
        """Take a snapshot now and write it in a thread, unless one is being written."""
        if self._thread is None or not self._thread.is_alive():
            work = partial(self._behind, self._take())
            thread = threading.Thread(target=work, name="dygcn-snapshot", daemon=True)
            thread.start()
            self._thread = thread  # only one that has begun can be waited for

    def wait(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()

    def _behind(self, taken: Snapshot) -> None:
        with suppress(StorageError):  # the log has the failure, and shows it to the next writer
            self._write(taken)

    def _take(self) -> Snapshot:
        ahead, log, live = self._ahead, self._ahead.log, self._ahead.live
        with live.guard.lock:
            where = ahead.sequence, log.last_batch_id, log.chain.hex()
            standing = ahead.histories.epoch.pack().hex(), live.tolerance
            streams, heard, forgotten = ahead.followed.image()
            position = LogPosition(*where, streams, *standing, heard, forgotten)
            taken = take_snapshot(live.state, live.version, position)
            ahead.events = 0
        return taken

    def _write(self, taken: Snapshot) -> None:
        begun, log = time.perf_counter(), self._ahead.log
        assert taken.settings.log is not None
        sequence = taken.settings.log.sequence
        try:
            taken.write(snapshot_path(self._folder, sequence), self._folder)
            log.note_snapshot(sequence)
            self._ahead.saved_at = max(self._ahead.saved_at, sequence)
        except Exception as error:  # whatever it was, it is not on disk
            raise log.fail(error) from None
        self.seconds = time.perf_counter() - begun
        self._tidy()

    def _tidy(self) -> None:
        """Drop old snapshots, and the entries of the log that each of the others holds."""
        oldest = drop_old_snapshots(self._folder)
        if oldest is not None:
            self._ahead.log.prune(oldest)
