"""The connection to the writer: requests are forwarded over its Unix socket, streamed in both directions."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from dygcn._extras import extra
from dygcn.serving.observing.request_ids import ID_HEADER
from dygcn.serving.service.problems import problem
from dygcn.serving.service.server import HEALTH, MOST_HEAD, PEER

with extra("serve"):
    import httptools
    from starlette.types import Receive, Scope, Send

_HELD = 256 << 10  # bytes of an answer that a slow client may leave here
_PATIENCE, _PATIENCE_OF_HEALTH = 120.0, 5.0  # seconds until an answer begins
_SILENCE = 2.0  # seconds, then the writer is asked whether it is alive
_ALIVE = b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % HEALTH[0].encode()
_NOT_PASSED_ON = {
    b"connection",
    b"keep-alive",
    b"transfer-encoding",
    b"expect",
    b"upgrade",
    b"te",
    PEER,
    ID_HEADER,
}
_NOT_PASSED_BACK = {b"connection", b"keep-alive", b"transfer-encoding", b"date", ID_HEADER}


T = TypeVar("T")


class Gone(Exception):
    """The writer did not answer."""


class Short(Exception):
    """A body ended before its length."""


class _Request(NamedTuple):
    head: bytes
    framed: bool  # the body is sent in chunks
    length: int  # of a body that is not, as the head says

    @property
    def has_body(self) -> bool:
        return self.framed or self.length > 0


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.lost = False
        self.sender: asyncio.Task[None] | None = None
        self.begin("")

    def begin(self, method: str) -> None:
        """Prepare for the response to a request."""
        self._bodiless, self._once = method == "HEAD", method in ("HEAD", "CONNECT")
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: deque[bytes] = deque()
        self._held, self.complete, self.sent, self._paused = 0, False, False, False
        self.written, self.short, self.left = 0, False, False
        self._news = asyncio.Event()
        self.status = 0

    # ---- from the loop -------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._news.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # ---- from the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise Gone  # an answer that nobody asked for would be taken for that of the next request

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self._bodiless:  # the parser would wait for a body, so the connection is not used again
            self.complete = True
            self.transport.close()
        self._news.set()

    def on_body(self, body: bytes) -> None:
        if self._bodiless:
            return
        self.chunks.append(body)
        self._held += len(body)
        if self._held > _HELD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._news.set()

    def on_message_complete(self) -> None:
        self.complete = True
        self._news.set()

    # ---- for the request -----------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Send bytes, with backpressure from the writer."""
        self.written += len(data)
        self.transport.write(data)
        await self._may_write.wait()

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.status:
            await self._next()

    async def body(self) -> bytes:
        """Return the next bytes of the body; empty at its end."""
        while not self.chunks and not self.complete:
            await self._next()
        found = b"".join(self.chunks)
        self.chunks.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return found

    @property
    def closing(self) -> bool:
        """Whether the connection can no longer be used."""
        # A body that the writer did not want may still be on its way there, and it hangs up after MOST_HEAD.
        return self.lost or self._once or self.written > MOST_HEAD or self.transport.is_closing()

    def end(self, *, keep: bool = False) -> None:
        """End a request; close the connection unless it is kept."""
        if self.sender is not None:
            self.sender.cancel()
        if not keep:
            self.transport.abort()

    async def _next(self) -> None:
        if self.lost:
            raise Gone
        await self._news.wait()
        self._news.clear()


