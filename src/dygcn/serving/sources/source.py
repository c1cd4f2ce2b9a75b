"""What a source is. Traps for whoever adds one are written where they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dygcn.engine.records import Message


class Source(Protocol):
    """Ordered streams of messages that can be read again from any cursor.

    The cursor up to which a stream was applied is kept with our state, never at the broker: a broker's own
    acknowledgement and our transaction cannot be one. So a source is asked to begin after a cursor, and
    nothing that it delivers twice does harm.
    """

    @property
    def name(self) -> str:
        """Kind and address of what is read, without any secret: for logs, metrics and dead letters."""

    def open(self, after: Mapping[str, int]) -> None:
        """Connect, and begin each stream behind the cursor given for it, or at its beginning.

        Raises
        ------
        SourceError
            If it cannot be reached, or if messages behind the given cursor are no longer there: going on
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
        """Return how many messages (bytes, for a file) wait behind the last one read, where that is known.

        As of a moment ago: it asks nobody, so that any thread may call it while another one reads.
        """

    def close(self) -> None:
        """Let go of everything. Safe to call twice, and on a source that was never opened."""
