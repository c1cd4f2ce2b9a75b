"""The thin web shell: doors first, then a handler, and every error as JSON with a status."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any

import msgspec

from dygcn._extras import extra
from dygcn.errors import DygcnError, EventError, OptionError, UnknownNode, WriteFailed
from dygcn.serving.service.auth import Doors
from dygcn.serving.service.body_limits import Bodies, Body
from dygcn.serving.service.changes import Waiters
from dygcn.serving.service.handlers import FORMS, Handlers, content_type, problem
from dygcn.serving.service.ingest_queue import Closing, Overloaded
from dygcn.serving.service.metrics import Metrics
from dygcn.serving.service.openapi import describe
from dygcn.serving.service.routes import ROUTES
from dygcn.serving.service.routes import Route as Entry
from dygcn.serving.service.server import Server, bind
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Limits, ServiceSettings
from dygcn.serving.service.warming import warm_up

with extra("serve"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.convertors import Convertor, register_url_convertor
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route

_SWITCH = 1e-4  # seconds; with the usual 5 ms the writing thread would wait that long after every loop
_LOG = logging.getLogger(__name__)
_PAGE_RULES = {
    "Content-Security-Policy": "default-src 'none'; script-src {script}; style-src {style}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_DENIED = {
    401: ("Unauthorized", "a token is needed: send it as 'Authorization: Bearer TOKEN'"),
    403: ("Forbidden", "the token does not have the scope for this"),
    421: ("Misdirected", "the service is not known by that host name; add it to http.names"),
}


_ASK = 'Basic realm="dygcn: any name, the token as password"'


class _AnyText(Convertor[str]):
    """An id in a path: whatever is there, line breaks and slashes too."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("node", _AnyText())


