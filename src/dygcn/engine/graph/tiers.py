"""Tiers: nodes with many arcs have their messages pulled at reads instead of pushed at updates.

A node with fewer arcs than `heavy_from` is *light*: tier 0. A heavy one is of tier c >= 1 with ``heavy_from *
2**(c - 1)`` to ``heavy_from * 2**c`` arcs, in the direction in which it has more. A message is *pushed* along
an arc at updates if the sender is light or of a lower tier than the receiver; else the receiver *pulls* it
when it is read. So an update adds to few rows and a read adds few messages: a node of tier c has few
neighbours of that tier or a higher one.

Tiers are storage: no value depends on them. A node leaves a tier downwards only at half of the tier's lower
bound, so that the cost of a change of tier is paid by as many events as there are arcs to move.
"""

from __future__ import annotations

import numpy as np

from dygcn.engine.graph.arcs import partition, put_right
from dygcn.engine.graph.store import Graph
from dygcn.engine.graph.ticks import stamp_all
from dygcn.engine.records import Bool, Int8, Int32, Int64, Nodes

NOBODY_IS_HEAVY = 1 << 40
"""In the place of `heavy_from`: more arcs than a node can have."""


def exact_tiers(count: Int32 | Int64, heavy_from: int) -> Int8:
    """Return the tiers for these numbers of arcs."""
    tiers: Int8 = np.frexp(np.asarray(count) // heavy_from)[1].astype(np.int8)
    return tiers


def due_tiers(graph: Graph, nodes: Nodes, heavy_from: int) -> tuple[Nodes, Int8]:
    """Return the distinct nodes that must change their tier, and their new tiers."""
    count, tier = _arcs_of(graph, nodes), graph.tiers[nodes]
    bound = np.int64(heavy_from) << tier.astype(np.int64)
    due = np.unique(nodes[(count >= bound) | ((tier > 0) & (4 * count < bound))])
    return due, exact_tiers(_arcs_of(graph, due), heavy_from)


def is_pushed(sender: Int8, receiver: Int8) -> Bool:
    """Return over which arcs messages are pushed, by the tiers of both ends."""
    pushed: Bool = (sender == 0) | (receiver > sender)
    return pushed


def arcs_that_turn(graph: Graph, nodes: Nodes, tiers: Int8) -> tuple[Nodes, Nodes, Int64]:
    """Return the arcs that change between pushed and pulled when nodes change their tiers.

    As (receiver, sender, weight); the weight is above zero for arcs that will be pushed.
    """
    listener, sender, weight = _incident(graph, nodes, tiers)
    old_sender, old_receiver = graph.tiers[sender], graph.tiers[listener]
    new_sender, new_receiver = (_later(graph, ends, nodes, tiers) for ends in (sender, listener))
    was, will = is_pushed(old_sender, old_receiver), is_pushed(new_sender, new_receiver)
    turned = np.flatnonzero(was != will)
    sign = np.where(will[turned], 1, -1)
    return listener[turned], sender[turned], sign * np.abs(weight[turned])


def set_tiers(graph: Graph, nodes: Nodes, tiers: Int8) -> None:
    """Set the tiers of nodes, and move their arcs to the right part of their blocks."""
    before = graph.tiers[nodes]
    graph.tiers[nodes] = tiers
    stamp_all(graph.ticks, nodes)
    for arcs, opposite in ((graph.pull, graph.push), (graph.push, graph.pull))[: 2 if graph.directed else 1]:
        partition(arcs.arrays, nodes)
        node, other, _ = opposite.arcs(nodes)
        bar, at = np.maximum(graph.tiers[other], 1), np.searchsorted(nodes, node)
        moves = np.flatnonzero((before[at] >= bar) != (tiers[at] >= bar))
        stamp_all(graph.ticks, other[moves])
        put_right(arcs.arrays, other[moves], node[moves])


def divide_all(graph: Graph, heavy_from: int) -> Nodes:
    """Compute the tier of every node, and partition all blocks; return the heavy nodes."""
    everyone = np.arange(graph.ids.high, dtype=np.int32)
    tiers = exact_tiers(_arcs_of(graph, everyone), heavy_from)
    graph.divided += 1
    parted = graph.pull.upper.any() or graph.push.upper.any()
    if tiers.any() or graph.tiers.any() or parted:
        graph.tiers[: len(tiers)] = tiers
        stamp_all(graph.ticks, everyone)
        for arcs in (graph.pull, graph.push)[: 2 if graph.directed else 1]:
            partition(arcs.arrays, everyone)
    return np.flatnonzero(tiers).astype(np.int32)


def _arcs_of(graph: Graph, nodes: Nodes) -> Int64:
    return np.maximum(graph.pull.count[nodes], graph.push.count[nodes]).astype(np.int64)


def _incident(graph: Graph, nodes: Nodes, tiers: Int8) -> tuple[Nodes, Nodes, Int64]:
    """Return the distinct arcs of nodes that may turn, as (receiver, sender, weight)."""
    # Of one heavy node that rises, only arcs to nodes of its tier or above turn.
    upper = len(nodes) == 1 and bool(tiers[0] > graph.tiers[nodes[0]] > 0)
    push, pull = (each.upper_arcs if upper else each.arcs for each in (graph.push, graph.pull))
    sender, listener, weight = push(nodes)
    receiver, other, more = pull(nodes)
    rest = ~np.isin(other, nodes)  # those between two of the nodes are listed already
    return (
        np.concatenate((listener, receiver[rest])),
        np.concatenate((sender, other[rest])),
        np.concatenate((weight, more[rest])),
    )


def _later(graph: Graph, ends: Nodes, nodes: Nodes, tiers: Int8) -> Int8:
    at = np.minimum(np.searchsorted(nodes, ends), len(nodes) - 1)
    return np.where(nodes[at] == ends, tiers[at], graph.tiers[ends])
