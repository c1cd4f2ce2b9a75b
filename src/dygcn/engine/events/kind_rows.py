"""The rows of a message of a graph with kinds: ids become text with their kinds, and bad ones are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dygcn.engine.events.column_names import OWN_NAMES
from dygcn.engine.events.columns import as_arrow
from dygcn.engine.events.kinds import as_list
from dygcn.engine.events.row_errors import Columns, Table, keep_rows
from dygcn.engine.records import ForgetEvent
from dygcn.errors import EventError

if TYPE_CHECKING:
    from dygcn.engine.events.kinds import Kinds

_ENDS = ("src", "dst")
_EXPLAINED = 1_000  # bad rows of a message that get a reason of their own; all others get `_NO_ID`
_NO_ID = "no id of a kind of this graph, or of another type than its kind has"


def table_with_kinds(table: Table, kinds: Kinds) -> Table:
    """Return the rows with ids as text; a row whose id has no kind, or another type, is a bad one."""
    columns, bad = {**table.columns}, [*table.bad]
    forgets = []
    for one in table.forgets:
        try:
            forgets.append(ForgetEvent(one.row, kinds.written(one.id, None), one.t))
        except EventError as error:
            bad.append((one.row, f"id: {error.reason}", repr(one.id)))
    of = OWN_NAMES.kinds_of_ends({}, kinds.names)
    try:
        named = {end: columns.get(f"{end}_kind", of[end]) for end in _ENDS}
        read = {end: as_arrow(kinds.column(columns[end], named[end], end)) for end in _ENDS}
        return Table(_written(columns, read), table.texts, table.rows, sorted(bad), forgets)
    except EventError:
        pass  # some row is bad: which ones?
    texts, reasons = _row_by_row(columns, of, kinds)
    keep = np.ones(len(texts["src"]), np.bool_)
    keep[list(reasons)] = False
    kept = np.flatnonzero(keep)
    rows = np.arange(len(keep)) if table.rows is None else table.rows
    shown = table.texts(list(reasons))
    bad += [(int(rows[row]), reasons[row], text) for row, text in zip(reasons, shown, strict=True)]
    read = {end: pa.array(texts[end], pa.large_string()) for end in _ENDS}
    left = keep_rows(_written(columns, read), keep)
    return Table(
        left, lambda at: table.texts([int(kept[row]) for row in at]), rows[keep], sorted(bad), forgets
    )


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
        found = [kinds.text_of(*_asked(one, own, of[end])) for one, own in zip(ids, named, strict=True)]
        texts[end] = [text or "" for text in found]
        for row in [row for row, text in enumerate(found) if text is None and row not in reasons]:
            few = len(reasons) < _EXPLAINED
            reasons[row] = _reason(ids[row], named[row], of[end], end, kinds) if few else f"{end}: {_NO_ID}"
    return texts, dict(sorted(reasons.items()))


def _asked(one: object, own: str | None, of: str | None) -> tuple[object, str | None]:
    """Return an id, and the kind of its end of the edge; an id with a kind beside it (`own`) is literal."""
    return (one, of) if own is None else ((own, one), None)


def _reason(one: object, own: str | None, of: str | None, end: str, kinds: Kinds) -> str:
    try:
        if one is None:
            return f"{end} is empty; every event names two nodes"
        if own is not None:
            kinds.check_event(own)
        kinds.written(*_asked(one, own, of))
    except EventError as error:
        return f"{end}: {error.reason}"
    raise AssertionError(one)
