"""The bad rows of a message, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dygcn.engine.events import columns as cells
from dygcn.engine.events.column_names import OWN_NAMES
from dygcn.engine.events.kinds import Kinds, as_list
from dygcn.engine.records import Bool, ForgetEvent, Int64
from dygcn.errors import EventError, listed, shown

Columns = dict[str, Any]
"""Columns of events by name: lists, numpy or Arrow arrays, all of one length and of readable types."""

OP_WORDS = {"add": 1, "remove": -1}
NOT_READ = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes of anybody."""
_ENDS = ("src", "dst")
_EXPLAINED = 1_000  # bad rows of a message that get a reason of their own; all others get `_NO_ID`
_NO_ID = "no id of a kind of this graph, or of another type than its kind has"
NO_TIME = "t is missing, where other events of the message have one; give every event a t, or none"


@dataclass(slots=True)
class MessageTable:
    """A message in columns: rows of readable types, whose values may still be bad."""

    columns: Columns
    texts: Callable[[list[int]], list[str]]  # returns the original text of rows
    rows: Int64 | None = None  # (n,) their positions in the message, None: 0..n - 1
    bad: list[tuple[int, str, str]] = field(default_factory=list)  # position, reason and text of bad rows
    forgets: list[ForgetEvent] = field(default_factory=list)


class Unreadable(EventError):
    """A message that cannot be split into rows."""


