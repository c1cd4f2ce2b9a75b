"""Requests and responses, retries, and refusals as errors.

An `Operation` is a generator: it yields a `Request` and is sent its `Response` (or `Lost`), or yields a
`Pause`, and returns its result. It knows no network and no event loop, so the same code serves both clients.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import msgspec

from dygcn.client.decoding import read
from dygcn.engine.events.row_errors import NOT_READ
from dygcn.errors import DygcnError, ServiceError, UnknownNode, UnknownOutcome, Unreachable

T = TypeVar("T")
_BASE = "/problems/"
_COME_AGAIN = frozenset({429, 502, 503, 504})
_NOTHING_DONE = frozenset(  # refused before anything was done, so that even a nameless repeat is idempotent
    {"overloaded", "too-many-clients", "closing", "not-ready", "too-many-connections"}
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds
_LEAST = 0.05  # seconds that the last try has
_NAMELESS = (
    "it is not known whether the events arrived, and a repeat might apply them twice; "
    "give the client a name (name=...), and repeats become harmless"
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the service."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 30.0  # to wait for the answer


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next request."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Response:
    """A response of the service."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes
    again: bool = False  # an earlier try of the same request may have arrived, too


@dataclass(frozen=True, slots=True)
class Lost:
    """A request without a response."""

    reason: str
    sent: bool = True  # whether the request may have arrived


Operation: TypeAlias = Generator[Request | Pause, Response | Lost | None, T]


class _Problem(msgspec.Struct):
    """The fields of a refusal that a client reads."""

    type: str = ""
    detail: str = ""
    instance: str | None = None
    expected: int | None = None
    retry_after: float | None = None
    node: int | str | None = None

    @property
    def kind(self) -> str:
        """The problem's type without the URL prefix that all types share."""
        return self.type.removeprefix(_BASE)


class Retry:
    """Retries requests until a response arrives or `timeout` seconds are over; `clock` returns the time."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout, self.clock = timeout, clock

    def request(self, request: Request, *, idempotent: bool = True, wait: float = 0.0) -> Operation[Response]:
        """Return the response to a request.

        The service may get an idempotent request twice. `wait` is for how many seconds the service itself may
        wait before it answers. Raises `UnknownNode`, or a `ServiceError` if the service refuses and a repeat
        would not help, or not in time.
        """
        until = self.clock() + self.timeout + wait
        pauses, again = _pauses(), False
        while True:
            received = yield replace(request, seconds=max(until - self.clock(), _LEAST))
            failure: DygcnError
            if isinstance(received, Response):
                if received.status == 200:
                    return replace(received, again=again)
                problem = read_problem(received)
                failure = error_of(received, problem)
                done = problem.kind not in _NOTHING_DONE
                if received.status not in _COME_AGAIN or (done and not idempotent):
                    raise failure
                pause = max(_retry_after(received, problem), next(pauses))
                again = again or done
            else:
                assert isinstance(received, Lost)
                failure = Unreachable(f"{request.method} {request.path}: no answer: {received.reason}")
                if received.sent and not idempotent:
                    raise UnknownOutcome(f"{failure.detail}; {_NAMELESS}")
                pause = next(pauses)
                again = again or received.sent
            if self.clock() + pause >= until:
                raise failure
            yield Pause(pause)

    def answer(self, request: Request, shape: Callable[..., T], *, wait: float = 0.0) -> Operation[T]:
        """Return the decoded response to an idempotent request."""
        response = yield from self.request(request, wait=wait)
        found: T = read(response.body, shape)
        return found


def _pauses() -> Iterator[float]:
    """Yield growing random pauses, so that many clients do not retry at once."""
    longest = _FIRST_PAUSE
    while True:
        yield longest * (0.5 + 0.5 * random.random())
        longest = min(2 * longest, _LONGEST_PAUSE)


def _retry_after(response: Response, problem: _Problem) -> float:
    """Return the seconds before the next retry; a proxy may name them only in a header."""
    text = _header(response, "retry-after")
    return float(text) if text.isascii() and text.isdigit() else problem.retry_after or 0.0


def _header(response: Response, name: str) -> str:
    return next((value for key, value in response.headers.items() if key.lower() == name), "")


def read_problem(response: Response) -> _Problem:
    """Return the problem in a refusal; an empty one if a proxy refused and not the service."""
    try:
        return msgspec.json.decode(response.body, type=_Problem)
    except NOT_READ:
        return _Problem()


def error_of(response: Response, problem: _Problem) -> DygcnError:
    """Return the exception for a refusal."""
    if problem.kind == "unknown-node" and problem.node is not None:
        return UnknownNode(problem.node)
    return ServiceError(
        problem.detail or "whoever answered said no more than the status",
        type=problem.kind,
        status=response.status,
        expected=problem.expected,
        request_id=problem.instance or _header(response, "x-request-id") or None,
    )
