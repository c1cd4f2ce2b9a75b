"""A durable live embedding: acknowledged changes are on disk, and a restart takes seconds."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, Unpack

import numpy as np

from dygcn.engine.events import ColumnOptions, join_events, moment, read_update
from dygcn.engine.features.tables import Embedding
from dygcn.engine.graph.screening import check_batch, find_refused
from dygcn.engine.models.checks import read_tolerance
from dygcn.engine.models.contracts import Outcome
from dygcn.engine.records import Changed, Float32
from dygcn.errors import DygcnError, EventError, FolderError, StorageError
from dygcn.live.change import Change
from dygcn.live.changed import Announcer, check_orders
from dygcn.live.durable import source_batch
from dygcn.live.durable.dead_letters import still_dead
from dygcn.live.durable.forgetting import ForgetReceipt, Forgetting
from dygcn.live.durable.snapshots import KeepLog, SnapshotWriter
from dygcn.live.durable.source_batch import Receipt, SourceBatch
from dygcn.live.durable.storage.entries import Kind, NewEntry, pack, pack_tolerance
from dygcn.live.durable.storage.layout import FolderLock
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.embedding import LiveEmbedding, warn_of_jump
from dygcn.live.finding import as_many, check_alone, check_parts, many_ids
from dygcn.live.search.nearest import VectorCache
from dygcn.live.view import EmbeddingView

_Done = TypeVar("_Done")
SNAPSHOT_EVERY = 200_000  # events


class DurableEmbedding(EmbeddingView):
    """A live embedding in a folder. Made by `dygcn.open`; see there.

    It reads as a `LiveEmbedding` does, and is none: it holds one beside a log, and every change is written to
    the log before it is applied. One thread at a time may write. Another thread may read meanwhile: each call
    sees all of an update or nothing of it, and calls that belong together are made holding `lock`.

    Attributes
    ----------
    feed
        What moved since any cursor in this history.
    lock
        Held while calls belong together: what they read is of one sequence.
    """

    _far = False

    def __init__(
        self, folder: Path, held: FolderLock, ahead: WriteAhead, every: int, keep_log: KeepLog
    ) -> None:
        self._ahead, self._live, self._log = ahead, ahead.live, ahead.log
        super().__init__(self._live._state, self._live._guard)
        self._offsets, self.feed = ahead.offsets, ahead.feed
        self._folder, self._held, self._every = folder, held, every
        self.lock, self._guard.waits = self._guard.lock, True
        self._snapshots = SnapshotWriter(folder, ahead, keep_log)
        self._forgetting = Forgetting(folder, ahead, self._snapshots, self._then_snapshot)
        self._closed = False

    # ---- changing ----------------------------------------------------------------------------------

    def update(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        remove_nodes: object = None,
        now: float | None = None,
        stream: str = "",
        offset: int = -1,
        **names: Unpack[ColumnOptions],
    ) -> Change:
        """Apply changes of the graph, on disk before they are applied, and return what moved.

        Parameters
        ----------
        events, add, remove, remove_nodes, now, **names
            As in `LiveEmbedding.update`.
        stream, offset
            The stream that the events come from, and the offset of the last one there: a whole number that
            grows. Events up to an offset that was applied change nothing, so a source can be read again from
            `streams[stream]` on.

        Raises
        ------
        EventError
            If a row is bad; then the whole batch was left alone.
        WriteFailed
            If it could not be written; then nothing more is accepted until the folder is opened again.
        """
        if remove_nodes is not None:
            check_alone(events, add, remove, now, stream or None)
            return self._remove_nodes(remove_nodes)
        model = self.model
        batch = read_update(events, add, remove, model.ids, model.directed, model.relations, **names)
        at, offset = None if now is None else moment(now), source_batch.read_offset(offset)
        part = SourceBatch(batch, stream, offset, now=at)
        part.check()
        with self._ahead.one_writer():
            last = self._offsets.last_of(stream) if stream else None
            if last is not None and part.offset <= last:
                nodes = np.empty(0, np.int32)
                nothing = Outcome(Changed(nodes, np.empty(0, np.int8)), self._names(nodes))
                return Change(self._live, nothing, self.version)
            self._ahead.check_whole()
            part = self._forgetting.without_old(part)
            warn_of_jump(self._state, part.batch, part.now)
            check_batch(self._state.graph, part.batch, part.now)  # what is refused is not written, either
            return self._commit([part])

    def _ingest(self, parts: Sequence[SourceBatch]) -> list[Receipt]:
        """Apply the events of many requests in one transaction; return one receipt for each part, in order.

        A bad event becomes a dead letter, and the others are applied. All that was applied is on disk.
        """
        with self._ahead.one_writer():
            runs: list[list[SourceBatch]] = []
            for part in parts:
                if part.forgets or not runs:  # what is forgotten comes before the events behind it
                    runs.append([])
                runs[-1].append(part)
            receipts: list[Receipt] = []
            for run in runs:
                if run[0].forgets:
                    run[0] = self._follow_forgets(run[0])
                receipts += self._ingest_run([self._forgetting.without_old(part) for part in run])
            return receipts

    def _follow_forgets(self, part: SourceBatch) -> SourceBatch:
        return self._forgetting.follow(part)

    def _ingest_run(self, parts: Sequence[SourceBatch]) -> list[Receipt]:
        parts = still_dead(parts, self._log)
        receipts, fresh, leaving, repeated = source_batch.screen(parts, self._offsets)
        if leaving:
            self._ahead.forget(leaving)
        if repeated:
            self._offsets.hear(*repeated)
        for group in source_batch.groups(fresh):
            done = self._sift([part for part, _ in group])
            try:
                self._commit(done)
            except EventError as error:
                done = source_batch.one_by_one(done, error, self._commit, self._log)
            for part, (_, receipt) in zip(done, group, strict=True):
                receipt.sequence, receipt.dead = self._ahead.sequence, len(part.dead)
                receipt.applied = len(part.batch)
        for receipt in receipts:
            receipt.sequence = receipt.sequence or self._ahead.sequence
        return receipts

    def _forget_stream(self, name: str) -> int | None:
        """Drop a stream's offset and return it, None if there is no such stream.

        Nothing of the stream is applied again in silence, unless 100,000 others were forgotten after it:
        a broker's stream goes on where it ended, a client (``http:NAME``) gets the number to go on with.
        """
        with self._ahead.one_writer():
            offset = self._offsets.streams.get(name)
            if offset is not None:
                self._ahead.forget([name])
            return offset

    def _sift(self, parts: Sequence[SourceBatch]) -> Sequence[SourceBatch]:
        """Turn events that the graph would refuse into dead letters, before anything is written."""
        self._ahead.check_whole()
        batch = join_events([part.batch for part in parts])
        refused = find_refused(self._state.graph, batch, parts[0].now)
        return source_batch.without_refused(parts, refused, self._log.last) if refused else parts

    def _commit(self, parts: Sequence[SourceBatch]) -> Change:
        """Write one batch to the log, then apply it; raise EventError if refused, and log the refusal."""
        chunks = [chunk for part in parts for chunk in part.chunks()]
        entries = [NewEntry(Kind.EVENTS, p.stream, p.offset, pack(p.batch, p.now)) for p in chunks]
        dead = [letter for part in parts for letter in part.dead]
        batch = join_events([part.batch for part in parts])

        def apply() -> Change | Warning:
            done = self._ahead.done_or_error(lambda: self._live._apply(batch, parts[0].now), Warning)
            self._ahead.events += len(batch)
            for part in parts:
                if part.offset >= 0:
                    self._offsets.reach(part.stream, part.offset)
            return done

        settled = [number for part in parts for number, _ in part.replayed]
        done = self._ahead.log_then(entries, apply, dead, refusable=EventError, settled=settled)
        if self._snapshots.is_due(self._every):
            self._snapshots.write_behind()
        if isinstance(done, Warning):
            raise done
        return done

    def track(self, *, distances: bool | None = None, surprise: bool | None = None) -> None:
        """Measure how far vectors move, or how surprising events are; see `LiveEmbedding.track`."""
        self._live.track(distances=distances, surprise=surprise)

    # ---- changes that the log does not hold: a snapshot does ---------------------------------------------

    def bulk(self, parts: Iterable[object], **names: Unpack[ColumnOptions]) -> Change:
        """Load a large graph, as `LiveEmbedding.bulk` does; a snapshot is written before it returns."""
        _ = self._state.exact  # the paper's rules cannot
        check_parts(parts)

        def load() -> Change | Exception:
            try:
                return self._ahead.done_or_error(lambda: self._live.bulk(parts, **names), Exception)
            finally:
                self.feed.forget(self.sequence)  # ids that left in between are not listed

        done = self._then_snapshot(load)
        if isinstance(done, Exception):  # the parts before the bad one stay
            raise done
        return done

    def set_features(self, ids: object = None, values: object = None, *, nodes: object = None) -> Change:
        """Give nodes features of their own; a snapshot is written before it returns."""
        read = self._live._read_features(ids, values, nodes)
        return self._then_snapshot(lambda: self._live._write(lambda: self._state.set_features(*read)))

    def _remove_nodes(self, ids: object) -> Change:
        with self._ahead.one_writer():  # ids without a kind are looked up
            column = many_ids(self._state, ids)
            return self._then_snapshot(lambda: self._live._remove_nodes(column))

    def forget(self, ids: object, *, t: float | None = None) -> ForgetReceipt:
        """Remove ids from graph, model, log, snapshots and dead letters; return when no file names them.

        Sinks delete their rows with the next write. Old events of these ids are dropped from then on: events
        at or before the offsets that streams have now, or with a time at or before `t`. A later event is one
        of a new person. The whole folder is read and written for it, so pass many ids at once.

        Parameters
        ----------
        ids
            One id or several; those that are not in the graph are remembered all the same.
        t
            Events of these ids up to this time are old. By default, the time of the latest event so far,
            where the model follows time.

        Raises
        ------
        StorageError
            If a file could not be rewritten. The ids have left the graph by then; opening the folder again,
            or forgetting anything, completes it.

        Examples
        --------
        >>> import dygcn, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     live = dygcn.open(f"{folder}/friends", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8))
        ...     receipt = live.forget(["ann"])
        ...     live.close()
        ...     "ann" in live, receipt.found, receipt.sequence
        (False, 1, 1)
        """
        column = many_ids(self._state, as_many(self._state, ids))
        return self._forgetting.forget((column, None if t is None else moment(t, "t")))

    def restart(self, base: Embedding | None = None) -> Change:
        """Put a fresh base in place of all vectors; a snapshot is written before it returns."""
        with self._ahead.one_writer():  # the base may be computed of the graph
            write = self._live._fresh_base(base)
            return self._then_snapshot(lambda: self._live._write(write))

    def _then_snapshot(self, change: Callable[[], _Done]) -> _Done:
        """Make a change that a snapshot holds; its arguments were read, so that a wrong one ends nothing."""

        def change_and_write() -> _Done:
            done = change()
            self._ahead.reach()  # also if nothing moved
            self._snapshots.write(needed=True)
            return done

        with self._ahead.one_writer():
            self._snapshots.wait()
            # The entry is random, so that no other log has the same chain value.
            barrier = NewEntry(Kind.BARRIER, body=secrets.token_bytes(16))
            return self._ahead.log_then([barrier], change_and_write, refusable=DygcnError)

    # ---- changes that are no events, in the log ------------------------------------------------------------

    def _announces(self) -> Announcer | None:
        return self._live._announces()

    def publish(self, tolerance: float | None = None) -> Change:
        """Publish every move that was kept back; see `LiveEmbedding.publish`. The log keeps the tolerance."""
        if tolerance is None:
            _ = self._state.exact
            entry = NewEntry(Kind.FLUSH)
        else:
            tolerance = check_orders(self._state, read_tolerance(tolerance))
            entry = NewEntry(Kind.TOLERANCE, body=pack_tolerance(tolerance))
        with self._ahead.one_writer():
            return self._ahead.log_then([entry], lambda: self._live.publish(tolerance))

    recompute, refit = LiveEmbedding.recompute, LiveEmbedding.refit

    # ---- snapshots -----------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write a snapshot now, and return when it is on disk; the oldest of the past is forgotten.

        Raises
        ------
        StorageError
            If it cannot be written. Events are accepted all the same, and later updates try it again.
        """
        with self._ahead.one_writer():
            self._snapshots.wait()
            self._ahead.check_whole()
            if self._ahead.saved_at != self.sequence:
                self._snapshots.write()

    # ---- reading -------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The id of the last batch that changed a vector."""
        return self._live.version

    @property
    def sequence(self) -> int:
        """The last entry of the log that the vectors include."""
        return self._ahead.sequence

    def _read_straight(self, node: int | str) -> tuple[int, Float32 | None] | None:
        """Return a sequence and a node's vector as of it, without the lock; None: take the lock."""

    @property
    def streams(self) -> dict[str, int]:
        """The offset up to which each named stream was applied."""
        with self.lock:
            return dict(self._offsets.streams)

    def _cached(self) -> VectorCache:
        return self._live._cached()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save a copy of model and graph to another folder, as `LiveEmbedding.save` does."""
        if Path(path).resolve() == self._folder.resolve():
            raise FolderError(f"{path} is the folder of this embedding, which is durable; choose another")
        super().save(path)

    @contextmanager
    def _lent(self) -> Iterator[None]:
        # Writers screen events outside of the lock, so a trial must be none of their business.
        with self._ahead.one_writer(), self._guard.lent():
            yield

    # ---- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write a snapshot for a fast start, and release the folder. Safe to call twice, and in a fork."""
        self._end(write=True)

    def _let_go(self) -> None:
        """Release the folder as a crash would, without writing. For tests, and for a failed disk."""
        self._end(write=False)

    def _end(self, write: bool) -> None:
        if self._held.inherited:  # the folder is another process's, and so may be locks of this one
            return
        with self._ahead.one_writer():
            if self._closed:
                return
            self._snapshots.wait()  # where it is interrupted, nothing is closed yet
            try:
                self._closed = True
                whole = self._log.failure is None and not self._ahead.pending and not self._state.torn
                if write and whole and self._ahead.saved_at != self.sequence:
                    self._snapshots.write()
            except StorageError:
                if self._log.failure is not None:
                    raise  # of a snapshot alone, the log holds everything: the next start takes longer
            finally:
                self._log.close()
                self._held.release()

    def __enter__(self) -> DurableEmbedding:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
