"""Events from bytes: bad events are reported, and the others decoded. JSON is read here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import GenericAlias
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from dygcn.engine.events import row_errors as errors
from dygcn.engine.events.codec import assemble
from dygcn.engine.events.columns import MAX_ID_BYTES, NO_TEXTS
from dygcn.engine.events.kinds import kinds_of, stored_type
from dygcn.engine.events.row_errors import NOT_READ, Columns, MessageTable, TooManyRows, Unreadable
from dygcn.engine.events.wire_arrow import read_arrow
from dygcn.engine.events.wire_numbers import count_long_exponents, reads_slowly
from dygcn.engine.records import EventBatch, ForgetEvent, IdColumn, Int64
from dygcn.errors import EventError, OptionError

MAX_TEXT, MAX_REASON = 1_000, 500

_Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=MAX_ID_BYTES)]
_Id = TypeVar("_Id")
KINDS = "kinds"  # of a graph with kinds: ids are numbers and text
_EVENT = 'an event is an object such as {"src": 1, "dst": 2, "op": 1, "weight": 1.0, "t": 0}'
_FORGET = 'a forget event is {"op": "forget", "id": ...}'
_ALLOWED = {
    "int64": "are whole numbers within int64, never floats",
    "string": "are strings of at most 256 bytes",
    KINDS: "are whole numbers within int64, and strings of at most 256 bytes",
    "src_kind": "is the name of a kind, or none",
    "dst_kind": "is the name of a kind, or none",
    "op": 'are 1 or "add", and -1 or "remove"',
    "weight": "is a finite number above 0, or no weight (it is then 1)",
    "t": "is a finite number (a whole one within int64), or no t in the whole message",
    "relation": "is text of at most 256 bytes, or a whole number",
}
_OPS: dict[Any, int] = {1: 1, -1: -1, **errors.OP_WORDS}
_SLOW = (
    "a number has an exponent of three digits or more, and the message has too many such numbers; "
    "allowed are up to 16 of them, and one more for every 2 KiB"
)
_FIELDS = 7  # of an event, at most
_SPLIT_AT_ONCE = 1_000_000  # things of a list: sixty bytes each
_BLAMED = re.compile(r"`\$\.(\w+)`")
_EXPLAINED = 1_000  # bad rows of a message; the reason of further ones is the error of the decoder
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT = rb'\{(?:[^"{}\[\]]++|' + _STRING + rb")*+\}"  # an object with nothing nested in it
_TOKEN = re.compile(_FLAT + b"|" + _STRING + rb'|["\[\]{},]', re.DOTALL)


class _Event(msgspec.Struct, Generic[_Id], gc=False):
    src: _Id
    dst: _Id
    op: Literal[1, -1, "add", "remove"] = 1
    weight: float | msgspec.UnsetType = msgspec.UNSET
    t: _Whole | float | None = None


class _RelatedEvent(_Event[_Id], Generic[_Id], gc=False):
    relation: str | _Whole | None = None


class _KindEvent(_RelatedEvent[_Id], Generic[_Id], gc=False):
    src_kind: str | None = None
    dst_kind: str | None = None


class _Forget(msgspec.Struct, Generic[_Id], gc=False):
    id: _Id
    op: Literal["forget"]
    t: _Whole | float | None = None


_BOTH: TypeAlias = _Whole | str
_SHAPES: dict[str, tuple[Any, ...]] = {  # by type of ids: an event, one with a relation, a forget event
    "int64": (_Event[_Whole], _RelatedEvent[_Whole], _Forget[_Whole]),
    "string": (_Event[str], _RelatedEvent[str], _Forget[_Text]),
    KINDS: (_KindEvent[_BOTH], _KindEvent[_BOTH], _Forget[_Whole | _Text]),
}
_EVENTS, _RELATED, _FORGETS = (
    {ids: msgspec.json.Decoder(shapes[at]) for ids, shapes in _SHAPES.items()} for at in range(3)
)
_LISTS = {ids: msgspec.json.Decoder(GenericAlias(list, of[0])) for ids, of in _SHAPES.items()}
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_json(body: bytes, kind: str, limit: int, related: bool) -> MessageTable:
    """Read an object, or a list of objects."""
    slow = reads_slowly(body)
    if body.lstrip(b" \t\r\n")[:1] == b"{":
        return _row_by_row([body], kind, whole=True, slow=slow, related=related)
    if slow or related:
        return _row_by_row(_split_list(body, limit), kind, slow=slow, related=related)
    try:
        events = _LISTS[kind].decode(body)
    except NOT_READ:
        return _row_by_row(_split_list(body, limit), kind)
    if len(events) > limit:
        raise TooManyRows(limit)

    def texts(rows: list[int]) -> list[str]:
        parts = _split_list(body, limit) if rows else []
        return [_text(parts[row]) for row in rows]

    return MessageTable(_columns(events), texts)


def read_lines(body: bytes, kind: str, limit: int, related: bool) -> MessageTable:
    """Read one object per line; empty lines are skipped."""
    lines = [line for line in body.split(b"\n") if line and not line.isspace()]
    if len(lines) > limit:
        raise TooManyRows(limit)
    return _row_by_row(lines, kind, slow=reads_slowly(body), related=related)


def _split_list(body: bytes, limit: int) -> list[bytes]:
    """Split a JSON list into its elements, also if one of them is not JSON but its brackets match."""
    most = max(limit, min(_FIELDS * limit, _SPLIT_AT_ONCE))
    if body.count(b",") >= most:  # many small things would take far more memory than the body
        return _split_by_brackets(body, limit)
    try:
        rows = _RAWS.decode(body)
    except NOT_READ as error:
        return _split_by_brackets(body, limit, f" ({error})")
    if len(rows) > limit:
        raise TooManyRows(limit)
    return [bytes(row) for row in rows]


def _split_by_brackets(body: bytes, limit: int, reason: str = "") -> list[bytes]:
    rows: list[bytes] = []
    depth = start = end = 0
    for token in _TOKEN.finditer(body):
        sign = token[0]
        if sign in (b"[", b"{"):
            depth += 1
            if depth == 1:
                start = token.end()
                if end or body[: token.start()].strip() or sign == b"{":
                    break
        elif sign in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                if sign == b"}":
                    break
                rows.append(body[start : token.start()].strip())
                end = token.end()
        elif sign == b"," and depth == 1:
            rows.append(body[start : token.start()].strip())
            start = token.end()
            if len(rows) >= limit:
                raise TooManyRows(limit)
        elif sign == b'"' or depth < 1:
            break
    else:
        if end and not body[end:].strip():
            return rows if rows != [b""] else []
    raise Unreadable(f"cannot be read as JSON{reason}; {_EVENT}, or a list of them")


def _row_by_row(
    rows: list[bytes], kind: str, whole: bool = False, slow: bool = False, related: bool = False
) -> MessageTable:
    """Decode rows one by one; in a body with many slow numbers, the rows that have them are bad."""
    events: list[Any] = []
    good: list[int] = []
    bad: list[tuple[int, str, str]] = []
    forgets: list[ForgetEvent] = []
    decode = (_RELATED if related else _EVENTS)[kind].decode
    for index, row in enumerate(rows):
        if slow and row and count_long_exponents(np.frombuffer(row, np.uint8)):
            bad.append((index, _SLOW, _text(row)))
            continue
        try:
            event: Any = decode(row)
        except NOT_READ as error:
            event = _removal(row, decode, related)
            if event is None and b'"forget"' in row and (forget := _forget(index, row, kind)) is not None:
                forgets.append(forget)
                continue
            if event is None:
                explained = len(bad) < _EXPLAINED
                reason = _why(row, kind, error, whole) if explained else f"{error}; {_EVENT}"
                bad.append((index, reason, _text(row)))
                continue
        events.append(event)
        good.append(index)
    columns = _columns(events)
    if related:
        columns["relation"] = pa.array(
            [None if event.relation is None else str(event.relation) for event in events], pa.large_string()
        )
    return MessageTable(
        columns, lambda at: [_text(rows[good[i]]) for i in at], np.array(good, np.int64), bad, forgets
    )


def _forget(index: int, row: bytes, kind: str) -> ForgetEvent | None:
    try:
        event: Any = _FORGETS[kind].decode(row)
    except NOT_READ:
        return None
    fits = isinstance(event.id, int) or len(event.id.encode()) <= MAX_ID_BYTES
    return ForgetEvent(index, event.id, event.t) if fits else None


def _removal(row: bytes, decode: Callable[[bytes], Any], related: bool) -> Any:
    """Return an event that removes an edge, whose weight may be anything; None: the row is something else."""
    if b"-1" not in row and b"remove" not in row and b"\\" not in row:  # a word may be escaped
        return None
    try:
        fields = _RAW_FIELDS.decode(row)
        fields.pop("weight", None)
        event = decode(msgspec.json.encode(fields))
    except NOT_READ:
        return None
    fits = event.op in (-1, "remove") and not (related and event.relation is None)
    return event if fits else None


def _why(row: bytes, kind: str, error: Exception, whole: bool) -> str:
    try:
        event = msgspec.json.decode(row)
    except NOT_READ as deeper:
        if whole and not isinstance(deeper, msgspec.ValidationError):
            raise Unreadable(f"cannot be read as JSON ({deeper}); {_EVENT}, or a list of them") from None
        return f"cannot be read as JSON ({deeper}); {_EVENT}"
    if not isinstance(event, dict):
        return f"{_brief(event)} is not an event; {_EVENT}"
    if event.get("op") == "forget":
        return f"id is {_brief(event.get('id'))}; {_FORGET}, and ids {_ALLOWED[kind]}"
    for name in ("src", "dst"):
        if name not in event:
            return f"there is no {name}; every event names two nodes: {_EVENT}"
    blamed = _BLAMED.search(str(error))
    name = blamed[1] if blamed else ""
    return f"{name} is {_brief(event.get(name))}; allowed {_ALLOWED.get(name, _ALLOWED[kind])}"


def _brief(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = msgspec.json.encode(value).decode("utf-8")
    return text if len(text) <= 80 else text[:77] + "..."


def _text(row: bytes) -> str:
    try:
        return row.decode() if len(row) <= 4 * MAX_TEXT else row[: 4 * MAX_TEXT].decode(errors="replace")
    except UnicodeDecodeError:
        return repr(row[:MAX_TEXT])


def _columns(events: list[Any]) -> Columns:
    columns: Columns = {"src": [event.src for event in events], "dst": [event.dst for event in events]}
    if events and isinstance(events[0], _KindEvent):
        kinds = {name: [getattr(event, name) for event in events] for name in ("src_kind", "dst_kind")}
        columns |= {name: values for name, values in kinds.items() if values.count(None) != len(values)}
    op = [event.op for event in events]
    if op.count(1) != len(op):
        columns["op"] = np.array([_OPS[value] for value in op], np.int8)
    weight = [event.weight for event in events]
    if weight.count(msgspec.UNSET) != len(weight):
        columns["weight"] = np.array([1.0 if value is msgspec.UNSET else value for value in weight])
    t = [event.t for event in events]
    if t.count(None) != len(t):
        columns["t"] = _times(t)
    return columns


def _times(t: list[int | float | None]) -> Any:
    types = set(map(type, t))
    dtype = np.float64 if float in types else np.int64
    if type(None) not in types:
        return np.array(t, dtype)
    return pa.array(
        np.array([0 if value is None else value for value in t], dtype),
        mask=np.array([value is None for value in t]),
    )


# ---- any message ----------------------------------------------------------------------------------------


class BadEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that was left out, and the reason."""

    row: int  # its position in the message; -1: the whole body
    reason: str  # what was wrong and what is allowed, at most 500 characters
    text: str  # the event as it came, as JSON text where that can be read, at most 1,000 characters


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events of a message: good ones, bad ones, and forget events."""

    batch: EventBatch  # the good events, in order
    rows: Int64  # (len(batch),) the position of each in the message
    bad: tuple[BadEvent, ...]  # in order
    forgets: tuple[ForgetEvent, ...] = ()  # in order

    @property
    def total(self) -> int:
        """The number of events in the message, good and bad; an unreadable body counts as one."""
        return len(self.rows) + len(self.bad) + len(self.forgets)


def without_forgets(decoded: Decoded) -> Decoded:
    """Return a message with its forget events among the bad ones, for senders without that right."""
    refused = [_bad(one.row, _MAY_NOT, repr(one.id)) for one in decoded.forgets]
    bad = tuple(sorted((*decoded.bad, *refused), key=lambda event: event.row))
    return replace(decoded, bad=bad, forgets=())


_MAY_NOT = "an id is forgotten by DELETE /v1/nodes/ID, or by an event of a source; not by an event over HTTP"
_READERS = {"json": read_json, "ndjson": read_lines, "arrow": read_arrow}


def decode_events(
    body: bytes,
    form: str,
    kind: str,
    *,
    latest: float | None = None,
    limit: int = 1_000_000,
    related: bool = False,
) -> Decoded:
    """Return the good events of one message, and the bad ones, each with its reason; for any bytes.

    A body that cannot be split into events is one bad event at row -1; more than `limit` events are an
    `EventError`. If some events have a `t` and others do not, the latter are bad.

    `form` is "json" (an object, or a list of them), "ndjson" (an object a line) or "arrow" (an IPC stream,
    not compressed); `kind` the type of the ids, as a model has it; `latest` the greatest `t` allowed;
    `related`: whether the field `relation` is read. An event has `src` and `dst`, and optionally `op` (1 or
    "add", -1 or "remove"), `weight` and `t`; other fields are ignored. As JSON, {"op": "forget", "id": ...}
    asks for an id to be forgotten. With kinds, ids are text such as "item:50", or the fields `src_kind` and
    `dst_kind` name the kind, or the order of the ends does, where there are two kinds.
    """
    if form not in _READERS:
        raise OptionError(f"form is {form!r}; allowed are {', '.join(map(repr, _READERS))}")
    kinds = kinds_of(kind)
    try:
        table = _READERS[form](body, kind if kinds is None else KINDS, limit, related)
        if kinds is not None:
            kind, table = "string", errors.table_with_kinds(table, kinds)
        return _sifted(table, kind, latest)
    except Unreadable as error:
        return Decoded(
            _no_events(stored_type(kind)),
            np.empty(0, np.int64),
            (_bad(-1, error.reason, repr(body[:MAX_TEXT])),),
        )


def _sifted(table: MessageTable, kind: str, latest: float | None) -> Decoded:
    batch = _no_events(kind)
    if len(table.columns["src"]):
        try:
            batch = assemble(table.columns)
            good = latest is None or batch.t is None or not (batch.t > latest).any()
        except EventError:
            good = False
        if not good:  # some row is bad: which ones?
            try:
                table = errors.without_rows(table, errors.bad_rows(table.columns, latest), table.columns)
                batch = assemble(table.columns) if len(table.columns["src"]) else _no_events(kind)
            except EventError as error:
                raise Unreadable(error.reason) from None
    rows = np.arange(len(batch)) if table.rows is None else table.rows
    return Decoded(batch, rows, tuple(_bad(*event) for event in table.bad), tuple(table.forgets))


def _bad(row: int, reason: str, text: str) -> BadEvent:
    return BadEvent(row, reason[:MAX_REASON], text[:MAX_TEXT])


def _no_events(kind: str) -> EventBatch:
    ids = NO_TEXTS if kind == "string" else IdColumn(np.empty(0, np.int64))
    return EventBatch(ids, ids, np.empty(0, np.int8))
