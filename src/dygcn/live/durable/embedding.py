"""A live embedding that survives: what it acknowledged is on disk, and a restart takes seconds."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dygcn.engine.events import join_events, read_update
from dygcn.engine.graph.screening import check_batch, find_refused
from dygcn.engine.models import Outcome
from dygcn.engine.models.checks import read_tolerance
from dygcn.engine.records import Changed, History, Nodes
from dygcn.errors import ConcurrentUse, DygcnError, EventError, FolderError, StorageError
from dygcn.live.change import Change
from dygcn.live.clock import warn_of_jump
from dygcn.live.durable.admission import screen
from dygcn.live.durable.recovered import RecoveredEmbedding
from dygcn.live.durable.source_batch import Receipt, SourceBatch, groups, time_of, whole, without_refused
from dygcn.live.durable.storage import (
    BARRIER,
    EPOCH,
    EVENTS,
    FLUSH,
    FORGET,
    TOLERANCE,
    Epoch,
    EventLog,
    FolderLock,
    NewEntry,
    drop_old_snapshots,
    pack,
    pack_tolerance,
    set_aside,
    snapshot_path,
)
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.files import LogPosition, Snapshot, take_snapshot

if TYPE_CHECKING:
    from dygcn.engine.features import Embedding
    from dygcn.live.durable.recovery import Beginning

_Done = TypeVar("_Done")
SNAPSHOT_EVERY = 200_000  # events


class DurableEmbedding(RecoveredEmbedding):
    """A `LiveEmbedding` in a folder. Made by `dygcn.open`; see there.

    One thread at a time may write. Another thread that reads holds `lock` meanwhile.

    Attributes
    ----------
    sequence
        The last entry of the log that the vectors reflect.
    followed
        Which streams are followed, and which were forgotten.
    feed
        What moved since any place in this history.
    damage
        What recovery found that could not be used, and did without.
    """

    def __init__(self, folder: Path, log: EventLog, held: FolderLock, begin: Beginning, every: int) -> None:
        super().__init__(log, begin)
        self.folder, self._held, self._every = folder, held, every
        self.lock, self.guard.waits = self.guard.lock, True
        self._writing = threading.RLock()  # an interrupt at the end of a `with` leaves it locked
        self._watchers: list[Callable[[Nodes], None]] = []
        self._snapshot: threading.Thread | None = None
        self.snapshot_seconds = self.snapshot_stall = 0.0
        self._closed = False
        self._recover(begin.position)
        for path in begin.unusable:
            set_aside(path)

    @contextmanager
    def _one_writer(self) -> Iterator[None]:
        """Wait until nobody else writes; whoever holds `lock` must not wait for one that waits for it.

        Raises
        ------
        ConcurrentUse
            If another thread writes, and this one holds `lock`.
        """
        with contextlib.ExitStack() as held:
            if not self._writing.acquire(blocking=not self.lock._is_owned()):  # type: ignore[attr-defined]
                raise ConcurrentUse(
                    "another thread writes to this embedding and waits for its lock, which this thread "
                    "holds; write without holding live.lock, which is for reading"
                )
            held.callback(self._writing.release)
            yield

    def begin_epoch(self) -> History:
        """Begin a new epoch, return its first position: readers and sinks of the one before start anew."""
        with self._one_writer():
            epoch = Epoch.begin(after=self._histories.epoch)
            return self._counted(NewEntry(EPOCH, "", -1, epoch.pack()), lambda: self._begin(epoch))

    def _begin(self, epoch: Epoch) -> History:
        self._histories.epoch = epoch
        self.sequence = self._sequence_to_be
        self.feed.reach(self.sequence)
        return self.history

    # ---- changing ----------------------------------------------------------------------------------

    def update(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        now: float | None = None,
        columns: Sequence[str] | None = None,
        stream: str = "",
        position: int = -1,
    ) -> Change:
        """Apply changes of the graph, on disk before they are applied, and return what moved.

        Parameters
        ----------
        events, add, remove, now, columns
            As in `LiveEmbedding.update`.
        stream, position
            Where the events are from, and their place there: whole numbers that grow. Events of a place that
            was applied before change nothing, so a source can be read again from `streams[stream]` on.

        Raises
        ------
        EventError
            If a row is bad; then the whole batch was left alone.
        WriteFailed
            If it could not be written; then nothing more is accepted until the folder is opened again.
        """
        batch = read_update(events, add, remove, self.model.kind, columns)
        part = SourceBatch(batch, stream, whole(position), now=time_of(now))
        part.check()
        with self._one_writer():
            last = self.followed.last_of(stream) if stream else None
            if last is not None and part.position <= last:
                return Change(self, self._nothing(), self.version)
            self.check_whole()
            warn_of_jump(self._state, batch, part.now)
            check_batch(self._state.graph, batch, part.now)  # what is refused is not written, either
            return self._commit([part])

    def _nothing(self) -> Outcome:
        nodes = np.empty(0, np.int32)
        return Outcome(Changed(nodes, np.empty(0, np.int8)), self.names(nodes))

    def ingest(self, parts: Sequence[SourceBatch]) -> list[Receipt]:
        """Apply the events of many requests in one transaction; a bad event stops nobody.

        Returns
        -------
        list
            What became of each part, in order. All that was applied is on disk.
        """
        with self._one_writer():
            receipts, fresh, leaving, repeated = screen(parts, self.followed)
            self._forget(leaving)
            self.followed.hear(*repeated)
            for group in groups(fresh):
                done = self._commit_group(self._sift([part for part, _ in group]))
                for part, (_, receipt) in zip(done, group, strict=True):
                    receipt.sequence, receipt.dead = self.sequence, len(part.dead)
                    receipt.applied = len(part.batch)
            for receipt in receipts:
                receipt.sequence = receipt.sequence or self.sequence
            return receipts

    def forget_stream(self, name: str) -> int | None:
        """Follow a stream no longer; return how far it was applied, None if there is no such stream.

        Nothing of the stream is applied again in silence, unless 100,000 others were forgotten after it:
        a broker's stream goes on where it ended, a client (``http:NAME``) is told the number to go on with.

        Examples
        --------
        >>> import dygcn, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     live = dygcn.open(f"{folder}/friends", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8))
        ...     _ = live.update(add=[("cat", "dan")], stream="clicks", position=7)
        ...     live.forget_stream("clicks"), live.forget_stream("clicks"), live.streams
        ...     live.close()
        (7, None, {})
        """
        with self._one_writer():
            position = self.streams.get(name)
            self._forget([] if position is None else [name])
            return position

    def _forget(self, streams: Sequence[str]) -> None:
        if not streams:
            return
        entries = [NewEntry(FORGET, stream, self.streams[stream], b"") for stream in streams]
        batch_id = self._batch_id + 1
        with self.lock:
            last, self._batch_id = self._append(entries, batch_id), batch_id
            self.followed.forget(*streams)
            self.sequence = last
            self.feed.reach(self.sequence)
            self._pending = False

    def _sift(self, parts: Sequence[SourceBatch]) -> list[SourceBatch]:
        """Turn the events that cannot be applied into dead letters, before anything is written."""
        self.check_whole()
        batch = join_events([part.batch for part in parts])
        return without_refused(parts, find_refused(self._state.graph, batch, parts[0].now), self._log.last)

    def _commit_group(self, parts: Sequence[SourceBatch]) -> Sequence[SourceBatch]:
        """Write and apply parts as one batch; return them as they were applied.

        Should a batch be refused that was found to be fine, its parts are tried one by one; of a part that is
        refused again, all events become dead letters: some work for each part, never for each event.
        """
        try:
            self._commit(parts)
            return parts
        except EventError as error:
            if len(parts) > 1:
                return [part.applied_as(self._commit_group([part.buried()])[0]) for part in parts]
            whole = dict.fromkeys(range(len(parts[0].batch)), error.reason)
            refused = parts[0].buried().without(whole, self._log.last + 1)
            self._commit([refused])
            return [parts[0].applied_as(refused)]

    def _commit(self, parts: Sequence[SourceBatch]) -> Change:
        """Write one batch to the log, then apply it.

        Raises
        ------
        EventError
            If it cannot be applied; then a refusal stands behind it in the log.
        """
        batch_id = self._batch_id + 1
        chunks = [chunk for part in parts for chunk in part.chunks()]
        entries = [NewEntry(EVENTS, p.stream, p.position, pack(p.batch, p.now)) for p in chunks]
        dead = [letter for part in parts for letter in part.dead]
        batch = join_events([part.batch for part in parts])
        last, self._batch_id = self._append(entries, batch_id, dead), batch_id
        warning: Warning | None = None
        try:
            with self.lock:
                self._sequence_to_be = last
                change = self._apply_batch(batch, parts[0].now, batch_id)
        except (EventError, Warning) as told:
            if self._state.torn or (isinstance(told, EventError) and self._state.written):
                self._log.fail(told)
                raise
            if isinstance(told, EventError):
                self._refuse(batch_id)
                raise
            warning = told  # the update is whole before it warns
        except BaseException as error:  # nobody knows how much of it was applied
            self._log.fail(error)
            raise
        self._events_since += len(batch)
        for part in parts:
            if part.position >= 0:
                self.followed.reach(part.stream, part.position)
        self._pending = False
        self._snapshot_if_due()
        if warning is not None:
            raise warning
        return change

    def _note(self, outcome: Outcome) -> Change:
        self.sequence = self._sequence_to_be
        self.feed.note(outcome.moved.nodes, outcome.left, self.sequence)
        for watcher in self._watchers:
            watcher(outcome.moved.nodes)
        return self._change_of(outcome)

    def watch(self, watcher: Callable[[Nodes], None]) -> None:
        """Have a function told which nodes moved, at every update, under the lock."""
        self._watchers.append(watcher)

    # ---- changes that the log does not hold: a snapshot does ---------------------------------------------

    def bulk(self, parts: Iterable[object], columns: Sequence[str] | None = None) -> Change:
        """Load a large graph, as `LiveEmbedding.bulk` does; a snapshot is written before it returns."""
        _ = self._state.exact  # the paper's rules cannot
        failures: list[Exception] = []

        def load() -> Change:
            try:
                return LiveEmbedding.bulk(self, parts, columns)
            except Exception as error:
                if self._state.torn or self.sequence != self._sequence_to_be:
                    raise  # torn, or nothing was loaded
                # The parts before it stay, so they belong into the snapshot.
                failures.append(error)
                return Change(self, self._nothing(), self.version)
            finally:
                self.feed.forget(self.sequence)  # who left in between is not told

        change = self._then_snapshot(load)
        if failures:
            raise failures[0]
        return change

    def set_features(self, ids: object, values: object) -> Change:
        """Give nodes features of their own; a snapshot is written before it returns."""
        return self._then_snapshot(lambda: LiveEmbedding.set_features(self, ids, values))

    def remove_nodes(self, ids: object) -> Change:
        """Remove nodes with their edges and features; a snapshot is written before it returns."""
        return self._then_snapshot(lambda: LiveEmbedding.remove_nodes(self, ids))

    def restart(self, base: Embedding | None = None) -> Change:
        """Put a fresh base in place of all vectors; a snapshot is written before it returns."""
        return self._then_snapshot(lambda: LiveEmbedding.restart(self, base))

    def _then_snapshot(self, change: Callable[[], Change]) -> Change:
        with self._one_writer():
            self._wait_for_snapshot()
            batch_id = self._batch_id + 1
            with self.lock:
                self._sequence_to_be = self._append([_barrier()], batch_id)
                self._batch_id, self._version = batch_id, batch_id - 1
                changed = self._or_refuse(change, batch_id)
                self._write(self._take())
                self._pending = False
            self._tidy()
            return changed

    def _or_refuse(self, change: Callable[[], Change], batch_id: int) -> Change:
        """Make a change that has its entry in the log; one that is refused gets a refusal behind it."""
        try:
            return change()
        except DygcnError as error:
            if self._state.torn or self._log.failure is not None:
                self._log.fail(error)
            else:
                self._refuse(batch_id)
            raise
        except BaseException as error:  # nobody knows how much of it was done
            self._log.fail(error)
            raise

    # ---- changes of vectors alone ----------------------------------------------------------------------

    def tolerate(self, tolerance: float) -> Change:
        """Withhold small changes, as `LiveEmbedding.tolerate` does, from now on and after every restart."""
        entry = NewEntry(TOLERANCE, "", -1, pack_tolerance(read_tolerance(tolerance)))
        _ = self._state.exact  # the paper's rules cannot
        with self._one_writer():
            return self._counted(entry, lambda: LiveEmbedding.tolerate(self, tolerance))

    def flush(self) -> Change:
        """Publish every change that a tolerance withheld."""
        _ = self._state.exact
        with self._one_writer():
            return self._flush()

    def _flush(self) -> Change:
        return self._counted(NewEntry(FLUSH, "", -1, b""), lambda: LiveEmbedding.flush(self))

    def _counted(self, entry: NewEntry, change: Callable[[], _Done]) -> _Done:
        """Do what has an entry of its own, and hence a sequence: readers of the feed are told."""
        with self.lock:
            batch_id = self._batch_id + 1
            self._sequence_to_be = self._append([entry], batch_id)
            self._batch_id, self._version = batch_id, batch_id - 1
            try:
                done = change()
            except BaseException as error:  # nobody knows how much of it was done
                self._log.fail(error)
                raise
            self._pending = False
            return done

    # ---- snapshots -----------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write a snapshot now, and return when it is on disk; the log before it is forgotten."""
        with self._one_writer():
            self._wait_for_snapshot()
            self.check_whole()
            if self.saved_at == self.sequence:
                return
            self._write(self._take())
            self._tidy()

    def _take(self) -> Snapshot:
        with self.lock:
            chain = self._log.chain.hex()
            standing = self._histories.epoch.pack().hex(), self.tolerance
            streams, heard, forgotten = self.followed.image()
            where = self.sequence, self._batch_id, chain
            position = LogPosition(*where, streams, *standing, heard, forgotten)
            taken = take_snapshot(self._state, self._version, position)
            self._events_since = 0
        return taken

    def _write(self, taken: Snapshot) -> None:
        begun = time.perf_counter()
        assert taken.settings.log is not None
        try:
            taken.write(snapshot_path(self.folder, taken.settings.log.sequence), self.folder)
            self._log.note_snapshot(taken.settings.log.sequence)
            self.saved_at = max(self.saved_at, taken.settings.log.sequence)
        except Exception as error:  # whatever it was, it is not on disk
            raise self._log.fail(error) from None
        self.snapshot_seconds = time.perf_counter() - begun

    def _tidy(self) -> None:
        oldest = drop_old_snapshots(self.folder)
        if oldest is not None:
            self._log.prune(oldest)

    def _snapshot_if_due(self) -> None:
        busy = self._snapshot is not None and self._snapshot.is_alive()
        if self._events_since < self._every or busy:
            return
        begun = time.perf_counter()
        taken = self._take()
        self.snapshot_stall = time.perf_counter() - begun
        self._snapshot = threading.Thread(
            target=self._write_behind, args=(taken,), name="dygcn-snapshot", daemon=True
        )
        self._snapshot.start()

    def _write_behind(self, taken: Snapshot) -> None:
        try:
            self._write(taken)
            self._tidy()
        except StorageError:
            return  # the log has the failure, and shows it to the next writer

    def _wait_for_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.join()

    # ---- the rest ------------------------------------------------------------------------------------

    @property
    def log(self) -> EventLog:
        """The log, for its dead letters and its failure."""
        return self._log

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save a copy of model and graph to another folder, as `LiveEmbedding.save` does."""
        if Path(path).resolve() == self.folder.resolve():
            raise FolderError(f"{path} is the folder of this embedding, which is durable; choose another")
        with self.lock:
            super().save(path)

    def close(self) -> None:
        """Write what is needed to start fast, and let go of the folder. Safe to call twice."""
        with self._one_writer():
            if self._closed:
                return
            self._closed = True
            self._wait_for_snapshot()
            try:
                whole = self._log.failure is None and not self._pending and not self._state.torn
                if whole and self.tolerance > 0 and self._log.last_kind != FLUSH:
                    self._flush()  # else the next start would count every node as moved
                if whole and self.saved_at != self.sequence:
                    self._write(self._take())
                    self._tidy()
            finally:
                self._log.close()
                self._held.release()

    def let_go(self) -> None:
        """Let go of the folder as a crash would: nothing is written. For tests, and for a failed disk."""
        with self._one_writer():
            self._closed = True
            self._wait_for_snapshot()
            self._log.close()
            self._held.release()

    def __enter__(self) -> DurableEmbedding:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _barrier() -> NewEntry:
    """Return an entry for what a snapshot holds; random, so that no other log has the same chain value."""
    return NewEntry(BARRIER, "", -1, secrets.token_bytes(16))
