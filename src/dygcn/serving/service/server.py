"""The listening end: how many may connect, how much may come before a request is one, how a drain begins."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dygcn._extras import extra
from dygcn.errors import OptionError
from dygcn.serving.service.changes import Waiters
from dygcn.serving.service.handlers import problem
from dygcn.serving.service.settings import Http, ServiceSettings

with extra("serve"):
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from uvicorn.server import Protocols

MOST_HEAD = 64 << 10  # bytes of a request before its body
_Protocol: Any = AutoHTTPProtocol


def bind(http: Http) -> list[socket.socket]:
    """Take the addresses to listen on, so that it is known early whether they can be had.

    Raises
    ------
    OptionError
        If an address is not known, not ours, or in use.

    Examples
    --------
    >>> [one] = bind(Http(port=0))
    >>> one.getsockname()[0]
    '127.0.0.1'
    >>> one.close()
    """
    bound: list[socket.socket] = []
    try:
        host, flags = http.host or None, socket.AI_PASSIVE
        found = socket.getaddrinfo(host, http.port, type=socket.SOCK_STREAM, flags=flags)
        for family, address in sorted({(one[0], one[4]) for one in found}):
            bound.append(socket.socket(family, socket.SOCK_STREAM))
            bound[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound[-1].bind(address)
            bound[-1].listen()  # until then another could bind the same
    except (OSError, UnicodeError) as error:
        for one in bound:
            one.close()
        why = getattr(error, "strerror", None) or str(error)
        raise OptionError(
            f"cannot listen on {http.host}, port {http.port}: {why}; choose another (port 0: any free one)"
        ) from None
    return bound


class _BoundedHead(_Protocol):  # type: ignore[misc]
    """A connection whose headers have an end: the parser would keep them all, however many come."""

    head = 0

    def data_received(self, data: bytes) -> None:
        if self.head > MOST_HEAD:
            self.transport.abort()
            return
        before = self.cycle
        super().data_received(data)
        reading_body = self.cycle is not None and not self.cycle.response_complete
        self.head = 0 if reading_body or self.cycle is not before else self.head + len(data)


class _Crowd:
    """Refuses requests while there are more connections than allowed."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most
        self.connections: set[Protocols] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and len(self.connections) > self._most:
            message = f"there are {len(self.connections)} connections, allowed are {self._most}; come again"
            refused = problem(503, "TooManyConnections", message, Retry_After="1", Connection="close")
            await refused(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Server(uvicorn.Server):
    """Says where it listens, closes silent connections, and lets waiting ones go before it drains."""

    def __init__(
        self, app: ASGIApp, settings: ServiceSettings, waiters: Waiters, ready: Callable[[str], Any] | None
    ) -> None:
        crowd = _Crowd(app, settings.limits.connections)
        config = uvicorn.Config(
            crowd,
            host=settings.http.host,
            port=settings.http.port,
            http=_BoundedHead,
            ws="none",
            log_level="error",  # anybody can cause warnings, and fill the disk with them
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
        )
        super().__init__(config)
        crowd.connections = self.server_state.connections
        self._waiters, self._ready = waiters, ready
        self._patience = settings.limits.seconds_to_send
        self._silent: dict[Any, tuple[Any, float]] = {}

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen, and say where."""
        await super().startup(sockets)
        if self.started and self._ready is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def on_tick(self, counter: int) -> bool:
        """Look after connections ten times a second."""
        self._close_silent(time.monotonic())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        """Close connections on which no request became whole for too long."""
        silent: dict[Any, tuple[Any, float]] = {}
        for connection in self.server_state.connections:
            last = getattr(connection, "cycle", None)
            if last is None or last.response_complete:
                before, since = self._silent.get(connection, (last, now))
                silent[connection] = last, since if before is last else now
                if now - silent[connection][1] > self._patience:
                    connection.transport.close()
        self._silent = silent

    async def shutdown(self, sockets: Any = None) -> None:
        """Let waiting connections go, then drain."""
        self._waiters.end()
        await super().shutdown(sockets)
