"""Vectors and edges for other libraries; each is imported when its type is asked for."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dygcn.engine.events import python_ids
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.records import Float, Float32, Float64, Nodes
from dygcn.errors import MissingExtra


def edge_table(graph: Graph) -> pa.Table:
    """Return the edges as columns src, dst and weight, sorted; undirected ones once, ghosts left out.

    Where nodes have kinds, src_kind and dst_kind are there besides.
    """
    a, b, weight = _sorted_edges(graph)
    ends = id_columns(graph.ids, a, "src") | id_columns(graph.ids, b, "dst")
    return pa.table(ends | {"weight": weight})


def _sorted_edges(graph: Graph) -> tuple[Nodes, Nodes, Float]:
    a, b, weight = graph.edges()
    real = weight > 0
    a, b, weight = a[real], b[real], weight[real]
    rank = np.empty(graph.ids.high, np.int64)
    nodes = graph.nodes()
    rank[nodes] = np.arange(len(nodes))
    if not graph.directed:
        a, b = np.where(rank[a] <= rank[b], a, b), np.where(rank[a] <= rank[b], b, a)
    order = np.lexsort((rank[b], rank[a]))
    return a[order], b[order], weight[order] * graph.grid


def id_columns(ids: IdMap, nodes: Nodes, name: str = "id") -> dict[str, pa.Array]:
    """Return the ids of nodes as a column, and before it one of kinds where nodes have some."""
    column = ids.names(nodes)
    if ids.kinds is None:
        return {name: pa.array(python_ids(column))}
    kinds, plain = ids.kinds.columns_of(column)
    return {"kind" if name == "id" else f"{name}_kind": kinds, name: plain}


def as_frame(
    ids: NDArray[Any] | list[Any],
    rows: Float32 | Float64 | list[Any] | dict[str, NDArray[Any]],
    columns: list[str] | None = None,
    index: str = "id",
) -> Any:
    """Return a pandas frame of rows, such as vectors, or of columns by name; its index is the id."""
    pandas = _import("pandas")
    if len(ids) and isinstance(ids[0], tuple):
        both = pandas.MultiIndex.from_tuples(list(map(tuple, ids)), names=["kind", index])
        return pandas.DataFrame(rows, index=both, columns=columns)
    return pandas.DataFrame(rows, index=pandas.Index(ids, name=index), columns=columns)


def html_table(caption: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table for a notebook; every text is escaped."""
    tagged = [("th", head)] if head else []
    tagged += [("td", row) for row in rows]
    cells = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in tagged]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


def as_networkx(graph: Graph) -> Any:
    """Return a networkx Graph or DiGraph with all nodes and the edges' weights."""
    networkx = _import("networkx")
    found = networkx.DiGraph() if graph.directed else networkx.Graph()
    ids = graph.ids
    for node in ids.shown(ids.names(graph.nodes())):
        found.add_node(node, **({"kind": node.kind} if ids.kinds is not None else {}))
    a, b, weight = _sorted_edges(graph)
    ends = [ids.shown(ids.names(end)).tolist() for end in (a, b)]
    found.add_weighted_edges_from(zip(*ends, weight.tolist(), strict=True))
    return found


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        package = name.partition(".")[0]
        raise MissingExtra(f"{package} is not installed. Run: pip install {package}") from missing
