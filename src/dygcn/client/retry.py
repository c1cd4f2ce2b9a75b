"""Requests and responses, retries, refusals as errors, and answers, which are refused if about other nodes.

An `Operation` is a generator: it yields a `Request` and is sent its `Response` (or `Lost`), or yields a
`Pause`, and returns its result. It knows no network and no event loop, so the same code serves both clients.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from dygcn.engine.events.row_errors import NOT_READ
from dygcn.engine.records import Float64
from dygcn.errors import DygcnError, ServiceError, UnknownNode, UnknownOutcome, Unreachable
from dygcn.schema import answers
from dygcn.schema.answers import Id


def read(body: bytes, shape: Any) -> Any:
    """Decode an answer, with arrays where its shape has them; raise ServiceError if it does not fit."""
    try:
        return msgspec.json.decode(body, type=shape, dec_hook=_array)
    except NOT_READ as error:
        raise unreadable(error) from None


def unreadable(reason: object) -> ServiceError:
    """Return the error for a body that is no answer of this service."""
    return ServiceError(f"the answer cannot be used: {reason}; is this the address of dygcn?", status=200)


def check_about(found: Id, asked: Id) -> None:
    """Raise ServiceError if an answer is about another node; ids in a URL are text: "007" may mean 7."""
    same = str(found) == str(asked) or (isinstance(found, int) and _number(asked) == found)
    if not same:
        raise unreadable(f"it is about {str(found)[:80]!r}, and {str(asked)[:80]!r} was asked for")


def check_among(ids: Iterable[Id], asked: Iterable[Id]) -> None:
    """Raise ServiceError if an answer names nodes that were not requested."""
    others = set(ids).difference(asked)
    if others:
        raise unreadable(f"it has {str(others.pop())[:80]!r}, which was not asked for")


def _number(id: Id) -> int | None:
    try:
        return int(id)
    except (TypeError, ValueError):
        return None


def _array(kind: Any, values: Any) -> Any:
    found = np.array(values, np.float64 if kind == Float64 else np.float32)  # None becomes NaN
    if found.ndim != 1:
        raise ValueError("a vector is a list of numbers")
    return found


def vectors_of(body: bytes, asked: list[Any]) -> answers.ManyVectors:
    """Return vectors from an Arrow body; raise ServiceError if it holds other vectors or none."""
    try:
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate(full=True)  # what its buffers say of each other may be wrong
        about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        sequence, moment = int(about["sequence"]), (about.get("digest"), about.get("logged"))
        ids, column = table["id"].to_pylist(), table["vector"].combine_chunks()
        vectors = np.asarray(column.flatten(), np.float32).reshape(len(ids), column.type.list_size)
        known = set(ids)
    except (pa.ArrowException, LookupError, ValueError, TypeError, AttributeError, OSError) as error:
        raise unreadable(error) from None
    check_among(known, asked)
    missing = [one for one in asked if one not in known]
    return answers.ManyVectors(sequence, ids, vectors, missing, *moment)


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
