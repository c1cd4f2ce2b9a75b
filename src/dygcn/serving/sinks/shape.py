"""The shape that a sink was opened with, and whether rows are of that shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import SinkError
from dygcn.serving.sinks.histories import check_history

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dygcn.engine.records import Rows

KINDS = ("int64", "string")


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of the ids and the size of the vectors, the same for as long as a sink is used.

    Examples
    --------
    >>> str(Shape("int64", 8))
    'int64:8'
    >>> Shape("float", 8)
    Traceback (most recent call last):
    ...
    dygcn.errors.SinkError: a sink was opened for ids of kind 'float' and vectors of size 8; allowed are ...
    """

    kind: str
    dim: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.dim > 0:
            raise SinkError(
                f"a sink was opened for ids of kind {self.kind!r} and vectors of size {self.dim}; "
                "allowed are the kinds int64 and string, and sizes above 0"
            )

    def __str__(self) -> str:
        return f"{self.kind}:{self.dim}"

    def refuse(self, name: str, there: str) -> None:
        """Raise a SinkError unless the shape of the rows in a sink (as text) is this one."""
        if there != str(self):
            raise SinkError(
                f"{name} holds rows of the shape {there} (kind of ids, size of vectors), ours are {self}: "
                "write to another target, or delete these rows"
            )

    def check(self, rows: Rows, name: str) -> None:
        """Raise a SinkError unless rows are of this shape, and each of the sequence of their history."""
        check_history(rows.history, name)
        if rows.vectors.ndim != 2 or rows.vectors.shape[1] != self.dim or rows.vectors.dtype != np.float32:
            raise SinkError(
                f"{name} takes float32 vectors of size {self.dim}; got {rows.vectors.dtype} of the shape "
                f"{rows.vectors.shape}"
            )
        if len(rows.ids) != len(rows.vectors) or len(rows.ids) != len(rows.versions):
            raise SinkError(f"{name} got rows whose ids, vectors and versions are not equally many")
        if len(rows.left) != len(rows.left_versions):
            raise SinkError(f"{name} got ids that left and versions of them that are not equally many")
        for ids, versions in ((rows.ids, rows.versions), (rows.left, rows.left_versions)):
            if not _is_kind(ids, self.kind):
                raise SinkError(f"{name} takes ids of kind {self.kind}; got an array of {ids.dtype}")
            if len(versions) and (versions.dtype != np.int64 or (versions != rows.history.sequence).any()):
                raise SinkError(
                    f"{name} takes int64 versions that are the sequence of the rows' history, "
                    f"{rows.history.sequence}; got {versions.dtype} {versions.tolist()[:5]}"
                )


def opened(shape: Shape | None, name: str) -> Shape:
    """Return the shape that a sink was opened with; raise a SinkError if it is not open."""
    if shape is None:
        raise SinkError(f"{name} is not open; call open() first")
    return shape


def check_finite(rows: Rows, name: str, why: str) -> None:
    """Raise a SinkError that names an id with a vector that is not finite, where a sink cannot take it."""
    bad = np.flatnonzero(~np.isfinite(rows.vectors).all(axis=1))
    if len(bad):
        raise SinkError(f"{name}: the vector of {rows.ids[bad].tolist()[0]!r} is not finite, and {why}")


def _is_kind(ids: NDArray[Any], kind: str) -> bool:
    if len(ids) == 0:
        return True
    if kind == "int64":
        return ids.dtype == np.int64
    return ids.dtype == object and all(isinstance(id_, str) for id_ in ids)
