"""The protocol of a source. Its docstrings name the traps for authors of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dygcn.engine.records import Message


class Source(Protocol):
    """Ordered streams of messages that can be read again from any cursor.

    The log stores the cursor up to which a stream was applied, in the transaction of its events, and never
    acknowledges to the broker, which could not be part of that transaction. So `open` gets cursors, and
    messages that are delivered twice do no harm.
    """

    @property
    def name(self) -> str:
        """Kind and address, without secrets: for logs, metrics and dead letters."""

    def open(self, after: Mapping[str, int]) -> None:
        """Connect, and begin each stream after its cursor or, without one, at its beginning.

        Raises
        ------
        SourceError
            If it cannot be reached, or if messages after a cursor no longer exist: reading further
            would lose them silently.
        """

    def read(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return up to `limit` next messages, in the order of each stream; none after `timeout` seconds.

        Raises
        ------
        SourceError
            If the connection is lost. `open` may be called again, with the cursors reached.
        """

    def lag(self) -> int | None:
        """Return how many messages (bytes, for a file) come after the last one read; None if unknown.

        The number may be a moment old: it is not requested, so that any thread may call this during a read.
        """

    def close(self) -> None:
        """Release all resources. Safe to call twice, and on a source that was never opened."""
