"""The application: authorization first, then a handler; every error becomes a problem (RFC 9457)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

from dygcn._extras import extra
from dygcn.errors import DygcnError, OptionError
from dygcn.serving.observing.events import note
from dygcn.serving.observing.request_ids import REQUEST_ID
from dygcn.serving.service.auth import Authorizer
from dygcn.serving.service.bodies import CODINGS, Body, compressed, decoded
from dygcn.serving.service.changes import ChangeHandlers, Waiters
from dygcn.serving.service.events import EventHandlers
from dygcn.serving.service.lifetime import leave_behind, warm_up
from dygcn.serving.service.links import LinkHandlers
from dygcn.serving.service.nearest import NearestHandlers
from dygcn.serving.service.node_map import MapHandlers
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.openapi import describe
from dygcn.serving.service.problems import problem, refusal
from dygcn.serving.service.reader_processes import behind_readers
from dygcn.serving.service.server import Server, allow_many_connections, bind, collect_hang_ups
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import CurrentSettings, ServiceSettings
from dygcn.serving.service.status import Metrics, StatusHandlers
from dygcn.serving.service.vectors import VectorHandlers
from dygcn.serving.service.web import JSON, V1, RequestParser, Route, content_type, route
from dygcn.serving.service.what_if import TrialHandlers

with extra("serve"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.convertors import Convertor, register_url_convertor
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Match
    from starlette.routing import Route as WebRoute

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
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_ASK = 'Basic realm="dygcn: any name, the token as password"'


class _AnyText(Convertor[str]):
    """An id in a path: any text, with line breaks and slashes, too."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("node", _AnyText())


class AboutHandlers:
    """Handlers of the web page and of the OpenAPI description."""

    def __init__(self) -> None:
        self.description = b""
        self._page = (files("dygcn.serving.service") / "page.html").read_bytes()
        self._page_rules = page_rules(self._page)

    @route("GET /openapi.json", dict[str, Any])
    async def get_openapi(self, request: Request) -> Response:
        """Return this description."""
        return Response(self.description, media_type=JSON)

    @route("GET /", media="text/html")
    async def get_page(self, request: Request) -> Response:
        """A page for people."""
        return Response(self._page, media_type="text/html; charset=utf-8", headers=self._page_rules)


HANDLERS = (
    EventHandlers,
    VectorHandlers,
    NearestHandlers,
    LinkHandlers,
    TrialHandlers,
    ChangeHandlers,
    StatusHandlers,
    MapHandlers,
    AboutHandlers,
)
ROUTES: tuple[Route, ...] = tuple(
    one.route for kind in HANDLERS for one in vars(kind).values() if hasattr(one, "route")
)


class RouteGuard:
    """The steps around every route's handler: authorization, limits, errors as problems, counts."""

    def __init__(self, current: CurrentSettings, parser: RequestParser, observations: Observations) -> None:
        self._current, self._parser, self._seen = current, parser, observations
        current.watch(self._follow_settings)

    def _follow_settings(self) -> None:
        self._authorizer = Authorizer(self._current.http)

    def around(self, route: Route, handler: Handler) -> Handler:
        """Return the handler with all these steps."""
        method, path, forms, seen = route.method, route.path, route.forms, self._seen
        known = [param.name for param in route.params if param.place == "query"]

        async def answer(request: Request) -> Response:
            begun, headers, tracing = time.perf_counter(), request.headers, seen.tracing
            status = self._authorizer.status(route.scope, headers.get("authorization"), headers.get("host"))
            with tracing.request(method, path, headers) if tracing.on else nullcontext() as span:
                try:
                    if status != 200:
                        response = denied(status)
                    elif (unknown := request.query_params.keys() - known) and route.handler != "get_page":
                        raise _unknown_parameter(route, min(unknown), known)
                    elif forms:
                        with self._parser.bodies.opened() as body:
                            refused = await self._read_body(request, forms, body)
                            response = refused or await handler(request)
                    else:
                        response = await handler(request)
                except DygcnError as error:
                    response = refusal(error)
                except Exception as error:
                    note("request.failed", method=method, route=path, exc_info=error)
                    response = await _unexpected(request, error)
                if tracing.on:
                    tracing.answered(span, response.status_code, REQUEST_ID.get())
            response = await compressed(response, headers.get("accept-encoding", ""))
            seen.requests.count(path, response.status_code, time.perf_counter() - begun)
            return response

        return answer

    async def _read_body(self, request: Request, forms: Sequence[str], body: Body) -> Response | None:
        bodies, limits = self._parser.bodies, self._parser.limits
        if content_type(request) not in forms:
            return problem("unsupported-media-type", f"send Content-Type: {', '.join(forms)}")
        coding = request.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity", *CODINGS):
            understood = ", ".join(CODINGS)
            detail = f"Content-Encoding is {coding[:40]!r}; understood are {understood}, or none"
            return problem("unsupported-encoding", detail, Accept_Encoding=understood)
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
                    if body.size > _SMALL:
                        await bodies.turn()
        except TimeoutError:
            return problem("too-slow", f"the body did not come within {patience:g} s", Connection="close")
        except ClientDisconnect:
            return problem("interrupted", "the body ended too early")
        request._body = b"".join(body.chunks)
        body.chunks.clear()
        if coding in CODINGS:
            whole = await bodies.decode(decoded, request._body, coding, most)
            if whole is None:
                return too_large(most)
            body.take(whole)
            body.chunks.clear()
            request._body = whole
        return None


