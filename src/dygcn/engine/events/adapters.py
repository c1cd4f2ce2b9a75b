"""Graphs and tensors of other libraries, recognised by their types without importing the libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.column_names import ColumnNames
from dygcn.engine.events.columns import id_column, one_kind, untensored
from dygcn.engine.events.kinds import KindId
from dygcn.errors import EventError, OptionError, listed, shown

Columns = dict[str, Any]  # of events, by field

_RELABEL = (
    "networkx.relabel_nodes(G, str) makes text of nodes, networkx.convert_node_labels_to_integers(G) numbers"
)


Reader = Callable[[Any, ColumnNames, bool | None, Sequence[str] | None], Columns]
"""Called as (graph, names, directed, kinds). `directed`: each edge of an undirected graph is read in both
directions. `kinds`: the kinds of nodes; None: none were declared, and the graph may have some of its own."""


@dataclass(frozen=True, slots=True)
class GraphEdges:
    """A graph of another library, and the function that reads its edges."""

    graph: Any
    reader: Reader


def recognise(events: object) -> object:
    """Return tensors as arrays, lazy frames as frames, graphs as `GraphEdges`; other values unchanged."""
    events = untensored(events, "events")
    libraries = {str(kind.__module__).partition(".")[0] for kind in type(events).__mro__}
    if "polars" in libraries:
        return _polars(events)
    for library, attribute, reader in _GRAPHS:
        if library in libraries and hasattr(events, attribute):
            return GraphEdges(events, reader)
    if "torch_geometric" in libraries:
        raise EventError(f"cannot read events from {type(events).__name__}; pass one graph of it, a Data")
    return events


def edge_index(ends: NDArray[Any], directed: bool | None) -> Columns:
    """Return the columns of an array of two rows, sources and targets."""
    return _each_once({"src": ends[0], "dst": ends[1]}, directed)


def _each_once(columns: Columns, directed: bool | None) -> Columns:
    """Keep one direction if an undirected graph lists every edge in both directions."""
    src, dst = columns["src"], columns["dst"]
    if directed is not False or type(src) is not np.ndarray or src.dtype.kind not in "iu":
        return columns
    up, down = src < dst, src > dst
    if not up.any() or up.sum() != down.sum():
        return columns
    more = [values for name, values in columns.items() if name not in ("src", "dst")]
    halves = zip(_sorted(up, src, dst, *more), _sorted(down, dst, src, *more), strict=True)
    if not all(np.array_equal(one, other) for one, other in halves):
        return columns
    return {name: values[~down] for name, values in columns.items()}


def _sorted(rows: NDArray[np.bool_], *columns: NDArray[Any]) -> list[NDArray[Any]]:
    chosen = [values[rows] for values in columns]
    order = np.lexsort(chosen[::-1])
    return [values[order] for values in chosen]


def _both_ways(columns: Columns) -> Columns:
    reverse = columns | {"src": columns["dst"], "dst": columns["src"]}
    return {
        name: list(chain.from_iterable(zip(values, reverse[name], strict=True)))
        for name, values in columns.items()
    }


def _attributes(names: ColumnNames, there: Sequence[str], values: Callable[[str], Any]) -> Columns:
    """Return the attributes of edges that the names of columns stand for.

    `there`: the attributes that edges have; `values` returns one of all edges, None where an edge has none.
    """
    wrong = [field for field in ("src", "dst", "op") if field in names.named]
    if wrong:
        raise OptionError(
            f"{wrong[0]}= names a column of a table; these events are a graph, of which t= and weight= name "
            "attributes of edges"
        )
    found = {field: name for field, name in names.possible.items() if name in there}
    for field, name in names.named.items():
        if field not in found:
            raise EventError(
                f"no edge has the attribute {shown(name)}, as {field}= says "
                f"(attributes: {listed(there) or 'none'})"
            )
    fields = ("t", "weight", "relation")
    columns: Columns = {field: values(found[field]) for field in fields if field in found}
    if "weight" in columns:  # 1 where an edge has none
        columns["weight"] = [1.0 if weight is None else weight for weight in columns["weight"]]
    return columns


# ---- networkx ----------------------------------------------------------------------------------------------


def _networkx(graph: Any, names: ColumnNames, directed: bool | None, kinds: Sequence[str] | None) -> Columns:
    """Read every edge of a networkx graph; parallel edges are separate events.

    Where all nodes have the attribute `bipartite`, it is their kind.
    """
    rows = list(graph.edges(data=True))
    columns: Columns = {"src": [row[0] for row in rows], "dst": [row[1] for row in rows]}
    if rows:
        there = list(dict.fromkeys(chain.from_iterable(row[-1] for row in rows)))
        columns |= _attributes(names, there, lambda name: [row[-1].get(name) for row in rows])
    columns = _both_ways(columns) if directed and not graph.is_directed() else columns
    side = dict(graph.nodes(data="bipartite"))
    if side and all(isinstance(node, KindId) for node in side):  # by `to_networkx`
        kind_of = {f"{end}_kind": [node.kind for node in columns[end]] for end in ("src", "dst")}
        return columns | kind_of | {end: [node.id for node in columns[end]] for end in ("src", "dst")}
    if None in side.values() or len(set(side.values())) < 2:
        return _nodes_checked(columns) if kinds is None else columns
    known = sorted(set(side.values()), key=str)
    called = dict(zip(known, map(str, known), strict=True))
    if kinds is not None and len(known) == len(kinds) and not set(called.values()) <= set(kinds):
        called = dict(zip(known, kinds, strict=True))
    return columns | {f"{end}_kind": [called[side[node]] for node in columns[end]] for end in ("src", "dst")}


def _nodes_checked(columns: Columns) -> Columns:
    """Read the nodes now, so that an error can name the functions of networkx that help."""
    try:
        src, dst = one_kind(id_column(columns["src"], "src"), id_column(columns["dst"], "dst"))
        return columns | {"src": src, "dst": dst}
    except EventError as error:
        raise EventError(f"{error.reason}; {_RELABEL}", error.row) from None


# ---- igraph, scipy, PyG, polars ----------------------------------------------------------------------------


def _igraph(graph: Any, names: ColumnNames, directed: bool | None, kinds: Sequence[str] | None) -> Columns:
    ends = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
    columns: Columns = {"src": ends[:, 0], "dst": ends[:, 1]}
    if "name" in graph.vertex_attributes():
        called = graph.vs["name"]
        if len(set(called)) < len(called):
            raise EventError("two vertices have the same name; names of vertices are ids of nodes")
        columns = {end: [called[node] for node in values] for end, values in columns.items()}
    columns |= _attributes(names, graph.edge_attributes(), lambda name: graph.es[name])
    return _both_ways(columns) if directed and not graph.is_directed() else columns


def _sparse(matrix: Any, names: ColumnNames, directed: bool | None, kinds: Sequence[str] | None) -> Columns:
    """Read the entries of a matrix: row, column and weight; a matrix of ones has no weights.

    With kinds, rows are nodes of the first one and columns nodes of the second.
    """
    if names:
        raise OptionError("a matrix has no names; its entries are weights")
    if len(matrix.shape) != 2 or (kinds is None and matrix.shape[0] != matrix.shape[1]):
        size = " x ".join(map(str, matrix.shape))
        raise EventError(
            f"a matrix of {size} has rows and columns that are different nodes; say what they are, as in "
            'kinds=("user", "item")'
        )
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    order = np.lexsort((entries.col, entries.row))
    columns = {"src": entries.row[order], "dst": entries.col[order]}
    if not (entries.data == 1).all():
        columns["weight"] = entries.data[order]
    return _each_once(columns, directed)


def _geometric(data: Any, names: ColumnNames, directed: bool | None, kinds: Sequence[str] | None) -> Columns:
    """Read a TemporalData, which is a table, or a Data: edge_index and the attributes of its edges."""
    stored = {name: untensored(values, name) for name, values in data.to_dict().items()}
    if "src" in stored:
        return {field: stored[name] for field, name in names.columns_of(list(stored)).items()}
    ends = stored.pop("edge_index", None)
    if not isinstance(ends, np.ndarray) or ends.ndim != 2 or len(ends) != 2:
        raise EventError(f"this {type(data).__name__} has no edge_index of two rows, and no src and dst")
    there = {name: values for name, values in stored.items() if isinstance(values, np.ndarray)}
    for field, usual in (("t", "edge_time"), ("weight", "edge_weight"), ("weight", "edge_attr")):
        of_edges = usual in there and there[usual].size == ends.shape[1]
        if field not in names.named and field not in there and of_edges:
            there[field] = there[usual].ravel()
    more = _attributes(names, list(there), lambda name: there[name])
    columns = {"src": ends[0], "dst": ends[1]} | {name: np.asarray(values) for name, values in more.items()}
    lengths = {len(values) if values.ndim == 1 else -1 for values in columns.values()}
    return _each_once(columns, directed) if len(lengths) == 1 else columns


def _hetero(data: Any, names: ColumnNames, directed: bool | None, kinds: Sequence[str] | None) -> Columns:
    """Read a HeteroData: node types become kinds. Reverse edges that ToUndirected added are left out."""
    types = [tuple(map(str, one)) for one in data.edge_types]
    own = [one for one in types if not (one[1].startswith("rev_") and (one[2], one[1][4:], one[0]) in types)]
    parts = []
    for one in own:
        part = _geometric(data[one], names, None, kinds)
        count = len(part["src"])
        parts.append(part | {"src_kind": [one[0]] * count, "dst_kind": [one[2]] * count})
    if not parts:
        raise EventError("this HeteroData has no edge_index of two rows")
    fields = set(parts[0])
    if any(set(part) != fields for part in parts):
        raise EventError("some types of edges have times or weights, and others do not; give them to all")
    columns = {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}
    if len({*columns["src_kind"], *columns["dst_kind"]}) == 1:
        return {name: values for name, values in columns.items() if not name.endswith("_kind")}
    return columns


def _polars(frame: Any) -> object:
    """Collect a lazy frame. Columns of Python objects (such as UUIDs) are not understood by Arrow: lists."""
    frame = frame.collect() if hasattr(frame, "collect") else frame
    kinds = [str(kind) for kind in getattr(frame, "dtypes", [])]
    if not any(kind.startswith("Object") for kind in kinds):
        return frame
    return {
        name: frame[name].to_list() if kind.startswith("Object") else frame[name]
        for name, kind in zip(frame.columns, kinds, strict=True)
    }


_GRAPHS: tuple[tuple[str, str, Reader], ...] = (
    ("networkx", "is_multigraph", _networkx),
    ("igraph", "get_edgelist", _igraph),
    ("scipy", "tocoo", _sparse),
    ("torch_geometric", "edge_types", _hetero),
    ("torch_geometric", "to_dict", _geometric),
)
