"""Write-ahead: log, then apply, then acknowledge: a live embedding and its log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from msgspec import UNSET

from dygcn.engine.models.contracts import Outcome
from dygcn.engine.models.surprise import Surprises
from dygcn.engine.records import History, IdColumn, Nodes
from dygcn.errors import DamagedFolder, DygcnError, EventError, WriteFailed
from dygcn.live.changed import check_orders
from dygcn.live.durable.feed import Feed, Histories
from dygcn.live.durable.recovery import Beginning, ReplayedBatch, Standing, epoch_of, may_have_moved, replay
from dygcn.live.durable.source_batch import StreamOffsets
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.durable.storage.entries import Epoch, Kind, NewEntry, unpack_tolerance
from dygcn.live.durable.storage.erasures import Erasures
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.guard import holding

_Done = TypeVar("_Done")
_Error = TypeVar("_Error", bound=Exception)
_BUSY = (
    "another thread writes to this embedding and waits for its lock, which this thread holds; write without "
    "holding live.lock, which is for reading"
)


class Observer:
    """Callbacks after each piece of work; by default only silent failures are logged. They must not raise."""

    def logged(self, entries: int, seconds: float) -> None:
        """So many entries are on disk."""

    def applied(self, seconds: float) -> None:
        """The change of these entries was applied."""

    def measured(self, found: Surprises, sequence: int) -> None:
        """The surprise of a batch's events was measured, under the lock."""

    def forgotten(self, ids: IdColumn) -> None:
        """Ids were forgotten and may not appear anywhere any longer. Under the lock."""

    def snapshot_written(self, sequence: int, seconds: float) -> None:
        """A snapshot is on disk."""

    def snapshot_failed(self, sequence: int, error: Exception) -> None:
        """A snapshot could not be written: events are still accepted, and it is retried."""
        logging.getLogger("dygcn").warning("the snapshot of entry %d failed: %s", sequence, error)

    def write_failed(self, failure: WriteFailed) -> None:
        """A write failed, and nothing more is accepted."""