def _unknown_parameter(route: Route, name: str, known: list[str]) -> OptionError:
    allowed = f"it has {', '.join(known)}" if known else "it has none"
    return OptionError(f"{route.method} {route.path} has no parameter {name[:60]!r}; {allowed}")


def page_rules(page: bytes) -> dict[str, str]:
    """Return the security headers of a page: only its own script and style may run, by their hashes."""
    hashes = {}
    for part in ("script", "style"):
        found = re.findall(rb"<%b>(.*?)</%b>" % (part.encode(), part.encode()), page, re.DOTALL)
        sums = (base64.b64encode(hashlib.sha256(text).digest()).decode() for text in found)
        hashes[part] = " ".join(f"'sha256-{one}'" for one in sums) or "'none'"
    return {name: rule.format(**hashes) for name, rule in _PAGE_RULES.items()}


def make_handlers(
    service: Service, parser: RequestParser, waiters: Waiters, about: AboutHandlers
) -> list[Any]:
    """Return the handlers of all resources, each with the parts of the service that it needs."""
    live, seen, queue, clock = service.live, service.observations, service.queue, service.clock
    links = LinkHandlers(parser, live, service.reads, seen, service.budget)
    return [
        EventHandlers(parser, live, queue, clock),
        VectorHandlers(parser, service.reads, service.past, far=live._far),
        NearestHandlers(parser, service.search),
        links,
        TrialHandlers(parser, live, queue, clock, seen, service.budget),
        ChangeHandlers(parser, live, seen, waiters),
        StatusHandlers(service.report, Metrics(service.report).text, service.readiness),
        MapHandlers(parser, live, service.reads, service.search, links),
        about,
    ]


def make_app(service: Service) -> Starlette:
    """Return the application of a service; its lifespan warms up, starts and drains the service."""
    current, model = service.current, service.live.model
    parser, waiters, about = RequestParser(current, model.ids), Waiters(current.limits.feeds), AboutHandlers()
    handlers = make_handlers(service, parser, waiters, about)
    guard = RouteGuard(current, parser, service.observations)

    def follow_settings() -> None:
        waiters.most = current.limits.feeds
        described = describe(ROUTES, current.limits, model.ids, model.dim, guarded=bool(current.http.tokens))
        about.description = msgspec.json.encode(described)

    current.watch(follow_settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        waiters.begin()
        service.listeners.append(waiters.wake)
        await run_in_threadpool(warm_up)
        service.start()
        yield
        waiters.end()
        await run_in_threadpool(service.stop)

    routes = []
    for one in ROUTES:
        owner = next(of for of in handlers if hasattr(of, one.handler))
        handler = guard.around(one, getattr(owner, one.handler))
        routes.append(WebRoute(one.path.replace("{id}", "{id:node}"), handler, methods=[one.method]))
    errors = {HTTPException: _not_found, Exception: _unexpected}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors)
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
    routes: list[WebRoute] = request.app.router.routes
    return {
        one
        for route in routes
        if route.matches(request.scope)[0] != Match.NONE
        for one in route.methods or ()
    }


def _versioned(request: Request) -> str:
    """Return a hint to the versioned path of a route requested without version; "" for an unknown route."""
    first = request.url.path.split("/")[1]
    if any(route.path.split("/")[1:3] == [V1[1:], first] for route in ROUTES):
        return f"/{first} is at {V1}/{first}: the API has its version in the path"
    return ""


async def _unexpected(request: Request, error: Exception) -> Response:
    """Return a 500 problem without details, which are in the log."""
    return problem("internal-error", "something broke inside the service; its log says what")


def too_large(most: int) -> Response:
    """Return the response to a body over the limit."""
    return problem("too-large", f"the body is larger than {most} bytes; send it in parts")


def denied(status: int) -> Response:
    """Return the response to an unauthorised request."""
    kind, message = _DENIED[status]
    if status == 401:
        return problem(kind, message, WWW_Authenticate=_ASK)
    return problem(kind, message)


def run_app(
    service: Service,
    ready: Callable[[str], Any] | None = None,
    sockets: list[socket.socket] | None = None,
    reread: Callable[[], ServiceSettings] | None = None,
    hang_ups: list[int] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain."""
    app = make_app(service)
    sockets = bind(service.settings.http) if sockets is None else sockets
    sys.setswitchinterval(_SWITCH)
    allow_many_connections()
    with behind_readers(service, sockets) as readers:
        server = Server(app, ready, reread, readers, collect_hang_ups() if hang_ups is None else hang_ups)
        for one in (signal.SIGTERM, signal.SIGINT):  # sent again after the drain, to the previous handler
            signal.signal(one, lambda *_: None)
        server.run(sockets)
    leave_behind(service.left_behind)
