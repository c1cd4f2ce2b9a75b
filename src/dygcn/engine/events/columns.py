"""Single columns: ids, operations, weights and times, from Arrow or from Python objects."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dygcn._extras import late
from dygcn.engine.records import Bool, Float64, IdColumn, Int8, Int64, RelationColumn
from dygcn.errors import EventError, shown

pc = late("pyarrow.compute")  # 0.1 s
uuid = late("uuid")

Faults: TypeAlias = tuple[Bool, Callable[[int], str]]
"""The bad rows of a column, and a function that returns the reason for one of them."""

MAX_ID_BYTES = 256
MOST_RELATIONS = 2**15 - 1  # they are numbered in 16 bits
_RELATIONS = "a relation is text of at most 256 bytes, or a whole number, in every row"
_NUMBERS = {
    "op": "allowed are +1 (add) and -1 (remove)",
    "t": "allowed are numbers and dates (pandas.to_datetime makes dates of text)",
}
_A_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_AS_TEXT = "; .astype(str) makes strings of all"
NO_TEXTS = IdColumn(np.zeros(1, np.int64), np.empty(0, np.uint8))  # never written to
IDS_ALLOWED = "ids are int64 or strings of at most 256 bytes, one type a graph"
_BYTES = bytes, bytearray
_FLOATS = {"float", "float16", "float32", "float64"}
_KINDS = {"large_string": "string", "string_view": "string", "double": "float"}  # of Arrow, in plain words


def id_column(values: object, name: str = "id") -> IdColumn:
    """Read one column of user ids."""
    if isinstance(values, IdColumn):
        return values
    values = unmasked(values, name)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return IdColumn(_checked_int64(values, name))
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _ids_from_arrow(values, name)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return _ids_from_arrow(arrow_array(values, name), name)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise EventError(f"column {name!r} must have one dimension, not {values.ndim}")
        values = values.tolist()
    return _ids_from_objects(as_list(values), name)


def as_list(values: object) -> list[Any]:
    """Return several ids as a list, and one alone as a list of one; bytes are not several numbers."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, _BYTES) else [values]


def one_kind(
    src: IdColumn, dst: IdColumn, names: tuple[str, str] = ("src", "dst")
) -> tuple[IdColumn, IdColumn]:
    """Return both ends; raise `EventError` if their ids are of different types."""
    if src.kind == dst.kind:
        return src, dst
    if len(src) == 0 and len(dst) == 0:
        return src, src
    raise EventError(
        f"{names[0]} holds {src.kind} ids and {names[1]} {dst.kind}; one type a graph: "
        ".astype(str) makes strings of both"
    )


def unmasked(values: object, name: str) -> object:
    """Return a masked array as a plain one; raise `EventError` if a cell is masked."""
    if type(values) is np.ndarray:
        return values
    if not isinstance(values, np.ndarray):
        return untensored(values, name) if hasattr(values, "__dlpack__") else values
    if isinstance(values, np.ma.MaskedArray):
        masked = np.flatnonzero(np.ma.getmaskarray(values))
        if len(masked):
            raise EventError(
                f"column {name!r} has a masked cell; fill it, or leave the row out", int(masked[0])
            )
    return np.asarray(values)


def untensored(values: object, name: str) -> object:
    """Return a tensor (of torch or another library) as an array; other values unchanged."""
    if not hasattr(values, "__dlpack__") or isinstance(values, np.ndarray | pa.Array):
        return values
    tensor: Any = values
    if "sparse" in str(getattr(tensor, "layout", "")):
        raise EventError(f"{name} cannot be read from a sparse tensor; pass A.coalesce().indices()")
    try:
        return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)
    except (TypeError, ValueError, RuntimeError) as error:
        raise EventError(f"{name} cannot be read: {str(error).splitlines()[0]}") from None


def arrow_array(values: object, name: str = "id") -> pa.Array:
    """Import any object that speaks Arrow's C interface, or a list, as one contiguous array."""
    try:
        if isinstance(values, pa.ChunkedArray):
            return values.combine_chunks()
        if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pa.Array):
            return pa.chunked_array(values).combine_chunks()
        return values if isinstance(values, pa.Array) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise EventError(f"column {name!r} cannot be read: {str(error).splitlines()[0]}") from None


