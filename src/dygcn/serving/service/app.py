"""The thin web shell: doors first, then a handler, and every error as a problem."""

from __future__ import annotations

import asyncio
import base64
import hashlib
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
from dygcn.errors import DygcnError, OptionError
from dygcn.serving.observing.events import note
from dygcn.serving.observing.request_ids import current_request_id
from dygcn.serving.service.auth import Doors
from dygcn.serving.service.behind_readers import behind_readers
from dygcn.serving.service.body_limits import Body
from dygcn.serving.service.changes import Waiters
from dygcn.serving.service.content_coding import CODINGS, compressed, decoded
from dygcn.serving.service.drain import leave_behind
from dygcn.serving.service.handlers import FORMS, content_type
from dygcn.serving.service.mending import Mending
from dygcn.serving.service.metrics import Metrics
from dygcn.serving.service.openapi import describe
from dygcn.serving.service.problems import problem, refusal
from dygcn.serving.service.routes import ROUTES, V1
from dygcn.serving.service.routes import Route as Entry
from dygcn.serving.service.server import Server, allow_many_connections, bind
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import ServiceSettings
from dygcn.serving.service.warming import warm_up

with extra("serve"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.convertors import Convertor, register_url_convertor
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Match, Route

_SMALL = 64 << 10  # bytes of a body that is read without waiting for its turn
_SWITCH = 1e-4  # seconds; with the usual 5 ms the writing thread would wait that long after every loop
_PAGE_RULES = {
    "Content-Security-Policy": "default-src 'none'; script-src {script}; style-src {style}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_DENIED = {
    401: ("unauthorized", "a token is needed: send it as 'Authorization: Bearer TOKEN'"),
    403: ("forbidden", "the token does not have the scope for this"),
    421: ("misdirected", "the service is not known by that host name; add it to http.names"),
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


class Web(Mending):
    """The handlers that need the web itself."""

    def __init__(self, service: Service, waiters: Waiters) -> None:
        super().__init__(service, waiters)
        self.metrics = Metrics(service)
        service.current.watch(self._follow_settings)
        self._follow_settings()
        self._page = (files("dygcn.serving.service") / "page.html").read_bytes()
        self._page_rules = page_rules(self._page)

    def _follow_settings(self) -> None:
        """Take what may change while the service runs."""
        model, limits, http = self.service.live.model, self.limits, self.service.current.http
        self.doors = Doors(http)
        self.bodies.most, self.waiters.most = limits.bodies_bytes, limits.feeds
        described = describe(limits, model.ids, model.dim, guarded=bool(http.tokens))
        self._openapi = msgspec.json.encode(described)

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
    waiters = Waiters(service.current.limits.feeds)
    web = Web(service, waiters)

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
            _guarded(entry, getattr(web, entry.handler), web),
            methods=[entry.method],
        )
        for entry in ROUTES
    ]
    handlers = {HTTPException: _not_found, Exception: _unexpected}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.waiters, app.state.service = waiters, service
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    message = _versioned(request) or "there is: " + ", ".join(f"{one.method} {one.path}" for one in ROUTES)
    response = problem("not-found" if error.status_code == 404 else "method-not-allowed", message)
    response.headers.update(headers)
    if error.status_code == 405:  # the framework names the methods of the first route with that path alone
        response.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """Return every method that the path of a request has."""
    routes: list[Route] = request.app.router.routes
    return {
        one
        for route in routes
        if route.matches(request.scope)[0] != Match.NONE
        for one in route.methods or ()
    }


def _versioned(request: Request) -> str:
    """Say where a route is that was asked for without its version; nothing, if it is not one."""
    first = request.url.path.split("/")[1]
    if any(route.path.split("/")[1:3] == [V1[1:], first] for route in ROUTES):
        return f"/{first} is at {V1}/{first}: the API has its version in the path"
    return ""


async def _unexpected(request: Request, error: Exception) -> Response:
    """Say that something broke, and nothing of what."""
    return problem("internal-error", "something broke inside the service; its log says what")


