"""What a shard tells another, as bytes and back. Nothing is unpickled, and every length is checked."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.cluster.messages import Forward
from dygcn.engine.records import IdColumn, Int64
from dygcn.errors import ClusterError

_KINDS = np.int8, np.int16, np.int32, np.int64


class _Narrow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Integers, divided by a power of two, in the narrowest type that holds them."""

    kind: int  # its place among the types
    shift: int
    data: bytes


class _Packed(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    node: tuple[bytes, bytes | None]
    aggregated: tuple[bytes, bytes | None]
    change: _Narrow
    new: tuple[bytes, bytes | None]
    degree: _Narrow
    rows: _Narrow
    width: int


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Packed)


def pack_forward(forward: Forward) -> bytes:
    """Return what a shard tells as bytes.

    Examples
    --------
    >>> from dygcn.engine.events import id_column
    >>> rows = np.array([[64, -128]])
    >>> told = Forward(*[id_column([7])] * 2, np.array([65_536]), id_column([9]), np.array([1]), rows)
    >>> again = unpack_forward(pack_forward(told))
    >>> again.change.tolist(), again.rows.tolist(), len(pack_forward(told))
    ([65536], [[64, -128]], 57)
    """
    return _encoder.encode(
        _Packed(
            _pack_ids(forward.node),
            _pack_ids(forward.aggregated),
            _pack_numbers(forward.change),
            _pack_ids(forward.new),
            _pack_numbers(forward.degree),
            _pack_numbers(forward.rows),
            forward.rows.shape[1],
        )
    )


def unpack_forward(body: bytes) -> Forward:
    """Read what `pack_forward` wrote.

    Raises
    ------
    ClusterError
        If it is anything else.
    """
    try:
        packed = _decoder.decode(body)
        change, degree = _unpack_numbers(packed.change), _unpack_numbers(packed.degree)
        rows = _unpack_numbers(packed.rows).reshape(len(degree), packed.width)
        ids = [_unpack_ids(*one) for one in (packed.node, packed.aggregated, packed.new)]
        sizes = [len(one) for one in ids]
        if sizes != [len(change), len(change), len(degree)]:
            raise ValueError("columns of different lengths")
    except (msgspec.MsgspecError, ValueError, IndexError) as error:
        raise ClusterError(f"a message between shards cannot be read: {error}") from None
    return Forward(ids[0], ids[1], change, ids[2], degree, rows)


def _pack_ids(ids: IdColumn) -> tuple[bytes, bytes | None]:
    return ids.values.tobytes(), None if ids.data is None else ids.data.tobytes()


def _unpack_ids(values: bytes, text: bytes | None) -> IdColumn:
    numbers = np.frombuffer(values, np.int64)
    if text is None:
        return IdColumn(numbers)
    if not len(numbers) or numbers[0] != 0 or numbers[-1] != len(text) or (np.diff(numbers) < 0).any():
        raise ValueError("offsets that do not fit their text")
    return IdColumn(numbers, np.frombuffer(text, np.uint8))


def _pack_numbers(numbers: Int64) -> _Narrow:
    bits = int(np.bitwise_or.reduce(numbers, axis=None)) if numbers.size else 0
    shift = (bits & -bits).bit_length() - 1 if bits else 0
    small: NDArray[Any] = numbers >> shift
    low, high = (int(small.min()), int(small.max())) if small.size else (0, 0)
    fits = [np.iinfo(kind).min <= low and high <= np.iinfo(kind).max for kind in _KINDS]
    kind = fits.index(True)
    return _Narrow(kind, shift, small.astype(_KINDS[kind]).tobytes())


def _unpack_numbers(packed: _Narrow) -> Int64:
    if not 0 <= packed.kind < len(_KINDS) or not 0 <= packed.shift < 63:
        raise ValueError("numbers of an unknown kind")
    return np.frombuffer(packed.data, _KINDS[packed.kind]).astype(np.int64) << packed.shift
