"""Connections that wait for changes: a bounded number of them, woken after every transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from dygcn.schema.answers import Changes
from dygcn.serving.json_text import encode
from dygcn.serving.service.ingest_queue import Overloaded

if TYPE_CHECKING:
    from dygcn.serving.service.service import Service

_QUIET = 15.0  # seconds after which a silent stream says that it lives
_BETWEEN = 0.1  # seconds in which changes gather before they are sent
_LOOK = 2.0  # seconds after which is looked whether a client that waits is still there
Gone: TypeAlias = "Callable[[], Awaitable[bool]]"


class Waiters:
    """Whoever waits for news. Lives in the event loop; `wake` may be called from any thread."""

    def __init__(self, most: int) -> None:
        self.most, self._count = most, 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._woken = False
        self.closing = False

    def begin(self) -> None:
        """Take the running loop."""
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Let everyone go."""
        self.closing = True
        self._ring()

    def wake(self) -> None:
        """Say from any thread that something changed; many calls at once cost one."""
        if self._loop is not None and not self._woken and not self._loop.is_closed():
            self._woken = True
            self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self._woken = False
        self._news.set()
        self._news = asyncio.Event()

    def enter(self) -> None:
        """Count a connection that waits.

        Raises
        ------
        Overloaded
            If there are as many as are allowed.
        """
        if self._count >= self.most:
            raise Overloaded(5, f"{self._count} connections wait for changes already")
        self._count += 1

    def leave(self) -> None:
        """Count it no longer."""
        self._count -= 1

    @contextmanager
    def entered(self, waits: bool) -> Iterator[None]:
        """Count a connection while it waits, if it does."""
        if not waits:
            yield
            return
        self.enter()
        try:
            yield
        finally:
            self.leave()

    async def until_news(
        self, read: Callable[[], Changes], wait: float, gone: Gone | None = None, *, beside: bool = False
    ) -> Changes:
        """Return what was read, once there is something in it, the time is over or the client is gone.

        Parameters
        ----------
        beside
            Whether reading may take so long that the event loop must not wait for it.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while True:
            news = self._news
            found = await asyncio.to_thread(read) if beside else read()
            left = until - loop.time()
            if found.news or found.more or left <= 0 or self.closing:
                return found
            try:
                await asyncio.wait_for(news.wait(), min(left, _LOOK))
            except TimeoutError:
                if gone is not None and await gone():
                    return found

    async def next_news(self, seconds: float) -> None:
        """Wait for news, or so long."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return


async def page_of(service: Service, since: str, limit: int) -> Changes:
    """Return what moved behind a place; beside the event loop, where that may wait for other processes."""
    if service.live._far:
        return await asyncio.to_thread(service.page, since, limit)
    return service.page(since, limit)


async def stream_changes(
    service: Service,
    waiters: Waiters,
    since: str,
    limit: int,
    gone: Gone,
) -> AsyncIterator[bytes]:
    """Yield server-sent events, one for each page; the id of each is the cursor behind it."""
    yield b": here\n\n"
    while not waiters.closing and not await gone():
        page = await page_of(service, since, limit)
        if page.news:
            yield b"id: %s\nevent: changes\ndata: %s\n\n" % (page.next.encode(), encode(page))
        else:
            yield b": quiet\n\n"
        since = page.next
        if not page.more:
            await asyncio.sleep(_BETWEEN)
            if service.live.sequence == page.sequence:
                await waiters.next_news(_QUIET)
