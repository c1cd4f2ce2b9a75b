"""What a conversation with the service consists of: requests, pauses, and what comes back.

An `Operation` is a generator: it yields a `Request` and is sent what came of it, or yields a `Pause`, and
returns its result. It knows no network and no event loop, so the same code serves both clients.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask."""

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
class Reply:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]  # names in any case
    body: bytes
    again: bool = False  # an earlier try of the same request may have arrived, too


@dataclass(frozen=True, slots=True)
class Lost:
    """There was no answer."""

    reason: str
    sent: bool = True  # whether the request may have arrived


Operation: TypeAlias = Generator[Request | Pause, Reply | Lost | None, T]
