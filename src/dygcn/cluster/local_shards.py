"""Shards in this process: for tests, and to try a cluster without one."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dygcn.cluster.answering import Answering
from dygcn.cluster.dividing import part_for
from dygcn.cluster.front_state import FrontState
from dygcn.cluster.protocol import SEQUENCER, Entries, Fetch, Snapshot
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.store import SnapshotFolder
from dygcn.cluster.worker import Worker
from dygcn.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dygcn.cluster.logged_entries import LoggedEntries
    from dygcn.cluster.protocol import Entry, Message
    from dygcn.cluster.shard import Spread
    from dygcn.engine.graph.image import GraphImage
    from dygcn.engine.models import Model, State

_ROUNDS = 100  # of asking again, after which nothing will come of it


class MemoryLog:
    """Entries in memory, from 1 on."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    @property
    def end(self) -> int:
        """The last sequence."""
        return len(self._entries)

    def append(self, entry: Entry) -> int:
        """Keep an entry; return its sequence."""
        self._entries.append(entry)
        return len(self._entries)

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries behind a sequence."""
        return self._entries[after : after + count]


@dataclass
class MemoryStore:
    """Snapshots in memory; those of all shards know each other."""

    number: int
    everyones: Mapping[int, MemoryStore] | Sequence[MemoryStore]
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    arrivals: dict[tuple[int, int], GraphImage] = field(default_factory=dict)

    def begin(self, snapshot: Snapshot) -> None:
        """Keep a snapshot and no other."""
        self.snapshots = {snapshot.sequence: snapshot}

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot."""
        self.snapshots[snapshot.sequence] = snapshot

    def sequences(self) -> list[int]:
        """Return the sequences of all snapshots, in order."""
        return sorted(self.snapshots)

    def load(self, sequence: int) -> Snapshot:
        """Return a snapshot."""
        return self.snapshots[sequence]

    def drop(self, sequence: int) -> None:
        """Forget a snapshot, and what was handed over up to the oldest one that is left."""
        self.snapshots.pop(sequence, None)
        for key in [key for key in self.arrivals if key[0] <= min(self.snapshots)]:
            del self.arrivals[key]

    def hand_over(self, sequence: int, to: int, image: GraphImage) -> None:
        """Keep edges for another shard."""
        self.everyones[to].arrivals[sequence, self.number] = image

    def handed(self, sequence: int, sender: int) -> GraphImage | None:
        """Return what a shard handed over.

        Raises
        ------
        ClusterError
            If it was forgotten already: whoever was taken for dead has a newer snapshot to begin with.
        """
        if (sequence, sender) not in self.arrivals and min(self.snapshots) >= sequence:
            raise ClusterError(f"edges of entry {sequence} were forgotten")
        return self.arrivals.get((sequence, sender))


class LocalShards:
    """Workers that hand each other their messages.

    Parameters
    ----------
    model
        What they compute.
    log
        Where they fetch entries.
    every
        Batches between two snapshots.
    folder
        Where snapshots lie; None: in memory.
    """

    def __init__(
        self, model: Model, log: MemoryLog | LoggedEntries, every: int = 1_000, folder: str | None = None
    ) -> None:
        self._model, self._log, self._every, self._folder = model, log, every, folder
        self._in_memory: dict[int, MemoryStore] = {}
        self.workers: dict[int, Worker] = {}
        self._answering: dict[int, Answering] = {}
        self._waiting: deque[tuple[int, Message]] = deque()
        self._one_at_a_time = threading.RLock()
        self._epoch = 0

    def _store(self, number: int) -> MemoryStore | SnapshotFolder:
        if self._folder is not None:
            return SnapshotFolder(self._folder, number)
        return self._in_memory.setdefault(number, MemoryStore(number, self._in_memory))

    def add(self, number: int, snapshot: Snapshot) -> None:
        """Begin a shard."""
        self._in_memory.pop(number, None)
        self._store(number).begin(snapshot)
        self.restart(number)

    def restart(self, number: int) -> None:
        """Put a new worker in the place of one, which begins with its snapshots."""
        self._epoch += 1
        self._answering[number] = Answering()
        worker = Worker(
            number,
            self._epoch,
            self._model,
            self._store(number),
            self,
            self._every,
            partial(self._note, number),
        )
        self.workers[number] = worker

    def _note(self, number: int, sequence: int, spread: Spread | None) -> None:
        self._answering[number].note(sequence, spread, self.workers[number])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_one_at_a_time"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_at_a_time=threading.RLock())  # a copy has a lock of its own

    def retire(self, number: int) -> None:
        """End a shard."""
        del self.workers[number], self._answering[number]

    def announce(self, entries: Entries) -> None:
        """Tell all shards of entries."""
        for number in self.workers:
            self.send(number, entries)

    def send(self, to: int, message: Message) -> None:
        """Carry a message."""
        self._waiting.append((to, message))

    def ask(self, questions: Mapping[int, Any]) -> dict[int, Any]:
        """Ask shards; all messages are carried first."""
        with self._one_at_a_time:
            return self._asked(questions)

    def _asked(self, questions: Mapping[int, Any]) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        for _ in range(_ROUNDS):
            self._carry()
            for number, question in questions.items():
                if number not in answers and number in self.workers:
                    found = self._answering[number].answer(self.workers[number], question)
                    if found is not None:
                        answers[number] = found
            if len(answers) == len(questions):
                return answers
            for worker in list(self.workers.values()):
                worker.tick()
        missing = sorted(set(questions) - set(answers))
        raise ClusterError(f"shards {missing} have no answer; start the cluster again")

    def _carry(self) -> None:
        while self._waiting:
            to, message = self._waiting.popleft()
            if to == SEQUENCER:
                assert isinstance(message, Fetch)
                entries = tuple(self._log.read(message.after, 64))
                self.send(message.sender, Entries(message.after, entries, self._log.end))
            elif to in self.workers:
                self.workers[to].receive(message)

    def close(self) -> None:
        """End all."""
        self.workers.clear()


class _Numbers:
    """Gives numbers to entries of a log in memory."""

    def __init__(self, log: MemoryLog, shards: LocalShards) -> None:
        self._log, self._shards = log, shards

    def commit(self, entry: Entry) -> int:
        """Return the number of an entry."""
        number = self._log.append(entry)
        self._shards.announce(Entries(number - 1, (entry,), number))
        return number


def divide(state: State, shards: int, every: int = 1_000) -> FrontState:
    """Return the same graph on shards in this process.

    Examples
    --------
    >>> import dygcn
    >>> from dygcn.live import LiveEmbedding
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "dan")], dim=8)
    >>> on_shards = LiveEmbedding(divide(live._state, 3))
    >>> for each in (live, on_shards):
    ...     _ = each.update(add=[("dan", "eve")], remove=[("ann", "bob")])
    >>> on_shards.digest() == live.digest()
    True
    """
    log = MemoryLog()
    processes, slots = LocalShards(state.model, log, every), SlotMap.even(shards)
    image = state.image()[0].graph
    for number in range(shards):
        processes.add(number, Snapshot(0, slots, shards, part_for(image, slots, number)))
    return FrontState(state.model, processes, _Numbers(log, processes), 0)
