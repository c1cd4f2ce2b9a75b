"""The client for programs that wait for answers."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

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
) -> Callable[Concatenate[Client, P], T]:
    """Return an operation as a method that waits for its result.

    Parameters
    ----------
    in_turn
        Whether one call has to end before the next begins.
    """

    @functools.wraps(operation)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._turn if in_turn else nullcontext():
            return self._run(operation(self._questions, *args, **kwargs))

    method.__signature__ = signature_of(operation)  # type: ignore[attr-defined]
    return method


class Client:
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
        settings = Settings(url, name, token, timeout)
        self._questions, self._shown = settings.questions, settings.shown
        self._turn = threading.Lock()  # events are numbered, so they go one call after the other
        self._http = httpx.Client(
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
                step = operation.send(self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            operation.close()

    def _do(self, step: Request | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return reply_of(self._http.request(**as_httpx(step)))
        except httpx.RequestError as error:
            return lost_by(error)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client{self._shown}"
