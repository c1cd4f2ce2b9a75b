"""A shard among others: takes entries of the log, tells and is told, recovers, and keeps snapshots.

No clock, no thread and no socket: whoever drives it calls `receive` and `tick`, and gives it a `Network`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dygcn.cluster.protocol import (
    SEQUENCER,
    Ahead,
    Ask,
    Entries,
    Events,
    Fetch,
    Hello,
    MirrorRows,
    Move,
    Remove,
    Resize,
    Snapshot,
    Status,
    Told,
)
from dygcn.cluster.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dygcn.cluster.messages import Forward
    from dygcn.cluster.protocol import Entry, Message, Network, SnapshotStore
    from dygcn.cluster.shard import Spread
    from dygcn.engine.graph.image import GraphImage
    from dygcn.engine.models import Model

_LOG = logging.getLogger(__name__)
_AHEAD = 64  # entries that are kept before they are needed


class Worker:
    """One shard, from its snapshot on.

    Parameters
    ----------
    number, epoch
        Which shard, and which of the processes that were ever started for it.
    snapshots
        Of this shard; there is at least one.
    every
        Batches between two snapshots.
    moved
        Called with a sequence and what it did to own nodes; None: it moved slots.

    Attributes
    ----------
    position
        The last entry that own edges reflect; of a whole shard, also all vectors.
    whole
        Whether vectors can be read: rows of mirrors and order 2 are there.
    changes, first_rows
        How many were told to others.
    """

    def __init__(
        self,
        number: int,
        epoch: int,
        model: Model,
        snapshots: SnapshotStore,
        network: Network,
        every: int = 1_000,
        moved: Callable[[int, Spread | None], None] | None = None,
    ) -> None:
        self.number, self.epoch = number, epoch
        self._snapshots, self._network, self._every, self._moved = snapshots, network, every, moved
        # The oldest: others may still ask for what was told of the batches behind it.
        snapshot = snapshots.load(snapshots.sequences()[0])
        self.shard = Shard(model, number, snapshot.slots, snapshot.shards)
        if snapshot.image is not None:
            self.shard.load(snapshot.image)
        self.position = self._settled = snapshot.sequence
        self.whole = False
        self.changes = self.first_rows = 0
        self._log: dict[int, Entry] = {}
        self._end = self._fetched = -1  # of the log, as far as is known; where entries were asked for
        self._target: int | None = None  # where the replay ends
        self._sent: dict[int, dict[int, Forward]] = {}
        self._received: dict[int, dict[int, Forward]] = {}
        self._done: dict[int, int] = {}  # of others, as far as is known
        self._left: tuple[int, int] | None = None  # the last entry with fewer shards, and how many there were
        self._rows: dict[int, Forward] = {}  # answers to the last hello
        self._said_hello: int | None = None
        self._asked: dict[int, Hello] = {}  # hellos that wait for this shard to come so far

    # ---- what comes in ---------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take a message, and do whatever can be done now."""
        self.take(message)
        self.advance()

    def take(self, message: Message) -> None:
        """Take a message, and leave what can be done to `step`."""
        if isinstance(message, Entries):
            self._take_entries(message)
        elif isinstance(message, Told):
            self._note(message.sender, message.done)
            if message.batch > self.position:
                self._received.setdefault(message.batch, {})[message.sender] = message.forward
        elif isinstance(message, Status):
            self._note(message.sender, message.done)
        elif isinstance(message, Ask):
            self._tell_again(message)
        elif isinstance(message, Hello):
            self._asked[message.sender] = message
        elif isinstance(message, Ahead):
            if self._is_for_me(message):
                self._target = max(self._target or 0, message.position)
        elif isinstance(message, MirrorRows) and self._is_for_me(message):
            self._rows[message.sender] = message.rows

    def _is_for_me(self, answer: Ahead | MirrorRows) -> bool:
        """Say whether an answer is to the last hello of this process."""
        return not self.whole and (answer.epoch, answer.at) == (self.epoch, self._said_hello)

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

    def _tell_again(self, message: Ask) -> None:
        # Only one that has a successor asks for what is kept no longer, and nobody waits for that one.
        told = self._sent.get(message.batch)
        if told is not None and message.sender in told:
            self._tell(message.sender, message.batch, told[message.sender])

    def tick(self) -> None:
        """Ask again for what is missing, and do whatever can be done now."""
        self.ask_again()
        self.advance()

    def ask_again(self) -> None:
        """Ask again for what is missing; to be called some times a second."""
        for other in self.others:
            self._network.send(other, Status(self.number, self._own_done))
        if self._target is None or self.position + 1 not in self._log:
            self._network.send(SEQUENCER, Fetch(self.number, self.position))
        if self.whole and self._settled > self.position:
            here = self._received.get(self._settled, {})
            for other in self.others:
                if other not in here:
                    self._network.send(other, Ask(self.number, self._settled))
        if self._said_hello is not None and not self.whole:
            self._say_hello()

    def _fetch(self) -> None:
        """Ask for the next entries, once: `ask_again` does it after that."""
        if self._fetched != self.position:
            self._fetched = self.position
            self._network.send(SEQUENCER, Fetch(self.number, self.position))

    # ---- going on --------------------------------------------------------------------------------------

    @property
    def others(self) -> list[int]:
        """The other shards."""
        return [other for other in range(self.shard.shards) if other != self.number]

    @property
    def _own_done(self) -> int:
        return self.position if self.whole else -1

    @property
    def kept(self) -> int:
        """The oldest snapshot: a successor begins there, so the log must reach back to it."""
        return self._snapshots.sequences()[0]

    @property
    def retired(self) -> bool:
        """Whether there are fewer shards now, and this one is not among them."""
        return self.number >= self.shard.shards

    def advance(self) -> None:
        """Do whatever can be done with what is here."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do the next of what can be done, a batch at most; say whether there was anything."""
        self._answer_hellos()  # also if retired: who is behind has to know that it must replay on
        if self.retired:
            return False
        return self._spread_next() if self.whole else self._recover()

    def _answer_hellos(self) -> None:
        for sender, hello in list(self._asked.items()):
            if hello.at > self.position:
                continue
            del self._asked[sender]
            about = self.number, hello.epoch, hello.at
            if hello.at < self.position:
                self._network.send(sender, Ahead(*about, self.position))
            else:
                self._network.send(sender, MirrorRows(*about, self.shard.rows_for(hello.mirrors)))

    def _settle(self, sequence: int, entry: Entry) -> None:
        """See what an entry means, and keep what others have to be told of it."""
        if isinstance(entry, Events):
            self._sent[sequence] = self.shard.settle(entry.batch, entry.now)
        elif isinstance(entry, Remove):
            self._sent[sequence] = self.shard.settle_removal(entry.ids)
        else:
            owners = entry.owners(self.shard.slots, self.shard.shards)
            if owners[1] < self.shard.shards:
                self._left = sequence, self.shard.shards
            self._sent[sequence], leaving = self.shard.settle_move(*owners)
            for other, image in leaving.items():
                self._snapshots.hand_over(sequence, other, image)
        self._settled = sequence

    def _spread_next(self) -> bool:
        """Take the next entry; say whether it is done."""
        following = self.position + 1
        entry = self._log.get(following)
        if entry is None:
            if following <= self._end:
                self._fetch()
            return False
        if self._settled < following:
            self._settle(following, entry)
            for other in self.others:
                self._tell(other, following, self._sent[following][other])
        told = self._received.get(following, {})
        if any(other not in told for other in self.others):
            return False
        here = {other: told[other] for other in self.others}
        if isinstance(entry, Events | Remove):
            spread = self.shard.spread(here)
            if self._moved is not None:
                self._moved(following, spread)
        else:
            arriving = self._arriving(following, entry)
            if arriving is None:
                return False
            self.shard.spread_move(here, arriving)
            if self._moved is not None:
                self._moved(following, None)
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
        """Return the edges of nodes that an entry brings; None: not all shards have handed over yet."""
        slots, shards = self.shard.slots, self.shard.shards
        gained = entry.owners(slots, shards)[0].owner == self.number
        senders = set(slots.owner[gained].tolist()) - {self.number}
        images = [self._snapshots.handed(sequence, sender) for sender in sorted(senders)]
        here = [image for image in images if image is not None]
        return here if len(here) == len(images) else None

    def _tell(self, other: int, sequence: int, forward: Forward) -> None:
        self.changes += len(forward.change)
        self.first_rows += len(forward.degree)
        self._network.send(other, Told(self.number, sequence, forward, self._own_done))

    def _step_to(self, sequence: int) -> None:
        self.position = sequence
        self._log.pop(sequence, None)
        self._received.pop(sequence, None)
        self._forget()

    # ---- recovery --------------------------------------------------------------------------------------

    def _recover(self) -> bool:
        """Replay the log up to its end, then ask for the rows of mirrors; say whether there is more to do."""
        if self._target is None:
            return False
        if self.position < self._target:
            return self._replay_next()
        if self._said_hello != self.position:
            self._said_hello, self._rows = self.position, {}
            self._say_hello()
        if any(other not in self._rows for other in self.others):
            return False
        for rows in self._rows.values():
            self.shard.take_rows(rows)
        self.shard.rebuild()
        self.whole, self._rows = True, {}
        return True

    def _replay_next(self) -> bool:
        following = self.position + 1
        entry = self._log.get(following)
        if entry is None:
            self._fetch()
            return False
        if isinstance(entry, Events | Remove):
            self._settle(following, entry)
            self.shard.replay()
        else:
            if self._settled < following:
                self._settle(following, entry)  # first: others may wait for it, too
            arriving = self._arriving(following, entry)
            if arriving is None:
                return False
            self.shard.spread_move(None, arriving)
        self._step_to(following)
        return True

    def _say_hello(self) -> None:
        for other, mirrors in self.shard.mirrors().items():
            if other not in self._rows:
                self._network.send(other, Hello(self.number, self.epoch, self.position, mirrors))

    # ---- what is kept ----------------------------------------------------------------------------------

    def _save(self) -> None:
        shard = self.shard
        self._snapshots.save(Snapshot(self.position, shard.slots, shard.shards, shard.image()))
        self._forget()

    def _done_by(self, others: Iterable[int]) -> int:
        return min([self.position, *(self._done.get(other, -1) for other in others)])

    def _forget(self) -> None:
        """Forget what nobody can need any more: what was told, and snapshots."""
        done = self._done_by(self.others)
        if self._left is not None:
            sequence, shards = self._left
            if done < sequence:  # whoever is not so far may wait for one that goes, and that one for me
                done = self._done_by(other for other in range(shards) if other != self.number)
            else:
                self._left = None
        for sequence in [one for one in self._sent if one <= done]:
            del self._sent[sequence]
        older = [sequence for sequence in self._snapshots.sequences() if sequence <= done]
        for sequence in older[:-1]:
            self._snapshots.drop(sequence)