def _guarded(
    entry: Entry, handler: Callable[[Request], Awaitable[Response]], web: Web
) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler: who may, how much, and what errors look like."""

    async def answer(request: Request) -> Response:
        headers = request.headers
        status = web.doors.status(entry.scope, headers.get("authorization"), headers.get("host"))
        if status != 200:
            return denied(status)
        try:
            _check_query(entry, request)
            if not entry.forms:
                return await handler(request)
            with web.bodies.opened() as body:
                return await _read_body(request, entry, body, web) or await handler(request)
        except DygcnError as error:
            return refusal(error)
        except Exception as error:
            note("request.failed", method=entry.method, route=entry.path, exc_info=error)
            return await _unexpected(request, error)

    seen = web.service.observations

    async def traced(request: Request) -> Response:
        with seen.tracing.request(entry.method, entry.path, request.headers) as span:
            response = await answer(request)
            seen.tracing.answered(span, response.status_code, current_request_id())
            return response

    async def counted(request: Request) -> Response:
        begun = time.perf_counter()
        response = await (traced(request) if seen.tracing.on else answer(request))
        response = await compressed(response, request.headers.get("accept-encoding", ""))
        seen.requests.count(entry.path, response.status_code, time.perf_counter() - begun)
        return response

    return counted


def _check_query(entry: Entry, request: Request) -> None:
    """Refuse a parameter that the route does not have: what it asks for would not be answered."""
    known = [param.name for param in entry.params if param.place == "query"]
    unknown = [name for name in request.query_params if name not in known]
    if unknown and entry.handler != "get_page":
        allowed = f"it has {', '.join(known)}" if known else "it has none"
        raise OptionError(f"{entry.method} {entry.path} has no parameter {unknown[0][:60]!r}; {allowed}")


async def _read_body(request: Request, entry: Entry, body: Body, web: Web) -> Response | None:
    """Read the body within its bounds; return the refusal, if it is one."""
    if content_type(request) not in entry.forms:
        allowed = ", ".join(form for form in FORMS if form in entry.forms)
        return problem("unsupported-media-type", f"send Content-Type: {allowed}")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", *CODINGS):
        understood = ", ".join(CODINGS)
        detail = f"Content-Encoding is {coding[:40]!r}; understood are {understood}, or none"
        return problem("unsupported-encoding", detail, Accept_Encoding=understood)
    most, patience = web.limits.body_bytes, web.limits.seconds_to_send
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length) > most:
        return too_large(most)
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                body.take(chunk)
                if body.size > most:
                    return too_large(most)
                if body.size > _SMALL:
                    await web.bodies.turn()
    except TimeoutError:
        return problem("too-slow", f"the body did not come within {patience:g} s", Connection="close")
    except ClientDisconnect:
        return problem("interrupted", "the body ended too early")
    request._body = b"".join(body.chunks)
    body.chunks.clear()
    if coding in CODINGS:
        whole = await web.bodies.decode(decoded, request._body, coding, most)
        if whole is None:
            return too_large(most)
        body.take(whole)
        body.chunks.clear()
        request._body = whole
    return None


def too_large(most: int) -> Response:
    """Return the answer for a body beyond what is allowed."""
    return problem("too-large", f"the body is larger than {most} bytes; send it in parts")


def denied(status: int) -> Response:
    """Return the answer for someone who may not."""
    kind, message = _DENIED[status]
    if status == 401:
        return problem(kind, message, WWW_Authenticate=_ASK)
    return problem(kind, message)


def run_app(
    service: Service,
    ready: Callable[[str], Any] | None = None,
    sockets: list[socket.socket] | None = None,
    reread: Callable[[], ServiceSettings] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Parameters
    ----------
    ready
        Called with the address once requests are answered.
    sockets
        Where to listen, from `bind`; None: they are bound now.
    reread
        Returns the settings for SIGHUP; None: there is no file to read again.
    """
    serve_app(make_app(service), ready, sockets, reread)


def serve_app(
    app: Starlette,
    ready: Callable[[str], Any] | None = None,
    sockets: list[socket.socket] | None = None,
    reread: Callable[[], ServiceSettings] | None = None,
) -> None:
    """Serve an application that `make_app` made."""
    service: Service = app.state.service
    sockets = bind(service.settings.http) if sockets is None else sockets
    sys.setswitchinterval(_SWITCH)
    allow_many_connections()
    with behind_readers(service, sockets) as readers:
        _run(Server(app, ready, reread, readers), sockets)
    leave_behind(service.left_behind)


def _run(server: Server, sockets: list[socket.socket]) -> None:
    for one in (signal.SIGTERM, signal.SIGINT):  # sent again after the drain, to whoever was there before
        signal.signal(one, lambda *_: None)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: server.ask_to_reload())
    server.run(sockets)
