"""Records and errors of a cluster as bytes and back; nothing is unpickled, types and lengths are checked.

A record is a header (msgpack), followed by the contents of its arrays, one after the other. In the header, an
array is its type, a shift and its shape. 64-bit integers are divided by a power of two and stored in the
narrowest type that holds them all: what shards send all the time, changes of weights and rows, is narrow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from math import prod
from typing import Any, Union, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn import errors
from dygcn.cluster import messages, queries
from dygcn.cluster.messages import MirrorUpdate, Record
from dygcn.cluster.slots import MOST_SHARDS, SLOTS, SlotMap
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.records import EventBatch, IdColumn, Parts, RelationColumn
from dygcn.errors import ClusterError, DygcnError

_KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint64", "bool", "float32", "float64")
_DTYPES = tuple(np.dtype(kind).newbyteorder("<") for kind in _KINDS)
_NARROW = _DTYPES[:4]
_BOOL, _MOST_DIMENSIONS = _KINDS.index("bool"), 3

RECORDS: dict[str, type[Record]] = {  # every record that can be packed, by its name
    name: one
    for module in (messages, queries)
    for name, one in inspect.getmembers(module, inspect.isclass)
    if issubclass(one, Record) and not one.__subclasses__()
}
_ANY: Any = Union[tuple(RECORDS.values())]  # noqa: UP007  (of a list)


# ---- records ---------------------------------------------------------------------------------------------


def pack(record: Record) -> bytes:
    """Return a record as bytes."""
    return b"".join(pack_parts(record))


def pack_parts(record: Record) -> list[bytes | memoryview]:
    """Return the bytes of a record in parts; arrays are copied only if they become narrower."""
    name = type(record).__name__
    if RECORDS.get(name) is not type(record):
        raise ClusterError(f"a {name} is no record of a cluster, and cannot be sent")
    arrays: list[NDArray[Any]] = []
    try:
        header = msgspec.msgpack.encode(record, enc_hook=lambda value: _write_array(value, arrays))
    except (TypeError, ValueError, OverflowError) as error:
        raise ClusterError(f"a {name} cannot be sent: {error}") from None
    contents = [one.data.cast("B") for one in arrays if one.size]  # an empty one has no cast
    return [len(header).to_bytes(4, "little"), header, *contents]


def unpack(body: bytes | memoryview) -> Any:
    """Read what `pack` wrote; arrays are copies. Raise `ClusterError` if it is anything else."""
    view = memoryview(body)
    size = 4 + int.from_bytes(view[:4], "little")
    source = _Source(view[size:])
    try:
        record = msgspec.msgpack.decode(view[4:size], type=_ANY, dec_hook=source.read)
        if source.at != len(source.view):
            raise ValueError("its arrays end before it does")
        for part in _parts_of(record):
            if (check := _CHECKS.get(type(part))) and not check(part):
                raise ValueError(f"parts of a {type(part).__name__} do not fit each other")
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ClusterError(f"a message between shards cannot be read: {error}") from None
    return record


def _write_array(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return an array as the header has it, and append its contents; a NumPy number becomes a plain one."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.name not in _KINDS:
        raise TypeError(f"no way to write {getattr(value, 'dtype', type(value))}")
    kind, shift = _KINDS.index(value.dtype.name), 0
    if value.dtype == np.int64 and value.size:
        bits = int(np.bitwise_or.reduce(value, axis=None))
        shift = (bits & -bits).bit_length() - 1 if bits else 0
        low, high = int(value.min()) >> shift, int(value.max()) >> shift
        fits = [np.iinfo(one).min <= low and high <= np.iinfo(one).max for one in _NARROW]
        kind, value = fits.index(True), value >> shift if shift else value
    arrays.append(np.ascontiguousarray(value, _DTYPES[kind]))
    return [kind, shift, *value.shape]


@dataclass(slots=True)
class _Source:
    """Contents of arrays, and the position up to which they were read."""

    view: memoryview
    at: int = 0

    def read(self, hint: Any, plain: Any) -> NDArray[Any]:
        """Return an array of an annotated type, given what the header says of it."""
        kind, shift, *shape = msgspec.convert(plain, list[int])
        allowed = _dtypes(hint)
        widened = np.int64 in allowed and 0 <= kind < len(_NARROW)
        if not (0 <= kind < len(_KINDS) and (widened or (_DTYPES[kind].type in allowed and shift == 0))):
            raise ValueError("an array of another type")
        if not (0 <= shift < 64 and 1 <= len(shape) <= _MOST_DIMENSIONS and min(shape) >= 0):
            raise ValueError("an array without a shape")
        size = prod(shape) * _DTYPES[kind].itemsize
        if size > len(self.view) - self.at:
            raise ValueError("an array ends too early")
        contents = self.view[self.at : self.at + size]
        self.at += size
        if kind == _BOOL and size and np.frombuffer(contents, np.uint8).max() > 1:
            raise ValueError("a flag that is neither 0 nor 1")
        array = np.frombuffer(contents, _DTYPES[kind]).reshape(shape)
        return array.astype(np.int64) << shift if widened else array.copy()


@cache
def _dtypes(hint: Any) -> frozenset[type]:
    kind = get_args(get_args(hint)[1])[0]
    return frozenset(get_args(kind) or [kind]) if get_origin(kind) is not None else frozenset([kind])


def _parts_of(record: Any) -> Iterator[Any]:
    yield record
    names = [one.name for one in fields(record)] if is_dataclass(record) else ()
    for name in getattr(record, "__struct_fields__", names):
        inner = getattr(record, name)
        for one in inner if isinstance(inner, tuple) else (inner,):
            yield from _parts_of(one)


# ---- parts that must fit each other ----------------------------------------------------------------------


def _ids_fit(ids: IdColumn) -> bool:
    values, text = ids.values, ids.data
    if values.ndim != 1 or text is None:
        return values.ndim == 1
    ends = len(values) and values[0] == 0 and values[-1] == len(text)
    return bool(text.ndim == 1 and ends and (np.diff(values) >= 0).all())


def _events_fit(batch: EventBatch) -> bool:
    relation = None if batch.relation is None else batch.relation.codes
    columns = [one for one in (batch.op, batch.weight, batch.t, relation) if one is not None]
    sizes = {len(batch.src), len(batch.dst), *(one.size for one in columns)}
    return len(sizes) == 1 and all(one.ndim == 1 for one in columns)


def _slots_fit(slots: SlotMap) -> bool:
    owner = slots.owner
    return owner.shape == (SLOTS,) and 0 <= int(owner.min()) <= int(owner.max()) < MOST_SHARDS


def _update_fits(update: MirrorUpdate) -> bool:
    rows, new = update.rows, len(update.new)
    of_changes = len(update.node) == len(update.aggregated) == len(update.change)
    return of_changes and rows.ndim == 2 and len(rows) == len(update.degree) == new


def _image_fits(image: GraphImage) -> bool:
    nodes, edges, ghosts = len(image.ids), len(image.a), int(np.count_nonzero(image.weight < 0))
    of_nodes = len(image.own) == nodes and {len(image.contact), len(image.activity)} <= {0, nodes}
    of_edges = {len(image.b), len(image.weight)} == {edges}
    of_pairs = {len(image.pair_t), len(image.pair_count)} <= {0, edges}
    of_ghosts = len(image.ghost_weight) == len(image.ghost_t) and len(image.ghost_t) in (0, ghosts)
    ends = not edges or (min(image.a.min(), image.b.min()) >= 0 and max(image.a.max(), image.b.max()) < nodes)
    pairs = image.parts is None or bool((image.parts.pair < edges).all())
    return bool(of_nodes and of_edges and of_pairs and of_ghosts and ends and pairs)


def _parts_fit(parts: Parts) -> bool:
    return len(parts.pair) == len(parts.relation) == len(parts.weight) and bool((parts.pair >= 0).all())


def _relations_fit(column: RelationColumn) -> bool:
    return bool(((column.codes >= 0) & (column.codes < len(column.names))).all())


_CHECKS: dict[type, Callable[[Any], bool]] = {
    IdColumn: _ids_fit,
    EventBatch: _events_fit,
    RelationColumn: _relations_fit,
    SlotMap: _slots_fit,
    MirrorUpdate: _update_fits,
    GraphImage: _image_fits,
    Parts: _parts_fit,
}


# ---- errors ----------------------------------------------------------------------------------------------

_Value = str | int | float | bool | None
_Error = tuple[str, list[_Value], dict[str, _Value]]  # class, arguments, attributes
CLASSES = {  # every class of the error tree, by its name
    name: one for name, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, DygcnError)
}


def pack_error(error: DygcnError) -> bytes:
    """Return an error as bytes."""
    attributes = {name: _plain(value) for name, value in vars(error).items()}
    return msgspec.msgpack.encode((type(error).__name__, [_plain(value) for value in error.args], attributes))


def unpack_error(body: bytes) -> DygcnError:
    """Return an error with its class and attributes, or a `ClusterError` if its class is unknown."""
    try:
        name, arguments, attributes = msgspec.msgpack.decode(body, type=_Error)
    except msgspec.MsgspecError as error:
        return ClusterError(f"a refusal of another process cannot be read: {error}")
    kind = CLASSES.get(name)
    if kind is None:
        return ClusterError(f"{name}: {', '.join(map(str, arguments))}")
    refusal = kind.__new__(kind, *arguments)
    refusal.args = tuple(arguments)  # not by __init__, which made these of what it was given
    vars(refusal).update(attributes)
    return refusal


def _plain(value: object) -> _Value:
    if isinstance(value, float | bool | None) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    return str(value).encode(errors="replace").decode()
