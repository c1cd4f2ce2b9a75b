"""Records of a cluster as bytes and back. Nothing is unpickled, and every type and length is checked.

A record is a short header (msgpack: names of records, numbers, types and shapes of arrays), followed by the
contents of its arrays, one after the other. How a field is written follows from its type alone.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.cluster import members, messages, protocol, questions, slots
from dygcn.cluster.messages import Forward
from dygcn.cluster.slots import MOST_SHARDS, SLOTS, SlotMap
from dygcn.engine import records
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.records import EventBatch, IdColumn, Int64, Parts, RelationColumn
from dygcn.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint64", "bool", "float32", "float64")
_DTYPES = tuple(np.dtype(kind).newbyteorder("<") for kind in _KINDS)
_NARROW = _DTYPES[:4]
_SCALARS = int, float, bool, str, bytes
_MOST_DIMENSIONS = 3
_NAMES = vars(records) | {"Forward": Forward, "GraphImage": GraphImage, "SlotMap": SlotMap}
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


def _table() -> dict[str, Any]:
    """Return the records that can stand alone: all of some modules, and what these consist of."""
    found: list[tuple[str, Any]] = [
        ("EventBatch", EventBatch),
        ("IdColumn", IdColumn),
        ("GraphImage", GraphImage),
    ]
    for module in (members, messages, slots, protocol, questions):
        here = inspect.getmembers(module, is_dataclass)
        found += [(name, one) for name, one in here if one.__module__ == module.__name__]
    return dict(found)


RECORDS: dict[str, Any] = _table()
"""Every record that can be packed, by its name."""


# ---- whole records ---------------------------------------------------------------------------------------


def pack(record: Any) -> bytes:
    """Return a record as bytes.

    Examples
    --------
    >>> from dygcn.cluster.protocol import Move
    >>> unpack(pack(Move((7, 12), to=1)))
    Move(slots=(7, 12), to=1)
    >>> from dygcn.engine.events import id_column
    >>> rows = np.array([[64, -128]])
    >>> told = Forward(*[id_column([7])] * 2, np.array([65_536]), id_column([9]), np.array([1]), rows)
    >>> again = unpack(pack(told))
    >>> again.change.tolist(), again.rows.tolist(), len(pack(told))
    ([65536], [[64, -128]], 70)
    """
    return b"".join(pack_parts(record))


def pack_parts(record: Any) -> list[bytes | memoryview]:
    """Return a record as parts, which are its bytes one after the other; arrays are not copied."""
    name = type(record).__name__
    if RECORDS.get(name) is not type(record):
        raise ClusterError(f"a {name} is no record of a cluster, and cannot be sent")
    arrays: list[NDArray[Any]] = []
    try:
        header = _encode([name, _codec(RECORDS[name]).write(record, arrays)])
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise ClusterError(f"a {name} cannot be sent: {error}") from None
    contents = [one.data.cast("B") for one in arrays if one.size]  # an empty one has no cast
    return [len(header).to_bytes(4, "little"), header, *contents]


def unpack(body: bytes | memoryview) -> Any:
    """Read what `pack` wrote; arrays are copies.

    Raises
    ------
    ClusterError
        If it is anything else.
    """
    view = memoryview(body)
    try:
        size = 4 + int.from_bytes(view[:4], "little")
        if len(view) < size:
            raise ValueError("it ends too early")
        name, plain = _decode(view[4:size])
        source = _Source(view[size:])
        record = _codec(RECORDS[name]).read(plain, source)
        if source.at != len(source.view):
            raise ValueError("it goes on behind its end")
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ClusterError(f"a message between shards cannot be read: {error}") from None
    return record


@dataclass(slots=True)
class _Source:
    """Contents of arrays, and how far they were read."""

    view: memoryview
    at: int = 0

    def take(self, kind: np.dtype[Any], count: int) -> NDArray[Any]:
        size = kind.itemsize * count
        if not 0 <= size <= len(self.view) - self.at:
            raise ValueError("an array ends too early")
        array = np.frombuffer(self.view[self.at : self.at + size], kind).copy()
        self.at += size
        return array


# ---- by type ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of a type become numbers, strings and lists, and back; arrays stand elsewhere."""

    write: Callable[[Any, list[NDArray[Any]]], Any]
    read: Callable[[Any, _Source], Any]


@cache
def _codec(hint: Any) -> _Codec:
    origin = get_origin(hint)
    if hint is Forward:
        return _Codec(_write_forward, _read_forward)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    if hint in _SCALARS:
        return _scalar((hint,))
    if origin is np.ndarray:
        return _array(_dtypes_of(hint))
    if origin in (tuple, list):
        return _sequence(origin, get_args(hint))
    if origin in (Union, UnionType):
        return _union(get_args(hint))
    raise TypeError(f"no way to write {hint}")


