"""Hands out the log: entries have their order there, and are on disk before anyone sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dygcn.cluster.protocol import Entries, Fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.cluster.protocol import Entry, Network

_AT_ONCE = 64  # entries in a message


class EntryLog(Protocol):
    """A log on disk, whose sequences begin at 1."""

    @property
    def end(self) -> int:
        """The last sequence that is on disk."""

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries behind a sequence."""


class Sequencer:
    """Where shards fetch entries. It keeps nothing that its log does not hold."""

    def __init__(self, log: EntryLog, network: Network) -> None:
        self._log, self._network = log, network

    def receive(self, message: Fetch) -> None:
        """Send a shard what it asks for."""
        entries = tuple(self._log.read(message.after, _AT_ONCE))
        self._network.send(message.sender, Entries(message.after, entries, self._log.end))