class WriteAhead:
    """Replays the log into an embedding; from then on logs every change before it is applied."""

    def __init__(self, log: EventLog, begin: Beginning) -> None:
        position = begin.position
        self.live, self.log, self.damage = LiveEmbedding(begin.state, begin.version), log, begin.damage
        self.live._on_change = self._note
        self.sequence = self.saved_at = position.sequence
        self._making = position.sequence, position.batch_id  # of the change that is being made
        self.pending, self.events = False, 0
        self._writing = threading.RLock()
        self.watchers: list[Callable[[Nodes], None]] = []
        self.observer = Observer()
        self.offsets = StreamOffsets(position.streams, position.heard, position.forgotten)
        self.histories = Histories(log, epoch_of(position), position.refused)
        self.erasures = Erasures(log.path.parent)
        if position.erasures is not UNSET and position.erasures > len(self.erasures):
            raise DamagedFolder(
                f"{self.erasures.path} lost erasures: forgotten ids may return; restore a copy"
            )
        where = position.sequence, position.floor
        self.feed = Feed(self.live, self.histories, self.erasures, *where, begin.feed, self.begin_epoch)
        self._state = begin.state
        unsaid = None if begin.feed is None else begin.feed.unsaid
        self._known = unsaid is not None or not position.tolerance
        if position.tolerance > 0:
            check_orders(self._state, position.tolerance)
            self._state.rebuild()
            self.live._announce_beyond(position.tolerance, unsaid)
        standing = replay(log, position, begin.state.model.spec.from_graph, self._replayed)
        if not self.live._tolerance:
            self._state.rebuild()
        self._go_on_from(standing)
        self.reach()  # a refusal may stand behind the last batch

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        """Become the only writer; raise ConcurrentUse if the thread holds the lock and would have to wait."""
        with holding(self._writing, not self.live._guard.owned(), _BUSY):
            if self._state.transaction.trials and not self._state.torn:
                self.live._guard.check()
            yield

    def log_then(
        self,
        entries: Sequence[NewEntry],
        change: Callable[[], _Done],
        dead: Sequence[DeadLetter] = (),
        refusable: type[DygcnError] | tuple[()] = (),
        settled: Sequence[int] = (),
    ) -> _Done:
        """Write the entries of one batch to the log, then apply their change, under the lock.

        While it is `pending`, nothing but a refusal may follow: an exception anywhere between the log and the
        state ends acceptance.
        """
        self.check_whole()
        batch_id = self.log.last_batch_id + 1
        self.pending, begun = True, time.perf_counter()
        self._making = self.log.append(entries, batch_id, dead, settled), batch_id
        on_disk = time.perf_counter()
        try:
            with self.live._guard.lock:
                done = change()
                if self.sequence != self.log.last:  # nothing moved
                    self.reach()
        except BaseException as error:
            if isinstance(error, refusable) and not self._state.torn and self.sequence != self.log.last:
                self._refuse(batch_id)
            else:
                self.log.fail(error)
            raise
        self.pending = False
        self.observer.logged(len(entries), on_disk - begun)
        self.observer.applied(time.perf_counter() - on_disk)
        return done

    def forget(self, streams: Sequence[str]) -> None:
        """Follow streams no longer."""
        entries = [NewEntry(Kind.FORGET, stream, self.offsets.streams[stream]) for stream in streams]
        self.log_then(entries, lambda: self.offsets.forget(*streams))

    def begin_epoch(self) -> History:
        """Begin a new epoch, and return its first position."""
        with self.one_writer():
            epoch = Epoch.begin(after=self.histories.epoch)
            entry = NewEntry(Kind.EPOCH, body=epoch.pack())
            self.log_then([entry], partial(setattr, self.histories, "epoch", epoch))
            return self.histories.known(self.sequence)

    def observe(self, observer: Observer) -> None:
        """Call an observer after every write from now on."""
        self.observer, self.log.on_failure = observer, observer.write_failed

    def done_or_error(self, change: Callable[[], _Done], kind: type[_Error]) -> _Done | _Error:
        """Apply a change; return an exception of this kind if the change was nevertheless complete."""
        try:
            return change()
        except kind as error:
            if self._state.torn or self.sequence != self.log.last:
                raise
            return error

    def check_whole(self) -> None:
        """Raise if the log has failed, or an exception came between the log and the state."""
        if self.pending:
            self.log.fail(InterruptedError("an update was interrupted between the log and the state"))
        self.log.check()
        self._state.check()

    def _note(self, outcome: Outcome) -> int:
        """Record what the current change moved; return the id of its batch."""
        self.sequence, batch_id = self._making
        self.live._renumber(batch_id)  # before a watcher may raise
        self.feed.note(outcome.moved.nodes, outcome.left, self.sequence, outcome.moved.heavy)
        for watcher in self.watchers:
            watcher(outcome.moved.nodes)
        if outcome.surprises is not None:
            self.observer.measured(outcome.surprises, self.sequence)
        return batch_id

    def _refuse(self, batch_id: int) -> None:
        entry = NewEntry(Kind.REFUSAL, body=str(batch_id).encode())
        self.log.append([entry], self.log.last_batch_id + 1)
        with self.live._guard.lock:
            self.reach()
        self.pending = False

    def reach(self) -> None:
        """Record that nothing moved up to the end of the log."""
        self.sequence = self.log.last
        self.feed.reach(self.sequence)
        if self._state.transaction.after is not None:
            self._state.transaction.after()

    # ---- recovery ------------------------------------------------------------------------------------

    def _replayed(self, one: ReplayedBatch) -> None:
        last = one.logged_batches[-1][-1]
        self.sequence, self._making = last.seq, (last.seq, last.batch_id)
        if last.kind == Kind.BARRIER:
            if self.damage:
                raise DamagedFolder(
                    f"the snapshot that holds entry {last.seq} cannot be used: {'; '.join(self.damage)}"
                )
            self._refuse(last.batch_id)  # its snapshot was never written, so it was never acknowledged
            self.histories.refuse([last.seq])  # but perhaps shown, after the write had failed
            return
        if last.kind == Kind.FORGET:
            self.offsets.forget(*(entry.stream for entry in one.logged_batches[-1]))
            return
        if last.kind == Kind.TOLERANCE:
            tolerance = unpack_tolerance(last.body)
            if tolerance > 0 and not self.live._tolerance:
                self._state.rebuild()  # what is announced from here on follows from messages
            self.live.publish(tolerance=tolerance)
            return
        if last.kind == Kind.FLUSH and self.live._tolerance:
            self.live.publish()
            return
        try:
            self._replay_batch(one)
        except EventError:
            if one.certain:
                raise
            self._refuse(last.batch_id)
            return
        except Warning:  # it was shown when it happened, and what it is about is done
            pass
        self.events += len(one.batch)
        for logged in one.logged_batches:
            for entry in logged:
                if entry.offset >= 0:
                    self.offsets.reach(entry.stream, entry.offset)

    def _replay_batch(self, one: ReplayedBatch) -> None:
        """Apply a batch again: to the graph alone, where all else follows from it."""
        if self.live._tolerance or not self._state.model.spec.from_graph:
            self.live._apply(one.batch, one.now)
            return
        delta, left = self._state.apply_to_graph(one.batch, one.now)
        self.live._renumber(self._making[1])
        self.feed.note(*may_have_moved(self._state, one, delta, left), self.sequence)

    def _go_on_from(self, standing: Standing) -> None:
        """Restore epoch and refusals; if kept-back moves are unknown, every node counts as moved."""
        self.histories.epoch = standing.epoch
        self.histories.refuse(standing.refused)
        if standing.tolerated and not self._known:
            kind, _ = self.log.kind_and_time(self.log.last) or ("", 0)
            if standing.tolerance > 0 and kind != Kind.FLUSH:  # shown to readers at the end of the log, too
                self.log.append([NewEntry(Kind.FLUSH)], self.log.last_batch_id + 1)
                self.live._renumber(self.log.last_batch_id)
            everyone = self._state.graph.nodes()
            self.live._announce_beyond(self.live._tolerance)
            self.feed.note(everyone, self.live._names(everyone[:0]), self.log.last)
