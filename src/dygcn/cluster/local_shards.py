"""Shards in this process: for tests, and to try a cluster without one."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dygcn.cluster.edge_images import part_for
from dygcn.cluster.front_state import FrontState
from dygcn.cluster.messages import SEQUENCER, Entries, Fetch, ShardSnapshot
from dygcn.cluster.query_handlers import QueryHandlers
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.store import SnapshotFolder
from dygcn.cluster.worker import Sequencer, Worker
from dygcn.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dygcn.cluster.messages import Entry, EntryLog, Message
    from dygcn.cluster.queries import Query
    from dygcn.cluster.shard import Applied
    from dygcn.engine.graph.image import GraphImage
    from dygcn.engine.models import Model, State

_ROUNDS = 100  # of requesting again, after which no reply will come


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
        """Return entries after a sequence."""
        return self._entries[after : after + count]


@dataclass
class MemoryStore:
    """Snapshots in memory; `stores` are those of all shards."""

    number: int
    stores: Mapping[int, MemoryStore] | Sequence[MemoryStore]
    snapshots: dict[int, ShardSnapshot] = field(default_factory=dict)
    arrivals: dict[tuple[int, int], GraphImage] = field(default_factory=dict)

    def begin(self, snapshot: ShardSnapshot) -> None:
        """Keep a snapshot and delete all others."""
        self.snapshots = {snapshot.sequence: snapshot}

    def save(self, snapshot: ShardSnapshot) -> None:
        """Keep a snapshot."""
        self.snapshots[snapshot.sequence] = snapshot

    def sequences(self) -> list[int]:
        """Return the sequences of all snapshots, in order."""
        return sorted(self.snapshots)

    def load(self, sequence: int) -> ShardSnapshot:
        """Return a snapshot."""
        return self.snapshots[sequence]

    def drop(self, sequence: int) -> None:
        """Delete a snapshot, and what was handed over up to the oldest one that is left."""
        self.snapshots.pop(sequence, None)
        for key in [key for key in self.arrivals if key[0] <= min(self.snapshots)]:
            del self.arrivals[key]

    def hand_over(self, sequence: int, to: int, image: GraphImage) -> None:
        """Keep edges for another shard."""
        self.stores[to].arrivals[sequence, self.number] = image

    def handed(self, sequence: int, sender: int) -> GraphImage | None:
        """Return what a shard handed over; raise `ClusterError` if it was deleted already."""
        if (sequence, sender) not in self.arrivals and min(self.snapshots) >= sequence:
            raise ClusterError(f"edges of entry {sequence} were forgotten")
        return self.arrivals.get((sequence, sender))


class LocalShards:
    """Workers that hand each other messages; their snapshots are in a folder or, without one, in memory."""

    def __init__(self, model: Model, log: EntryLog, every: int = 1_000, folder: str | None = None) -> None:
        self._model, self._every, self._folder = model, every, folder
        self._sequencer = Sequencer(log, self)
        self._in_memory: dict[int, MemoryStore] = {}
        self.workers: dict[int, Worker] = {}
        self._handlers: dict[int, QueryHandlers] = {}
        self._waiting: deque[tuple[int, Message]] = deque()
        self._one_at_a_time = threading.RLock()
        self._epoch = 0

    def _store(self, number: int) -> MemoryStore | SnapshotFolder:
        if self._folder is not None:
            return SnapshotFolder(self._folder, number)
        return self._in_memory.setdefault(number, MemoryStore(number, self._in_memory))

    def add(self, number: int, snapshot: ShardSnapshot) -> None:
        """Begin a shard."""
        self._in_memory.pop(number, None)
        self._store(number).begin(snapshot)
        self.restart(number)

    def restart(self, number: int) -> None:
        """Replace a worker by a new one, which begins with its snapshots."""
        self._epoch += 1
        self._handlers[number] = QueryHandlers()
        about = number, self._epoch, self._model, self._store(number), self, self._every
        self.workers[number] = Worker(*about, partial(self._note, number))

    def _note(self, number: int, sequence: int, applied: Applied | None) -> None:
        self._handlers[number].note(sequence, applied, self.workers[number])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_one_at_a_time"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_at_a_time=threading.RLock())  # a copy has a lock of its own

    def retire(self, number: int) -> None:
        """End a shard."""
        del self.workers[number], self._handlers[number]

    def announce(self, entries: Entries) -> None:
        """Send all shards entries."""
        for number in self.workers:
            self.send(number, entries)

    def send(self, to: int, message: Message) -> None:
        """Keep a message until the next query."""
        self._waiting.append((to, message))

    def query(self, queries: Mapping[int, Query]) -> dict[int, Any]:
        """Send queries to shards; all messages are delivered first."""
        with self._one_at_a_time:
            replies: dict[int, Any] = {}
            for _ in range(_ROUNDS):
                self._deliver()
                for number, query in queries.items():
                    if number not in replies and number in self.workers:
                        reply = self._handlers[number].reply(self.workers[number], query)
                        if reply is not None:
                            replies[number] = reply
                if len(replies) == len(queries):
                    return replies
                for worker in list(self.workers.values()):
                    worker.tick()
            missing = sorted(set(queries) - set(replies))
            raise ClusterError(f"shards {missing} have no answer; start the cluster again")

    def _deliver(self) -> None:
        while self._waiting:
            to, message = self._waiting.popleft()
            if to == SEQUENCER:
                assert isinstance(message, Fetch)
                self._sequencer.receive(message)
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
        processes.add(number, ShardSnapshot(0, slots, shards, part_for(image, slots, number)))
    return FrontState(state.model, processes, _Numbers(log, processes), 0)