class TooManyRows(EventError):
    """A message with more rows than allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit:,} events in one message; send them in several")


def bad_rows(columns: Columns, latest: float | None = None) -> dict[int, str]:
    """Return the reason for each bad row; `latest`: the greatest `t` allowed."""
    found: dict[int, str] = {}
    for bad, reason in _faults(columns, latest):
        for row in np.flatnonzero(bad).tolist():
            if row not in found:
                found[row] = reason(row)
    if columns.get("t") is not None:
        for row in _alone_without_t(empty_cells(columns["t"]), found):
            found[row] = NO_TIME
    return found


def keep_rows(columns: Columns, keep: Bool) -> Columns:
    """Return the rows in `keep`; a column `t` without any value is left out."""
    found = {name: _chosen(values, keep) for name, values in columns.items() if values is not None}
    if "t" in found and empty_cells(found["t"]).all():
        del found["t"]
    return found


def without_rows(table: MessageTable, reasons: dict[int, str], columns: Columns) -> MessageTable:
    """Return a table of other columns without some rows, which are bad for these reasons."""
    keep = np.ones(len(columns["src"]), np.bool_)
    keep[list(reasons)] = False
    rows, kept = np.arange(len(keep)) if table.rows is None else table.rows, np.flatnonzero(keep)
    texts = zip(reasons, table.texts(list(reasons)), strict=True)
    bad = [*table.bad, *((int(rows[row]), reasons[row], text) for row, text in texts)]
    left = keep_rows(columns, keep)
    return MessageTable(
        left, lambda at: table.texts(kept[at].tolist()), rows[keep], sorted(bad), table.forgets
    )


def empty_cells(values: Any) -> Bool:
    """Return which cells of a column are empty."""
    if isinstance(values, pa.Array):
        return np.asarray(values.is_null().to_numpy(zero_copy_only=False), bool)
    if isinstance(values, np.ndarray):
        return np.zeros(len(values), bool)
    return np.array([value is None for value in values], bool)


def _faults(columns: Columns, latest: float | None) -> Iterator[cells.Faults]:
    for name in ("src", "dst"):
        yield from _id_faults(columns[name], name)
    count = len(columns["src"])
    op: NDArray[Any] = np.ones(count) if columns.get("op") is None else cells.numbers(columns["op"], "op")
    if columns.get("op") is not None:
        yield (
            empty_cells(columns["op"]),
            lambda row: 'op is empty or another word; allowed are +1 or "add", and -1 or "remove"',
        )
    yield cells.op_faults(op)
    if columns.get("weight") is not None:
        yield cells.weight_faults(cells.numbers(columns["weight"], "weight").astype(np.float64), op)
    if columns.get("relation") is not None:
        yield cells.relation_faults(cells.arrow_array(columns["relation"], "relation"))
    if columns.get("t") is not None:
        t = cells.numbers(columns["t"], "t")
        bad, reason = cells.time_faults(t)
        yield bad & ~empty_cells(columns["t"]), reason
        if latest is not None:
            allowed = f"allowed is at most {latest} (is a clock ahead, or t in another unit?)"
            yield t > latest, lambda row: f"t is {t[row]}; {allowed}"


def _id_faults(values: Any, name: str) -> Iterator[cells.Faults]:
    if isinstance(values, pa.Array):
        yield empty_cells(values), lambda row: f"{name} is empty; every event names two nodes"
        if pa.types.is_uint64(values.type):
            whole = values.fill_null(0).to_numpy(zero_copy_only=False)
            yield whole > np.iinfo(np.int64).max, lambda row: f"{name} is {whole[row]}; ids are below 2^63"
        if pa.types.is_large_string(values.type):
            # An empty cell may have any length: it has its reason already.
            yield cells.length_faults(np.diff(cells.strings_of(values)[0]), name)
    elif isinstance(values, list) and values and isinstance(values[0], str):
        yield cells.length_faults(cells.byte_lengths(values, len("".join(values).encode("utf-8"))), name)


def _alone_without_t(missing: Bool, found: dict[int, str]) -> list[int]:
    good = np.ones(len(missing), bool)
    good[list(found)] = False
    return np.flatnonzero(missing & good).tolist() if (good & ~missing).any() else []


def _chosen(values: Any, keep: Bool) -> Any:
    if isinstance(values, pa.Array):
        return values.filter(pa.array(keep))
    return values[keep] if isinstance(values, np.ndarray) else list(compress(values, keep))


# ---- graphs with kinds: ids become text with their kinds ---------------------------------------------------


def table_with_kinds(table: MessageTable, kinds: Kinds) -> MessageTable:
    """Return the rows with ids as text; a row whose id lacks a kind, or has another type, is bad."""
    columns, bad = table.columns, [*table.bad]
    forgets: list[ForgetEvent] = []
    for one in table.forgets:
        try:
            forgets.append(ForgetEvent(one.row, kinds.written(one.id, None), one.t))
        except EventError as error:
            bad.append((one.row, f"id: {error.reason}", repr(one.id)))
    table = replace(table, bad=sorted(bad), forgets=forgets)
    of = OWN_NAMES.kinds_of_ends({}, kinds.names)
    try:
        named = {end: columns.get(f"{end}_kind", of[end]) for end in _ENDS}
        read = {end: cells.as_arrow(kinds.column(columns[end], named[end], end)) for end in _ENDS}
        return replace(table, columns=_written(columns, read))
    except EventError:
        pass  # some row is bad: which ones?
    texts, reasons = _row_by_row(columns, of, kinds)
    read = {end: pa.array(texts[end], pa.large_string()) for end in _ENDS}
    return without_rows(table, reasons, _written(columns, read))


def _written(columns: Columns, ends: Columns) -> Columns:
    return {name: values for name, values in (columns | ends).items() if not name.endswith("_kind")}


def _row_by_row(
    columns: Columns, of: dict[str, Any], kinds: Kinds
) -> tuple[dict[str, list[str]], dict[int, str]]:
    texts: dict[str, list[str]] = {}
    reasons: dict[int, str] = {}
    for end in _ENDS:
        ids = as_list(columns[end])
        beside = columns.get(f"{end}_kind")
        named = [None] * len(ids) if beside is None else as_list(beside)
        found = [
            kinds.text_of(*_with_kind_of_end(one, own, of[end])) for one, own in zip(ids, named, strict=True)
        ]
        texts[end] = [text or "" for text in found]
        for row in [row for row, text in enumerate(found) if text is None and row not in reasons]:
            few = len(reasons) < _EXPLAINED
            reasons[row] = _reason(ids[row], named[row], of[end], end, kinds) if few else f"{end}: {_NO_ID}"
    return texts, dict(sorted(reasons.items()))


def _with_kind_of_end(one: object, own: str | None, of: str | None) -> tuple[object, str | None]:
    """Return an id and the default kind of its end; with an explicit kind (`own`), the pair is exact."""
    return (one, of) if own is None else ((own, one), None)


def _reason(one: object, own: str | None, of: str | None, end: str, kinds: Kinds) -> str:
    try:
        if one is None:
            return f"{end} is empty; every event names two nodes"
        if own is not None and own not in kinds.names:
            return f"{end}: {shown(own)} is no kind of this graph; its kinds are {listed(kinds.names)}"
        kinds.written(*_with_kind_of_end(one, own, of))
    except EventError as error:
        return f"{end}: {error.reason}"
    raise AssertionError(one)
