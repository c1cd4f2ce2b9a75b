"""The processes of shards, as the one sees them who writes the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dygcn.cluster.protocol import Entries, Snapshot


class ShardProcesses(Protocol):
    """Where shards run: in this process, or on the machines of a Ray cluster."""

    def announce(self, entries: Entries) -> None:
        """Tell all shards of entries that are in the log; any may miss it, and fetches them."""

    def ask(self, questions: Mapping[int, Any]) -> dict[int, Any]:
        """Ask several shards at once, and wait for all answers, through restarts.

        Raises
        ------
        ClusterError
            If a shard has not answered for a long time.
        """

    def add(self, number: int, snapshot: Snapshot) -> None:
        """Begin a shard with a snapshot, and start a process for it."""

    def retire(self, number: int) -> None:
        """End the process of a shard that owns nothing any more."""

    def close(self) -> None:
        """End all processes."""
