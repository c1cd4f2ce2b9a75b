"""A live embedding as its folder left it: a snapshot, then the log behind it, applied again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.errors import DamagedFolder, EventError
from dygcn.live.durable.feed import Feed
from dygcn.live.durable.followed import Followed
from dygcn.live.durable.histories import Histories
from dygcn.live.durable.recovery import Beginning, Replayed, Standing, epoch_of, may_have_moved, replay
from dygcn.live.durable.storage import BARRIER, FLUSH, FORGET, REFUSAL, DeadLetter, EventLog, NewEntry
from dygcn.live.embedding import LiveEmbedding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import EventBatch, History, IdColumn, Nodes
    from dygcn.live.change import Change
    from dygcn.live.files import LogPosition


class RecoveredEmbedding(LiveEmbedding):
    """The part of a `DurableEmbedding` that opens a folder, and knows which history it holds."""

    def __init__(self, log: EventLog, begin: Beginning) -> None:
        super().__init__(begin.state, begin.version)
        self.damage = begin.damage
        self.sequence = begin.position.sequence
        self._sequence_to_be = self.sequence  # of the change that is being applied
        self._pending = False  # from before an entry is written to the log until all is done that it asks for
        self.followed = Followed.from_position(begin.position)
        self._log, self._batch_id = log, begin.position.batch_id
        self._histories = Histories(log, epoch_of(begin.position))
        self.feed = Feed(self, self._histories, begin.position.sequence)
        self.saved_at, self._events_since = begin.position.sequence, 0
        self._reached: list[Nodes] = []  # in a replay of the graph alone
        self._named: list[IdColumn] = []

    @property
    def history(self) -> History:
        """The position that the vectors reflect: epoch, sequence, and the log's chain value there."""
        return self._histories.known(self.sequence)

    @property
    def streams(self) -> dict[str, int]:
        """How far each named stream of events was applied."""
        return self.followed.streams

    def confirms(self, history: History) -> bool:
        """Say whether a position is one of this history; one that is too long ago to be known is not."""
        return self._histories.confirm(history)

    def _recover(self, begin: LogPosition) -> None:
        log = self._log
        standing = replay(log, begin, self.model.spec.from_graph, self._replayed)
        self._settle_replay()
        self._batch_id, self._version = (
            max(self._batch_id, log.last_batch_id),
            max(self._version, standing.batch_id),
        )
        self._go_on_from(standing)
        self.sequence = log.last  # a refusal may stand behind the last batch
        self.feed.reach(self.sequence)

    def _replayed(self, one: Replayed) -> None:
        last = one.logged_batches[-1]
        self.sequence = self._sequence_to_be = last.sequence
        if last.entries[-1].kind == BARRIER:
            if self.damage:
                raise DamagedFolder(
                    f"the snapshot that holds entry {last.sequence} cannot be used: {'; '.join(self.damage)}"
                )
            self._refuse(last.number)  # its snapshot was never written, so nobody was told that it happened
            return
        if last.entries[-1].kind == FORGET:
            self._batch_id = last.number
            self.followed.forget(*(entry.stream for entry in last.entries))
            return
        try:
            self._replay_batch(one.batch, one.now, last.number)
        except EventError:
            if one.certain:
                raise
            self._refuse(last.number)
            return
        except Warning:  # it was told when it happened, and what it is about is done
            pass
        self._events_since += len(one.batch)
        for logged in one.logged_batches:
            for entry in logged.entries:
                if entry.position >= 0:
                    self.followed.reach(entry.stream, entry.position)

    def _replay_batch(self, batch: EventBatch, now: float | None, batch_id: int) -> None:
        """Apply a batch again: to the graph alone, where all else follows from it."""
        if not self.model.spec.from_graph:
            self._apply_batch(batch, now, batch_id)
            return
        delta, left = self._state.apply_to_graph(batch, now)
        self._batch_id = self._version = batch_id
        self._reached += [delta.receiver]
        self._named += [batch.src, batch.dst, left]  # time takes away ids that no event names

    def _settle_replay(self) -> None:
        """Compute what follows from the graph, and note all that the log may have moved."""
        self._state.rebuild()
        if self._reached:
            self.feed.note(*may_have_moved(self._state, self._reached, self._named), self.sequence)
        self._reached, self._named = [], []

    def _go_on_from(self, standing: Standing) -> None:
        """Take up epoch and tolerance. All vectors are exact now; whoever was served others is told."""
        self._histories.epoch = standing.epoch
        if standing.tolerance > 0:
            self._state.tolerate(standing.tolerance)
            if self._log.last_kind != FLUSH:
                self._batch_id = self._version = self._batch_id + 1
                self._append([NewEntry(FLUSH, "", -1, b"")], self._batch_id, ends=True)
        if standing.tolerated:  # nobody knows any more of whom something was withheld
            everyone = self._state.graph.nodes()
            self.feed.note(everyone, self.names(everyone[:0]), self._log.last)

    def _apply_batch(self, batch: EventBatch, now: float | None, batch_id: int) -> Change:
        self._batch_id, self._version = batch_id, batch_id - 1
        return LiveEmbedding._apply(self, batch, now)

    def _append(
        self,
        entries: Sequence[NewEntry],
        batch_id: int,
        dead: Sequence[DeadLetter] = (),
        *,
        ends: bool = False,
    ) -> int:
        """Write entries to the log; until `_pending` is taken back, nothing but a refusal of them may follow.

        So an exception anywhere between the log and the state ends acceptance.
        """
        if not ends:
            self.check_whole()
        self._pending = True
        last = self._log.append(entries, batch_id, dead)
        self._pending = not ends
        return last

    def check_whole(self) -> None:
        """Raise the failure of the log, also if an exception came between the log and the state."""
        if self._pending:
            self._log.fail(InterruptedError("an update was interrupted between the log and the state"))
        self._log.check()
        self._state.check()

    def _refuse(self, batch_id: int) -> None:
        self._batch_id = max(self._batch_id, batch_id) + 1
        entry = NewEntry(REFUSAL, "", -1, str(batch_id).encode())
        self.sequence = self._append([entry], self._batch_id, ends=True)
        self.feed.reach(self.sequence)
