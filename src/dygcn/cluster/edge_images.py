"""Parts of a graph as images: a shard's start, its hand-over when slots move, and its reply to the front.

A node that moves takes its arcs along, and nothing else. All else follows: its order 1 from these, its order
2 from rows that the owners of its neighbours send, as they do whenever a shard begins to mirror a node.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import take
from dygcn.engine.graph import Graph
from dygcn.engine.graph.image import GraphImage, stage_pairs
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.records import Bool, GraphDelta, Int8, Int64, Nodes

_NOBODY = np.empty(0, np.int32)


def first_ends(graph: Graph, own: Int8) -> tuple[Nodes, Nodes, Int64, Int64]:
    """Return the edges whose lower end by id (directed: source) is an own node, and their rows."""
    a, b, weight = graph.edges()
    if not graph.directed:
        rank = np.full(graph.ids.high, -1, np.int64)
        here = graph.nodes()
        rank[here] = np.arange(len(here))
        swapped = rank[a] > rank[b]
        a, b = np.where(swapped, b, a).astype(np.int32), np.where(swapped, a, b).astype(np.int32)
    mine = np.flatnonzero(own[a] > 0)
    return a[mine], b[mine], weight[mine], mine


def edges_as_image(
    graph: Graph, rows: Int64, edges: tuple[Nodes, Nodes, Int64], own: Bool, alone: Nodes = _NOBODY
) -> GraphImage:
    """Return edges and ghosts of a graph, in no order, with contacts.

    `rows` are those of `Graph.edges`; `own` says for each node what the image says of it; nodes of `alone`
    are in the image also if they have no edge in it.
    """
    a, b, weight = edges
    nodes = np.unique(np.concatenate((alone, a, b))).astype(np.int32)
    place = np.empty(graph.ids.high, np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    first, second = graph.canonical(a, b)
    full, t = np.empty(0, np.int64), np.empty(0)
    if graph.memory is not None:
        ghosts = weight < 0
        full, t = graph.memory.recall(first[ghosts], second[ghosts])
    contacts = pairs = graph.edge_contacts()
    if graph.contacts is not None:
        contacts, pairs = graph.contacts.of(nodes), (pairs[0][rows], pairs[1][rows])
    parts = None if graph.relations is None else graph.relations.of(first, second)
    of_edges = place[a], place[b], weight, full, t
    return GraphImage(graph.ids.names(nodes), own[nodes], *of_edges, graph.clock, *contacts, *pairs, parts)


def part_for(image: GraphImage, slots: SlotMap, shard: int) -> GraphImage:
    """Return the edges and ghosts of an image that have an end on a shard, with the graph's clock."""
    own = slots.owners(image.ids) == shard if len(image.ids) else np.empty(0, np.bool_)
    part = image.with_rows(np.flatnonzero(own[image.a] | own[image.b]))
    nodes, places = np.unique(np.concatenate((part.a, part.b)), return_inverse=True)
    a, b = np.split(places.astype(np.int32), [len(part.a)])
    kept = {name: getattr(part, name) for name in ("contact", "activity")}
    contacts = {name: column[nodes] if len(column) else column for name, column in kept.items()}
    return replace(part, ids=take(image.ids, nodes), own=np.zeros(len(nodes), np.bool_), a=a, b=b, **contacts)


# ---- slots that move -------------------------------------------------------------------------------------


def take_arcs(graph: Graph, moved: Bool) -> GraphImage:
    """Return every edge and ghost with an end among the marked nodes, with contacts."""
    a, b, weight = graph.edges()
    rows = np.flatnonzero(moved[a] | moved[b])
    return edges_as_image(graph, rows, (a[rows], b[rows], weight[rows]), moved)


def put_arcs(transaction: Transaction, image: GraphImage) -> None:
    """Write edges that `take_arcs` took."""
    graph = transaction.graph
    nodes = graph.intern(image.ids)
    touched = None
    if graph.contacts is not None:  # of nodes that did not move this shard knows its own, and better
        touched = nodes[image.own], image.contact[image.own], image.activity[image.own]
    pairs = stage_pairs(image, graph, nodes, _NOBODY, touched)
    transaction.write_pairs(pairs, graph.pull.look_up(pairs.a, pairs.b))


def drop_arcs(transaction: Transaction, own: Bool) -> GraphDelta:
    """Remove the edges and ghosts of which neither end is marked."""
    a, b, _ = transaction.graph.edges()
    far = np.flatnonzero(~(own[a] | own[b]))
    return transaction.drop_pairs(a[far], b[far])
