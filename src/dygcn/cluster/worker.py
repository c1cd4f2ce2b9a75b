"""A shard among others: applies entries of the log, exchanges updates, recovers, and keeps snapshots.

No clock, no thread and no socket: its driver calls `take`, `step` and `request_again` with a `Network`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dygcn.cluster import messages as m
from dygcn.cluster.logged_entries import LoggedEntries
from dygcn.cluster.shard import Applied, Shard
from dygcn.cluster.store import SnapshotFolder
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.models.model import Model

_LOG = logging.getLogger(__name__)
_AHEAD = 64  # entries that are kept before they are needed, and in a message


def send_entries(log: LoggedEntries, network: m.Network, request: m.Fetch) -> None:
    """Send a shard the entries of the log that it requests."""
    entries = tuple(log.read(request.after, _AHEAD))
    network.send(request.sender, m.Entries(request.after, entries, log.end))


class Worker:
    """One shard, from its oldest snapshot on.

    It takes a snapshot `every` so many entries, and calls `moved` with the sequence of each entry and what it
    did to own nodes (None: it moved slots). `position` is the last entry that own edges reflect; once the
    shard is `ready`, which means that rows of mirrors and order 2 are there, vectors reflect it, too.
    """

    def __init__(
        self,
        number: int,
        epoch: int,
        model: Model,
        snapshots: SnapshotFolder,
        network: m.Network,
        every: int = 1_000,
    ) -> None:
        self.number, self.epoch, self.snapshots = number, epoch, snapshots
        self._network, self._every = network, every
        self.moved: Callable[[int, Applied | None], None] = lambda sequence, applied: None
        # The oldest: others may still request updates of the batches after it, so the log reaches back to it.
        snapshot = snapshots.load(snapshots.sequences[0])
        self.shard = Shard(model, number, snapshot.slots, snapshot.shards)
        if snapshot.image is not None:
            self.shard.load(snapshot.image)
        self.position = self._planned = snapshot.sequence
        self.ready = False
        self._log: dict[int, m.Entry] = {}
        self._end = self._fetched = -1  # the last known entry of the log; after which entries were requested
        self._target: int | None = None  # where the replay ends
        self._sent: dict[int, dict[int, m.MirrorUpdate]] = {}
        self._received: dict[int, dict[int, m.MirrorUpdate]] = {}
        self._done: dict[int, int] = {}  # the last batch that each other shard is known to have applied
        self._left: tuple[int, int] | None = None  # the last entry with fewer shards, and how many there were
        self._rows: dict[int, m.MirrorUpdate] = {}  # replies to the last request of rows
        self._requested: int | None = None  # the batch of that request
        self._requests: dict[int, m.RowsRequest] = {}  # of others, until this shard applied their batch

    # ---- messages --------------------------------------------------------------------------------------

    def take(self, message: m.Message) -> None:
        """Process a message without applying any entry; see `step`."""
        if isinstance(message, m.Entries):
            self._target = max(message.end, self.position) if self._target is None else self._target
            self._end = max(self._end, message.end)
            for sequence, entry in enumerate(message.entries, message.after + 1):
                if self.position < sequence <= self.position + _AHEAD:
                    self._log[sequence] = entry
        elif isinstance(message, m.BatchUpdate | m.Progress):
            self._done[message.sender] = max(self._done.get(message.sender, -1), message.done)
            if isinstance(message, m.BatchUpdate) and message.batch > self.position:
                self._received.setdefault(message.batch, {})[message.sender] = message.update
        elif isinstance(message, m.Resend):
            # Only a process that was replaced requests an update that is not kept any more, and none waits
            # for it.
            update = self._sent.get(message.batch, {}).get(message.sender)
            if update is not None:
                done = self.position if self.ready else -1
                self._network.send(message.sender, m.BatchUpdate(self.number, message.batch, update, done))
        elif isinstance(message, m.RowsRequest):
            self._requests[message.sender] = message
        elif isinstance(message, m.PastRequest | m.MirrorRows) and self._is_for_me(message):
            if isinstance(message, m.MirrorRows):
                self._rows[message.sender] = message.rows
            else:
                self._target = max(self._target or 0, message.position)
                self._end = max(self._end, message.position)

    def _is_for_me(self, reply: m.PastRequest | m.MirrorRows) -> bool:
        return not self.ready and (reply.epoch, reply.at) == (self.epoch, self._requested)

    def request_again(self) -> None:
        """Request missing messages again; called several times a second."""
        self._forget()
        for other in self.shard.others:
            self._network.send(other, m.Progress(self.number, self.position if self.ready else -1))
        if self._target is None or self.position + 1 not in self._log:
            self._network.send(m.SEQUENCER, m.Fetch(self.number, self.position))
        if self.ready and self._planned > self.position:
            here = self._received.get(self._planned, {})
            for other in self.shard.others:
                if other not in here:
                    self._network.send(other, m.Resend(self.number, self._planned))
        if self._requested is not None and not self.ready:
            self._request_rows()

    # ---- entries ---------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Apply the next entry, or recover by one; return whether there was anything to do."""
        if self._requests:  # also if retired: a shard that is behind must learn that it has to replay on
            self._answer_requests()
        if self.number >= self.shard.shards:  # a resize to fewer shards retired this one
            return False
        return self._apply_next() if self.ready else self._recover()

    def _answer_requests(self) -> None:
        for sender, request in list(self._requests.items()):
            if request.at > self.position:
                continue
            del self._requests[sender]
            about = self.number, request.epoch, request.at
            if request.at < self.position:
                self._network.send(sender, m.PastRequest(*about, self.position))
            else:
                self._network.send(sender, m.MirrorRows(*about, self.shard.rows_for(request.mirrors)))

    def _plan(self, sequence: int, entry: m.Entry) -> None:
        if isinstance(entry, m.Events):
            self._sent[sequence] = self.shard.plan(entry.batch, entry.now)
        elif isinstance(entry, m.Remove):
            self._sent[sequence] = self.shard.plan_removal(entry.ids)
        else:
            owners = entry.owners(self.shard.slots, self.shard.shards)
            if owners[1] < self.shard.shards:
                self._left = sequence, self.shard.shards
            self._sent[sequence], leaving = self.shard.plan_move(*owners)
            for other, image in leaving.items():
                self.snapshots.hand_over(sequence, other, image)
        self._planned = sequence

    def _apply_next(self) -> bool:
        """Plan the next entry, and apply it if all updates are here; return whether it was applied.

        A shard that is not ready replays: it needs no updates, and sends its own if others request them.
        """
        following, shard = self.position + 1, self.shard
        entry = self._log.get(following)
        if entry is None:
            if following <= self._end and self._fetched != self.position:  # once; then see `request_again`
                self._fetched = self.position
                self._network.send(m.SEQUENCER, m.Fetch(self.number, self.position))
            return False
        if self._planned < following:
            self._plan(following, entry)  # before anything is waited for: others may wait for it, too
            if self.ready:
                for other in shard.others:
                    about = self.number, following, self._sent[following][other], self.position
                    self._network.send(other, m.BatchUpdate(*about))
        updates = None
        if self.ready:
            received = self._received.get(following, {})
            if any(other not in received for other in shard.others):
                return False
            updates = {other: received[other] for other in shard.others}
        applied = None
        if isinstance(entry, m.Events | m.Remove):
            applied = shard.apply(updates)
        else:
            arriving = self._arriving(following, entry)
            if arriving is None:
                return False
            shard.apply_move(updates, arriving)
        if self.ready:
            self.moved(following, applied)
        self._step_to(following)
        if self.ready and (isinstance(entry, m.Move | m.Resize) or following % self._every == 0):
            self._save(entry)
        return True

    def _arriving(self, sequence: int, entry: m.Move | m.Resize) -> list[GraphImage] | None:
        """Return the edges of nodes that an entry moves here; None until every shard handed its own over."""
        slots, shards = self.shard.slots, self.shard.shards
        gained = entry.owners(slots, shards)[0].owner == self.number
        senders = set(slots.owner[gained].tolist()) - {self.number}
        images = [self.snapshots.handed(sequence, sender) for sender in sorted(senders)]
        here = [image for image in images if image is not None]
        return here if len(here) == len(images) else None

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
            return self._apply_next()
        if self._requested != self.position:
            self._requested, self._rows = self.position, {}
            self._request_rows()
        if any(other not in self._rows for other in self.shard.others):
            return False
        for rows in self._rows.values():
            self.shard.take_rows(rows)
        self.shard.rebuild()
        self.ready, self._rows = True, {}
        return True

    def _request_rows(self) -> None:
        for other, mirrors in self.shard.mirrors().items():
            if other not in self._rows:
                self._network.send(other, m.RowsRequest(self.number, self.epoch, self.position, mirrors))

    # ---- snapshots -------------------------------------------------------------------------------------

    def _save(self, entry: m.Entry) -> None:
        shard = self.shard
        try:
            self.snapshots.save(m.ShardSnapshot(self.position, shard.slots, shard.shards, shard.image()))
        except OSError as error:
            if isinstance(entry, m.Move | m.Resize):
                raise
            # The log and an older snapshot have it, and the next one is soon.
            _LOG.warning("shard %d: the snapshot of entry %d failed: %s", self.number, self.position, error)

    def _forget(self) -> None:
        """Delete updates and snapshots that no other shard needs any longer."""
        known, others = self._done, self.shard.others
        done = min([self.position, *(known.get(other, -1) for other in others)])
        if self._left is not None and done < self._left[0]:
            # A shard before that entry may wait for one that goes, and that one for this one.
            everyone = range(self._left[1])
            done = min([done, *(known.get(other, -1) for other in everyone if other != self.number)])
        for sequence in [one for one in self._sent if one <= done]:
            del self._sent[sequence]
        older = [sequence for sequence in self.snapshots.sequences if sequence <= done]
        for sequence in older[:-1]:
            self.snapshots.drop(sequence)
