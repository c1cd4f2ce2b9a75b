"""The two clients: they run operations and exchange requests for responses over httpx."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import nullcontext
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

from dygcn._extras import extra
from dygcn.client.operations import Operations
from dygcn.client.retry import Lost, Operation, Pause, Request, Response, Retry
from dygcn.errors import OptionError
from dygcn.schema.answers import Changes

with extra("client"):
    import httpx

P = ParamSpec("P")
T = TypeVar("T")
TOKEN = "DYGCN_TOKEN"
_TO_CONNECT = 5.0  # seconds
# Idle connections are given up before the service closes them (after 5 s): a request on one that is being
# closed gets no answer, and without a name it would not be known whether it arrived.
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def _method(
    operation: Callable[Concatenate[Operations, P], Operation[T]], *, in_turn: bool = False
) -> Callable[Concatenate[Client, P], T]:
    """Return an operation as a method; `in_turn`: calls run one after the other."""

    @functools.wraps(operation)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._turn if in_turn else nullcontext():
            return self._run(operation(self._operations, *args, **kwargs))

    _sign(method, operation)
    return method


def _async_method(
    operation: Callable[Concatenate[Operations, P], Operation[T]], *, in_turn: bool = False
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(operation)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._turn if in_turn else nullcontext():
            return await self._run(operation(self._operations, *args, **kwargs))

    _sign(method, operation)
    return method


def _sign(method: Any, operation: Callable[..., Any]) -> None:
    """Give a method the signature of its operation, without the generator in its return type."""
    found = inspect.signature(operation)
    result = str(found.return_annotation).removeprefix("Operation[").removesuffix("]")
    method.__signature__ = found.replace(return_annotation=result)


class _Connected:
    def _configure(self, url: str, name: str | None, token: str | None, timeout: float) -> dict[str, Any]:
        """Set the operations; return the settings of httpx."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError("url is none; allowed is one as http://127.0.0.1:8470")
        if parts.username is not None or parts.password is not None:
            raise OptionError("url has a user or a password in it; pass a token as token=, or in DYGCN_TOKEN")
        if not timeout > 0:
            raise OptionError(f"timeout is {timeout}; allowed are seconds above 0")
        token = os.environ.get(TOKEN) if token is None else token
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise OptionError("the token has characters that no token has; copy what `dygcn token` printed")
        headers = {"User-Agent": "dygcn-client"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._operations = Operations(Retry(timeout), name)
        self._shown = f"({url.rstrip('/')!r}{'' if name is None else f', name={name!r}'})"
        return {"base_url": url.rstrip("/"), "headers": headers, "limits": _LIMITS}

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._shown}"


def _as_httpx(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "params": list(request.query),
        "content": request.body,
        "headers": dict(request.headers),
        "timeout": httpx.Timeout(request.seconds, connect=min(_TO_CONNECT, request.seconds)),
    }


def _lost_by(error: httpx.RequestError) -> Lost:
    return Lost(f"{type(error).__name__} {error}".strip(), sent=not isinstance(error, _NOT_SENT))


class Client(_Connected):
    """A client of the service; any number of threads may use it.

    Requests are repeated where the connection breaks or the service asks to come again, until `timeout` is
    over: reads always, events only under a `name`, by which the service notices repeats.

    Parameters
    ----------
    url
        Such as ``"http://127.0.0.1:8470"``.
    name
        Under which events are counted, so that none is applied twice; one sender, one name.
    token
        By default that of the environment variable DYGCN_TOKEN, if there is one.
    timeout
        Seconds for a request, its repeats included.
    transport
        How httpx reaches the service, if not as usual: over a Unix socket, say.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = self._configure(url, name, token, timeout)
        self._turn = threading.Lock()  # events are numbered, so they go one call after the other
        self._http = httpx.Client(transport=transport, **settings)

    vector = _method(Operations.vector)
    vectors = _method(Operations.vectors)
    nearest = _method(Operations.nearest)
    recommend = _method(Operations.recommend)
    score = _method(Operations.score)
    neighbors = _method(Operations.neighbors)
    explain = _method(Operations.explain)
    explain_change = _method(Operations.explain_change)
    what_if = _method(Operations.what_if)
    update = _method(Operations.update, in_turn=True)
    position = _method(Operations.position, in_turn=True)
    page = _method(Operations.page)
    forget = _method(Operations.forget)
    status = _method(Operations.status)
    ready = _method(Operations.ready)
    dead_letters = _method(Operations.dead_letters)
    replay = _method(Operations.replay)
    discard = _method(Operations.discard)

    def changes(self, since: str = "", *, limit: int = 1_000, wait: float | None = 20.0) -> Iterator[Changes]:
        """Yield pages of changes, each node once, and go on from page to page.

        A page with ``reset`` means: drop your copy, all nodes follow. To go on after this program ends, keep
        the cursor ``next`` of the last page that you took in.

        Parameters
        ----------
        since
            The cursor ``next`` or ``latest`` of an earlier page; ``""``: from the beginning.
        limit
            Rows of a page.
        wait
            Seconds that a request waits for changes; None: end when there are no more.
        """
        while True:
            page = self.page(since, limit=limit, wait=wait or 0.0)
            since = page.next
            if page.news:
                yield page
            if wait is None and not page.more:
                return

    def _run(self, operation: Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                step = operation.send(self._exchange(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            operation.close()

    def _exchange(self, step: Request | Pause) -> Response | Lost | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            response = self._http.request(**_as_httpx(step))
        except httpx.RequestError as error:
            return _lost_by(error)
        return Response(response.status_code, response.headers, response.content)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Connected):
    """The client for asyncio: the methods of `Client`, to be awaited; any number of tasks may use it.

    The parameters are those of `Client`, but for a transport of its own kind.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        settings = self._configure(url, name, token, timeout)
        self._turn = asyncio.Lock()  # events are numbered, so they go one call after the other
        self._http = httpx.AsyncClient(transport=transport, **settings)

    vector = _async_method(Operations.vector)
    vectors = _async_method(Operations.vectors)
    nearest = _async_method(Operations.nearest)
    recommend = _async_method(Operations.recommend)
    score = _async_method(Operations.score)
    neighbors = _async_method(Operations.neighbors)
    explain = _async_method(Operations.explain)
    explain_change = _async_method(Operations.explain_change)
    what_if = _async_method(Operations.what_if)
    update = _async_method(Operations.update, in_turn=True)
    position = _async_method(Operations.position, in_turn=True)
    page = _async_method(Operations.page)
    forget = _async_method(Operations.forget)
    status = _async_method(Operations.status)
    ready = _async_method(Operations.ready)
    dead_letters = _async_method(Operations.dead_letters)
    replay = _async_method(Operations.replay)
    discard = _async_method(Operations.discard)

    async def changes(
        self, since: str = "", *, limit: int = 1_000, wait: float | None = 20.0
    ) -> AsyncIterator[Changes]:
        """Yield pages of changes, as `Client.changes` does."""
        while True:
            page = await self.page(since, limit=limit, wait=wait or 0.0)
            since = page.next
            if page.news:
                yield page
            if wait is None and not page.more:
                return

    async def _run(self, operation: Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                step = operation.send(await self._exchange(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            operation.close()

    async def _exchange(self, step: Request | Pause) -> Response | Lost | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            response = await self._http.request(**_as_httpx(step))
        except httpx.RequestError as error:
            return _lost_by(error)
        return Response(response.status_code, response.headers, response.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