def _record(kind: type) -> _Codec:
    hints = get_type_hints(kind, localns=_NAMES)
    names = [field.name for field in fields(kind)]
    codecs = [_codec(hints[name]) for name in names]
    check, later = _CHECKS.get(kind), bool(names) and "later" in fields(kind)[-1].metadata

    def write(value: Any, arrays: list[NDArray[Any]]) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{type(value).__name__} in the place of {kind.__name__}")
        given = names[:-1] if later and getattr(value, names[-1]) is None else names
        return [codec.write(getattr(value, name), arrays) for name, codec in zip(given, codecs, strict=False)]

    def read(plain: Any, source: _Source) -> Any:
        _expect(plain, list)
        given = codecs[:-1] if later and len(plain) < len(codecs) else codecs
        record = kind(*[codec.read(part, source) for codec, part in zip(given, plain, strict=True)])
        if check is not None and not check(record):
            raise ValueError(f"parts of a {kind.__name__} do not fit each other")
        return record

    return _Codec(write, read)


def _scalar(kinds: Sequence[type]) -> _Codec:
    def write(value: Any, _: list[NDArray[Any]]) -> Any:
        return value if type(value) in kinds else kinds[0](value)  # numbers of NumPy

    def read(plain: Any, _: _Source) -> Any:
        _expect(plain, *kinds)
        return plain

    return _Codec(write, read)


def _array(allowed: frozenset[int]) -> _Codec:
    def write(value: Any, arrays: list[NDArray[Any]]) -> Any:
        kind = _KINDS.index(value.dtype.name)
        if kind not in allowed:
            raise TypeError(f"an array of {value.dtype}")
        arrays.append(np.ascontiguousarray(value, _DTYPES[kind]))
        return [kind, *value.shape]

    def read(plain: Any, source: _Source) -> Any:
        _expect(plain, list)
        _expect_each(plain, int)
        kind, *shape = plain
        if kind not in allowed or not 1 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 0:
            raise ValueError("an array of another type")
        count = 1
        for size in shape:
            count *= size
        if kind == _KINDS.index("bool"):
            flags = source.take(_DTYPES[_KINDS.index("uint8")], count)
            if count and flags.max() > 1:
                raise ValueError("a flag that is neither 0 nor 1")
            return flags.view(np.bool_).reshape(shape)
        return source.take(_DTYPES[kind], count).reshape(shape)

    return _Codec(write, read)


def _dtypes_of(hint: Any) -> frozenset[int]:
    """Return the types of arrays that a hint allows, by their places."""
    kind = get_args(get_args(hint)[1])[0]
    if kind is Any:
        return frozenset(range(len(_DTYPES)))
    return frozenset(at for at, one in enumerate(_DTYPES) if issubclass(one.type, get_origin(kind) or kind))


def _sequence(kind: Callable[[list[Any]], Any], of: tuple[Any, ...]) -> _Codec:
    if of[-1] is ... or kind is list:
        same = _codec(of[0])

        def codecs(count: int) -> Sequence[_Codec]:
            return [same] * count
    else:
        each = [_codec(one) for one in of]

        def codecs(count: int) -> Sequence[_Codec]:
            return each

    def write(value: Any, arrays: list[NDArray[Any]]) -> Any:
        return [codec.write(one, arrays) for codec, one in zip(codecs(len(value)), value, strict=True)]

    def read(plain: Any, source: _Source) -> Any:
        _expect(plain, list)
        return kind([codec.read(one, source) for codec, one in zip(codecs(len(plain)), plain, strict=True)])

    return _Codec(write, read)


def _union(of: tuple[Any, ...]) -> _Codec:
    some = [one for one in of if one is not NoneType]
    inner = _alternatives(some) if len(some) > 1 else _codec(some[0])
    if len(some) == len(of):
        return inner

    def write(value: Any, arrays: list[NDArray[Any]]) -> Any:
        return None if value is None else inner.write(value, arrays)

    def read(plain: Any, source: _Source) -> Any:
        return None if plain is None else inner.read(plain, source)

    return _Codec(write, read)


def _alternatives(of: Sequence[Any]) -> _Codec:
    if all(get_origin(one) is np.ndarray for one in of):
        return _array(frozenset().union(*map(_dtypes_of, of)))
    if all(one in _SCALARS for one in of):
        return _scalar(of)
    by_name: dict[str, Any] = {one.__name__: one for one in of if isinstance(one, type) and is_dataclass(one)}
    if len(by_name) < len(of):
        raise TypeError(f"no way to tell {of} apart")

    def write(value: Any, arrays: list[NDArray[Any]]) -> Any:
        name = type(value).__name__
        return [name, _codec(by_name[name]).write(value, arrays)]

    def read(plain: Any, source: _Source) -> Any:
        _expect(plain, list)
        name, part = plain
        return _codec(by_name[name]).read(part, source)

    return _Codec(write, read)


def _expect(plain: Any, *kinds: type) -> None:
    if type(plain) not in kinds:
        raise TypeError(
            f"{type(plain).__name__} in the place of {' or '.join(one.__name__ for one in kinds)}"
        )


