"""A shard among others: applies entries of the log, exchanges updates, recovers, and keeps snapshots.

No clock, no thread and no socket: its driver calls `receive` and `tick`, and gives it a `Network`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dygcn.cluster.messages import (
    SEQUENCER,
    BatchUpdate,
    Entries,
    Events,
    Fetch,
    MirrorRows,
    Move,
    PastRequest,
    Progress,
    Remove,
    Resend,
    Resize,
    RowsRequest,
    ShardSnapshot,
)
from dygcn.cluster.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dygcn.cluster.messages import Entry, EntryLog, Message, MirrorUpdate, Network, SnapshotStore
    from dygcn.cluster.shard import Applied
    from dygcn.engine.graph.image import GraphImage
    from dygcn.engine.models.model import Model

_LOG = logging.getLogger(__name__)
_AHEAD = 64  # entries that are kept before they are needed, and in a message


class Sequencer:
    """Sends entries of the log, and stores nothing beside it."""

    def __init__(self, log: EntryLog, network: Network) -> None:
        self._log, self._network = log, network

    def receive(self, message: Fetch) -> None:
        """Send a shard the entries that it requests."""
        entries = tuple(self._log.read(message.after, _AHEAD))
        self._network.send(message.sender, Entries(message.after, entries, self._log.end))


class Worker:
    """One shard, from its oldest snapshot on.

    It takes a snapshot `every` so many entries, and calls `moved` with the sequence of each entry and what it
    did to own nodes (None: it moved slots). `position` is the last entry that own edges reflect; once the
    shard is `ready`, which means that rows of mirrors and order 2 are there, vectors reflect it, too.
    `changes` and `first_rows` count what was sent to others.
    """

    def __init__(
        self,
        number: int,
        epoch: int,
        model: Model,
        snapshots: SnapshotStore,
        network: Network,
        every: int = 1_000,
        moved: Callable[[int, Applied | None], None] | None = None,
    ) -> None:
        self.number, self.epoch = number, epoch
        self._snapshots, self._network, self._every, self._moved = snapshots, network, every, moved
        # The oldest: others may still request updates of the batches after it.
        snapshot = snapshots.load(snapshots.sequences()[0])
        self.shard = Shard(model, number, snapshot.slots, snapshot.shards)
        if snapshot.image is not None:
            self.shard.load(snapshot.image)
        self.position = self._planned = snapshot.sequence
        self.ready = False
        self.changes = self.first_rows = 0
        self._log: dict[int, Entry] = {}
        self._end = self._fetched = -1  # the last known entry of the log; after which entries were requested
        self._target: int | None = None  # where the replay ends
        self._sent: dict[int, dict[int, MirrorUpdate]] = {}
        self._received: dict[int, dict[int, MirrorUpdate]] = {}
        self._done: dict[int, int] = {}  # the last batch that each other shard is known to have applied
        self._left: tuple[int, int] | None = None  # the last entry with fewer shards, and how many there were
        self._rows: dict[int, MirrorUpdate] = {}  # replies to the last request of rows
        self._requested: int | None = None  # the batch of that request
        self._requests: dict[int, RowsRequest] = {}  # of others, until this shard applied their batch

    # ---- messages --------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take a message, and apply every entry whose updates have all arrived."""
        self.take(message)
        self.advance()

    def take(self, message: Message) -> None:
        """Process a message without applying any entry; see `step`."""
        if isinstance(message, Entries):
            self._take_entries(message)
        elif isinstance(message, BatchUpdate):
            self._note(message.sender, message.done)
            if message.batch > self.position:
                self._received.setdefault(message.batch, {})[message.sender] = message.update
        elif isinstance(message, Progress):
            self._note(message.sender, message.done)
        elif isinstance(message, Resend):
            self._send_again(message)
        elif isinstance(message, RowsRequest):
            self._requests[message.sender] = message
        elif isinstance(message, PastRequest):
            if self._is_for_me(message):
                self._target = max(self._target or 0, message.position)
        elif isinstance(message, MirrorRows) and self._is_for_me(message):
            self._rows[message.sender] = message.rows

    def _is_for_me(self, reply: PastRequest | MirrorRows) -> bool:
        """Return whether a reply answers this process's last request."""
        return not self.ready and (reply.epoch, reply.at) == (self.epoch, self._requested)

    def _take_entries(self, message: Entries) -> None:
        if self._target is None:
            self._target = max(message.end, self.position)
        self._end = max(self._end, message.end)
        for sequence, entry in enumerate(message.entries, message.after + 1):
            if self.position < sequence <= self.position + _AHEAD:
                self._log[sequence] = entry

    def _note(self, sender: int, done: int) -> None:
        self._done[sender] = max(self._done.get(sender, -1), done)
        self._forget()

    def _send_again(self, message: Resend) -> None:
        # Only a process that was replaced requests an update that is not kept any more, and none waits for
        # it.
        updates = self._sent.get(message.batch)
        if updates is not None and message.sender in updates:
            self._send(message.sender, message.batch, updates[message.sender])

    def tick(self) -> None:
        """Request missing messages again, and apply every complete entry."""
        self.request_again()
        self.advance()

    def request_again(self) -> None:
        """Request missing messages again; called several times a second."""
        for other in self.others:
            self._network.send(other, Progress(self.number, self._own_done))
        if self._target is None or self.position + 1 not in self._log:
            self._network.send(SEQUENCER, Fetch(self.number, self.position))
        if self.ready and self._planned > self.position:
            here = self._received.get(self._planned, {})
            for other in self.others:
                if other not in here:
                    self._network.send(other, Resend(self.number, self._planned))
        if self._requested is not None and not self.ready:
            self._request_rows()

    def _fetch(self) -> None:
        """Request the next entries, once: `request_again` does it after that."""
        if self._fetched != self.position:
            self._fetched = self.position
            self._network.send(SEQUENCER, Fetch(self.number, self.position))

    # ---- entries ---------------------------------------------------------------------------------------

    @property
    def others(self) -> list[int]:
        """The other shards."""
        return [other for other in range(self.shard.shards) if other != self.number]

    @property
    def _own_done(self) -> int:
        return self.position if self.ready else -1

    @property
    def kept(self) -> int:
        """The oldest snapshot: a successor begins there, so the log must reach back to it."""
        return self._snapshots.sequences()[0]

    @property
    def retired(self) -> bool:
        """Whether this shard was dropped by a resize to fewer shards."""
        return self.number >= self.shard.shards

    def reached(self, entry: int) -> bool:
        """Return whether vectors can be read, and reflect an entry."""
        return self.ready and self.position >= entry

    def advance(self) -> None:
        """Apply every entry whose updates have all arrived."""
        while self.step():
            pass

    def step(self) -> bool:
        """Apply the next entry, or recover by one; return whether there was anything to do."""
        self._answer_requests()  # also if retired: a shard that is behind must learn that it has to replay on
        if self.retired:
            return False
        return self._apply_next() if self.ready else self._recover()

    def _answer_requests(self) -> None:
        for sender, request in list(self._requests.items()):
            if request.at > self.position:
                continue
            del self._requests[sender]
            about = self.number, request.epoch, request.at
            if request.at < self.position:
                self._network.send(sender, PastRequest(*about, self.position))
            else:
                self._network.send(sender, MirrorRows(*about, self.shard.rows_for(request.mirrors)))

    def _plan(self, sequence: int, entry: Entry) -> None:
        """Plan an entry, and keep the updates for other shards."""
        if isinstance(entry, Events):
            self._sent[sequence] = self.shard.plan(entry.batch, entry.now)
        elif isinstance(entry, Remove):
            self._sent[sequence] = self.shard.plan_removal(entry.ids)
        else:
            owners = entry.owners(self.shard.slots, self.shard.shards)
            if owners[1] < self.shard.shards:
                self._left = sequence, self.shard.shards
            self._sent[sequence], leaving = self.shard.plan_move(*owners)
            for other, image in leaving.items():
                self._snapshots.hand_over(sequence, other, image)
        self._planned = sequence

    def _apply_next(self) -> bool:
        """Plan the next entry, and apply it if all updates are here; return whether it was applied."""
        following = self.position + 1
        entry = self._log.get(following)
        if entry is None:
            if following <= self._end:
                self._fetch()
            return False
        if self._planned < following:
            self._plan(following, entry)
            for other in self.others:
                self._send(other, following, self._sent[following][other])
        received = self._received.get(following, {})
        if any(other not in received for other in self.others):
            return False
        updates, applied = {other: received[other] for other in self.others}, None
        if isinstance(entry, Events | Remove):
            applied = self.shard.apply(updates)
        else:
            arriving = self._arriving(following, entry)
            if arriving is None:
                return False
            self.shard.apply_move(updates, arriving)
        if self._moved is not None:
            self._moved(following, applied)
        self._step_to(following)
        if isinstance(entry, Move | Resize):
            self._save()
        elif following % self._every == 0:
            try:
                self._save()
            except OSError as error:  # the log and an older snapshot have it, and the next one is soon
                _LOG.warning("shard %d: the snapshot of entry %d failed: %s", self.number, following, error)
        return True

    def _arriving(self, sequence: int, entry: Move | Resize) -> list[GraphImage] | None:
        """Return the edges of nodes that an entry moves here; None until every shard handed its own over."""
        slots, shards = self.shard.slots, self.shard.shards
        gained = entry.owners(slots, shards)[0].owner == self.number
        senders = set(slots.owner[gained].tolist()) - {self.number}
        images = [self._snapshots.handed(sequence, sender) for sender in sorted(senders)]
        here = [image for image in images if image is not None]
        return here if len(here) == len(images) else None

    def _send(self, other: int, sequence: int, update: MirrorUpdate) -> None:
        self.changes += len(update.change)
        self.first_rows += len(update.degree)
        self._network.send(other, BatchUpdate(self.number, sequence, update, self._own_done))

    def _step_to(self, sequence: int) -> None:
        self.position = sequence
        self._log.pop(sequence, None)
        self._received.pop(sequence, None)
        self._forget()

    # ---- recovery --------------------------------------------------------------------------------------

    def _recover(self) -> bool:
        """Replay the log to its end, then request the mirrors' rows; return whether work is left."""
        if self._target is None:
            return False
        if self.position < self._target:
            return self._replay_next()
        if self._requested != self.position:
            self._requested, self._rows = self.position, {}
            self._request_rows()
        if any(other not in self._rows for other in self.others):
            return False
        for rows in self._rows.values():
            self.shard.take_rows(rows)
        self.shard.rebuild()
        self.ready, self._rows = True, {}
        return True

    def _replay_next(self) -> bool:
        following = self.position + 1
        entry = self._log.get(following)
        if entry is None:
            self._fetch()
            return False
        if isinstance(entry, Events | Remove):
            self._plan(following, entry)
            self.shard.replay()
        else:
            if self._planned < following:
                self._plan(following, entry)  # first: others may wait for it, too
            arriving = self._arriving(following, entry)
            if arriving is None:
                return False
            self.shard.apply_move(None, arriving)
        self._step_to(following)
        return True

    def _request_rows(self) -> None:
        for other, mirrors in self.shard.mirrors().items():
            if other not in self._rows:
                self._network.send(other, RowsRequest(self.number, self.epoch, self.position, mirrors))

    # ---- snapshots -------------------------------------------------------------------------------------

    def _save(self) -> None:
        shard = self.shard
        self._snapshots.save(ShardSnapshot(self.position, shard.slots, shard.shards, shard.image()))
        self._forget()

    def _done_by(self, others: Iterable[int]) -> int:
        return min([self.position, *(self._done.get(other, -1) for other in others)])

    def _forget(self) -> None:
        """Delete updates and snapshots that no other shard needs any longer."""
        done = self._done_by(self.others)
        if self._left is not None:
            sequence, shards = self._left
            if (
                done < sequence
            ):  # a shard before that entry may wait for one that goes, and that one for this one
                done = self._done_by(other for other in range(shards) if other != self.number)
            else:
                self._left = None
        for sequence in [one for one in self._sent if one <= done]:
            del self._sent[sequence]
        older = [sequence for sequence in self._snapshots.sequences() if sequence <= done]
        for sequence in older[:-1]:
            self._snapshots.drop(sequence)
