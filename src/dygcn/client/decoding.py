"""Decodes answers, and refuses those that are not about what was asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from dygcn.engine.events.row_errors import NOT_READ
from dygcn.engine.records import Float64
from dygcn.errors import ServiceError
from dygcn.schema.answers import Id


def read(body: bytes, shape: type[Any]) -> Any:
    """Read an answer; lists of numbers become arrays where the shape has them.

    Raises
    ------
    ServiceError
        If the body is anything else.

    Examples
    --------
    >>> from dygcn.schema import answers
    >>> read(b'{"sequence":3,"id":"ann","vector":[0.5,0.25]}', answers.OneVector).vector
    array([0.5 , 0.25], dtype=float32)
    """
    try:
        return msgspec.json.decode(body, type=shape, dec_hook=_array)
    except NOT_READ as error:
        raise unreadable(error) from None


def unreadable(reason: object) -> ServiceError:
    """Return the error for an answer that is not one of this service."""
    return ServiceError(f"the answer cannot be used: {reason}; is this the address of dygcn?", status=200)


def check_about(found: Id, asked: Id) -> None:
    """Refuse an answer about another node; an id in an address is text, and "007" may be about 7."""
    same = str(found) == str(asked) or (isinstance(found, int) and _number(asked) == found)
    if not same:
        raise unreadable(f"it is about {str(found)[:80]!r}, and {str(asked)[:80]!r} was asked for")


def check_among(ids: Iterable[Id], asked: Iterable[Id]) -> None:
    """Refuse an answer that has other nodes."""
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
