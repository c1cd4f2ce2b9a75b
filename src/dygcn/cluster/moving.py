"""Slots that move from shard to shard: their nodes take their arcs along, and nothing else.

All else follows: order 1 of a moved node from its arcs, order 2 from the rows of those that it aggregates,
which their owners send as they do whenever a shard begins to mirror a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.image import GraphImage, stage_pairs
from dygcn.engine.graph.pair_contacts import edge_contacts

if TYPE_CHECKING:
    from dygcn.engine.graph import Graph
    from dygcn.engine.graph.transaction import Transaction
    from dygcn.engine.records import Bool, Float32, Float64, GraphDelta, Nodes

_NOBODY = np.empty(0, np.int32)


def take_arcs(graph: Graph, moved: Bool) -> GraphImage:
    """Return every edge and ghost of some nodes, with contacts; those of the nodes themselves, too.

    Parameters
    ----------
    moved
        For each node, whether it is one of them.
    """
    a, b, weight = graph.edges()
    chosen = np.flatnonzero(moved[a] | moved[b])
    a, b, weight = a[chosen], b[chosen], weight[chosen]
    nodes, at = np.unique(np.concatenate((a, b)), return_inverse=True)
    nodes = nodes.astype(np.int32)
    first, second = (ends.astype(np.int32) for ends in (at[: len(a)], at[len(a) :]))
    full, t = np.empty(0, np.int64), np.empty(0)
    if graph.memory is not None:
        ghosts = weight < 0
        full, t = graph.memory.recall(a[ghosts], b[ghosts])
    last, count = edge_contacts(graph)
    contact, activity = _contacts_of(graph, nodes)
    return GraphImage(
        graph.ids.names(nodes),
        moved[nodes],
        first,
        second,
        weight,
        full,
        t,
        graph.clock,
        contact,
        activity,
        last[chosen] if len(last) else last,
        count[chosen] if len(count) else count,
        None if graph.relations is None else graph.relations.of(a, b),
    )


def _contacts_of(graph: Graph, nodes: Nodes) -> tuple[Float64, Float32]:
    if graph.contacts is None:
        return np.empty(0), np.empty(0, np.float32)
    return graph.contacts.times[nodes], graph.contacts.counts[nodes]


def put_arcs(transaction: Transaction, image: GraphImage) -> Nodes:
    """Write edges that `take_arcs` took; return the nodes that moved."""
    graph = transaction.graph
    nodes = graph.intern(image.ids)
    moved, touched = nodes[image.own], None
    if graph.contacts is not None:  # of nodes that did not move this shard knows its own, and better
        touched = moved, image.contact[image.own], image.activity[image.own]
    pairs = stage_pairs(image, graph, nodes, _NOBODY, touched)
    transaction.write_pairs(pairs, graph.pull.look_up(pairs.a, pairs.b))
    return moved


def drop_arcs(transaction: Transaction, own: Bool) -> GraphDelta:
    """Take edges and ghosts away of which neither end is among some nodes."""
    a, b, _ = transaction.graph.edges()
    far = np.flatnonzero(~(own[a] | own[b]))
    return transaction.drop_pairs(a[far], b[far])
