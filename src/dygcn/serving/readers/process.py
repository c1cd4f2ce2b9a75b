"""One reader process: it serves, reports its counts every second, and ends with the writer.

It answers the read of one vector before there is a task, a scope or a response object. That read is most of
what a reader does, and a web framework costs several times what the vector costs: a task for each request,
and two writes to the socket. Everything that is not plainly ``GET /v1/vectors/ID`` takes the usual way. A
connection on which nothing more comes is closed with other silent ones, and not by a timer, which would be
set and cancelled for every request.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import msgspec

from dygcn.live.shared import RowReader
from dygcn.serving.observing.logs import configure
from dygcn.serving.observing.request_ids import ID_HEADER, new_ids
from dygcn.serving.readers.app import ReaderApp
from dygcn.serving.readers.upstream import Writer
from dygcn.serving.service.reader_processes import Replace, Start, Stop, ToReader
from dygcn.serving.service.server import Connection, Listening, allow_many_connections, bound_socket
from dygcn.serving.service.settings import CurrentSettings, ServiceSettings

_LONGEST = 256  # bytes of a path
_MARKS = b"?", b"%", b"#"  # after which a path has to be parsed


class _Answered:
    """Stands in for uvicorn's request cycle after an immediate answer; one object for each request."""

    __slots__ = ()
    response_complete = True

    @property
    def message_event(self) -> _Answered:
        """The event that uvicorn sets when more of a request arrives."""
        return self

    def set(self) -> None:
        """Do nothing: no task waits."""


class ReaderConnection(Connection):
    """Answers at once if `server_state.at_once` returns an answer."""

    cycle: Any

    def on_headers_complete(self) -> None:
        """Answer at once, or start a normal request."""
        if not self._answers_at_once():
            super().on_headers_complete()

    def _answers_at_once(self) -> bool:
        state, url = self.server_state, self.url
        if (
            not url.startswith(state.prefix)
            or len(url) > _LONGEST
            or any(mark in url for mark in _MARKS)
            or self.parser.get_method() != b"GET"
            or (self.cycle is not None and not self.cycle.response_complete)  # it comes after another one
            or self.flow.write_paused  # the client does not take what it asked for
            or self.transport.is_closing()
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or self.parser.should_upgrade()
        ):
            return False
        answer = state.at_once(url, self.headers, self.client)
        if answer is None:
            return False
        self.transport.write(answer)
        state.total_requests += 1
        self.cycle = _Answered()
        return True


_LOG = logging.getLogger(__name__)


class ReaderServer(Listening):
    """The server of a reader. The writer decides when it ends; it ignores signals to the group."""

    connection = ReaderConnection

    def __init__(self, app: ReaderApp, current: CurrentSettings) -> None:
        super().__init__(app, current)
        self._app, self._ids = app, new_ids()
        state: Any = self.server_state  # where `ReaderConnection` finds them
        state.prefix, state.at_once = app.prefix, self._at_once
        self._dated_of: list[tuple[bytes, bytes]] = []
        self._dated = b""

    def _at_once(
        self, url: bytes, headers: list[tuple[bytes, bytes]], client: tuple[str, int] | None
    ) -> bytes | None:
        """Return a complete response, head and body; None: use the ASGI path."""
        if self._counted.excess(client):
            return None
        answer = self._app.answer(url, headers)
        if answer is None:
            return None
        fields, body = answer
        more = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        if self.server_state.default_headers is not self._dated_of:  # once a second
            self._dated_of = self.server_state.default_headers
            self._dated = b"".join(b"%b: %b\r\n" % pair for pair in self._dated_of)
        return (
            b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n%b%b: %b\r\n\r\n%b"
            % (self._dated, len(body), more.encode(), ID_HEADER, self._ids(headers), body)
        )

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Do nothing: signals are ignored."""
        return nullcontext()

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen, and report the first counts."""
        await super().startup(sockets)
        self._say_counts()

    async def on_tick(self, counter: int) -> bool:
        """Send the counts of answers to the writer once a second."""
        if counter % 10 == 9:
            self._say_counts()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: Any = None) -> None:
        """Finish open requests, then report the last counts."""
        await super().shutdown(sockets)
        self._say_counts()

    def _say_counts(self) -> None:
        with suppress(BlockingIOError):  # the writer does not listen now; reads do not wait for it
            os.write(sys.stdout.fileno(), msgspec.json.encode(self._app.counts) + b"\n")


def rows_of(handle: str) -> RowReader | None:
    """Return the writer's shared rows, or None if there are none to read."""
    if not handle:
        return None
    try:
        return RowReader(handle.encode())
    except OSError as error:  # /proc shows this process nothing of the writer
        _LOG.warning("shared rows cannot be read, so every request is passed on: %s", error)
        return None


def main() -> None:
    """Serve until the writer says stop, or has ended."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the writer has them, too, and decides
        signal.signal(one, signal.SIG_IGN)
    start = msgspec.json.decode(sys.stdin.buffer.readline(), type=Start)
    os.set_blocking(sys.stdout.fileno(), False)  # a line is shorter than PIPE_BUF: it is written whole or not
    configure(start.log.format, start.log.level)
    allow_many_connections()
    current = CurrentSettings(ServiceSettings(folder="", http=start.http, limits=start.limits))
    sockets = [bound_socket(family, tuple(address), shared=True) for family, address in start.listen]
    server = ReaderServer(ReaderApp(rows_of(start.rows), Writer(start.writer), current, start.kind), current)
    threading.Thread(target=_listen_to_writer, args=(server, current, start.writer), daemon=True).start()
    server.run([_listening(one) for one in sockets])
    os._exit(0)  # nothing here has to be kept


def _listening(one: socket.socket) -> socket.socket:
    one.listen(2048)
    return one


def _listen_to_writer(server: ReaderServer, current: CurrentSettings, path: str) -> None:
    """Follow the writer's messages; at their end the writer is dead, and its socket is removed."""
    try:
        for line in sys.stdin.buffer:
            message = msgspec.json.decode(line, type=ToReader)
            if isinstance(message, Replace):
                current.replace(ServiceSettings(folder="", http=message.http, limits=message.limits))
            elif isinstance(message, Stop):
                server.finish_within(message.seconds)
                server.should_exit = True
        with suppress(OSError):
            os.unlink(path)
        with suppress(OSError):
            os.rmdir(os.path.dirname(path))
    finally:  # without ears it would keep tokens that are no longer good
        os._exit(1)
