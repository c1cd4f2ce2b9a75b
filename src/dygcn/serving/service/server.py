"""The HTTP server: limits on connections and on unparsed input, and how a drain begins."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from dygcn._extras import extra
from dygcn.errors import OptionError
from dygcn.serving.observing.request_ids import RequestIds
from dygcn.serving.service.changes import Waiters
from dygcn.serving.service.lifetime import leave_now
from dygcn.serving.service.problems import problem
from dygcn.serving.service.settings import CurrentSettings, Http, ServiceSettings

with extra("serve"):
    import uvicorn
    import uvicorn.server
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response
    from starlette.types import ASGIApp, Scope
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from dygcn.serving.service.reader_processes import ReaderProcesses
    from dygcn.serving.service.service import Service
    from dygcn.serving.service.settings import CurrentSettings

MOST_HEAD = 64 << 10  # bytes of a request before its body
_PART = 16 << 10  # bytes that are parsed at once: some hundred requests
_MANY = 500  # connections
_KEPT = 24 * 3600  # seconds that the connection of a reader may be silent
_IF_FULL = 1.0  # seconds that a silent connection may stay while there are too many
_Protocol: Any = HttpToolsProtocol
PEER = b"x-dygcn-peer"  # the client as a reader saw it; only the writer's own socket may bring it
_OF_A_BODY = (b"content-length", b"transfer-encoding")
_NO_UPGRADE = (
    "a request with a body cannot ask for an upgrade; send it as HTTP/1.1 (in Java: Version.HTTP_1_1)"
)
HEALTH = ("/livez", "/readyz")  # exempt: many connections are no reason to restart the process
_SAME_NETWORK = 64  # bits of an IPv6 address: a client that has one address has all of its network


def bind(http: Http) -> list[socket.socket]:
    """Bind the addresses to listen on, early, so that a failure costs no work."""
    bound: list[socket.socket] = []
    try:
        host, flags = http.host or None, socket.AI_PASSIVE
        found = socket.getaddrinfo(host, http.port, type=socket.SOCK_STREAM, flags=flags)
        for family, address in sorted({(one[0], one[4]) for one in found}):
            bound.append(bound_socket(family, address))
            bound[-1].listen()  # until then another could bind the same
            if http.readers:  # bound again; connections go only to sockets that listen
                address = bound[-1].getsockname()
                bound.pop().close()
                bound.append(bound_socket(family, address, shared=True))
    except (OSError, UnicodeError) as error:
        for one in bound:
            one.close()
        why = getattr(error, "strerror", None) or str(error)
        raise OptionError(
            f"cannot listen on {http.host}, port {http.port}: {why}; choose another (port 0: any free one)"
        ) from None
    return bound


def bound_socket(family: int, address: Any, *, shared: bool = False) -> socket.socket:
    """Return a socket on an address; several processes may share it, and the system spreads connections."""
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
    except BaseException:
        one.close()
        raise
    return one


def collect_hang_ups() -> list[int]:
    """Return a list to which each SIGHUP appends from now on: one that comes before the server is no loss."""
    hang_ups: list[int] = []
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda number, _: hang_ups.append(number))
    return hang_ups


def allow_many_connections() -> None:
    """Raise the process's limit of open files as far as allowed; many systems set it to 1024."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - not everywhere

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Connection(_Protocol):  # type: ignore[misc]
    """A counted connection with a limit on the size of a request's headers.

    A request that comes before earlier ones are answered waits, and takes some kilobytes before anybody asks
    for its token. While one waits, nothing more is parsed or read: a client decides how many it sends.
    """

    head = 0  # bytes since a request began or a body went on: headers, or what follows a body in chunks
    peer = ""
    _unparsed = b""
    _in_body = False

    def connection_made(self, transport: Any) -> None:
        """Count the connection."""
        super().connection_made(transport)
        self.peer = self.server_state.enter(self.client)

    def connection_lost(self, exc: Exception | None) -> None:
        """Uncount the connection."""
        self.server_state.leave(self.peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse part by part, until a request has to wait for another; refuse headers that are too long."""
        if self.head > MOST_HEAD:
            self.transport.abort()
            return
        parts, at = memoryview(data), 0
        while at < len(parts) and not self.pipeline and not self.transport.is_closing():
            part, before, self._in_body = parts[at : at + _PART], self.cycle, False
            super().data_received(part)
            self.head = 0 if self._in_body or self.cycle is not before else self.head + len(part)
            at += len(part)
        self._unparsed = bytes(parts[at:])

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; one that nobody waits for any more counts as headers do."""
        self._in_body = not self.cycle.response_complete
        super().on_body(body)

    def _unsupported_upgrade_warning(self) -> None:
        """Go on as HTTP/1.1, but for a request with a body, which the parser has left out."""
        if any(name in _OF_A_BODY for name, _ in self.headers):
            self.send_400_response(_NO_UPGRADE)

    def on_response_complete(self) -> None:
        """Begin the next request; read on only when none waits."""
        super().on_response_complete()
        if self._unparsed and not self.pipeline:
            self.data_received(self._unparsed)
        if self.pipeline:
            self.flow.pause_reading()


class Listening(uvicorn.Server):
    """A server that counts connections and closes silent ones."""

    connection: type[Connection] = Connection

    def __init__(self, app: ASGIApp, current: CurrentSettings, uds: str | None = None) -> None:
        counted = Connections(current)
        config = uvicorn.Config(
            RequestIds(app, counted.refusal),
            log_config=None,  # its lines look as ours do
            host=current.http.host,
            port=current.http.port,
            uds=uds,
            http=self.connection,
            ws="none",
            lifespan="on" if isinstance(app, Starlette) else "off",
            log_level="error",  # any client can cause warnings, and fill the disk with them
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEPT if uds else 5,
        )
        super().__init__(config)
        self._current, self._counted, self.server_state = current, counted, counted
        self._silent: dict[Any, tuple[Any, float]] = {}

    async def on_tick(self, counter: int) -> bool:
        """Check for silent connections ten times a second; once, if there are many."""
        few = len(self.server_state.connections) < _MANY
        if not self.config.uds and (few or counter % 10 == 0):
            self._close_silent(time.monotonic())
        return await super().on_tick(counter)

    def finish_within(self, seconds: float) -> None:
        """Set how long open requests may take after the shutdown begins."""
        self.config.timeout_graceful_shutdown = seconds  # type: ignore[assignment]

    def _close_silent(self, now: float) -> None:
        """Close connections without a complete request for too long; sooner, if there are too many."""
        limits, connections = self._current.limits, self.server_state.connections
        full = len(connections) > limits.connections
        patience = min(limits.seconds_to_send, _IF_FULL) if full else limits.seconds_to_send
        silent: dict[Any, tuple[Any, float]] = {}
        for connection in connections:
            last = getattr(connection, "cycle", None)
            if last is None or last.response_complete:
                before, since = self._silent.get(connection, (last, now))
                silent[connection] = last, since if before is last else now
                if now - silent[connection][1] > patience:
                    connection.transport.close()
        self._silent = silent


class Server(Listening):
    """Logs its address, starts readers, and ends waiting connections before it drains."""

    def __init__(
        self,
        app: Starlette,
        ready: Callable[[str], Any] | None = None,
        reread: Callable[[], ServiceSettings] | None = None,
        readers: ReaderProcesses | None = None,
        hang_ups: list[int] | None = None,
    ) -> None:
        service: Service = app.state.service
        super().__init__(app, service.current, readers.path if readers is not None else None)
        self._counted.behind_readers = readers is not None
        self._drain, self._readers = service.drain, readers
        service.observations.connections = lambda: len(self.server_state.connections)
        self._waiters: Waiters = app.state.waiters
        self._ready, self._reread = ready, reread
        self._hang_ups = [] if hang_ups is None else hang_ups

    async def on_tick(self, counter: int) -> bool:
        """Read the settings again, once for all SIGHUPs that came since."""
        if self._hang_ups:
            self._hang_ups.clear()
            self._current.reload(self._reread)
        return await super().on_tick(counter)

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen, and log the address."""
        await super().startup(None if self._readers is not None else sockets)
        if not self.started:
            return
        if self._readers is not None:
            await run_in_threadpool(self._readers.start)
        if self._ready is not None:
            self._ready(address_of(sockets[0] if self._readers is not None else self.servers[0].sockets[0]))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the drain at the first signal, and end the process at the second."""
        if self.should_exit:
            leave_now(128 + sig)
        self._drain.enforce()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop readers, end the waits for changes, then drain."""
        self._drain.begin()
        self._waiters.end()
        if self._readers is not None:
            await run_in_threadpool(self._readers.stop, self._drain.for_requests)
        self.finish_within(self._drain.for_requests)
        await super().shutdown(sockets)


def address_of(one: Any) -> str:
    """Return the address of a bound socket as a URL."""
    host, port = one.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


# ---- connections --------------------------------------------------------------------------------------


@lru_cache(4096)
def peer_of(host: str) -> str:
    """Return the key by which a peer is counted; "" for this machine, which is not counted.

    A proxy on this machine brings the connections of all clients, and a program that runs here can exhaust
    the machine in other ways.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    if address.is_loopback:
        return ""
    if address.version == 6:
        return str(ipaddress.ip_network((address, _SAME_NETWORK), strict=False))
    return str(address)


def take_peer(scope: Scope) -> None:
    """Replace the peer's address by the one in the header that a reader set."""
    found = dict(scope["headers"]).get(PEER)
    if found is not None:
        host, _, port = found.decode("latin-1").partition(" ")
        scope["client"] = host, int(port)
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != PEER]


