"""Reads anything tabular into one `EventBatch`; this is the only place where events are validated."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from dygcn.engine.events import column_names as naming
from dygcn.engine.events.adapters import GraphEdges, edge_index, recognise
from dygcn.engine.events.batches import join_events
from dygcn.engine.events.column_names import COLUMNS, FIELDS, OWN_NAMES, ColumnNames, ColumnOptions
from dygcn.engine.events.columns import id_column, one_kind, operations, relations, times, weights
from dygcn.engine.events.files import IDS, read_table
from dygcn.engine.events.kinds import APART, infer_kinds, kinds_of
from dygcn.engine.records import EventBatch, IdColumn
from dygcn.errors import EventError, OptionError, listed

_LEAST, _MOST = -(2**63), 2**63 - 1
_ADD, _REMOVE = np.ones(1, np.int8), np.full(1, -1, np.int8)  # never written to
_LOOKED_AT = 100  # nodes, to find out whether a dict is a graph
_ADJACENCY = (
    "is this an adjacency dict, the neighbours of each node? pass its edges: "
    "[(a, b) for a in graph for b in graph[a]]; a dict of columns has src and dst"
)
_ACCEPTED = (
    "events are a path (Parquet, CSV, NDJSON), an Arrow table, a pandas or polars frame, a dict of arrays, "
    "a graph (networkx, igraph, scipy.sparse, PyG), or an iterable of (src, dst), "
    "(src, dst, t, op[, weight]), or as columns= says"
)


def read_events(
    events: object,
    ids: str | None = None,
    directed: bool | None = None,
    related: object = False,
    **options: Unpack[ColumnOptions],
) -> EventBatch:
    """Read events from anything tabular with `src`, `dst` and optionally `t`, `op`, `weight`, or a graph.

    `fit` says what events may be. `ids`: their type, if known (a CSV file does not distinguish 7 from "7").
    `directed`: an edge of an undirected graph is then two events; if False, an edge that a matrix or an
    edge_index holds in both directions is one; None: edges as they stand. `related`: the graph has relations,
    so a column `relation` is looked for.
    """
    names = naming.column_names(related, **options)
    if isinstance(events, EventBatch) and names.rows is None and not names and (not ids or ":" not in ids):
        return events
    return assemble(_columns(_listed(events), ids, names, directed), names=names, ids=ids)


def read_graph(
    events: object,
    directed: bool | None = None,
    kinds: object = None,
    **options: Unpack[ColumnOptions],
) -> tuple[str, EventBatch]:
    """Read the events of a new graph, as `read_events` does; also return the type of their ids.

    `kinds`: the kinds of nodes at both ends; True: as the columns are called; None: of the columns `src_kind`
    and `dst_kind`, or nodes have no kinds.
    """
    names = naming.column_names(**options)
    declared = names.kinds_named(kinds)
    if isinstance(events, EventBatch) and declared is None:
        return events.src.kind, events
    found = _columns(_listed(events), APART if declared else None, names, directed, kinds=declared)
    ends = names.kinds_of_ends(found, declared or (), by_order=True)
    known = all(kind is not None for kind in ends.values())
    if declared and not known:
        raise OptionError(
            f"kinds are {listed(declared)}, and a table has two columns of ids: name two, or say the kinds "
            "of more by the columns src_kind and dst_kind"
        )
    if not known:
        batch = assemble(found, names=names)
        return batch.src.kind, batch
    made = infer_kinds(declared or (), [(found[end], kind) for end, kind in ends.items()])
    found |= {end: made.column(found[end], kind, names.named.get(end, end)) for end, kind in ends.items()}
    return str(made), assemble(found, names=names, ids=str(made))


def read_update(
    events: object,
    add: object,
    remove: object,
    ids: str | None,
    directed: bool | None = None,
    related: object = False,
    **options: Unpack[ColumnOptions],
) -> EventBatch:
    """Return the events of an update, given as events or as edges to add and remove; removes come first.

    The option `columns` applies to sides that are bare rows (of which rows of two columns are the two ends),
    names of columns to sides that are tables.
    """
    if events is not None:
        if add is not None or remove is not None:
            raise OptionError("pass either events or add= and remove=, not both")
        return read_events(events, ids, directed, related, **options)
    pair = None if options or related or ids not in (None, "int64") else single_pair(add, remove)
    batch = None if pair is None else _one_pair(*pair)
    if batch is not None:
        return batch
    names = naming.column_names(related, **options)
    sides = [(_listed(side), op) for side, op in ((remove, -1), (add, 1)) if side is not None]
    if sides and all(_has_names(side) for side, _ in sides):
        _unwanted(names)
    if sides and not any(_has_names(side) for side, _ in sides):
        _unwanted_names(names)
    parts = [read_pairs(side, op, ids, names, directed) for side, op in sides]
    parts = [part for part in parts if len(part)] or parts[:1] or [read_events([])]
    if len({part.src.kind for part in parts}) > 1:
        raise EventError("add= and remove= hold ids of different types; one type a graph")
    if len({part.t is None for part in parts}) > 1:
        raise EventError("only one of add= and remove= has times; give both a column t, or neither")
    return join_events(parts)


def read_pairs(
    pairs: object,
    op: int,
    ids: str | None = None,
    names: ColumnNames = OWN_NAMES,
    directed: bool | None = None,
) -> EventBatch:
    """Read the edges of ``update(add=...)`` or ``update(remove=...)``: events that carry no `op`."""
    pairs = _listed(pairs)
    names = replace(names, rows=None) if _has_names(pairs) else replace(names, named={}, shared_ids=False)
    found = _columns(pairs, ids, names, directed, pairs=True)
    if found.get("op") is not None:
        raise EventError(
            "add= and remove= say the operation; pass a table with an op column as update(events)"
        )
    return assemble(found, op, names, ids)


def single_pair(add: object, remove: object) -> tuple[Any, Any, int] | None:
    """Return both ends and +1 or -1 if an update names exactly one edge, the most frequent update."""
    pairs = add if remove is None else remove if add is None else None
    if type(pairs) is not list or len(pairs) != 1 or type(pairs[0]) is not tuple or len(pairs[0]) != 2:
        return None
    return *pairs[0], 1 if remove is None else -1


def _one_pair(a: object, b: object, op: int) -> EventBatch | None:
    """Return a batch of one edge between two int64 ids, which need no further checks."""
    if type(a) is not int or type(b) is not int or not (_LEAST <= a <= _MOST and _LEAST <= b <= _MOST):
        return None
    ends = np.array((a, b), np.int64)
    return EventBatch(IdColumn(ends[:1]), IdColumn(ends[1:]), _ADD if op > 0 else _REMOVE)


def _listed(events: object) -> object:
    """Return the events in a form that can be read twice: iterators as lists, graphs recognised."""
    if isinstance(events, list):
        return events
    events = recognise(events)
    if isinstance(events, np.ndarray):
        return events if events.ndim else [events.item()]
    if _has_names(events):
        return events
    if isinstance(events, Iterable):
        return list(events)
    raise EventError(f"cannot read events from {type(events).__name__}; {_ACCEPTED}")


def _has_names(events: object) -> bool:
    """Return whether events have named columns or attributes; sets of pairs do not."""
    if isinstance(events, list):
        return bool(events) and all(isinstance(item, Mapping) for item in events)
    tables = (str, os.PathLike, EventBatch, GraphEdges, pa.Table, pa.RecordBatch, Mapping)
    return hasattr(events, "__arrow_c_stream__") or (
        isinstance(events, tables) and not isinstance(events, Set)
    )


def _unwanted(names: ColumnNames) -> None:
    if names.rows is not None:
        raise OptionError(
            "columns= names the columns of bare rows (tuples, lists, arrays); these events have names of "
            "their own: leave columns= out, and say src=, dst=, t=, op= or weight= where a name is another"
        )


def _unwanted_names(names: ColumnNames) -> None:
    if names:
        raise OptionError(
            f"{', '.join(f'{field}=' for field in names.named)} names columns of a table; these events are "
            'bare rows: say which columns they have, as in columns=("src", "dst", "t")'
        )


def _columns(
    events: object,
    ids: str | None,
    names: ColumnNames,
    directed: bool | None,
    pairs: bool = False,
    kinds: Sequence[str] | None = None,
) -> dict[str, Any]:
    if kinds is None and ids is not None and (known := kinds_of(ids)) is not None:
        kinds = known.names
    directed = directed if kinds is None else None  # an edge and its reverse are of different kinds
    if not _has_names(events):
        _unwanted_names(names)
        return _from_rows(events, names.rows, directed, pairs)
    _unwanted(names)
    if isinstance(events, GraphEdges):
        return events.reader(events.graph, names, directed, kinds)
    if isinstance(events, EventBatch):
        if names:
            raise OptionError("these events were read before; src=, dst=, t=, op= and weight= name columns")
        return {name: getattr(events, name) for name in FIELDS}
    try:
        return _from_table(_table(events, ids, names), names)
    except EventError:
        if not names and isinstance(events, Mapping) and _is_adjacency(events):
            raise EventError(_ADJACENCY) from None
        raise


def _is_adjacency(events: Mapping[Any, Any]) -> bool:
    """Return whether a dict maps each node to its neighbours: a graph, and no table."""
    near = list(islice(events.values(), _LOOKED_AT))
    if not near or "src" in events or "dst" in events:
        return False
    if not all(isinstance(one, list | tuple | Set | Mapping) for one in near):
        return False
    if not {type(one) for ones in near for one in islice(ones, _LOOKED_AT)} <= {type(one) for one in events}:
        return False  # names of columns are texts, and what is in them is something else
    if len(near) < 2 or not all(isinstance(one, Sequence) for one in near) or len(set(map(len, near))) > 1:
        return True
    return any(
        one in events for ones in near for one in islice(ones, _LOOKED_AT) if isinstance(one, int | str)
    )


def _table(events: object, kind: str | None, names: ColumnNames) -> pa.Table | dict[str, Any]:
    if isinstance(events, str | os.PathLike):
        ends = names.possible.get("src", "src"), names.possible.get("dst", "dst")
        ids = IDS if ends == IDS[:2] else ends
        wanted = [*names.possible.values(), *naming.KINDS]
        return read_table(os.fspath(events), wanted, kind, ids)
    if isinstance(events, list):
        return {str(name): [item.get(name) for item in events] for name in _keys(events)}
    if isinstance(events, Mapping):
        return {str(name): values for name, values in events.items()}
    return events if isinstance(events, pa.Table | pa.RecordBatch) else _import_frame(events)


def _from_rows(
    rows: Any, columns: tuple[str, ...] | None, directed: bool | None, pairs: bool
) -> dict[str, Any]:
    if isinstance(rows, np.ndarray) and naming.is_edge_index(rows, columns):
        return edge_index(rows if columns is None or columns[0] == "src" else rows[::-1], directed)
    if (
        isinstance(rows, np.ndarray)
        and rows.ndim == 2
        and 2 <= rows.shape[1] <= len(FIELDS if columns else COLUMNS)
    ):
        return naming.by_name(list(rows.T), columns, pairs)
    if len(rows) == 0:
        return {"src": [], "dst": []}
    return naming.by_name(naming.split_rows(rows, _ACCEPTED, len(columns or ())), columns, pairs)


def _import_frame(frame: Any) -> pa.Table | dict[str, Any]:
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if hasattr(frame, "to_dict") and hasattr(frame, "columns"):  # of pandas: a column of mixed objects
            return {str(name): frame[name].to_numpy() for name in frame.columns}
        raise EventError(f"a column cannot be read: {str(error).splitlines()[0]}") from None


def _from_table(table: pa.Table | dict[str, Any], names: ColumnNames) -> dict[str, Any]:
    if isinstance(table, dict):
        there = [name for name, values in table.items() if values is not None]
    else:
        there = table.schema.names
    found = names.columns_of(there)
    twice = [name for name in found.values() if there.count(name) > 1]
    if twice:
        raise EventError(f"there are two columns {twice[0]!r}; rename one")
    return {field: table[name] for field, name in found.items()}


def assemble(
    columns: dict[str, Any],
    every_op: int = 1,
    names: ColumnNames = OWN_NAMES,
    ids: str | None = None,
) -> EventBatch:
    """Make a batch from columns by field; check each column, then that their lengths agree.

    Errors call a column as `names` does.
    """
    named = names.named
    called = {field: named.get(field, field) for field in FIELDS}
    src, dst = _ends(columns, called, names, ids)
    op_values = columns.get("op")
    op = np.full(len(src), every_op, np.int8) if op_values is None else operations(op_values, called["op"])
    weight_values, t_values = columns.get("weight"), columns.get("t")
    batch = EventBatch(
        src,
        dst,
        op,
        None if weight_values is None else weights(weight_values, op, called["weight"]),
        None if t_values is None else times(t_values, called["t"]),
        None if columns.get("relation") is None else relations(columns["relation"], called["relation"]),
    )
    for field in FIELDS[1:]:
        column = getattr(batch, field)
        if column is not None and len(column) != len(src):
            raise EventError(
                f"column {called[field]!r} has {len(column)} rows, {called['src']} has {len(src)}"
            )
    return batch


def _ends(
    columns: dict[str, Any], called: dict[str, str], names: ColumnNames, ids: str | None
) -> tuple[IdColumn, IdColumn]:
    kinds = None if ids is None else kinds_of(ids)
    if kinds is not None:
        of = names.kinds_of_ends(columns, kinds.names)
        src, dst = (kinds.column(columns[end], of[end], called[end]) for end in ("src", "dst"))
        return src, dst
    src, dst = (id_column(columns[end], called[end]) for end in ("src", "dst"))
    src, dst = one_kind(src, dst, (called["src"], called["dst"]))
    names.check_ends(src, dst)
    return src, dst


def _keys(rows: list[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