def _checked_int64(values: NDArray[Any], name: str) -> Int64:
    if values.ndim != 1:
        raise EventError(f"column {name!r} must have one dimension, not {values.ndim}")
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
        raise EventError(f"column {name!r} holds an id above 2^63 - 1; {IDS_ALLOWED}", int(values.argmax()))
    return np.ascontiguousarray(values, dtype=np.int64)


def _ids_from_objects(values: Sequence[Any], name: str) -> IdColumn:
    types = set(map(type, values))
    if types <= {str, np.str_}:
        return _ids_from_strings(values, name)
    integers = {kind for kind in types if issubclass(kind, int | np.integer) and not issubclass(kind, bool)}
    if types == integers:
        try:
            return IdColumn(np.array(values, dtype=np.int64))
        except OverflowError:
            raise EventError(f"column {name!r} holds an id outside int64; {IDS_ALLOWED}") from None
    if all(issubclass(kind, uuid.UUID) for kind in types):
        return _ids_from_strings(list(map(str, values)), name)
    found = " and ".join(sorted(kind.__name__ for kind in types)[:10])
    usual: set[Any] = set(integers) or {str, np.str_}
    odd = next(i for i, value in enumerate(values) if type(value) not in usual)
    row = odd if len(types) > 1 else None
    raise EventError(f"column {name!r} holds {found}; {_no_ids(found)}", row)


def _no_ids(found: str) -> str:
    cast = '; .astype("int64") makes integers of them' if found in _FLOATS else ""
    return f"{IDS_ALLOWED}, never through floats{_AS_TEXT if found == 'int and str' else cast}"


def _ids_from_strings(values: Sequence[str], name: str) -> IdColumn:
    try:
        data = "".join(values).encode("utf-8")
    except UnicodeEncodeError as error:
        raise EventError(f"column {name!r} holds text that is not UTF-8: {error.reason}") from None
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(byte_lengths(values, len(data)), out=offsets[1:])
    return checked_strings(offsets, np.frombuffer(data, np.uint8), name)


def byte_lengths(values: Sequence[str], total: int) -> Int64:
    """Return the UTF-8 length of each string; `total`, the known sum, makes ASCII fast."""
    characters = np.fromiter(map(len, values), np.int64, len(values))
    if characters.sum() == total:
        return characters
    return np.fromiter((len(value.encode("utf-8")) for value in values), np.int64, len(values))


def checked_strings(offsets: Int64, data: NDArray[np.uint8], name: str) -> IdColumn:
    """Return ids that are text; refuse those that are too long."""
    refuse(length_faults(np.diff(offsets), name))
    return IdColumn(offsets, data)


def length_faults(lengths: Int64, name: str) -> Faults:
    """Find ids that are too long."""
    return (
        lengths > MAX_ID_BYTES,
        lambda row: f"column {name!r} holds an id of {lengths[row]} bytes; {IDS_ALLOWED}",
    )


def refuse(faults: Faults) -> None:
    """Raise an error that names the first bad row, if there is one."""
    bad, reason = faults
    if bad.any():
        row = int(bad.argmax())
        raise EventError(reason(row), row)


def _refuse_long_words(words: pa.Array, indices: pa.Array, name: str) -> None:
    """Refuse a dictionary's long words before they are repeated, which could exhaust memory."""
    lengths = pc.fill_null(pc.binary_length(words), 0).to_numpy(zero_copy_only=False)
    if len(lengths) and lengths.max() > MAX_ID_BYTES:
        refuse(length_faults(lengths[pc.fill_null(indices, 0).to_numpy(zero_copy_only=False)], name))


def _ids_from_arrow(column: pa.Array | pa.ChunkedArray, name: str) -> IdColumn:
    array = arrow_array(column, name)
    if pa.types.is_dictionary(array.type):
        words = array.dictionary
        if not pa.types.is_integer(words.type):
            words = words.cast(pa.large_string())
            _refuse_long_words(words, array.indices, name)
        array = words.take(array.indices)
    if array.null_count:
        row = pc.index(pc.is_null(array), True).as_py()
        raise EventError(f"column {name!r} has an empty cell; every event names two nodes", row)
    kind = array.type
    if str(kind) == "extension<arrow.uuid>":
        return _ids_from_objects(array.to_pylist(), name)
    if pa.types.is_integer(kind):
        return IdColumn(_checked_int64(array.to_numpy(zero_copy_only=False), name))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        # Cast first: a slice keeps its parent's buffers, a view type has others.
        whole = pa.concat_arrays([array.cast(pa.large_string())])
        offsets, data = strings_of(whole)
        return checked_strings(offsets, data, name)
    if len(array) == 0:
        return IdColumn(np.empty(0, np.int64))
    found = _KINDS.get(str(kind), str(kind))
    raise EventError(f"column {name!r} holds {found}; {_no_ids(found)}")