class Connections(uvicorn.server.ServerState):
    """Counts connections, and refuses requests while there are more than allowed."""

    def __init__(self, current: CurrentSettings) -> None:
        super().__init__()
        self._current = current
        self.peers: Counter[str] = Counter()  # how many connections each has that is not on this machine
        self.behind_readers = False  # then a reader counted the connection, and says whose it is

    def enter(self, client: tuple[str, int] | None) -> str:
        """Count a connection; return the key of its peer."""
        peer = peer_of(client[0] if client else "")
        if peer:
            self.peers[peer] += 1
        return peer

    def leave(self, peer: str) -> None:
        """Uncount a connection."""
        if peer:
            self.peers[peer] -= 1
            if not self.peers[peer]:
                del self.peers[peer]

    def excess(self, client: tuple[str, int] | None) -> str:
        """Return what there is too much of for a request of a peer; "" if it is accepted."""
        limits, count = self._current.limits, len(self.connections)
        if count > limits.connections:
            return f"{count} connections, allowed are {limits.connections}"
        if self.peers and client:
            count, most = self.peers[peer_of(client[0])], limits.connections_per_peer
            if count > most:
                return f"{count} connections from your address, allowed are {most}"
        return ""

    def refusal(self, scope: Scope) -> Response | None:
        """Return the reason to refuse a request; None: it is accepted."""
        if self.behind_readers:
            take_peer(scope)
            return None
        excess = self.excess(scope.get("client"))
        if not excess or scope["path"] in HEALTH:
            return None
        message = f"there are {excess}; come again"
        return problem("too-many-connections", message, retry_after=1, Connection="close")
