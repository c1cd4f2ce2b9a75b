"""A state that is divided among shards in this process, with its log and snapshots in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dygcn.cluster.edge_images import part_for
from dygcn.cluster.front import FrontState
from dygcn.cluster.launching import LocalShards
from dygcn.cluster.messages import Entries, Entry, ShardSnapshot
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import moment
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.graph.screening import check_batch
from dygcn.engine.models.contracts import Outcome
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import Changed, EventBatch
from dygcn.errors import ClusterError


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

    @property
    def sequences(self) -> list[int]:
        """The sequences of all snapshots, in order."""
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


class MemoryLog:
    """Entries in memory, from 1 on, which numbers them and sends them to shards."""

    shards: LocalShards

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    @property
    def end(self) -> int:
        """The last sequence."""
        return len(self._entries)

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries after a sequence."""
        return self._entries[after : after + count]

    def commit(self, entry: Entry) -> int:
        """Keep an entry, and send it to shards; return its sequence."""
        self._entries.append(entry)
        self.shards.announce(Entries(self.end - 1, (entry,), self.end))
        return self.end


class MemoryShards(LocalShards):
    """Shards whose snapshots are in memory. Copies have a lock of their own."""

    def __init__(self, model: Model, log: MemoryLog, every: int) -> None:
        as_logged: Any = log  # it has what shards call
        super().__init__(model, as_logged, "", every)
        self._stores: dict[int, MemoryStore] = {}

    def _store(self, number: int) -> Any:
        return self._stores.setdefault(number, MemoryStore(number, self._stores))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_one_at_a_time"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_at_a_time=threading.RLock())


class DividedState(FrontState):
    """A front without a write-ahead log: it checks batches itself."""

    def stage(self, batch: EventBatch, now: float | None = None) -> None:
        """Check events, and stage them."""
        check_batch(self.graph, batch, None if now is None else moment(now))
        super().stage(batch, now)

    def bulk(self, batches: Iterable[EventBatch]) -> tuple[Outcome, Exception | None]:
        """Apply batches one after the other; all nodes count as moved."""
        counts, failure = np.zeros(3, np.int64), None
        try:
            for batch in batches:
                self.stage(batch)
                done = self.write()
                counts += (done.unchanged, done.missing, done.loops)
        except Exception as error:
            failure = error
        all_nodes = self.graph.nodes()
        moved = Changed(all_nodes, np.ones(len(all_nodes), np.int8), self.model.orders * len(all_nodes))
        nobody, expired = self.transaction.nobody, self.transaction.expired
        unchanged, missing, loops = counts.tolist()
        return Outcome(moved, nobody, unchanged, missing, loops, expired=expired), failure


def divide(state: State, shards: int, every: int = 1_000) -> DividedState:
    """Return the same graph on shards in this process."""
    log, slots = MemoryLog(), SlotMap.even(shards)
    log.shards = processes = MemoryShards(state.model, log, every)
    image = state.image()[0].graph
    for number in range(shards):
        processes.add(number, ShardSnapshot(0, slots, shards, part_for(image, slots, number)))
    return DividedState(state.model, processes, log.commit, 0)
