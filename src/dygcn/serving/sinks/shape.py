"""The shape of the rows of a sink: the type of their ids and the size of their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.kinds import is_id_type, stored_type
from dygcn.engine.records import Rows
from dygcn.errors import SinkError
from dygcn.serving.sinks.histories import check_history

_WITH_KINDS = "kind:string"


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of the ids and the size of the vectors, the same for as long as a sink is used.

    Which kinds of nodes there are does not matter, only whether there are any: a refit may add some.
    """

    ids: str
    dim: int

    def __post_init__(self) -> None:
        if not (self.ids == _WITH_KINDS or is_id_type(self.ids)) or not self.dim > 0:
            raise SinkError(
                f"a sink was opened for ids of type {self.ids!r} and vectors of size {self.dim}; "
                "allowed are the types int64 and string, one of both for each kind, and sizes above 0"
            )
        if ":" in self.ids:
            object.__setattr__(self, "ids", _WITH_KINDS)

    def __str__(self) -> str:
        return f"{self.ids}:{self.dim}"

    @property
    def with_kinds(self) -> bool:
        """Whether ids are texts ``kind:id``; then a sink keeps the kind beside the id."""
        return self.ids == _WITH_KINDS

    @property
    def stored(self) -> str:
        """The type that ids are stored as, ``"int64"`` or ``"string"``."""
        return stored_type(self.ids)

    def id_fields(self, id_: Any) -> dict[str, Any]:
        """Return the fields that name a node in its row."""
        return {"id": id_, "kind": kind_of(id_)} if self.with_kinds else {"id": id_}

    def refuse(self, name: str, there: str) -> None:
        """Raise SinkError unless the shape that a sink holds (as text) is this one."""
        if there != str(self):
            raise SinkError(
                f"{name} holds rows of the shape {there} (type of ids, size of vectors), ours are {self}: "
                "write to another target, or delete these rows"
            )

    def check(self, rows: Rows, name: str) -> None:
        """Raise SinkError unless rows are of this shape, and of a history that every sink can store."""
        check_history(rows.history, name)
        if rows.vectors.ndim != 2 or rows.vectors.shape[1] != self.dim or rows.vectors.dtype != np.float32:
            raise SinkError(
                f"{name} takes float32 vectors of size {self.dim}; got {rows.vectors.dtype} of the shape "
                f"{rows.vectors.shape}"
            )
        if len(rows.ids) != len(rows.vectors):
            raise SinkError(f"{name} got rows whose ids and vectors are not equally many")
        for ids in (rows.ids, rows.left):
            if not _is_of(ids, self.ids):
                raise SinkError(f"{name} takes ids of type {self.ids}; got an array of {ids.dtype}")


def check_finite(rows: Rows, name: str, why: str) -> None:
    """Raise SinkError, with the first id, if a vector is not finite."""
    bad = np.flatnonzero(~np.isfinite(rows.vectors).all(axis=1))
    if len(bad):
        raise SinkError(f"{name}: the vector of {rows.ids[bad].tolist()[0]!r} is not finite, and {why}")


def kind_of(id_: Any) -> str:
    """Return the kind of a node of a graph with kinds, whose id is ``kind:id``."""
    return str(id_).partition(":")[0]


def _is_of(ids: NDArray[Any], type_: str) -> bool:
    if len(ids) == 0:
        return True
    if type_ == "int64":
        return ids.dtype == np.int64
    mark = ":" if type_ == _WITH_KINDS else ""
    return ids.dtype == object and all(isinstance(id_, str) and mark in id_ for id_ in ids)
