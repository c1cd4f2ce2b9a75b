"""Tables of ids and values, as users have them, become one id column and one matrix."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dygcn.engine.events.files import read_table
from dygcn.engine.events.kinds import read_ids
from dygcn.errors import EventError, FeatureError

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, IdColumn

_NAMED = ("walks", "hashed")
_ACCEPTED = (
    'features are "walks", "hashed", (ids, values), a dict of id to vector, or a table with a column id and '
    "either one column of lists or one numeric column for each feature"
)


@dataclass(frozen=True)
class Embedding:
    """An embedding of your own, to be updated.

    Parameters
    ----------
    ids
        User ids, int64 or strings.
    vectors
        One row for each id.

    Examples
    --------
    >>> Embedding(["ann", "bob"], [[1.0, 0.0], [0.0, 1.0]]).vectors.shape
    (2, 2)
    """

    ids: Any
    vectors: Any

    def __post_init__(self) -> None:
        column, values = read_features((self.ids, self.vectors))
        if len(column) == 0:
            raise FeatureError("an embedding needs at least one id and its vector")
        object.__setattr__(self, "ids", column)
        object.__setattr__(self, "vectors", values)

    def __repr__(self) -> str:
        return f"Embedding(nodes={len(self.vectors)}, dim={self.vectors.shape[1]})"


def read_features(features: object, of: str | None = None) -> tuple[IdColumn, Float32]:
    """Read ids and their feature vectors."""
    if isinstance(features, Embedding):
        return features.ids, features.vectors
    if isinstance(features, tuple) and len(features) == 2:
        return _checked(features[0], features[1], of)
    if isinstance(features, Mapping) and "id" not in features:
        return _checked(list(features.keys()), list(features.values()), of)
    try:
        if isinstance(features, str | os.PathLike):
            _refuse_misspelt(os.fspath(features))
            features = read_table(os.fspath(features))
        if isinstance(features, Mapping) or hasattr(features, "__arrow_c_stream__"):
            return _from_table(pa.table(features), of)
    except (EventError, pa.ArrowException, TypeError) as error:
        raise FeatureError(f"cannot read features: {str(error).splitlines()[0]}; {_ACCEPTED}") from None
    raise FeatureError(f"cannot read features from {type(features).__name__}; {_ACCEPTED}")


def _refuse_misspelt(features: str) -> None:
    near = get_close_matches(features[:100].lower(), _NAMED, 1)
    if near and not os.path.exists(features):
        raise FeatureError(f"features is {features!r}; did you mean {near[0]!r}? {_ACCEPTED}")


def _from_table(table: pa.Table, of: str | None) -> tuple[IdColumn, Float32]:
    if "id" not in table.column_names:
        raise FeatureError(f"there is no column 'id' (columns: {', '.join(table.column_names)}); {_ACCEPTED}")
    kind = table.column("kind") if ":" in (of or "") and "kind" in table.column_names else None
    others = [name for name in table.column_names if name != "id" and (kind is None or name != "kind")]
    columns = [table.column(name).to_numpy() for name in others]
    if len(columns) == 1 and columns[0].dtype == object:
        return _checked(table.column("id"), list(columns[0]), of, kind)
    matrix = np.stack(columns, axis=1) if columns else np.empty((len(table), 0))
    return _checked(table.column("id"), matrix, of, kind)


def _checked(ids: object, values: object, of: str | None, kind: object = None) -> tuple[IdColumn, Float32]:
    if isinstance(ids, str):
        raise FeatureError(f"{ids!r} is one id; pass a list of ids; {_ACCEPTED}")
    try:
        column = read_ids(ids, of, kind)
        matrix = _matrix(values)
    except (EventError, ValueError, TypeError) as error:
        raise FeatureError(f"{error}; {_ACCEPTED}") from None
    if matrix.ndim != 2 or len(matrix) != len(column) or matrix.shape[1] == 0:
        raise FeatureError(
            f"{len(column)} ids need values of shape ({len(column)}, width), not {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise FeatureError("features hold NaN or infinite values; allowed are finite numbers")
    return column, matrix


def _matrix(values: Any) -> Float32:
    """Return rows as one matrix, also where each row is an object of its own (a column of lists)."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    if getattr(getattr(values, "dtype", None), "kind", "") == "O":
        values = list(values)
    if isinstance(values, list):
        _refuse_ragged(values)
    return np.ascontiguousarray(np.asarray(values, dtype=np.float32))


def _refuse_ragged(rows: list[Any]) -> None:
    """Refuse vectors of different lengths, which numpy would call an inhomogeneous shape."""
    lengths = [len(row) if isinstance(row, Sized) else None for row in rows]
    if len(set(lengths)) < 2:
        return
    row = next(i for i, length in enumerate(lengths) if length != lengths[0])
    found = "no vector" if lengths[row] is None else f"{lengths[row]} values"
    first = "no vector" if lengths[0] is None else f"{lengths[0]} values"
    raise ValueError(f"row {row} has {found}, row 0 has {first}; all vectors have one length")