def _expect_each(plain: list[Any], kind: type) -> None:
    for one in plain:
        _expect(one, kind)


# ---- parts that must fit each other ----------------------------------------------------------------------


def _ids_fit(ids: IdColumn) -> bool:
    values, text = ids.values, ids.data
    if values.ndim != 1 or text is None:
        return values.ndim == 1
    return bool(
        text.ndim == 1
        and len(values)
        and values[0] == 0
        and values[-1] == len(text)
        and (np.diff(values) >= 0).all()
    )


def _events_fit(batch: EventBatch) -> bool:
    relation = None if batch.relation is None else batch.relation.codes
    columns = [one for one in (batch.op, batch.weight, batch.t, relation) if one is not None]
    sizes = {len(batch.src), len(batch.dst), *(one.size for one in columns)}
    return len(sizes) == 1 and all(one.ndim == 1 for one in columns)


def _slots_fit(slots: SlotMap) -> bool:
    owner = slots.owner
    return owner.shape == (SLOTS,) and 0 <= int(owner.min()) <= int(owner.max()) < MOST_SHARDS


def _image_fits(image: GraphImage) -> bool:
    nodes, edges, ghosts = len(image.ids), len(image.a), int(np.count_nonzero(image.weight < 0))
    of_nodes = len(image.own) == nodes and {len(image.contact), len(image.activity)} <= {0, nodes}
    of_edges = {len(image.b), len(image.weight)} == {edges}
    of_pairs = {len(image.pair_t), len(image.pair_count)} <= {0, edges}
    of_ghosts = len(image.ghost_weight) == len(image.ghost_t) and len(image.ghost_t) in (0, ghosts)
    ends = not edges or (min(image.a.min(), image.b.min()) >= 0 and max(image.a.max(), image.b.max()) < nodes)
    return bool(of_nodes and of_edges and of_pairs and of_ghosts and ends) and _parts_fit(image.parts, edges)


def _parts_fit(parts: Parts | None, edges: int) -> bool:
    if parts is None:
        return True
    lengths = {len(parts.pair), len(parts.relation), len(parts.weight)}
    return len(lengths) == 1 and bool(((parts.pair >= 0) & (parts.pair < edges)).all())


def _relations_fit(column: RelationColumn) -> bool:
    return bool(((column.codes >= 0) & (column.codes < len(column.names))).all())


_CHECKS: dict[type, Callable[[Any], bool]] = {
    IdColumn: _ids_fit,
    EventBatch: _events_fit,
    RelationColumn: _relations_fit,
    SlotMap: _slots_fit,
    GraphImage: _image_fits,
}


# ---- what shards tell each other all the time is narrow --------------------------------------------------


def _write_forward(forward: Forward, arrays: list[NDArray[Any]]) -> Any:
    ids = _codec(IdColumn).write
    numbers = (forward.change, forward.degree, forward.rows)
    return [
        forward.rows.shape[1],
        *(ids(one, arrays) for one in (forward.node, forward.aggregated, forward.new)),
        *(_write_narrow(one, arrays) for one in numbers),
    ]


def _read_forward(plain: Any, source: _Source) -> Forward:
    _expect(plain, list)
    width, *rest = plain
    _expect(width, int)
    if len(rest) != 6:
        raise ValueError("a Forward of other columns")
    node, aggregated, new = (_codec(IdColumn).read(one, source) for one in rest[:3])
    change, degree, rows = (_read_narrow(one, source) for one in rest[3:])
    if not len(node) == len(aggregated) == len(change) or not len(new) == len(degree):
        raise ValueError("columns of different lengths")
    if width < 0 or len(rows) != len(degree) * width:
        raise ValueError("rows of another width")
    return Forward(node, aggregated, change, new, degree, rows.reshape(len(degree), width))


def _write_narrow(numbers: Int64, arrays: list[NDArray[Any]]) -> list[int]:
    """Write integers, divided by a power of two, in the narrowest type that holds them."""
    bits = int(np.bitwise_or.reduce(numbers, axis=None)) if numbers.size else 0
    shift = (bits & -bits).bit_length() - 1 if bits else 0
    small: NDArray[Any] = numbers >> shift
    low, high = (int(small.min()), int(small.max())) if small.size else (0, 0)
    fits = [np.iinfo(kind).min <= low and high <= np.iinfo(kind).max for kind in _NARROW]
    kind = fits.index(True)
    arrays.append(np.ascontiguousarray(small, _NARROW[kind]))
    return [kind, shift, small.size]


def _read_narrow(plain: Any, source: _Source) -> Int64:
    _expect(plain, list)
    _expect_each(plain, int)
    kind, shift, count = plain
    if not 0 <= kind < len(_NARROW) or not 0 <= shift < 64 or count < 0:
        raise ValueError("numbers of an unknown kind")
    numbers: Int64 = source.take(_NARROW[kind], count).astype(np.int64) << shift
    return numbers
