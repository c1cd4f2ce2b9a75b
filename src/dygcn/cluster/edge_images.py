"""Parts of a graph as images: what a shard begins with, hands over when slots move, and tells the front.

A node that moves takes its arcs along, and nothing else. All else follows: its order 1 from these, its order
2 from rows that the owners of its neighbours send, as they do whenever a shard begins to mirror a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import take
from dygcn.engine.graph.image import GraphImage, stage_pairs

if TYPE_CHECKING:
    from dygcn.cluster.slots import SlotMap
    from dygcn.engine.graph import Graph
    from dygcn.engine.graph.transaction import Transaction
    from dygcn.engine.records import Bool, GraphDelta, Int8, Int64, Nodes

_NOBODY = np.empty(0, np.int32)


def first_ends(graph: Graph, own: Int8) -> tuple[Nodes, Nodes, Int64, Int64]:
    """Return edges by their lower end by id (directed: source), where that is an own node, and their rows."""
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
    contacts, none = graph.contacts, (np.empty(0), np.empty(0, np.float32))
    last, count = edge_contacts(graph)
    return GraphImage(
        graph.ids.names(nodes),
        own[nodes],
        place[a],
        place[b],
        weight,
        full,
        t,
        graph.clock,
        *(none if contacts is None else (contacts.times[nodes], contacts.counts[nodes])),
        *(column[rows] if len(column) else column for column in graph.edge_contacts()),
        None if graph.relations is None else graph.relations.of(first, second),
    )


def part_for(image: GraphImage, slots: SlotMap, shard: int) -> GraphImage:
    """Return the edges and ghosts of an image that have an end on a shard, and the common clock."""
    own = slots.owners(image.ids) == shard if len(image.ids) else np.empty(0, np.bool_)
    rows = np.flatnonzero(own[image.a] | own[image.b])
    nodes, places = np.unique(np.concatenate((image.a[rows], image.b[rows])), return_inverse=True)
    faded = image.weight < 0
    ghosts = (np.cumsum(faded) - 1)[rows[faded[rows]]]
    place = np.full(len(image.a), -1, np.int64)
    place[rows] = np.arange(len(rows))
    pairs, contacts = len(image.pair_t) > 0, len(image.contact) > 0
    return GraphImage(
        take(image.ids, nodes),
        np.zeros(len(nodes), np.bool_),
        places[: len(rows)].astype(np.int32),
        places[len(rows) :].astype(np.int32),
        image.weight[rows],
        image.ghost_weight[ghosts],
        image.ghost_t[ghosts],
        image.clock,
        image.contact[nodes] if contacts else image.contact,
        image.activity[nodes] if contacts else image.activity,
        image.pair_t[rows] if pairs else image.pair_t,
        image.pair_count[rows] if pairs else image.pair_count,
        None if image.parts is None else image.parts.placed(place),
    )


# ---- slots that move -------------------------------------------------------------------------------------


def take_arcs(graph: Graph, moved: Bool) -> GraphImage:
    """Return every edge and ghost of the nodes that are marked, also between two of them, with contacts."""
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
    """Remove edges and ghosts between two nodes that are not marked."""
    a, b, _ = transaction.graph.edges()
    far = np.flatnonzero(~(own[a] | own[b]))
    return transaction.drop_pairs(a[far], b[far])
