"""Decodes answers, and refuses answers about other nodes than the request names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from dygcn.engine.events.row_errors import NOT_READ
from dygcn.engine.records import Float64
from dygcn.errors import ServiceError
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
