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
    snapshot_path,
)
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.files import LogPosition, Snapshot, take_snapshot
from dygcn.live.view import EmbeddingView

if TYPE_CHECKING:
    from dygcn.engine.features import Embedding
    from dygcn.engine.training.samples import Progress
    from dygcn.live.embedding import LiveEmbedding
    from dygcn.live.refitting import Refit
    from dygcn.live.search.nearest import VectorCache

_Done = TypeVar("_Done")
SNAPSHOT_EVERY = 200_000  # events


class DurableEmbedding(EmbeddingView):
    """A live embedding in a folder. Made by `dygcn.open`; see there.

    It reads as a `LiveEmbedding` does, and is none: it holds one beside a log, and every change is written to
    the log before it is applied. One thread at a time may write. Another thread may read meanwhile: each call
    sees all of an update or nothing of it, and calls that belong together are made holding `lock`.

    Attributes
    ----------
    followed
        Which streams are followed, and which were forgotten.
    feed
        What moved since any place in this history.
    damage
        What recovery found that could not be used, and did without.
    """

    def __init__(self, folder: Path, held: FolderLock, ahead: WriteAhead, every: int) -> None:
        self._ahead, self._live, self._log = ahead, ahead.live, ahead.log
        super().__init__(self._live.state, self._live.guard)
        self.followed, self.feed, self.damage = ahead.followed, ahead.feed, ahead.damage
        self.folder, self._held, self._every = folder, held, every
        self.lock, self.guard.waits = self.guard.lock, True
        self._writing = threading.RLock()  # an interrupt at the end of a `with` leaves it locked
        self._snapshot: threading.Thread | None = None
        self.saved_at, self.snapshot_seconds = ahead.saved_at, 0.0
        self._closed = False

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
                nodes = np.empty(0, np.int32)
                nothing = Outcome(Changed(nodes, np.empty(0, np.int8)), self.names(nodes))
                return Change(self._live, nothing, self.version)
            self._ahead.check_whole()
            warn_of_jump(self._state, batch, part.now)
            check_batch(self._state.graph, batch, part.now)  # what is refused is not written, either
            return self._commit([part])

    def ingest(self, parts: Sequence[SourceBatch]) -> list[Receipt]:
        """Apply the events of many requests in one transaction; a bad event stops nobody.

        Returns
        -------
        list
            What became of each part, in order. All that was applied is on disk.
        """
        with self._one_writer():
            receipts, fresh, leaving, repeated = screen(parts, self.followed)
            if leaving:
                self._forget(leaving)
            if repeated:
                self.followed.hear(*repeated)
            for group in groups(fresh):
                done = self._sift([part for part, _ in group])
                try:
                    self._commit(done)
                except EventError as error:
                    done = self._one_by_one(done, error)
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
            position = self.followed.streams.get(name)
            if position is not None:
                self._forget([name])
            return position

    def _forget(self, streams: Sequence[str]) -> None:
        entries = [NewEntry(FORGET, stream, self.followed.streams[stream], b"") for stream in streams]
        self._ahead.log_then(entries, lambda: self.followed.forget(*streams))

    def _sift(self, parts: Sequence[SourceBatch]) -> Sequence[SourceBatch]:
        """Turn the events that cannot be applied into dead letters, before anything is written."""
        self._ahead.check_whole()
        batch = join_events([part.batch for part in parts])
        refused = find_refused(self._state.graph, batch, parts[0].now)
        return without_refused(parts, refused, self._log.last) if refused else parts

    def _one_by_one(self, parts: Sequence[SourceBatch], error: EventError) -> list[SourceBatch]:
        """Write and apply parts of a batch that was refused, though it was found to be fine.

        Of a part that is refused alone, all events become dead letters: some work for each part, never for
        each event.

        Returns
        -------
        list
            The parts as they were applied.
        """
        done = []
        for part in parts:
            applied = part.buried()  # its dead letters are written
            try:
                if len(parts) == 1:
                    raise error
                self._commit([applied])
            except EventError as refusal:
                every = dict.fromkeys(range(len(part.batch)), refusal.reason)
                applied = applied.without(every, self._log.last + 1)
                self._commit([applied])
            done.append(part.applied_as(applied))
        return done

    def _commit(self, parts: Sequence[SourceBatch]) -> Change:
        """Write one batch to the log, then apply it.

        Raises
        ------
        EventError
            If it cannot be applied; then a refusal stands behind it in the log.
        """
        chunks = [chunk for part in parts for chunk in part.chunks()]
        entries = [NewEntry(EVENTS, p.stream, p.position, pack(p.batch, p.now)) for p in chunks]
        dead = [letter for part in parts for letter in part.dead]
        batch = join_events([part.batch for part in parts])

        def apply() -> Change | Warning:
            done: Change | Warning
            try:
                done = self._live.apply(batch, parts[0].now)
            except Warning as warning:
                if self._state.torn or self.sequence != self._log.last:
                    raise
                done = warning  # the update is whole before it warns
            self._ahead.events += len(batch)
            for part in parts:
                if part.position >= 0:
                    self.followed.reach(part.stream, part.position)
            return done

        done = self._ahead.log_then(entries, apply, dead, refusable=EventError)
        if self._ahead.events >= self._every:
            self._snapshot_behind()
        if isinstance(done, Warning):
            raise done
        return done

    def watch(self, watcher: Callable[[Nodes], None]) -> None:
        """Have a function told which nodes moved, at every update, under the lock."""
        self._ahead.watchers.append(watcher)

    # ---- changes that the log does not hold: a snapshot does ---------------------------------------------

    def bulk(self, parts: Iterable[object], columns: Sequence[str] | None = None) -> Change:
        """Load a large graph, as `LiveEmbedding.bulk` does; a snapshot is written before it returns."""
        _ = self._state.exact  # the paper's rules cannot

        def load() -> tuple[Change, Exception | None]:
            try:
                return self._live.load(parts, columns)
            finally:
                self.feed.forget(self.sequence)  # who left in between is not told

        change, failure = self._then_snapshot(load)
        if failure is not None:  # the parts before the bad one stay
            raise failure
        return change

    def set_features(self, ids: object, values: object) -> Change:
        """Give nodes features of their own; a snapshot is written before it returns."""
        return self._then_snapshot(lambda: self._live.set_features(ids, values))

    def remove_nodes(self, ids: object) -> Change:
        """Remove nodes with their edges and features; a snapshot is written before it returns."""
        return self._then_snapshot(lambda: self._live.remove_nodes(ids))

    def restart(self, base: Embedding | None = None) -> Change:
        """Put a fresh base in place of all vectors; a snapshot is written before it returns."""
        return self._then_snapshot(lambda: self._live.restart(base))

    def _then_snapshot(self, change: Callable[[], _Done]) -> _Done:
        def change_and_write() -> _Done:
            done = change()
            self._write(self._take())
            return done

        with self._one_writer():
            self._wait_for_snapshot()
            # The entry is random, so that no other log has the same chain value.
            barrier = NewEntry(BARRIER, "", -1, secrets.token_bytes(16))
            done = self._ahead.log_then([barrier], change_and_write, refusable=DygcnError)
            self._tidy()
            return done

    # ---- changes that are no events, in the log ------------------------------------------------------------

    def tolerate(self, tolerance: float) -> Change:
        """Withhold small changes, as `LiveEmbedding.tolerate` does, from now on and after every restart."""
        entry = NewEntry(TOLERANCE, "", -1, pack_tolerance(read_tolerance(tolerance)))
        _ = self._state.exact  # the paper's rules cannot
        with self._one_writer():
            return self._ahead.log_then([entry], lambda: self._live.tolerate(tolerance))

    def flush(self) -> Change:
        """Publish every change that a tolerance withheld."""
        _ = self._state.exact
        with self._one_writer():
            return self._ahead.log_then([NewEntry(FLUSH, "", -1, b"")], self._live.flush)

    def begin_epoch(self) -> History:
        """Begin a new epoch, return its first position: readers and sinks of the one before start anew."""

        def begin() -> None:
            self._ahead.histories.epoch = epoch

        with self._one_writer():
            epoch = Epoch.begin(after=self._ahead.histories.epoch)
            self._ahead.log_then([NewEntry(EPOCH, "", -1, epoch.pack())], begin)
            return self.history

    def check_whole(self) -> None:
        """Raise the failure of the log, also if an exception came between the log and the state."""
        self._ahead.check_whole()

    # ---- snapshots -----------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write a snapshot now, and return when it is on disk; the log before it is forgotten."""
        with self._one_writer():
            self._wait_for_snapshot()
            self._ahead.check_whole()
            if self.saved_at == self.sequence:
                return
            self._write(self._take())
            self._tidy()

    def _take(self) -> Snapshot:
        with self.lock:
            chain = self._log.chain.hex()
            standing = self._ahead.histories.epoch.pack().hex(), self.tolerance
            streams, heard, forgotten = self.followed.image()
            where = self.sequence, self._log.last_batch_id, chain
            position = LogPosition(*where, streams, *standing, heard, forgotten)
            taken = take_snapshot(self._state, self.version, position)
            self._ahead.events = 0
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

    def _snapshot_behind(self) -> None:
        """Take a snapshot now and write it in a thread, unless one is being written."""
        if self._snapshot is not None and self._snapshot.is_alive():
            return
        self._snapshot = threading.Thread(
            target=self._write_behind, args=(self._take(),), name="dygcn-snapshot", daemon=True
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

    # ---- reading -------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The id of the last batch that changed a vector."""
        return self._live.version

    @property
    def sequence(self) -> int:
        """The last entry of the log that the vectors reflect."""
        return self._ahead.sequence

    @property
    def history(self) -> History:
        """The position that the vectors reflect: epoch, sequence, and the log's chain value there."""
        with self.lock:
            return self._ahead.histories.known(self.sequence)

    @property
    def streams(self) -> dict[str, int]:
        """How far each named stream of events was applied."""
        with self.lock:
            return dict(self.followed.streams)

    def confirms(self, history: History) -> bool:
        """Say whether a position is one of this history; one that is too long ago to be known is not."""
        with self.lock:
            return self._ahead.histories.confirm(history)

    @property
    def log(self) -> EventLog:
        """The log, for its dead letters and its failure."""
        return self._log

    def cached(self) -> VectorCache:
        """Return the vectors that were read and did not move since."""
        return self._live.cached()

    def recompute(self) -> LiveEmbedding:
        """Return an embedding without a folder, built from scratch, as `LiveEmbedding.recompute` does."""
        return self._live.recompute()

    def refit(self, progress: Progress | None = None) -> Refit:
        """Make the rows of a walk model anew, beside these, as `LiveEmbedding.refit` does."""
        return self._live.refit(progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save a copy of model and graph to another folder, as `LiveEmbedding.save` does."""
        if Path(path).resolve() == self.folder.resolve():
            raise FolderError(f"{path} is the folder of this embedding, which is durable; choose another")
        self._live.save(path)

    # ---- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is needed to start fast, and let go of the folder. Safe to call twice."""
        with self._one_writer():
            if self._closed:
                return
            self._closed = True
            self._wait_for_snapshot()
            try:
                whole = self._log.failure is None and not self._ahead.pending and not self._state.torn
                if whole and self.tolerance > 0 and self._log.last_kind != FLUSH:
                    self.flush()  # else the next start would count every node as moved
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
