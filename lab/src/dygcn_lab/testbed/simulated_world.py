"""What a simulated cluster has beside its processes: weather, disks, and the truth to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dygcn.cluster.messages import Entries, Entry, Events, Fetch, Network, Remove
from dygcn.cluster.worker import send_entries
from dygcn.engine.events import id_column, python_ids
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.live.files import digest_of


@dataclass(frozen=True)
class Weather:
    """What goes wrong, and how often."""

    shards: int
    directed: bool
    half_life: float | None
    contacts: bool
    weighted: bool
    rows: bool  # the model has rows for some nodes; else features are hashed
    kind: str
    batches: int
    nodes: int
    loss: float
    twice: float
    delay: float
    every: int  # batches between snapshots
    faults: float  # a second
    moves: float  # share of entries that move slots

    @classmethod
    def of(cls, random: np.random.Generator) -> Weather:
        """Draw one."""
        return cls(
            shards=int(
                random.choice([1, 2, 3, 4, 6, 8], p=[0.1, 0.3, 0.25, 0.25, 0.05, 0.05])
            ),  # P^2 messages
            directed=bool(random.integers(2)),
            half_life=[None, 3.0][random.integers(2)],
            contacts=bool(random.integers(2)),
            weighted=bool(random.integers(2)),
            rows=bool(random.integers(2)),
            kind=str(random.choice(["int64", "string"])),
            batches=int(random.integers(4, 25)),
            nodes=int(random.integers(4, 40)),
            loss=float(random.choice([0.0, 0.02, 0.1, 0.3])),
            twice=float(random.choice([0.0, 0.1])),
            delay=float(random.choice([0.001, 0.02, 0.2])),
            every=int(random.integers(1, 8)),
            faults=float(random.choice([0.0, 1.0, 4.0])),
            moves=float(random.choice([0.0, 0.1, 0.3])),
        )

    @property
    def expire(self) -> float | None:
        """How long edges stay after their last contact, where contacts are kept and no ghosts."""
        kept = self.contacts and self.half_life is None
        return [None, 0.5, 2.0, 8.0][self.batches % 4] if kept else None


@dataclass
class DiskLog:
    """The log of the sequencer."""

    entries: list[tuple[Entry, str, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The last sequence."""
        return len(self.entries)

    def append(self, entry: Entry, client: str, position: int) -> int:
        """Write an entry."""
        self.entries.append((entry, client, position))
        return len(self.entries)

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries behind a sequence."""
        return [entry for entry, _, _ in self.entries[after : after + count]]

    def last_of(self, client: str) -> int:
        """Return the greatest place of a client."""
        return max((place for _, name, place in self.entries if name == client), default=-1)


class LoggingSequencer:
    """Logs what clients send, each entry once, and sends entries to shards."""

    def __init__(self, log: DiskLog, network: Network, shards: int) -> None:
        self._disk, self._network, self.shards = log, network, shards

    def receive(self, message: Fetch) -> None:
        """Send a shard the entries that it requests."""
        log: Any = self._disk  # with the methods of `LoggedEntries`
        send_entries(log, self._network, message)

    def append(self, entry: Entry, client: str, position: int) -> int | None:
        """Log an entry and tell the shards; None: it is in the log already."""
        if position <= self._disk.last_of(client):
            return None
        sequence = self._disk.append(entry, client, position)
        for shard in range(self.shards):
            self._network.send(shard, Entries(sequence - 1, (entry,), sequence))
        return sequence


class Oracle:
    """One process with the same entries, and what every sequence looked like."""

    def __init__(self, model: Model) -> None:
        self._state = State(model)
        self.rows: list[dict[Any, tuple[bytes, ...]]] = [{}]

    def digest(self) -> str:
        """Return the digest of now."""
        return digest_of(self._state)

    def apply(self, entry: Entry) -> None:
        """Take the next entry."""
        if isinstance(entry, Events):
            self._state.apply(entry.batch, entry.now)
        elif isinstance(entry, Remove):
            nodes = self._state.graph.find(entry.ids)
            with self._state.changing:
                self._state.remove(nodes[nodes >= 0])
        self.rows.append(rows_of(self._state.graph, self._state.exact, self._state.graph.nodes()))


def model_of(w: Weather, random: np.random.Generator) -> Model:
    """Return a small model."""
    how: dict[str, Any] = {
        "directed": w.directed,
        "half_life": w.half_life,
        "unit": 1.0 if w.contacts else None,
        "expire": w.expire,
    }
    if not w.rows:
        return Model((np.eye(4, dtype=np.float32),) * 3, w.kind, "hashed", np.ones(4), **how)
    known = random.permutation(w.nodes)[: w.nodes // 2 + 1]
    values = random.normal(size=(len(known), 4)).astype(np.float32)
    table = RowTable.of(id_column(named(known, w.kind)), values)
    weights = (np.ones((1, 1), np.float32),) * 3
    return Model(weights, w.kind, "walks", np.full(4, table.scale), table=table, **how)


def named(numbers: Any, kind: str) -> list[Any]:
    """Return ids for numbers."""
    return numbers.tolist() if kind == "int64" else [f"n{number}" for number in numbers]


def rows_of(graph: Any, rule: Any, nodes: Any) -> dict[Any, tuple[bytes, ...]]:
    """Return degrees, sums and contacts of nodes, by id."""
    names = python_ids(graph.ids.names(nodes)).tolist()
    orders = range(1, rule.orders + 1)
    parts = [part for order in orders for part in rule.whole_sums(graph, nodes, order)]
    if graph.contacts is not None:
        parts += [graph.contacts.times[nodes], graph.contacts.counts[nodes]]
    return {name: tuple(part[i].tobytes() for part in parts) for i, name in enumerate(names)}


def ids_of(names: list[Any], kind: str) -> Any:
    """Return a column of ids, also of none."""
    if names:
        return id_column(names)
    return id_column(np.empty(0, np.int64) if kind == "int64" else np.empty(0, "U1"))
