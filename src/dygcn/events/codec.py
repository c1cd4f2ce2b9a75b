"""Anything tabular becomes one `EventBatch`, checked here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dygcn.errors import EventError
from dygcn.events.columns import id_column, join_ids, operations, times, weights
from dygcn.events.files import read_table
from dygcn.records import EventBatch, IdColumn

COLUMNS = ("src", "dst", "t", "op", "weight")
_ROWS = (tuple, list)
_LEAST, _MOST = -(2**63), 2**63 - 1
_ADD, _REMOVE = np.ones(1, np.int8), np.full(1, -1, np.int8)  # never written to
_ACCEPTED = (
    "events are a path (Parquet, CSV, NDJSON), an Arrow table, a pandas or polars frame, "
    "a dict of arrays, or an iterable of (src, dst[, t[, op[, weight]]])"
)


def read_events(events: object, kind: str | None = None) -> EventBatch:
    """Read events from anything tabular with `src`, `dst` and optionally `t`, `op`, `weight`.

    Parameters
    ----------
    events
        A path (Parquet, CSV, NDJSON), an Arrow table, a pandas or polars frame, a dict of arrays, or
        an iterable of dicts, of tuples or an array with the columns
        ``(src, dst[, t[, op[, weight]]])``. Other columns are left alone.
    kind
        Type of the ids, where it is known: a CSV file does not tell 7 from "7".

    Returns
    -------
    EventBatch
        In the order of the rows.

    Raises
    ------
    EventError
        If any row is bad; it names the first one.

    Examples
    --------
    >>> batch = read_events([("ann", "bob"), ("bob", "cat")])
    >>> len(batch), batch.src.kind, batch.op.tolist()
    (2, 'string', [1, 1])
    >>> read_events({"src": [1], "dst": [2], "weight": [float("nan")]})
    Traceback (most recent call last):
    ...
    dygcn.errors.EventError: row 0: weight is nan; allowed is a finite number above 0 (remove by op -1)
    """
    if isinstance(events, EventBatch):
        return events
    return assemble(_columns(events, kind))


def read_pairs(pairs: object, op: int, kind: str | None = None) -> EventBatch:
    """Read the edges of ``update(add=...)`` or ``update(remove=...)``: events that carry no `op`.

    Examples
    --------
    >>> read_pairs([(1, 2)], op=-1).op.tolist()
    [-1]
    """
    columns = _columns(pairs, kind)
    if columns.get("op") is not None:
        raise EventError(
            "add= and remove= say the operation; pass a table with an op column as update(events)"
        )
    return assemble(columns, op)


def removes_then_adds(add: object, remove: object, kind: str | None = None) -> EventBatch:
    """Join the two sides of ``update(add=..., remove=...)``; removes come first.

    Examples
    --------
    >>> removes_then_adds([(1, 2)], [(3, 4)]).op.tolist()
    [-1, 1]
    """
    if remove is None or add is None:
        batch = _one_pair(add if remove is None else remove, 1 if remove is None else -1)
        if batch is not None:
            return batch
    parts = [read_pairs(side, op, kind) for side, op in ((remove, -1), (add, 1)) if side is not None]
    parts = [part for part in parts if len(part)] or parts[:1] or [read_events([])]
    if len(parts) == 1:
        return parts[0]
    if parts[0].src.kind != parts[1].src.kind:
        raise EventError("add= and remove= hold ids of different types; one type a graph")
    timed = [part.t for part in parts if part.t is not None]
    return EventBatch(
        join_ids([part.src for part in parts]),
        join_ids([part.dst for part in parts]),
        np.concatenate([part.op for part in parts]),
        np.concatenate([np.ones(len(part)) if part.weight is None else part.weight for part in parts]),
        np.concatenate(timed).astype(np.float64) if len(timed) == len(parts) else None,
    )


def _one_pair(pairs: object, op: int) -> EventBatch | None:
    """Read the commonest of all updates, one edge between two numbers, without looking at all else."""
    if type(pairs) is not list or len(pairs) != 1 or type(pairs[0]) is not tuple or len(pairs[0]) != 2:
        return None
    a, b = pairs[0]
    if type(a) is not int or type(b) is not int or not (_LEAST <= a <= _MOST and _LEAST <= b <= _MOST):
        return None
    ends = np.array((a, b), np.int64)
    return EventBatch(IdColumn(ends[:1]), IdColumn(ends[1:]), _ADD if op > 0 else _REMOVE)


def _columns(events: object, kind: str | None) -> dict[str, Any]:
    if isinstance(events, str | os.PathLike):
        events = read_table(os.fspath(events), COLUMNS, kind)
    if isinstance(events, pa.Table | pa.RecordBatch):
        return _from_table(events)
    if hasattr(events, "__arrow_c_stream__"):
        return _from_table(_import_frame(events))
    if isinstance(events, np.ndarray) and events.ndim == 2 and 2 <= events.shape[1] <= 5:
        return dict(zip(COLUMNS, events.T, strict=False))
    if isinstance(events, Mapping):
        return _named({str(name): values for name, values in events.items()})
    if isinstance(events, Iterable):
        return _from_rows(events)
    raise EventError(f"cannot read events from {type(events).__name__}; {_ACCEPTED}")


def _import_frame(frame: object) -> pa.Table:
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise EventError(f"a column cannot be read: {str(error).splitlines()[0]}") from None


def _from_table(table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
    names = table.schema.names
    twice = [name for name in COLUMNS if names.count(name) > 1]
    if twice:
        raise EventError(f"there are two columns {twice[0]!r}; rename one")
    return _named({name: table.column(name) for name in COLUMNS if name in names}, names)


def _named(columns: dict[str, Any], there: Sequence[str] | None = None) -> dict[str, Any]:
    for name in ("src", "dst"):
        if columns.get(name) is None:
            known = ", ".join(columns if there is None else there) or "none"
            raise EventError(
                f"there is no column {name!r} (columns: {known}); "
                "name the ends of an edge src and dst, and give a file a header"
            )
    return columns


def _from_rows(rows: Iterable[Any]) -> dict[str, Any]:
    listed = rows if isinstance(rows, list) else list(rows)
    if not listed:
        return {"src": [], "dst": []}
    if all(isinstance(item, Mapping) for item in listed):
        return _named({name: [item.get(name) for item in listed] for name in listed[0]})
    for row, item in enumerate(listed):
        if type(item) not in _ROWS and (
            isinstance(item, str | bytes) or not isinstance(item, Sequence | np.ndarray)
        ):
            raise EventError(f"{item!r} is not an event; {_ACCEPTED}", row)
        if len(item) != len(listed[0]) or not 2 <= len(item) <= 5:
            raise EventError(
                f"an event is (src, dst[, t[, op[, weight]]]), all of one length, not {item!r}", row
            )
    return dict(zip(COLUMNS, map(list, zip(*listed, strict=True)), strict=False))


def assemble(columns: dict[str, Any], every_op: int = 1) -> EventBatch:
    """Make a batch of columns by name: check each, then that they fit together."""
    src, dst = id_column(columns["src"], "src"), id_column(columns["dst"], "dst")
    src, dst = _one_kind(src, dst)
    op_values = columns.get("op")
    op = np.full(len(src), every_op, np.int8) if op_values is None else operations(op_values)
    weight_values, t_values = columns.get("weight"), columns.get("t")
    batch = EventBatch(
        src,
        dst,
        op,
        None if weight_values is None else weights(weight_values, op),
        None if t_values is None else times(t_values),
    )
    for name, column in (("dst", batch.dst), ("op", batch.op), ("weight", batch.weight), ("t", batch.t)):
        if column is not None and len(column) != len(src):
            raise EventError(f"column {name!r} has {len(column)} rows, src has {len(src)}")
    return batch


def _one_kind(src: IdColumn, dst: IdColumn) -> tuple[IdColumn, IdColumn]:
    if src.kind == dst.kind:
        return src, dst
    if len(src) == 0 and len(dst) == 0:
        return src, src
    raise EventError(f"src holds {src.kind} ids and dst {dst.kind}; one type a graph")