class Writer:
    """Forwards requests to the writer over kept connections."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[_Connection] = []
        self._alive: asyncio.Task[bool] | None = None  # one health check for all waiting requests
        self._heard = 0.0  # when it last answered that

    async def forward(
        self, scope: Scope, receive: Receive, send: Send, begun: bytes = b"", *, whole: bool = False
    ) -> None:
        """Forward a request, and pass the response back."""
        try:
            connection = await self._ask(scope, receive, begun, whole)
        except (OSError, Gone, TimeoutError):
            message = "the writer does not answer; come again"
            await problem("writer-gone", message, retry_after=1)(scope, receive, send)
            return
        except Short:
            refused = problem("interrupted", "the body ended too early", Connection="close")
            await refused(scope, receive, send)
            return
        await self._answer(connection, send)

    async def _ask(self, scope: Scope, receive: Receive, begun: bytes, whole: bool) -> _Connection:
        """Send a request; return the connection once the response begins."""
        asked = _request(scope, begun, whole)
        while True:
            connection, fresh = await self._connect()
            connection.begin(scope["method"])
            connection.sender = asyncio.create_task(
                _send(connection, receive, asked, begun, whole or not asked.has_body)
            )
            patience = _PATIENCE_OF_HEALTH if scope["path"] in HEALTH else _PATIENCE
            try:
                async with asyncio.timeout(patience):
                    await self._while_alive(connection.head)
            except BaseException as error:
                connection.end()
                if connection.short:
                    raise Short from None
                lost = isinstance(error, Gone) and connection.lost
                stale = lost and not fresh and not connection.left
                if stale and not asked.has_body:
                    continue  # it was closed while it was idle; nothing came of the request
                raise
            return connection

    async def _answer(self, connection: _Connection, send: Send) -> None:
        kept = [pair for pair in connection.headers if pair[0] not in _NOT_PASSED_BACK]
        closes = [(n, v) for n, v in connection.headers if n == b"connection" and v.lower() == b"close"]
        try:
            await send({"type": "http.response.start", "status": connection.status, "headers": kept + closes})
            while True:
                part = await self._while_alive(connection.body)
                done = connection.complete and not connection.chunks
                await send({"type": "http.response.body", "body": part, "more_body": not done})
                if done:
                    break
        except Gone:
            return  # the server closes the connection of the client: the answer is not whole
        finally:
            usable = connection.complete and connection.sent and not closes and not connection.closing
            connection.end(keep=usable)
            if usable:
                self._idle.append(connection)

    async def _while_alive(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Wait for the writer while it is alive: a stopped process keeps its connections open."""
        while True:
            try:
                async with asyncio.timeout(_SILENCE):
                    return await wait()
            except TimeoutError:
                if time.monotonic() < self._heard + _SILENCE:
                    continue
                if self._alive is None or self._alive.done():
                    self._alive = asyncio.create_task(self._is_alive())
                if not await asyncio.shield(self._alive):
                    raise Gone from None
                self._heard = time.monotonic()

    async def _is_alive(self) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_OF_HEALTH):
                _, connection = await loop.create_unix_connection(_Connection, self._path)
                try:
                    connection.transport.write(_ALIVE)
                    await connection.head()
                finally:
                    connection.end()
        except (OSError, Gone):
            return False
        return True

    async def _connect(self) -> tuple[_Connection, bool]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection, False
        loop = asyncio.get_running_loop()
        _, made = await loop.create_unix_connection(_Connection, self._path)
        return made, True


def _request(scope: Scope, begun: bytes, whole: bool) -> _Request:
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    lines = [scope["method"].encode(), b" ", target, b" HTTP/1.1\r\n"]
    length, chunked = 0, False
    for name, value in scope["headers"]:
        chunked = chunked or name == b"transfer-encoding"
        if name == b"content-length":
            length = int(value)
        if name not in _NOT_PASSED_ON and not (whole and name == b"content-length"):
            lines += (name, b": ", value, b"\r\n")
    if whole:
        lines.append(b"content-length: %d\r\n" % len(begun))
    framed = chunked and not whole
    if framed:
        lines.append(b"transfer-encoding: chunked\r\n")
    client = scope.get("client")
    if client:
        lines += (PEER, b": ", f"{client[0]} {client[1]}".encode(), b"\r\n")
    name = scope.get("state", {}).get("request_id")
    if name:
        lines += (ID_HEADER, b": ", name.encode(), b"\r\n")
    lines.append(b"\r\n")
    return _Request(b"".join(lines), framed, length)


async def _send(
    connection: _Connection, receive: Receive, asked: _Request, begun: bytes, whole: bool
) -> None:
    """Send a request, then watch for the client's disconnect, which closes the connection."""
    framed, left = asked.framed, asked.length - len(begun)
    await connection.write(asked.head + _chunk(begun, framed))
    while not whole:
        message = await receive()
        if message["type"] == "http.disconnect":
            connection.left = True
            connection.transport.abort()
            return
        part, whole = message.get("body", b""), not message.get("more_body", False)
        left -= len(part)
        if whole and left and not framed:
            # The parser reads no body after `Upgrade`. The writer would take the next request for it.
            connection.short = True
            connection.transport.abort()
            return
        await connection.write(_chunk(part, framed))
    if framed:
        await connection.write(b"0\r\n\r\n")
    connection.sent = True
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
        if not connection.complete:
            connection.left = True
            connection.transport.abort()


def _chunk(data: bytes, framed: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if framed and data else data
