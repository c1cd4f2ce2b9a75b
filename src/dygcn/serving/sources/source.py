"""The contract of a source, and the life that every source leads around what its client does.

The docstrings of `Source` and `Reader` name the traps for authors of a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from dygcn.engine.records import Message
from dygcn.errors import SourceError
from dygcn.serving.addresses import Connector, errors_of

Form: TypeAlias = Literal["json", "ndjson", "arrow"]
"""How the body of a message is read; see `dygcn.engine.events.decode_events`."""


class Source(Protocol):
    """Ordered streams of messages that can be read again from any offset.

    The log stores the offset up to which a stream was applied, in the transaction of its events. A source
    never acknowledges to the broker, which could not be part of that transaction. So `open` gets offsets, and
    messages that are delivered twice are recognised.
    """

    @property
    def name(self) -> str:
        """Kind and address, without secrets: for logs, metrics and dead letters."""

    def open(self, after: Mapping[str, int]) -> None:
        """Connect, and begin each stream after its offset or, without one, at its beginning.

        Raises
        ------
        SourceError
            If it cannot be reached, or if messages after an offset no longer exist: reading further
            would lose them silently.
        """

    def read(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return up to `limit` next messages, in the order of each stream; none after `timeout` seconds.

        Raises
        ------
        SourceError
            If the connection is lost. `open` may be called again, with the offsets reached.
        """

    def lag(self) -> int | None:
        """Return how many messages (bytes, for a file) come after the last one read; None if unknown.

        The number may be a moment old: it is not requested, so that any thread may call this during a read.
        """

    def close(self) -> None:
        """Release all resources. Safe to call twice, and on a source that was never opened."""


@runtime_checkable
class SourceSettings(Protocol):
    """Settings of a source: a subclass of `dygcn.serving.addresses.Settings` whose tag is its `kind`."""

    def make(self) -> Source:
        """Return the source, not open yet. Its client is imported only now, under ``with extra(...)``."""


class Reader(Connector, Protocol):
    """What a client does for a `ReaderSource`. After an error it is disconnected."""

    def connect(self, after: Mapping[str, int]) -> None:
        """Connect, as `Source.open` says."""

    def fetch(self, limit: int, timeout: float) -> Sequence[Message]:
        """Return messages, as `Source.read` says."""

    def lag(self) -> int | None:
        """Return the number of unread messages, as `Source.lag` says; None without a connection."""


class ReaderSource:
    """A source on a `Reader`, closed by every error: `open` then compares offsets with what is there."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.name = reader, reader.name
        self._opened = False

    def open(self, after: Mapping[str, int]) -> None:
        self.close()
        with errors_of(self.reader, SourceError, self.close):
            self.reader.connect(after)
        self._opened = True

    def read(self, limit: int, timeout: float) -> Sequence[Message]:
        if not self._opened:
            raise SourceError(f"{self.name} is not open; call open() first")
        with errors_of(self.reader, SourceError, self.close):
            return self.reader.fetch(limit, timeout)

    def lag(self) -> int | None:
        return self.reader.lag()

    def close(self) -> None:
        self._opened = False
        self.reader.disconnect()
