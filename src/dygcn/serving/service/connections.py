"""How many connections there may be, in all and from one peer; requests for health are always answered."""

from __future__ import annotations

import ipaddress
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dygcn._extras import extra
from dygcn.serving.service.problems import problem

with extra("serve"):
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from dygcn.serving.service.settings import CurrentSettings

PEER = b"x-dygcn-peer"  # the client as a reader saw it; only the writer's own socket may bring it
HEALTH = ("/livez", "/readyz")  # exempt: many connections are no reason to restart the process
_SAME_NETWORK = 64  # bits of an IPv6 address: a client that has one address has all of its network


def peer_of(client: tuple[str, int] | None) -> str:
    """Return by what a peer is counted; nothing for one on this machine, which is not counted.

    A proxy on this machine brings the connections of everybody, and whoever runs programs here can exhaust
    the machine in other ways.
    """
    return _counted_as(client[0]) if client else ""


@lru_cache(4096)
def _counted_as(host: str) -> str:
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
    """Take the address of the peer from the header that a reader has set."""
    found = dict(scope["headers"]).get(PEER)
    if found is not None:
        host, _, port = found.decode("latin-1").partition(" ")
        scope["client"] = host, int(port)
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != PEER]


class Connections:
    """Refuses requests while there are more connections than allowed."""

    def __init__(self, app: ASGIApp, current: CurrentSettings) -> None:
        self._app, self._current = app, current
        self.open: set[Any] = set()
        self.peers: Counter[str] = Counter()  # how many of them each peer has
        self.behind_readers = False  # then a reader counted the connection, and says whose it is

    def enter(self, client: tuple[str, int] | None) -> str:
        """Count a connection; return by what it is counted."""
        peer = peer_of(client)
        if peer:
            self.peers[peer] += 1
        return peer

    def leave(self, peer: str) -> None:
        """Count it no longer."""
        if peer:
            self.peers[peer] -= 1
            if not self.peers[peer]:
                del self.peers[peer]

    @property
    def full(self) -> bool:
        """Whether there are more connections than allowed."""
        return len(self.open) > self._current.limits.connections

    def refuses(self, client: tuple[str, int] | None) -> bool:
        """Say whether a request of a peer is not answered now."""
        if not self.peers and not self.full:
            return False
        return self.full or self.peers[peer_of(client)] > self._current.limits.connections_per_peer

    def refusal(self, scope: Scope) -> Response | None:
        """Return why a request is not answered now; None: it is."""
        if not self.refuses(scope.get("client")) or scope["path"] in HEALTH:
            return None
        limits, peer = self._current.limits, peer_of(scope.get("client"))
        if self.full:
            found, most, who = len(self.open), limits.connections, ""
        else:
            found, most, who = self.peers[peer], limits.connections_per_peer, " from your address"
        message = f"there are {found} connections{who}, allowed are {most}; come again"
        return problem("too-many-connections", message, retry_after=1, Connection="close")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if self.behind_readers and scope["type"] == "http":
            take_peer(scope)
        refused = self.refusal(scope) if scope["type"] == "http" and not self.behind_readers else None
        await (refused or self._app)(scope, receive, send)
