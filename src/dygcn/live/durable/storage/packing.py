"""A batch of events as bytes, and back: what the log keeps. Nothing is unpickled, every length is checked."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.columns import length_faults, op_faults, refuse, time_faults, weight_faults
from dygcn.engine.records import EventBatch, IdColumn, RelationColumn
from dygcn.errors import DamagedLog
from dygcn.live.durable.storage.entries import clear_body


class _Packed(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Columns as little-endian bytes; a missing column is empty."""

    count: int
    src: bytes
    src_text: bytes | None
    dst: bytes
    dst_text: bytes | None
    op: bytes
    weight: bytes
    t: bytes
    whole_times: bool
    now: float | None

    relation: bytes = b""  # both are written where there are relations, and only there
    relations: tuple[str, ...] = ()


_decoder = msgspec.msgpack.Decoder(_Packed)


def pack(batch: EventBatch, now: float | None = None) -> bytes:
    """Return a batch and its `now` as bytes."""
    src, src_text = _pack_ids(batch.src)
    dst, dst_text = _pack_ids(batch.dst)
    packed = (
        len(batch),
        src,
        src_text,
        dst,
        dst_text,
        batch.op.tobytes(),
        b"" if batch.weight is None else batch.weight.tobytes(),
        b"" if batch.t is None else batch.t.tobytes(),
        batch.t is not None and batch.t.dtype.kind == "i",
        now,
    )
    related = batch.relation
    return msgspec.msgpack.encode(
        packed if related is None else (*packed, related.codes.tobytes(), related.names)
    )


def _pack_ids(ids: IdColumn) -> tuple[bytes, bytes | None]:
    return ids.values.tobytes(), None if ids.data is None else ids.data.tobytes()


def unpack(body: bytes) -> tuple[EventBatch, float | None]:
    """Read what `pack` wrote, also if it was redacted since."""
    try:
        packed = _decoder.decode(clear_body(body))
        count = packed.count
        times = None
        if packed.t:
            times = _column(packed.t, np.int64 if packed.whole_times else np.float64, count)
        batch = EventBatch(
            _unpack_ids(packed.src, packed.src_text, count),
            _unpack_ids(packed.dst, packed.dst_text, count),
            _column(packed.op, np.int8, count),
            _column(packed.weight, np.float64, count) if packed.weight else None,
            times,
            _unpack_relations(packed),
        )
        _check(batch, packed.now)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DamagedLog(f"an entry of the log cannot be read: {error}") from None
    return batch, packed.now


def _unpack_relations(packed: _Packed) -> RelationColumn | None:
    if not packed.relations and not packed.relation:
        return None
    codes = _column(packed.relation, np.int16, packed.count)
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(packed.relations):
        raise ValueError("relations without a name")
    return RelationColumn(codes, packed.relations)


def pack_tolerance(tolerance: float) -> bytes:
    """Return a tolerance as bytes."""
    return struct.pack(">d", tolerance)


def unpack_tolerance(body: bytes) -> float:
    """Read what `pack_tolerance` wrote."""
    tolerance = struct.unpack(">d", body)[0] if len(body) == 8 else math.nan
    if not 0 <= tolerance < math.inf:
        raise DamagedLog(f"an entry of the log is no tolerance: {body[:20]!r}")
    return float(tolerance)


def _check(batch: EventBatch, now: float | None) -> None:
    """Refuse impossible events: a checksum shows only that the bytes are undamaged."""
    if batch.src.kind != batch.dst.kind:
        raise ValueError("ids of two types")
    refuse(op_faults(batch.op))
    if batch.weight is not None:
        refuse(weight_faults(batch.weight, batch.op))
    if batch.t is not None:
        refuse(time_faults(batch.t))
    if now is not None and not math.isfinite(now):
        raise ValueError(f"the time {now}")


def _column(data: bytes, dtype: Any, count: int) -> NDArray[Any]:
    column = np.frombuffer(data, dtype)
    if len(column) != count:
        raise ValueError(f"a column has {len(column)} rows, {count} were written")
    return column


def _unpack_ids(data: bytes, text: bytes | None, count: int) -> IdColumn:
    if text is None:
        return IdColumn(_column(data, np.int64, count))
    offsets = _column(data, np.int64, count + 1)
    if offsets[0] != 0 or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
        raise ValueError("ids whose offsets do not fit")
    refuse(length_faults(np.diff(offsets), "id"))
    text.decode("utf-8")
    ids, starts = np.frombuffer(text, np.uint8), offsets[:-1]
    if ((ids[starts[starts < len(ids)]] & 0xC0) == 0x80).any():
        raise ValueError("an id that is not UTF-8")
    return IdColumn(offsets, ids)
