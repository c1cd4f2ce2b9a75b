"""What two nodes have to do with each other: a link or a ghost of one, and their contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.graph.store import Graph
    from dygcn.engine.records import Float32, Float64, Int8, Nodes


def pair_contacts(graph: Graph, a: Nodes, b: Nodes) -> tuple[Int8, Float64, Float64]:
    """Return what pairs are now; see `Graph.pair_contacts`."""
    link, since, count = np.zeros(len(a), np.int8), np.full(len(a), np.inf), np.zeros(len(a))
    rows = np.flatnonzero((a >= 0) & (b >= 0) & (a != b))
    first, second = graph.canonical(a[rows].astype(np.int32), b[rows].astype(np.int32))
    found = _one_way(graph, first, second)
    if graph.directed:
        back = _one_way(graph, second, first)
        ghosts = np.minimum(found[0], back[0])
        both = np.where(np.maximum(found[0], back[0]) > 0, np.int8(1), ghosts)
        found = both, np.minimum(found[1], back[1]), found[2] + back[2]
    link[rows], since[rows], count[rows] = found
    return link, since, count


def _one_way(graph: Graph, a: Nodes, b: Nodes) -> tuple[Int8, Float64, Float64]:
    if graph.contacts is None:
        weight = graph.pull.look_up(a, b)
        return np.sign(weight).astype(np.int8), np.full(len(a), np.inf), np.zeros(len(a))
    weight, last, count = graph.pull.look_up_contacts(a, b)
    link = np.sign(weight).astype(np.int8)
    return link, graph.contacts.time_since(last), graph.contacts.worth(last, count)


def edge_contacts(graph: Graph) -> tuple[Float64, Float32]:
    """Return last contacts and counts in the order of `Graph.edges`; empty where they are not kept."""
    if graph.contacts is None:
        return np.empty(0), np.empty(0, np.float32)
    nodes = np.flatnonzero(graph.here).astype(np.int32)
    last, count = graph.pull.contacts(nodes)
    if graph.directed:
        return last, count
    a, b, _ = graph.pull.arcs(nodes)
    return last[a < b], count[a < b]
