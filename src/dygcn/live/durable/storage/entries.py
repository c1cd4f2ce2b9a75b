"""Entries of the log: their kinds, the checksum that chains each to all before it, epochs, and redaction.

Cursors and sinks name chain values, so these stay when events of forgotten ids are taken out. The body of
a redacted entry begins with a mark and a checksum of its own, over the chain value and the events left.

A batch of events is packed as bytes. Nothing is unpickled, and every length is checked.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.columns import length_faults, op_faults, refuse, time_faults, weight_faults
from dygcn.engine.records import EventBatch, IdColumn, RelationColumn
from dygcn.errors import DamagedLog
from dygcn.live.durable.storage import times

RESTORE = "restore a copy"
_EPOCH = struct.Struct(">Q8s")
_MARK = hashlib.blake2b(b"a redacted entry of dygcn", digest_size=16).digest()
_HEAD = 2 * len(_MARK)


class Kind:
    """The kinds of entries."""

    EVENTS, FORGET, EPOCH, SHARDS = "events", "forget", "epoch", "shards"
    TOLERANCE, FLUSH = "tolerance", "flush"
    REFUSAL, BARRIER = "refusal", "barrier"  # of a batch that cannot be applied; of what is in a snapshot
    ALL = EVENTS, REFUSAL, BARRIER, FORGET, EPOCH, TOLERANCE, FLUSH, SHARDS


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to append."""

    kind: str  # one of `Kind`
    stream: str = ""  # where it came from; "": repeats are not noticed
    offset: int = -1  # its place in that stream; -1: none, or only a part of what has that place
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Entry:
    """An appended entry. Entries with one `batch_id` were applied together."""

    seq: int
    batch_id: int
    kind: str
    stream: str
    offset: int
    body: bytes
    chain: bytes  # checksum of this entry and, through the one before it, of all before
    logged: int = 0  # when, in microseconds since 1970; never less than that of the entry before
    seal: bytes = b""  # checksum of the time


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch of a log that readers and sinks treat as one history."""

    generation: int  # milliseconds since 1970 when it began; of two epochs the greater one wins
    id: str  # random, 16 hexadecimal digits

    @classmethod
    def begin(cls, after: Epoch | None = None) -> Epoch:
        """Return a new epoch; one that follows another has a greater generation, whatever the clock says."""
        least = 0 if after is None else after.generation + 1
        return cls(max(time.time_ns() // 1_000_000, least), secrets.token_hex(8))

    def pack(self) -> bytes:
        """Return the epoch as 16 bytes."""
        return _EPOCH.pack(self.generation, bytes.fromhex(self.id))

    @classmethod
    def unpack(cls, packed: bytes) -> Epoch:
        """Read what `pack` returned."""
        if len(packed) != _EPOCH.size:
            raise DamagedLog(f"an epoch has {len(packed)} bytes; {_EPOCH.size} were written")
        generation, identity = _EPOCH.unpack(packed)
        if generation >= 1 << 63:
            raise DamagedLog(f"an epoch has the generation {generation}, which none can have")
        return cls(generation, identity.hex())


def chained(chain: bytes, seq: int, batch_id: int, entry: NewEntry | Entry) -> bytes:
    """Return the checksum of an entry and all entries before it."""
    digest = hashlib.blake2b(chain, digest_size=16)
    head = (
        f"{seq} {batch_id} {entry.kind} {entry.offset} {len(entry.stream)} {entry.stream} {len(entry.body)}"
    )
    digest.update(head.encode())
    digest.update(entry.body)
    return digest.digest()


def check_entry(path: Path, entry: Entry, expected: int, chain: bytes) -> bytes:
    """Return the chain value of an entry; raise unless it is the next one and undamaged."""
    whole = (
        entry.seq == expected
        and isinstance(entry.batch_id, int)
        and 0 <= entry.batch_id < 1 << 62
        and entry.kind in Kind.ALL
        and isinstance(entry.stream, str)
        and isinstance(entry.offset, int)
        and entry.offset >= -1
        and isinstance(entry.body, bytes)
        and (entry.chain == chained(chain, entry.seq, entry.batch_id, entry) or is_redacted(entry))
        and times.is_time(entry.logged)
        and entry.seal == times.seal(entry.chain, entry.logged)
    )
    if not whole:
        raise DamagedLog(f"{path}: entry {expected} is not what was written, or is missing; {RESTORE}")
    return entry.chain


def check_entries(
    path: Path, some: Callable[[int], list[Entry]], after: int, chain: bytes
) -> Iterator[Entry]:
    """Yield the entries after a sequence, each checked against the checksum of all before it.

    `some` returns the next entries behind a sequence, as many as fit into memory.
    """
    while entries := some(after):
        for entry in entries:
            after += 1
            chain = check_entry(path, entry, after, chain)
            yield entry


def redacted(entry: Entry, body: bytes) -> bytes:
    """Return the body of a redacted entry around the rest of the original one."""
    return _MARK + _checksum(entry, body) + body


def clear_body(body: bytes) -> bytes:
    """Return the body of an entry without the mark of a redaction, if it has one."""
    return body[_HEAD:] if body.startswith(_MARK) else body


def is_redacted(entry: Entry) -> bool:
    """Return whether an entry was redacted, and matches the checksum of the redaction."""
    if not isinstance(entry.body, bytes) or not entry.body.startswith(_MARK):
        return False
    return entry.body[:_HEAD] == _MARK + _checksum(entry, entry.body[_HEAD:])


def _checksum(entry: Entry, body: bytes) -> bytes:
    about = f"{entry.seq} {entry.batch_id} {entry.kind} {entry.offset} {len(entry.stream)} {entry.stream}"
    digest = hashlib.blake2b(entry.chain, digest_size=16, person=b"dygcn redacted")
    digest.update(f"{about} {len(body)}".encode() + body)
    return digest.digest()


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
