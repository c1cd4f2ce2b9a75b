"""Events as an Arrow IPC stream from untrusted senders: every part is checked before it is read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from dygcn.engine.events.column_names import COLUMNS, FIELDS, KINDS
from dygcn.engine.events.columns import IDS_ALLOWED, MAX_ID_BYTES, is_relation_type, numbers
from dygcn.engine.events.row_errors import OP_WORDS, Columns, MessageTable, TooManyRows, Unreadable
from dygcn.errors import EventError

MAX_BATCHES = 1_000
_STREAM = "an Arrow IPC stream with the columns src and dst, and optionally t, op and weight"
_FAILED = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, OverflowError, struct.error)
_HEADER, _RECORDS_OF_DICTIONARY, _COMPRESSION = 2, 1, 3  # positions of fields in the format's flatbuffers


def read_arrow(body: bytes, kind: str, limit: int, related: bool) -> MessageTable:
    """Read a stream into columns of supported types; single cells may still be bad."""
    try:
        fields = (*(FIELDS if related else COLUMNS), *(KINDS if kind == "kinds" else ()))
        parts = [_plain(batch, kind, fields) for batch in _batches(body, limit, fields)]
        shown = _joined([shown for _, shown in parts])
        return MessageTable(_joined([checked for checked, _ in parts]), lambda rows: _show(shown, rows))
    except (Unreadable, TooManyRows):
        raise
    except EventError as error:
        raise Unreadable(error.reason) from None
    except _FAILED as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unreadable(f"cannot be read: {first}; allowed is {_STREAM}") from None


def _joined(parts: list[Columns]) -> Columns:
    if not parts:
        return {"src": [], "dst": []}
    return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


def _show(shown: Columns, rows: list[int]) -> list[str]:
    table = pa.table(shown).take(pa.array(rows, pa.int64()))
    return [msgspec.json.encode(row).decode("utf-8") for row in table.to_pylist()]


def _batches(body: bytes, limit: int, fields: tuple[str, ...]) -> Iterable[pa.RecordBatch]:
    """Yield the relevant columns of each batch, each checked against its own buffers."""
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type in ("record batch", "dictionary") and _is_compressed(message):
            raise Unreadable("the batches are compressed; write the stream without compression")
    with pa.ipc.open_stream(body) as reader:
        names, types = reader.schema.names, reader.schema.types
    for name in fields:
        if names.count(name) > 1:
            raise Unreadable(f"there are two columns {name!r}; rename one")
    for name, kind in zip(names, types, strict=True):  # views may point anywhere, many to the same bytes
        if name in fields and pa.types.is_string_view(getattr(kind, "value_type", kind)):
            raise Unreadable(
                f"column {name!r} holds string views; send plain strings (polars: CompatLevel.oldest())"
            )
    if not {"src", "dst"} <= set(names):
        raise Unreadable(f"there is no column src or dst (columns: {', '.join(names) or 'none'})")
    wanted = [at for at, name in enumerate(names) if name in fields]
    rows = 0
    with pa.ipc.open_stream(body, options=pa.ipc.IpcReadOptions(included_fields=wanted)) as reader:
        for number, batch in enumerate(reader):
            rows += batch.num_rows
            if rows > limit:
                raise TooManyRows(limit)
            if number == MAX_BATCHES:  # each of them brings the whole dictionary again
                raise Unreadable(f"there are more than {MAX_BATCHES:,} batches; write larger ones")
            batch.validate(full=True)
            yield batch


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Look for the field that only compressed batches have.

    A few bytes of compressed zeros can become gigabytes, and the reader unpacks them unasked.
    """
    data = message.metadata.to_pybytes()
    header = _field(data, struct.unpack_from("<I", data)[0], _HEADER)
    if header is not None and message.type == "dictionary":
        header = _field(data, header, _RECORDS_OF_DICTIONARY)
    return header is not None and _field(data, header, _COMPRESSION) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return the position of the table that a flatbuffer's field points to; None if the field is absent."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, fields)[0]:
        return None
    offset: int = struct.unpack_from("<H", data, fields + 4 + 2 * number)[0]
    return table + offset + struct.unpack_from("<I", data, table + offset)[0] if offset else None


def _plain(batch: pa.RecordBatch, kind: str, fields: tuple[str, ...]) -> tuple[Columns, Columns]:
    """Return the columns of one batch as plain arrays: one form for the checks, one for error messages."""
    if "relation" in fields and "relation" not in batch.schema.names:  # every event must have one
        batch = batch.append_column("relation", pa.nulls(batch.num_rows, pa.large_string()))
    shown = {name: _column(batch.column(name), name, kind) for name in fields if name in batch.schema.names}
    checked = {name: _operations(column) if name == "op" else column for name, column in shown.items()}
    return checked, shown


def _column(column: pa.Array, name: str, kind: str) -> pa.Array:
    if name in ("src", "dst"):
        return _unpacked(column, lambda words: _ids(words, name, kind))
    if name in KINDS:
        return _unpacked(column, lambda words: _ids(words, name, "string"))
    plain = _unpacked(column, lambda words: _short(words) if name in ("op", "relation") else words)
    if name == "relation" and not pa.types.is_null(plain.type):
        if not is_relation_type(plain.type):
            raise Unreadable(f"column 'relation' holds {plain.type}; allowed are text and whole numbers")
        return plain.cast(pa.large_string())
    return plain if _is_text(plain.type) else _numbers(plain, name)


def _numbers(column: pa.Array, name: str) -> pa.Array:
    """Return numbers and dates as int64 or float64; empty cells stay empty, so that integers stay exact."""
    found = numbers(column, name)
    if pa.types.is_signed_integer(column.type):
        return column.cast(pa.int64())
    return pa.array(found, mask=column.is_null().to_numpy(zero_copy_only=False))


def _unpacked(column: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return a changed column; of a dictionary column, `change` sees each word once."""
    if pa.types.is_dictionary(column.type):
        return change(column.dictionary).take(column.indices)
    return change(column)


def _ids(words: pa.Array, name: str, kind: str) -> pa.Array:
    if pa.types.is_null(words.type):
        return words.cast(pa.int64() if kind == "int64" else pa.large_string())
    if pa.types.is_integer(words.type) and kind != "string":
        return words if pa.types.is_uint64(words.type) else words.cast(pa.int64())
    if _is_text(words.type) and kind != "int64":
        return _short(words)
    raise Unreadable(f"column {name!r} holds {words.type}, the graph has {kind} ids; {IDS_ALLOWED}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _short(words: pa.Array) -> pa.Array:
    """Return text as large_string, with overlong values cut: a few words may stand for many."""
    if not _is_text(words.type):
        return words
    text = words.cast(pa.large_string())
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    return pc.utf8_slice_codeunits(text, 0, MAX_ID_BYTES + 1) if longest > MAX_ID_BYTES else text


def _operations(column: pa.Array) -> pa.Array:
    """Return operations as numbers; unknown words become empty cells."""
    if not _is_text(column.type):
        return column
    indices = pc.index_in(column, pa.array(list(OP_WORDS), column.type))
    return pa.array(list(OP_WORDS.values()), pa.int64()).take(indices)
