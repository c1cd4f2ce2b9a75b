"""What processes of a cluster tell the one that started them, and who is who among them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A process: which shard (or `SEQUENCER`), which of the processes ever started for it, and where."""

    number: int
    epoch: int
    location: str


@dataclass(frozen=True, slots=True)
class Members:
    """All processes that are known; a later version replaces an earlier one."""

    front: int  # epoch of the one who says so
    version: int
    all: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Register:
    """A process that starts asks for its epoch."""

    number: int
    location: str
    host: str  # where it runs, and
    pid: int  # as what


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to `Register`."""

    epoch: int
    members: Members


@dataclass(frozen=True, slots=True)
class Beat:
    """A process lives, and what it counted since it started; the answer is `Members`, or `Replaced`."""

    member: Member
    host: str
    pid: int
    position: int
    whole: bool
    sent: int  # messages to others
    sent_bytes: int
    dropped: int  # since they were dead or slow
    refused: int  # of stale senders, or for others
    changes: int  # of arcs, told to others
    first_rows: int  # of new mirrors


@dataclass(frozen=True, slots=True)
class Replaced:
    """The answer to a process that has a successor: it has to end."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A process ends for a reason, which whoever waits for it should see; the answer is `Replaced`."""

    number: int
    reason: str
