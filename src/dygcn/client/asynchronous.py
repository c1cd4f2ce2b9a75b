"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from dygcn._extras import extra
from dygcn.client.carrying import LIMITS, Settings, as_httpx, lost_by, reply_of, signature_of
from dygcn.client.questions import Questions
from dygcn.client.steps import Lost, Operation, Pause, Reply, Request
from dygcn.schema.answers import Changes

with extra("client"):
    import httpx

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    operation: Callable[Concatenate[Questions, P], Operation[T]], *, in_turn: bool = False
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return an operation as a coroutine method.

    Parameters
    ----------
    in_turn
        Whether one call has to end before the next begins.
    """

    @functools.wraps(operation)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._turn if in_turn else nullcontext():
            return await self._run(operation(self._questions, *args, **kwargs))

    method.__signature__ = signature_of(operation)  # type: ignore[attr-defined]
    return method


class AsyncClient:
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
        settings = Settings(url, name, token, timeout)
        self._questions, self._shown = settings.questions, settings.shown
        self._turn = asyncio.Lock()  # events are numbered, so they go one call after the other
        self._http = httpx.AsyncClient(
            base_url=settings.url, headers=settings.headers, transport=transport, limits=LIMITS
        )

    vector = _method(Questions.vector)
    vectors = _method(Questions.vectors)
    nearest = _method(Questions.nearest)
    nearest_to = _method(Questions.nearest_to)
    nearest_of = _method(Questions.nearest_of)
    recommend = _method(Questions.recommend)
    scores = _method(Questions.scores)
    neighbors = _method(Questions.neighbors)
    explain = _method(Questions.explain)
    explain_change = _method(Questions.explain_change)
    what_if = _method(Questions.what_if)
    send = _method(Questions.send, in_turn=True)
    position = _method(Questions.position, in_turn=True)
    page = _method(Questions.page)
    forget = _method(Questions.forget)
    status = _method(Questions.status)
    ready = _method(Questions.ready)
    dead_letters = _method(Questions.dead_letters)
    replay = _method(Questions.replay)
    discard = _method(Questions.discard)

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
                step = operation.send(await self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            operation.close()

    async def _do(self, step: Request | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return reply_of(await self._http.request(**as_httpx(step)))
        except httpx.RequestError as error:
            return lost_by(error)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient{self._shown}"
