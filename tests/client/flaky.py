"""A service inside this process that restarts, behind a network that loses and delays."""

from contextlib import contextmanager

import httpx
from anyio.from_thread import start_blocking_portal

from dygcn.serving.service.app import make_app
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import check_settings
from tests.serving.service.serving import on_loopback

FATES = (
    "arrives",
    "no connection",
    "request lost",
    "answer lost",
    "late",
    "restart",
    "answer lost by restart",
    "busy",
)


class FlakyNetwork(httpx.AsyncBaseTransport):
    """Carries requests as `fates` say, one each; then all of them arrive."""

    def __init__(self, path, fates):
        self.path, self.fates, self.late = path, iter(fates), []

    async def begin(self):
        self.service = Service(check_settings(on_loopback(self.path)))
        app = make_app(self.service)
        self._life = app.router.lifespan_context(app)
        await self._life.__aenter__()
        self._there = httpx.ASGITransport(app)

    async def end(self):
        await self._life.__aexit__(None, None, None)

    async def _restart(self):
        await self.end()
        await self.begin()

    async def _deliver(self, request):
        response = await self._there.handle_async_request(request)
        return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

    async def handle_async_request(self, request):
        fate = next(self.fates, "arrives")
        late, self.late = self.late, []
        if fate == "no connection":
            self.late = late
            raise httpx.ConnectError("refused")
        if fate == "request lost":
            self.late = late
            raise httpx.ReadError("reset")
        if fate == "late":  # it arrives, but behind the next one
            self.late = [*late, request]
            raise httpx.ReadTimeout("late")
        if fate == "restart":
            await self._restart()
        if fate == "busy":
            return httpx.Response(503, headers={"Retry-After": "0"})
        response = await self._deliver(request)
        for one in late:
            await self._deliver(one)
        if fate == "answer lost by restart":
            await self._restart()
        if fate.startswith("answer lost"):
            raise httpx.RemoteProtocolError("closed")
        return response


class Carried(httpx.BaseTransport):
    """The same network for a client that waits."""

    def __init__(self, portal, network):
        self._portal, self._network = portal, network

    def handle_request(self, request):
        return self._portal.call(self._network.handle_async_request, request)


@contextmanager
def flaky(path, fates):
    """Serve a folder behind such a network; yield the network, and its transport for `Client`."""
    network = FlakyNetwork(path, fates)
    with start_blocking_portal() as portal:
        portal.call(network.begin)
        try:
            yield network, Carried(portal, network)
        finally:
            portal.call(network.end)
