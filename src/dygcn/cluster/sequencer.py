"""Gives entries their sequence: on disk first, then to the shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dygcn.cluster.protocol import Entries, Fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.cluster.protocol import Entry, Network

_AT_ONCE = 64  # entries in a message


class EntryLog(Protocol):
    """A log on disk; sequences begin at 1, and an entry names the client that sent it and its place there."""

    @property
    def end(self) -> int:
        """The last sequence that is on disk."""

    def append(self, entry: Entry, client: str, position: int) -> int:
        """Write an entry; return its sequence, once it is on disk."""

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries behind a sequence."""

    def last_of(self, client: str) -> int:
        """Return the greatest place of a client that is in the log, -1 if there is none."""


class Sequencer:
    """The one place where order is decided. It keeps nothing that its log does not hold."""

    def __init__(self, log: EntryLog, network: Network, shards: int) -> None:
        self._log, self._network, self.shards = log, network, shards

    def append(self, entry: Entry, client: str, position: int) -> int | None:
        """Log an entry and tell the shards; None: it is in the log already."""
        if position <= self._log.last_of(client):
            return None
        sequence = self._log.append(entry, client, position)
        for shard in range(self.shards):
            self._network.send(shard, Entries(sequence - 1, (entry,), sequence))
        return sequence

    def receive(self, message: Fetch) -> None:
        """Send a shard what it asks for."""
        entries = tuple(self._log.read(message.after, _AT_ONCE))
        self._network.send(message.sender, Entries(message.after, entries, self._log.end))
