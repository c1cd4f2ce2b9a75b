"""Bodies of requests: bytes that are held for all of them together have a bound, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dygcn.serving.service.ingest_queue import Overloaded


class Bodies:
    """Counts the bytes of all bodies that are held. Lives in the event loop.

    Examples
    --------
    >>> bodies = Bodies(most=10)
    >>> with bodies.opened() as body:
    ...     body.take(b"events")
    ...     bodies.held
    6
    >>> bodies.held
    0
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    @contextmanager
    def opened(self) -> Iterator[Body]:
        """Yield a body, empty still; what it took is given back at the end."""
        body = Body(self)
        try:
            yield body
        finally:
            self.held -= body.size


class Body:
    """The body of one request, chunk by chunk."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.chunks: list[bytes] = []
        self.size = 0

    def take(self, chunk: bytes) -> None:
        """Hold one chunk more.

        Raises
        ------
        Overloaded
            If it does not fit beside the bodies of others; alone, a body may be of any size.
        """
        others = self._bodies.held - self.size
        if others and self._bodies.held + len(chunk) > self._bodies.most:
            raise Overloaded(1, f"requests of {others} bytes are being read and answered already")
        self._bodies.held += len(chunk)
        self.size += len(chunk)
        self.chunks.append(chunk)
