"""What processes of a cluster say to each other, and what the log of a cluster holds.

A message of a batch is a function of the log, its sender and its receiver. So it may be lost, come twice or
late, or come from a process that has a successor already: whoever waits asks again, and whoever has it
ignores it. Answers to `Hello` are of a moment, and name the one who asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dygcn.cluster.slots import SlotMap

if TYPE_CHECKING:
    from dygcn.cluster.messages import Forward
    from dygcn.engine.graph.image import GraphImage
    from dygcn.engine.records import EventBatch, IdColumn


# ---- the log ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Events:
    """A batch of events."""

    batch: EventBatch
    now: float | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Nodes that leave, with their edges and what is remembered of these."""

    ids: IdColumn


@dataclass(frozen=True, slots=True)
class Move:
    """Slots that another shard owns from now on."""

    slots: tuple[int, ...]
    to: int

    def owners(self, slots: SlotMap, shards: int) -> tuple[SlotMap, int]:
        """Return who owns which slot afterwards, and how many shards there are."""
        return slots.moved(list(self.slots), self.to), shards


@dataclass(frozen=True, slots=True)
class Resize:
    """Another number of shards; those that come own nothing yet, those that go own nothing any more."""

    shards: int

    def owners(self, slots: SlotMap, shards: int) -> tuple[SlotMap, int]:
        """Return who owns which slot afterwards, and how many shards there are."""
        return slots, self.shards


Entry: TypeAlias = Events | Remove | Move | Resize


# ---- between the sequencer and shards --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fetch:
    """A shard asks for entries of the log."""

    sender: int
    after: int


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of the log, the first of which has the sequence `after` + 1; `end` is the last there is."""

    after: int
    entries: tuple[Entry, ...]
    end: int


# ---- between shards --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """What a shard tells another of a batch, and how far it is itself."""

    sender: int
    batch: int
    forward: Forward
    done: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A shard waits for what another tells of a batch."""

    sender: int
    batch: int


@dataclass(frozen=True, slots=True)
class Status:
    """How far a shard is: the last batch that it has spread."""

    sender: int
    done: int


@dataclass(frozen=True, slots=True)
class Hello:
    """A shard that was started asks an owner for the rows of its mirrors, as of the end of a batch."""

    sender: int
    epoch: int
    at: int
    mirrors: IdColumn


@dataclass(frozen=True, slots=True)
class Ahead:
    """The answer to `Hello` of one who is past that batch."""

    sender: int
    epoch: int  # of the one who asked
    at: int  # which was asked for
    position: int


@dataclass(frozen=True, slots=True)
class MirrorRows:
    """The answer to `Hello`."""

    sender: int
    epoch: int  # of the one who asked
    at: int  # which was asked for
    rows: Forward


Message: TypeAlias = Fetch | Entries | Told | Ask | Status | Hello | Ahead | MirrorRows

SEQUENCER = -1
"""In the place of a shard's number."""


class Network(Protocol):
    """Carries messages. Any may be lost, come twice, late, or in another order."""

    def send(self, to: int, message: Message) -> None:
        """Send a message to a shard, or to `SEQUENCER`; never waits."""


# ---- snapshots -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The edges of a shard's own nodes at the end of a batch; all else follows."""

    sequence: int
    slots: SlotMap
    shards: int
    image: GraphImage | None  # None: no node


class SnapshotStore(Protocol):
    """Where snapshots of one shard are kept, and edges that other shards hand over to it.

    What is handed over stays until no snapshot is left that is older: whoever is started with such a one
    comes by the move again, and the shard that handed over may not.
    """

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; when it returns, it is on disk."""

    def sequences(self) -> list[int]:
        """Return the sequences of the snapshots that are kept, in order."""

    def load(self, sequence: int) -> Snapshot:
        """Read a snapshot."""

    def drop(self, sequence: int) -> None:
        """Forget a snapshot, and what was handed over up to the oldest one that is left."""

    def hand_over(self, sequence: int, to: int, image: GraphImage) -> None:
        """Keep edges of nodes that another shard owns from an entry on; when it returns, it is on disk."""

    def handed(self, sequence: int, sender: int) -> GraphImage | None:
        """Return what a shard handed over at an entry, None if it has not yet."""
