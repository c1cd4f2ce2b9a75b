"""The common part of the settings of sources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from dygcn.errors import SourceError
from dygcn.serving.addresses import (
    Settings,
    check_address,
    check_name,
    check_seconds,
    public_address,
    secrets_of,
    without,
)

Form: TypeAlias = Literal["json", "ndjson", "arrow"]
"""How the body of a message is read; see `dygcn.engine.events.decode_events`."""

_DAY = 86_400.0
__all__ = [
    "Form",
    "Settings",
    "check_address",
    "check_name",
    "check_timeout",
    "failure",
    "not_open",
    "public_address",
    "secrets_of",
]


def failure(name: str, error: BaseException, secrets: Iterable[str] = ()) -> SourceError:
    """Return a client's error as a SourceError, with stars instead of every secret."""
    text = without(str(error), secrets)
    return SourceError(f"{name}: {type(error).__name__}{': ' if text else ''}{text[:500]}")


def not_open(name: str) -> SourceError:
    """Return the error of a read without an open."""
    return SourceError(f"{name} is not open; call open() first")


def check_timeout(value: float) -> None:
    """Raise an OptionError unless a time is above 0 and not beyond a day."""
    check_seconds("timeout", value, _DAY)