class Web(Handlers):
    """The handlers that need the web itself."""

    def __init__(self, service: Service, waiters: Waiters) -> None:
        super().__init__(service, waiters)
        self.metrics = Metrics(service)
        self.bodies = Bodies(service.settings.limits.bodies_bytes)
        model, settings = service.live.model, service.settings
        guarded = bool(settings.http.tokens)
        self._openapi = msgspec.json.encode(describe(settings.limits, model.kind, model.dim, guarded=guarded))
        self._page = (files("dygcn.serving.service") / "page.html").read_bytes()
        self._page_rules = page_rules(self._page)

    async def get_metrics(self, request: Request) -> Response:
        """Return the metrics."""
        text = await run_in_threadpool(self.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def get_openapi(self, request: Request) -> Response:
        """Return the description of all routes."""
        return Response(self._openapi, media_type="application/json")

    async def get_page(self, request: Request) -> Response:
        """Return the page."""
        return Response(self._page, media_type="text/html; charset=utf-8", headers=self._page_rules)


def page_rules(page: bytes) -> dict[str, str]:
    """Return the headers of a page: its own script and style may run, by their hashes, and nothing else.

    Examples
    --------
    >>> page_rules(b"<style>p {}</style><script>1</script>")["Content-Security-Policy"][:51]
    "default-src 'none'; script-src 'sha256-a4ayc/80/OGd"
    """
    hashes = {}
    for part in ("script", "style"):
        found = re.findall(rb"<%b>(.*?)</%b>" % (part.encode(), part.encode()), page, re.DOTALL)
        sums = (base64.b64encode(hashlib.sha256(text).digest()).decode() for text in found)
        hashes[part] = " ".join(f"'sha256-{one}'" for one in sums) or "'none'"
    return {name: rule.format(**hashes) for name, rule in _PAGE_RULES.items()}


def make_app(service: Service) -> Starlette:
    """Return the application of a service; it warms up, starts and drains the service with itself."""
    waiters = Waiters(service.settings.limits.feeds)
    web, doors = Web(service, waiters), Doors(service.settings.http)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        waiters.begin()
        service.notify(waiters.wake)
        with suppress(DygcnError):  # what is not warm is slow once; it is served all the same
            await run_in_threadpool(warm_up, service.live.model)
        service.start()
        yield
        waiters.end()
        await run_in_threadpool(service.stop)

    routes = [
        Route(
            entry.path.replace("{id}", "{id:node}"),
            _guarded(entry, getattr(web, entry.handler), doors, web),
            methods=[entry.method],
        )
        for entry in ROUTES
    ]
    handlers = {HTTPException: _not_found, Exception: _unexpected}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.waiters = waiters
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = ", ".join(f"{route.method} {route.path}" for route in ROUTES)
    headers = dict(error.headers or {})
    response = problem(error.status_code, error.detail.replace(" ", ""), f"there is: {allowed}")
    response.headers.update(headers)
    return response


async def _unexpected(request: Request, error: Exception) -> Response:
    """Say that something broke, and nothing of what."""
    return problem(500, "InternalError", "something broke inside the service; its log says what")


def _guarded(
    entry: Entry, handler: Callable[[Request], Awaitable[Response]], doors: Doors, web: Web
) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler: who may, how much, and what errors look like."""

    async def answer(request: Request) -> Response:
        headers = request.headers
        status = doors.status(entry.scope, headers.get("authorization"), headers.get("host"))
        if status != 200:
            return denied(status)
        try:
            if not entry.forms:
                return await handler(request)
            with web.bodies.opened() as body:
                return await _read_body(request, entry, body, web.limits) or await handler(request)
        except DygcnError as error:
            return refusal(error)
        except Exception as error:
            _LOG.exception("%s %s broke", entry.method, entry.path)
            return await _unexpected(request, error)

    async def counted(request: Request) -> Response:
        begun = time.perf_counter()
        response = await answer(request)
        web.metrics.count(entry.path, response.status_code, time.perf_counter() - begun)
        return response

    return counted


async def _read_body(request: Request, entry: Entry, body: Body, limits: Limits) -> Response | None:
    """Read the body within its bounds; return the refusal, if it is one."""
    if content_type(request) not in entry.forms:
        allowed = ", ".join(form for form in FORMS if form in entry.forms)
        return problem(415, "UnsupportedMediaType", f"send Content-Type: {allowed}")
    most, patience = limits.body_bytes, limits.seconds_to_send
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length) > most:
        return too_large(most)
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                body.take(chunk)
                if body.size > most:
                    return too_large(most)
    except TimeoutError:
        return problem(408, "TooSlow", f"the body did not come within {patience:g} s", Connection="close")
    except ClientDisconnect:
        return problem(400, "Disconnected", "the body ended too early")
    request._body = b"".join(body.chunks)
    body.chunks.clear()
    return None


def too_large(most: int) -> Response:
    """Return the answer for a body beyond what is allowed."""
    return problem(413, "TooLarge", f"the body is larger than {most} bytes; send it in parts")


def denied(status: int) -> Response:
    """Return the answer for someone who may not."""
    kind, message = _DENIED[status]
    if status == 401:
        return problem(401, kind, message, WWW_Authenticate=_ASK)
    return problem(status, kind, message)


def refusal(error: DygcnError) -> Response:
    """Return the answer for an error: the status says whose fault it is."""
    kind, message = type(error).__name__, str(error)
    if isinstance(error, UnknownNode):
        return problem(404, kind, message)
    if isinstance(error, Overloaded):
        return problem(429, kind, message, Retry_After=str(error.retry_after))
    if isinstance(error, Closing | WriteFailed):
        return problem(503, kind, message, Retry_After="5")
    if isinstance(error, OptionError | EventError):
        return problem(400, kind, message)
    return problem(503, kind, message, Retry_After="5")


def run_app(
    service: Service,
    ready: Callable[[str], Any] | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Parameters
    ----------
    ready
        Called with the address once requests are answered.
    sockets
        Where to listen, from `bind`; None: they are bound now.
    """
    serve_app(make_app(service), service.settings, ready, sockets)


def serve_app(
    app: Starlette,
    settings: ServiceSettings,
    ready: Callable[[str], Any] | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve an application that `make_app` made."""
    sockets = bind(settings.http) if sockets is None else sockets
    sys.setswitchinterval(_SWITCH)
    for one in (signal.SIGTERM, signal.SIGINT):  # sent again after the drain, to whoever was there before
        signal.signal(one, lambda *_: None)
    Server(app, settings, app.state.waiters, ready).run(sockets)
