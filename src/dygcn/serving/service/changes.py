"""Pages of changes, and a bounded number of connections that wait for changes after every transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import TypeAlias

from dygcn._extras import extra
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.feed import FeedCursor
from dygcn.schema import answers
from dygcn.schema.answers import Changes, LeftNode, MovedNode
from dygcn.serving.json_text import encode
from dygcn.serving.service import web
from dygcn.serving.service.ingest_queue import Overloaded
from dygcn.serving.service.observations import Observations

with extra("serve"):
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.types import Receive, Scope, Send


_LONGEST_WAIT = 60.0  # seconds
_QUIET = 15.0  # seconds after which a silent stream says that it lives
_BETWEEN = 0.1  # seconds in which changes gather before they are sent
_LOOK = 2.0  # seconds after which is looked whether a client that waits is still there
Gone: TypeAlias = "Callable[[], Awaitable[bool]]"


class Waiters:
    """The connections that wait for changes. Lives in the event loop; any thread may call `wake`."""

    def __init__(self, most: int) -> None:
        self.most, self._count = most, 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._woken = False
        self.closing = False

    def begin(self) -> None:
        """Remember the running event loop."""
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Wake all waiting connections for the last time."""
        self.closing = True
        self._ring()

    def wake(self) -> None:
        """Wake all waiting connections, from any thread; many calls at once cost one."""
        if self._loop is not None and not self._woken and not self._loop.is_closed():
            self._woken = True
            self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        self._woken = False
        self._news.set()
        self._news = asyncio.Event()

    def enter(self) -> None:
        """Count a waiting connection; raise Overloaded at the limit."""
        if self._count >= self.most:
            raise Overloaded(5, f"{self._count} connections wait for changes already")
        self._count += 1

    def leave(self) -> None:
        """Uncount a waiting connection."""
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
        self, read: Callable[[], Awaitable[Changes]], wait: float, gone: Gone | None = None
    ) -> Changes:
        """Return the page once it holds changes, time is up, the client is gone or the service closes."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while True:
            news = self._news
            found = await read()
            left = until - loop.time()
            if found.news or found.more or left <= 0 or self.closing:
                return found
            try:
                await asyncio.wait_for(news.wait(), min(left, _LOOK))
            except TimeoutError:
                if gone is not None and await gone():
                    return found

    async def next_news(self, seconds: float) -> None:
        """Wait for changes, at most so long."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return


class ChangeHandlers:
    """Pages of changes after a cursor, with the surprising events of the same time."""

    def __init__(
        self, parser: web.RequestParser, live: DurableEmbedding, observations: Observations, waiters: Waiters
    ) -> None:
        self._parser, self.live, self._seen, self._waiters = parser, live, observations, waiters

    def page(self, since: str, limit: int) -> Changes:
        """Return the nodes that changed after a cursor."""
        live = self.live
        with live.lock:
            page, latest = live.feed.since(since, limit), live.feed.cursor
            cursor = None if page.reset else FeedCursor.read(since)
            shown = 0 if cursor is None else cursor.sequence  # inside a run of pages, that of the one before
            surprises = self._seen.surprises.behind(shown, limit)
        rows = page.rows
        return Changes(
            page.sequence,
            page.next,
            latest,
            page.reset,
            page.more,
            list(map(MovedNode, rows.ids.tolist(), repeat(rows.history.sequence), rows.vectors)),
            list(map(LeftNode, rows.left.tolist(), repeat(rows.history.sequence))),
            *surprises,
        )

    async def page_beside(self, since: str, limit: int) -> Changes:
        """Return a page; read it in a thread if that may wait for other processes."""
        if self.live._far:
            return await asyncio.to_thread(self.page, since, limit)
        return self.page(since, limit)

    @web.route(
        "GET /v1/changes",
        answers.Changes,
        (
            web.Param(
                "since", "The `next` of an answer; without it, everything from the beginning.", web.CURSOR
            ),
            web.Param(
                "limit",
                "Rows in a page, moved and left together, and as many surprises; 100 by default.",
                web.COUNT,
                most="page_rows",
            ),
            web.Param("wait", "Seconds to wait for news.", {**web.SECONDS, "maximum": 60}),
        ),
        statuses=(429,),
    )
    async def get_changes(self, request: Request) -> Response:
        """The nodes that changed after a cursor, each once.

        At once, after `wait` seconds at most or, where `text/event-stream` is accepted, as a stream that
        goes on.
        """
        params, gone = request.query_params, request.is_disconnected
        limit = web.whole(params.get("limit", "100"), "limit", 1, self._parser.limits.page_rows)
        # A browser that comes back sends the same address, and in the header how far it came.
        since = request.headers.get("last-event-id") or params.get("since", "")
        if web.EVENT_STREAM in request.headers.get("accept", "") and request.method == "GET":
            await self.page_beside(since, 1)  # a wrong cursor is refused before the stream begins
            self._waiters.enter()
            pages = stream_changes(self, self._waiters, since, limit, gone)
            return _EventStream(pages, self._waiters.leave)
        wait = web.seconds(params.get("wait", "0"), "wait", _LONGEST_WAIT, f"from 0 to {_LONGEST_WAIT:g}")
        with self._waiters.entered(wait > 0):
            read = partial(self.page_beside, since, limit)
            return web.respond(await self._waiters.until_news(read, wait, gone))


async def stream_changes(
    pages: ChangeHandlers, waiters: Waiters, since: str, limit: int, gone: Gone
) -> AsyncIterator[bytes]:
    """Yield server-sent events, one for each page, whose id is the cursor after it."""
    yield b": here\n\n"
    while not waiters.closing and not await gone():
        page = await pages.page_beside(since, limit)
        if page.news:
            yield b"id: %s\nevent: changes\ndata: %s\n\n" % (page.next.encode(), encode(page))
        else:
            yield b": quiet\n\n"
        since = page.next
        if not page.more:
            await asyncio.sleep(_BETWEEN)
            if pages.live.sequence == page.sequence:
                await waiters.next_news(_QUIET)


class _EventStream(StreamingResponse):
    """A streamed response; `ended` is called at its end, even before its first line."""

    def __init__(self, pages: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(pages, media_type=web.EVENT_STREAM, headers={"Cache-Control": "no-store"})
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
