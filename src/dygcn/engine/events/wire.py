"""Events from bytes: bad events are reported, and the others decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from dygcn.engine.events.codec import assemble
from dygcn.engine.events.columns import NO_TEXTS
from dygcn.engine.events.kinds import kinds_of, stored_type
from dygcn.engine.events.row_errors import MessageTable, Unreadable, bad_rows, table_with_kinds, without_rows
from dygcn.engine.events.wire_arrow import read_arrow
from dygcn.engine.events.wire_json import KINDS, MAX_TEXT, read_json, read_lines
from dygcn.engine.records import EventBatch, ForgetEvent, IdColumn, Int64
from dygcn.errors import EventError, OptionError

MAX_REASON = 500


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
            kind, table = "string", table_with_kinds(table, kinds)
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
                table = without_rows(table, bad_rows(table.columns, latest), table.columns)
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