def strings_of(array: pa.Array) -> tuple[Int64, NDArray[np.uint8]]:
    """Offsets from zero and bytes of an Arrow large_string array."""
    buffers = array.buffers()
    count = len(array)
    if count == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    offsets = np.frombuffer(buffers[1], np.int64)[array.offset : array.offset + count + 1]
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def python_ids(column: IdColumn) -> NDArray[Any]:
    """Return the ids as people use them: an int64 array, or an object array of str."""
    if column.data is None:
        return column.values
    text = column.data.tobytes()
    bounds = column.values.tolist()
    result = np.empty(len(column), object)
    result[:] = [text[a:b].decode("utf-8") for a, b in itertools.pairwise(bounds)]
    return result


def common_ids(one: IdColumn, other: IdColumn) -> list[int | str]:
    """Return the distinct ids that occur in both of two columns."""
    first, second = pc.unique(as_arrow(one)), pc.unique(as_arrow(other))
    found: list[int | str] = first.filter(pc.is_in(first, value_set=second)).to_pylist()
    return found


def take(column: IdColumn, rows: NDArray[np.integer[Any]] | slice) -> IdColumn:
    """Return the given rows of a column, as a column; those of a slice from a to b as a view."""
    if column.data is None:
        return IdColumn(column.values[rows])
    if isinstance(rows, slice):
        return IdColumn(column.values[rows.start : rows.stop + 1], column.data)
    return IdColumn(*strings_of(as_arrow(column).take(pa.array(rows))))


def as_arrow(column: IdColumn) -> pa.Array:
    """Return ids as an Arrow array of int64 or large_string, without a copy."""
    if column.data is None:
        return pa.array(column.values)
    buffers = [None, pa.py_buffer(column.values), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.large_string(), len(column), buffers)


def join_ids(columns: Sequence[IdColumn]) -> IdColumn:
    """Return the concatenation of columns of one kind."""
    texts = [as_arrow(column) for column in columns if column.data is not None]
    if texts:
        return IdColumn(*strings_of(pa.concat_arrays(texts)))
    return IdColumn(np.concatenate([column.values for column in columns]))


def numbers(values: object, field: str, name: str | None = None) -> NDArray[Any]:
    """Read a column of numbers as int64 or float64, empty cells as NaN; dates become seconds since 1970.

    `field` is op, weight or t; `name` is what the user calls it.
    """
    name = name or field
    values = unmasked(values, name)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "if":
        return values.astype(np.int64 if values.dtype.kind == "i" else np.float64)
    array = arrow_array(values, name)
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # In the unit of the column: in nanoseconds the years before 1678 and after 2261 would wrap around.
        unit = kind.unit if pa.types.is_timestamp(kind) else "s"
        exact = array.cast(pa.timestamp(unit), safe=False).cast(pa.int64())
        whole = exact.fill_null(0).to_numpy(zero_copy_only=False) / _A_SECOND[unit]
        return np.where(exact.is_null().to_numpy(zero_copy_only=False), np.nan, whole)
    if len(array) == 0 or pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        found = _KINDS.get(str(kind), str(kind))
        raise EventError(f"column {name!r} holds {found}; {_NUMBERS.get(field, 'numbers are expected')}")
    if array.null_count:
        array = array.cast(pa.float64(), safe=False).fill_null(float("nan"))
    plain: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return plain.astype(np.float64 if plain.dtype.kind in "fu" else np.int64)


def operations(values: object, name: str = "op") -> Int8:
    """Read the `op` column: +1 and -1 only."""
    found = numbers(values, "op", name)
    refuse(op_faults(found, name))
    return found.astype(np.int8)


