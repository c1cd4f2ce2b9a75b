"""What processes of a cluster send each other, and what the log of a cluster holds.

A message about a batch follows from the log, its sender and its receiver alone. So it may be lost, arrive
twice or late, or come from a process that was replaced: the receiver requests it again, or ignores it.
Replies to `RowsRequest` describe one moment, and name the process that asked. Queries and replies: see
`queries`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from dygcn.cluster.slots import SlotMap
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.records import EventBatch, IdColumn, Int64

SEQUENCER = -1  # the number of the process that writes the log, where others have the number of their shard


class Record(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of everything that is sent or stored; `wire` turns records into bytes."""


# ---- the log ---------------------------------------------------------------------------------------------


class Events(Record, frozen=True):
    """A batch of events."""

    batch: EventBatch
    now: float | None = None


class Remove(Record, frozen=True):
    """Nodes that leave, with their edges and ghosts."""

    ids: IdColumn


class Move(Record, frozen=True):
    """Slots that another shard owns from now on."""

    slots: tuple[int, ...]
    to: int

    def owners(self, slots: SlotMap, shards: int) -> tuple[SlotMap, int]:
        """Return the slot map afterwards, and how many shards there are."""
        return slots.moved(list(self.slots), self.to), shards


class Resize(Record, frozen=True):
    """Another number of shards; new ones own nothing yet, those that go own nothing any more."""

    shards: int

    def owners(self, slots: SlotMap, shards: int) -> tuple[SlotMap, int]:
        """Return the slot map afterwards, and how many shards there are."""
        return slots, self.shards


Entry: TypeAlias = Events | Remove | Move | Resize


class Fetch(Record, frozen=True):
    """A shard requests entries of the log."""

    sender: int
    after: int


class Entries(Record, frozen=True):
    """Entries of the log, the first of which has the sequence `after` + 1; `end` is the last in the log."""

    after: int
    entries: tuple[Entry, ...]
    end: int


# ---- between shards --------------------------------------------------------------------------------------


class MirrorUpdate(Record, frozen=True):
    """What one shard sends another about one batch; empty columns if there is nothing to send.

    The node of a change is mirrored by the receiving shard before and after the batch; the node that it
    aggregates may be any. A row is as of the end of the batch.
    """

    node: IdColumn  # (c,)
    aggregated: IdColumn  # (c,)
    change: Int64  # (c,) of the weight, on the grid
    new: IdColumn  # (r,) nodes that the receiving shard begins to mirror
    degree: Int64  # (r,)
    rows: Int64  # (r, width) sums of order 1


class BatchUpdate(Record, frozen=True):
    """The mirror update of one batch, and the last batch that its sender applied."""

    sender: int
    batch: int
    update: MirrorUpdate
    done: int


class Resend(Record, frozen=True):
    """A shard requests the update of a batch again."""

    sender: int
    batch: int


class Progress(Record, frozen=True):
    """The last batch that a shard applied."""

    sender: int
    done: int


class RowsRequest(Record, frozen=True):
    """A shard that was started requests rows of its mirrors, as of the end of a batch, from their owner."""

    sender: int
    epoch: int
    at: int
    mirrors: IdColumn


class PastRequest(Record, frozen=True):
    """The reply to `RowsRequest` of a shard that applied later batches already."""

    sender: int
    epoch: int  # of the process that asked
    at: int  # which it asked for
    position: int


class MirrorRows(Record, frozen=True):
    """The reply to `RowsRequest`."""

    sender: int
    epoch: int  # of the process that asked
    at: int  # which it asked for
    rows: MirrorUpdate


Message: TypeAlias = (
    Fetch | Entries | BatchUpdate | Resend | Progress | RowsRequest | PastRequest | MirrorRows
)


# ---- membership ------------------------------------------------------------------------------------------


class Member(Record, frozen=True):
    """A process: its shard (or `SEQUENCER`), which of the processes started for it, and its address."""

    number: int
    epoch: int
    location: str


class Members(Record, frozen=True):
    """All processes that are known; a later version replaces an earlier one."""

    front: int  # epoch of the front that sends this
    version: int
    all: tuple[Member, ...]


class Register(Record, frozen=True):
    """A process that starts requests its epoch."""

    number: int
    location: str


class Welcome(Record, frozen=True):
    """The reply to `Register`."""

    epoch: int
    members: Members


class Beat(Record, frozen=True):
    """A process lives; the reply is `Members`, or `Replaced`."""

    member: Member
    pid: int


class Replaced(Record, frozen=True):
    """The reply to a process that has a successor: it must end."""


class Failed(Record, frozen=True):
    """A process ends for a reason, which callers that wait for it should see; the reply is `Replaced`."""

    number: int
    reason: str


# ---- snapshots -------------------------------------------------------------------------------------------


class ShardSnapshot(Record, frozen=True):
    """The edges of a shard's own nodes at the end of a batch; all else follows from them."""

    sequence: int
    slots: SlotMap
    shards: int
    image: GraphImage | None  # None: no node


class HandedOver(Record, frozen=True):
    """Edges of nodes that another shard owns from an entry on."""

    image: GraphImage


# ---- contracts -------------------------------------------------------------------------------------------


class Network(Protocol):
    """Delivers messages. Any may be lost, arrive twice, late, or in another order."""

    def send(self, to: int, message: Message) -> None:
        """Send a message to a shard, or to `SEQUENCER`; never waits."""
