"""The user's tables of ids and values, or of ids and columns, which become features.

Of a table of nodes, a number z (standardised) becomes the direction of (z, 1): two columns, so that each cell
weighs the same. Any other value becomes a sign at a place, both drawn from a public hash of column and value:
a value that was never seen has its place, too. A missing number counts as the mean; any other missing cell
adds nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dygcn.engine.events.columns import arrow_array
from dygcn.engine.events.files import read_table
from dygcn.engine.events.kinds import read_ids
from dygcn.engine.records import Float32, Float64, IdColumn
from dygcn.errors import EventError, FeatureError

_NAMED = ("walks", "hashed")
_ACCEPTED = (
    'features are "walks", "hashed", (ids, values), a dict of id to vector, or a table with a column id and '
    "either one column of lists or one numeric column for each feature"
)
PLACES = 256  # columns that hashed values share
_NUMBER, _VALUE = "number", "value"
_NODES_ACCEPTED = (
    "nodes is a table with a column id (or an index) and a column for each feature: a frame of pandas or "
    "polars, an Arrow table, a dict of columns, or the path of a file"
)


@dataclass(frozen=True)
class Embedding:
    """An embedding of the user's own, to be updated.

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
    """Read ids and their vectors: ``(ids, values)``, a dict of id to vector, a path, or a table.

    A table has a column `id` and either one column of lists or one numeric column for each feature; and a
    column `kind`, where nodes have some. `of`: type of the ids, where it is known.
    """
    if isinstance(features, Embedding):
        return features.ids, features.vectors
    if isinstance(features, tuple) and len(features) == 2:
        return _checked(features[0], features[1], of)
    if isinstance(features, Mapping) and "id" not in features:
        return _checked(list(features.keys()), list(features.values()), of)
    try:
        if isinstance(features, str | os.PathLike):
            near = get_close_matches(os.fspath(features)[:100].lower(), _NAMED, 1)
            if near and not os.path.exists(features):
                raise FeatureError(f"features is {features!r}; did you mean {near[0]!r}? {_ACCEPTED}")
            features = read_table(os.fspath(features))
        if isinstance(features, Mapping) or hasattr(features, "__arrow_c_stream__"):
            return _from_table(pa.table(features), of)
    except (EventError, pa.ArrowException, TypeError) as error:
        raise FeatureError(f"cannot read features: {str(error).splitlines()[0]}; {_ACCEPTED}") from None
    raise FeatureError(f"cannot read features from {type(features).__name__}; {_ACCEPTED}")


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
    except (EventError, ValueError, TypeError, OverflowError) as error:
        raise FeatureError(f"{error}; {_ACCEPTED}") from None
    if matrix.ndim != 2 or len(matrix) != len(column) or matrix.shape[1] == 0:
        raise FeatureError(
            f"{len(column)} ids need values of shape ({len(column)}, width), not {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise FeatureError("features hold NaN or infinite values; allowed are finite numbers")
    return column, matrix


def _matrix(values: Any) -> Float32:
    """Return rows as one matrix, also from a column of lists, where each row is an object."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    if getattr(getattr(values, "dtype", None), "kind", "") == "O":
        values = list(values)
    if isinstance(values, list):
        _refuse_ragged(values)
    return np.ascontiguousarray(np.asarray(values, dtype=np.float32))


def _refuse_ragged(rows: list[Any]) -> None:
    """Refuse vectors of different lengths, with a clear message."""
    lengths = [len(row) if isinstance(row, Sized) else None for row in rows]
    if len(set(lengths)) < 2:
        return
    row = next(i for i, length in enumerate(lengths) if length != lengths[0])
    found = "no vector" if lengths[row] is None else f"{lengths[row]} values"
    first = "no vector" if lengths[0] is None else f"{lengths[0]} values"
    raise ValueError(f"row {row} has {found}, row 0 has {first}; all vectors have one length")


# ---- tables of nodes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeTable:
    """Ids, and the other columns of a table of nodes, in Arrow."""

    ids: IdColumn
    columns: dict[str, pa.Array]
    id: str = "id"  # what the table calls the column of ids


@dataclass(frozen=True)
class NodeColumns:
    """How a table of nodes becomes features: set by `fit`, constant afterwards.

    `forms` are "number", or "value" for text, categories and truth values; `means` and `scales` (standard
    deviations) are 0 and 1 of columns of values; `id`: what the table called the column of ids.
    """

    names: tuple[str, ...]
    forms: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    id: str = "id"

    def __post_init__(self) -> None:
        sizes = {len(column) for column in (self.names, self.forms, self.means, self.scales)}
        if sizes != {len(self.names)} or not set(self.forms) <= {_NUMBER, _VALUE} or not self.names:
            raise ValueError("columns of nodes that do not fit together")
        if not all(np.isfinite(self.means)) or not all(0 < scale < np.inf for scale in self.scales):
            raise ValueError("columns of nodes with an impossible mean or scale")

    @classmethod
    def of(cls, table: NodeTable) -> NodeColumns:
        """Return the encoding of a table, computed from each of its columns."""
        looked = [_look(name, column) for name, column in table.columns.items()]
        forms, means, scales = zip(*looked, strict=True)
        return cls(tuple(table.columns), forms, means, scales, table.id)

    @property
    def width(self) -> int:
        """Columns of the features."""
        numbers = self.forms.count(_NUMBER)
        return 2 * numbers + (PLACES if numbers < len(self.forms) else 0)

    def encode(self, table: NodeTable) -> Float32:
        """Return the features of a table's rows, (n, width); refuse columns other than those of the fit."""
        self._check(table)
        out = np.zeros((len(table.ids), self.width), np.float32)
        at = 0
        for name, form, mean, scale in zip(self.names, self.forms, self.means, self.scales, strict=True):
            if form == _NUMBER:
                z = (_numbers(name, table.columns[name]) - mean) / scale
                z = np.where(np.isnan(z), 0.0, z)
                length = np.hypot(z, 1.0)
                out[:, at], out[:, at + 1] = z / length, 1.0 / length
                at += 2
            else:
                _add_values(name, table.columns[name], out[:, self.width - PLACES :])
        return out

    def _check(self, table: NodeTable) -> None:
        there = set(table.columns)
        for what, names in (("no column", set(self.names) - there), ("a column", there - set(self.names))):
            if names:
                raise FeatureError(
                    f"nodes has {what} {sorted(names)[0]!r}; this model was fitted on the columns "
                    f"{', '.join(self.names)}"
                )


def read_nodes(nodes: object, also: Sequence[str] = (), of: str | None = None) -> NodeTable:
    """Read a table of nodes whose ids are of type `of`.

    Its ids are the column `id`, or else one that is called as one of `also` (what events call theirs), or
    else the index of a pandas frame, if that has a name or is not a mere count of rows. Of nodes with kinds,
    a column `kind` says them, or the name of the column of ids.
    """
    table = _as_table(nodes)
    named = [name for name in ("id", *also) if name in table]
    ids = table.pop(named[0]) if named else _index_of(nodes, list(table))
    kind = named[0] if named else getattr(getattr(nodes, "index", None), "name", None)
    if ":" in (of or "") and "kind" in table:
        kind = table.pop("kind")
    if not table:
        raise FeatureError(f"nodes has ids and no other column; {_NODES_ACCEPTED}")
    try:
        column = read_ids(ids, of, kind)
    except EventError as error:
        raise FeatureError(f"nodes: {error}; {_NODES_ACCEPTED}") from None
    alone = [
        name for name, values in table.items() if isinstance(values, str) or not hasattr(values, "__len__")
    ]
    if alone:
        raise FeatureError(
            f"nodes has one value for {alone[0]!r}, and a column has one for each id; {_NODES_ACCEPTED}"
        )
    wrong = [name for name, values in table.items() if len(values) != len(column)]
    if wrong:
        raise FeatureError(f"nodes has {len(column)} ids and {len(table[wrong[0]])} cells of {wrong[0]!r}")
    columns = {name: _array(name, values) for name, values in table.items()}
    return NodeTable(column, columns, named[0] if named else "id")


def _as_table(nodes: Any) -> dict[str, Any]:
    """Return the columns by name."""
    try:
        if isinstance(nodes, str | os.PathLike):
            nodes = read_table(os.fspath(nodes))
        if isinstance(nodes, Mapping):
            return {str(name): values for name, values in nodes.items()}
        if hasattr(nodes, "columns") and hasattr(nodes, "iloc"):  # pandas, which may mix types in a column
            if not nodes.columns.is_unique:
                raise FeatureError("nodes has two columns of one name; rename one")
            return {str(name): nodes[name] for name in nodes.columns}
        if hasattr(nodes, "__arrow_c_stream__"):
            table = pa.table(nodes)
            return dict(zip(table.column_names, table.columns, strict=True))
    except (EventError, pa.ArrowException, TypeError) as error:
        raise FeatureError(f"cannot read nodes: {str(error).splitlines()[0]}; {_NODES_ACCEPTED}") from None
    raise FeatureError(f"cannot read nodes from {type(nodes).__name__}; {_NODES_ACCEPTED}")


def _index_of(nodes: Any, names: list[str]) -> Any:
    index: Any = getattr(nodes, "index", None)
    counts = type(index).__name__ == "RangeIndex" and index.name is None
    if index is None or callable(index) or counts:
        raise FeatureError(f"nodes has no column 'id' (columns: {', '.join(names)[:200]}); {_NODES_ACCEPTED}")
    return index.to_numpy()


def _array(name: str, values: Any) -> pa.Array:
    """Return a column as one Arrow array; values unknown to Arrow become text."""
    speaks_arrow = hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc")
    try:
        found = arrow_array(values, name) if speaks_arrow else pa.array(values, from_pandas=True)
    except (EventError, pa.ArrowException, TypeError, ValueError, OverflowError):
        found = pa.array([None if value is None else str(value) for value in values], pa.string())
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if pa.types.is_dictionary(found.type):  # a category of whole numbers is no number
        found = found.dictionary_decode()
        found = _as_text(found) if _is_number(found) else found
    if pa.types.is_nested(found.type) or pa.types.is_binary(found.type):
        raise FeatureError(
            f"column {name!r} of nodes holds {found.type}; allowed are numbers, text, categories and truth "
            'values; features=["walks", (ids, matrix)] takes vectors'
        )
    return found


def _look(name: str, column: pa.Array) -> tuple[str, float, float]:
    """Return the form (number or text), mean and standard deviation of a column."""
    if not _is_number(column):
        return _VALUE, 0.0, 1.0
    values = _numbers(name, column)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return _NUMBER, 0.0, 1.0
    peak = float(np.abs(values).max())
    deviation = float((values / peak).std()) * peak if peak > 0 else 0.0
    usable = deviation > 1e-12 * peak and np.isfinite(deviation)
    return _NUMBER, float((values / max(peak, 1e-300)).mean() * peak), deviation if usable else 1.0


def _is_number(column: pa.Array) -> bool:
    of = column.type
    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal
    return any(test(of) for test in tests)


def _numbers(name: str, column: pa.Array) -> Float64:
    """Return a column of numbers, NaN where one is missing; dates as seconds."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not _is_number(column):
        raise FeatureError(
            f"column {name!r} of nodes holds {column.type}, and numbers when the model was fitted"
        )
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("us")), pa.int64())
    elif pa.types.is_temporal(column.type):
        column = pc.cast(column, pa.int64())
    values: Float64 = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isinf(values).any():
        raise FeatureError(
            f"column {name!r} of nodes holds infinite numbers; allowed are finite ones, or none"
        )
    return values


def _add_values(name: str, column: pa.Array, out: Float32) -> None:
    """Add +1 or -1 at the hashed place of each cell's value."""
    found = pc.dictionary_encode(column if pa.types.is_string(column.type) else _as_text(column))
    codes = pc.fill_null(found.indices, -1).to_numpy(zero_copy_only=False)
    places = np.array([place_of(name, value) for value in found.dictionary.to_pylist()], np.int64).reshape(
        -1, 2
    )
    there = np.flatnonzero(codes >= 0)
    np.add.at(out, (there, places[codes[there], 0]), places[codes[there], 1])


def _as_text(column: pa.Array) -> pa.Array:
    """Return cells as text; integers without a decimal point, so that 7 and 7.0 are equal."""
    if pa.types.is_floating(column.type):
        cells = [
            None if cell is None else str(int(cell)) if float(cell).is_integer() else repr(float(cell))
            for cell in column.to_pylist()
        ]
        return pa.array(cells, pa.string())
    return pc.cast(column, pa.string())


def place_of(name: str, value: str) -> tuple[int, int]:
    """Return the hashed place and the sign of a column's value. Part of the saved format."""
    text = name.encode() + b"\0" + value.encode()
    word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return (word >> 1) % PLACES, 1 if word & 1 else -1