def op_faults(found: NDArray[Any], name: str = "op") -> Faults:
    """Find operations that are neither +1 nor -1."""
    bad = (found != 1) & (found != -1)
    return bad, lambda row: f"{name} is {found[row]:g}; allowed are +1 (add) and -1 (remove)"


def weights(values: object, op: Int8, name: str = "weight") -> Float64:
    """Read the `weight` column: positive and finite wherever an edge is added."""
    found = numbers(values, "weight", name).astype(np.float64)
    if len(found) != len(op):
        raise EventError(f"column {name!r} has {len(found)} rows, the others have {len(op)}")
    refuse(weight_faults(found, op, name))
    found[~(found > 0) | np.isinf(found)] = 1.0  # of removes, where it is not used
    return found


def weight_faults(found: Float64, op: NDArray[Any], name: str = "weight") -> Faults:
    """Find weights that no edge may have, where one is added."""
    bad = ~(np.isfinite(found) & (found > 0)) & (op > 0)
    return bad, lambda row: f"{name} is {found[row]:g}; allowed is a finite number above 0 (remove by op -1)"


def relations(values: object, name: str = "relation") -> RelationColumn:
    """Read the `relation` column: text, or whole numbers, which count as text."""
    if isinstance(values, RelationColumn):
        return values
    array = arrow_array(unmasked(values, name), name)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary.cast(pa.string()).take(array.indices)
    if len(array) and not pa.types.is_null(array.type) and not is_relation_type(array.type):
        raise EventError(f"column {name!r} holds {array.type}; {_RELATIONS}")
    refuse(relation_faults(array, name))
    coded = array.cast(pa.string()).dictionary_encode()
    if len(coded.dictionary) > MOST_RELATIONS:
        raise EventError(
            f"column {name!r} holds {len(coded.dictionary):,} different relations; allowed are up to "
            f"{MOST_RELATIONS:,}: is it the right column?"
        )
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int16)
    return RelationColumn(codes, tuple(coded.dictionary.to_pylist()))


def is_relation_type(kind: pa.DataType) -> bool:
    """Return whether an Arrow column of this type can hold relations."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(text or pa.types.is_integer(kind))


def relation_faults(array: pa.Array, name: str = "relation") -> Faults:
    """Find relations that are missing or too long."""
    bad = array.is_null().to_numpy(zero_copy_only=False)
    if not pa.types.is_integer(array.type) and not bad.all():
        bad = bad | (pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False) > MAX_ID_BYTES)
    return bad, lambda row: f"{name} is empty or too long; {_RELATIONS}"


def seconds(value: Any) -> Any:
    """Return a date as seconds since 1970 and a span as seconds; other values unchanged."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if isinstance(value, date):
        return float(numbers([value], "t")[0])
    return value


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def duration(value: Any) -> Any:
    """Return a span, or text such as 90d, 12h, 30m, 45s or 2w, in seconds; other values unchanged."""
    if isinstance(value, str) and value[-1:] in _UNITS:
        with contextlib.suppress(ValueError):
            return float(value[:-1]) * _UNITS[value[-1]]
    return seconds(value)


def moment(now: object, name: str = "now") -> float:
    """Return a point in time as a float; a date becomes seconds since 1970."""
    found = None if isinstance(now, timedelta | np.timedelta64 | bool) else seconds(now)
    if isinstance(found, int | float | np.integer | np.floating):
        with contextlib.suppress(OverflowError):  # a whole number beyond all floats
            if math.isfinite(float(found)):
                return float(found)
    raise EventError(f"{name} is {shown(now)}; allowed is a finite number, in units of t, or a date")


def times(values: object, name: str = "t") -> NDArray[Any]:
    """Read the `t` column: finite, in any unit; whole numbers stay whole, so that sorting is exact."""
    found = numbers(values, "t", name)
    refuse(time_faults(found, name))
    return found


def time_faults(found: NDArray[Any], name: str = "t") -> Faults:
    """Find times that are missing or not finite."""

    def reason(row: int) -> str:
        value = "missing (NaN, NaT or an empty cell)" if np.isnan(found[row]) else found[row]
        return f"{name} is {value}; allowed is a finite number or a date in every row, or no {name} at all"

    return ~np.isfinite(found), reason
