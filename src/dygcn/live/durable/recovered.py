"""A live embedding as its folder left it: a snapshot, then the log behind it, applied again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.errors import DamagedFolder, EventError
from dygcn.live.durable.feed import Feed
from dygcn.live.durable.followed import Followed
from dygcn.live.durable.histories import Histories
from dygcn.live.durable.recovery import Beginning, Replayed, Standing, epoch_of, may_have_moved, replay
from dygcn.live.durable.storage import BARRIER, FLUSH, FORGET, REFUSAL, EventLog, NewEntry
from dygcn.live.embedding import LiveEmbedding

if TYPE_CHECKING:
    from dygcn.engine.models import Outcome
    from dygcn.engine.records import EventBatch, IdColumn, Nodes


class Recovered:
    """What a `DurableEmbedding` goes on from, once a folder is opened.

    Attributes
    ----------
    live
        The vectors.
    sequence
        The last entry of the log that they reflect.
    events
        How many events were behind the snapshot.
    """

    def __init__(self, log: EventLog, begin: Beginning) -> None:
        position = begin.position
        self.live, self.log, self.damage = LiveEmbedding(begin.state, begin.version), log, begin.damage
        self.live.on_change = self._note
        self.sequence = self.saved_at = position.sequence
        self.events = 0
        self.followed = Followed.from_position(position)
        self.histories = Histories(log, epoch_of(position))
        self.feed = Feed(self.live, self.histories, position.sequence)
        self._state = begin.state
        self._reached: list[Nodes] = []  # in a replay of the graph alone
        self._named: list[IdColumn] = []
        standing = replay(log, position, begin.state.model.paper is None, self._replayed)
        self._settle_replay()
        self.live.renumber(max(self.live.version, standing.batch_id))
        self._go_on_from(standing)
        self.sequence = log.last  # a refusal may stand behind the last batch
        self.feed.reach(self.sequence)

    def _note(self, outcome: Outcome) -> None:
        self.feed.note(outcome.moved.nodes, outcome.left, self.sequence)

    def _replayed(self, one: Replayed) -> None:
        last = one.logged_batches[-1]
        self.sequence = last.sequence
        if last.entries[-1].kind == BARRIER:
            if self.damage:
                raise DamagedFolder(
                    f"the snapshot that holds entry {last.sequence} cannot be used: {'; '.join(self.damage)}"
                )
            self._refuse(last.number)  # its snapshot was never written, so nobody was told that it happened
            return
        if last.entries[-1].kind == FORGET:
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
        self.events += len(one.batch)
        for logged in one.logged_batches:
            for entry in logged.entries:
                if entry.position >= 0:
                    self.followed.reach(entry.stream, entry.position)

    def _replay_batch(self, batch: EventBatch, now: float | None, batch_id: int) -> None:
        """Apply a batch again: with the exact rule to the graph alone, from which all else follows."""
        if self._state.model.paper is not None:
            self.live.apply(batch, now, batch_id)
            return
        delta, left = self._state.apply_to_graph(batch, now)
        self.live.renumber(batch_id)
        self._reached += [delta.receiver]
        self._named += [batch.src, batch.dst, left]  # time takes away ids that no event names

    def _settle_replay(self) -> None:
        """Compute what follows from the graph, and note all that the log may have moved."""
        self._state.settle()
        if self._reached:
            self.feed.note(*may_have_moved(self._state, self._reached, self._named), self.sequence)
        self._reached, self._named = [], []

    def _go_on_from(self, standing: Standing) -> None:
        """Take up epoch and tolerance. All vectors are exact now; whoever was served others is told."""
        self.histories.epoch = standing.epoch
        if standing.tolerance > 0:
            self._state.tolerate(standing.tolerance)
            if self.log.last_kind != FLUSH:
                self._append(NewEntry(FLUSH, "", -1, b""))
                self.live.renumber(self.log.last_batch_id)
        if standing.tolerated:  # nobody knows any more of whom something was withheld
            everyone = self._state.graph.nodes()
            self.feed.note(everyone, self.live.names(everyone[:0]), self.log.last)

    def _refuse(self, batch_id: int) -> None:
        self._append(refusal(batch_id))

    def _append(self, entry: NewEntry) -> None:
        self.log.append([entry], self.log.last_batch_id + 1)


def refusal(batch_id: int) -> NewEntry:
    """Return the entry that stands behind a batch that was not applied."""
    return NewEntry(REFUSAL, "", -1, str(batch_id).encode())
