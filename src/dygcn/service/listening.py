"""The listening end: how many may connect, how much may come before a request is one, how a drain begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dygcn._extras import extra
from dygcn.service.feeding import Waiters
from dygcn.service.handlers import problem
from dygcn.service.settings import ServiceSettings

with extra("serve"):
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from uvicorn.server import Protocols

MOST_HEAD = 64 << 10  # bytes of a request before its body
_Protocol: Any = AutoHTTPProtocol


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
            log_level="warning",
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
