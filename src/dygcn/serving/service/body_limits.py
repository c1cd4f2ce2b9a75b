"""Bodies of requests: bytes that are held and threads that decode have one bound for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from dygcn._extras import extra
from dygcn.serving.service.ingest_queue import Overloaded

with extra("serve"):
    from starlette.concurrency import run_in_threadpool

P = ParamSpec("P")
T = TypeVar("T")


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
        self._decoding, self._turn = asyncio.Lock(), asyncio.Lock()

    async def turn(self) -> None:
        """Let everybody else go on first: of all bodies, one chunk is read in a round of the event loop."""
        async with self._turn:
            await asyncio.sleep(0)

    async def decode(self, decoder: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Decode a body beside the event loop, one at a time: the other threads are for questions."""
        async with self._decoding:
            return await run_in_threadpool(decoder, *args, **kwargs)

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
