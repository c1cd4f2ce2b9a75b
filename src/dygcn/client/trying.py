"""Ask until there is an answer or the time is over, and turn refusals into errors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from dygcn.client.steps import Lost, Operation, Pause, Reply, Request
from dygcn.engine.events.row_errors import NOT_READ
from dygcn.errors import DygcnError, ServiceError, UnknownNode, UnknownOutcome, Unreachable

_BASE = "/problems/"
_COME_AGAIN = frozenset({429, 502, 503, 504})
_NOTHING_DONE = frozenset(  # refused before anything was done, so that even a nameless repeat is harmless
    {"overloaded", "too-many-clients", "closing", "not-ready", "too-many-connections"}
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds
_LEAST = 0.05  # seconds that the last try has
_NAMELESS = (
    "it is not known whether the events arrived, and a repeat might apply them twice; "
    "give the client a name (name=...), and repeats become harmless"
)


class _Problem(msgspec.Struct):
    """What a refusal says, as far as a client looks at it."""

    type: str = ""
    detail: str = ""
    instance: str | None = None
    expected: int | None = None
    retry_after: float | None = None
    node: int | str | None = None


class Trying:
    """How long a client tries, and what it tries again.

    Parameters
    ----------
    timeout
        Seconds for a request, its repeats included.
    clock
        What time it is, in seconds.
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout, self.clock = timeout, clock

    def ask(self, request: Request, *, harmless: bool = True, wait: float = 0.0) -> Operation[Reply]:
        """Ask until there is an answer.

        Parameters
        ----------
        harmless
            Whether the service may get the request twice.
        wait
            Seconds that the service itself may wait before it answers.

        Raises
        ------
        UnknownNode
            If a node is not in the graph.
        ServiceError
            If the service refuses, and a repeat would not help, or not in time.
        """
        until = self.clock() + self.timeout + wait
        pauses, again = _pauses(), False
        while True:
            heard = yield replace(request, seconds=max(until - self.clock(), _LEAST))
            failure: DygcnError
            if isinstance(heard, Reply):
                if heard.status == 200:
                    return replace(heard, again=again)
                problem = read_problem(heard)
                failure = error_of(heard, problem)
                done = problem.type.removeprefix(_BASE) not in _NOTHING_DONE
                if heard.status not in _COME_AGAIN or (done and not harmless):
                    raise failure
                pause = max(_retry_after(heard, problem), next(pauses))
                again = again or done
            else:
                assert isinstance(heard, Lost)
                failure = Unreachable(f"{request.method} {request.path}: no answer: {heard.reason}")
                if heard.sent and not harmless:
                    raise UnknownOutcome(f"{failure.detail}; {_NAMELESS}")
                pause = next(pauses)
                again = again or heard.sent
            if self.clock() + pause >= until:
                raise failure
            yield Pause(pause)


def _pauses() -> Iterator[float]:
    """Yield longer and longer pauses; by chance, so that many clients do not come back at once."""
    longest = _FIRST_PAUSE
    while True:
        yield longest * (0.5 + 0.5 * random.random())
        longest = min(2 * longest, _LONGEST_PAUSE)


def _retry_after(reply: Reply, problem: _Problem) -> float:
    """Return for how many seconds the service wants to be left alone; a proxy may say it in a header only."""
    text = _header(reply, "retry-after")
    return float(text) if text.isascii() and text.isdigit() else problem.retry_after or 0.0


def _header(reply: Reply, name: str) -> str:
    return next((value for key, value in reply.headers.items() if key.lower() == name), "")


def read_problem(reply: Reply) -> _Problem:
    """Read why something was refused; a proxy in front of the service may say nothing readable."""
    try:
        return msgspec.json.decode(reply.body, type=_Problem)
    except NOT_READ:
        return _Problem()


def error_of(reply: Reply, problem: _Problem) -> DygcnError:
    """Return the error that a refusal is.

    Examples
    --------
    >>> body = b'{"type":"/problems/forbidden","detail":"the token does not have the scope for this"}'
    >>> error_of(Reply(403, {}, body), read_problem(Reply(403, {}, body)))
    ServiceError('the token does not have the scope for this [403 forbidden]')
    """
    kind = problem.type.removeprefix(_BASE)
    if kind == "unknown-node" and problem.node is not None:
        return UnknownNode(problem.node)
    about: dict[str, Any] = {"request_id": problem.instance or _header(reply, "x-request-id") or None}
    return ServiceError(
        problem.detail or "whoever answered said no more than the status",
        type=kind,
        status=reply.status,
        expected=problem.expected,
        **about,
    )
