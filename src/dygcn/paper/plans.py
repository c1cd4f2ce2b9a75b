"""From a change of the graph to a `Plan`: the sums of the paper's equations, before any vector is known.

A plan is what the live path and training share: it holds V_1..V_K and, for each node in them, whose rows
are added with which factor. Terms of a sum stand in the order of the senders' id keys, so a sum does not
depend on internal ids, and an embedding that was saved and loaded goes on with the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dygcn.engine.graph import Graph
from dygcn.engine.models.checks import check_fields
from dygcn.engine.propagation import influence
from dygcn.engine.records import Float, Float64, GraphDelta, Influence, Int64, Nodes

AGGREGATIONS = ("sum", "mean")
ACTIVATIONS = ("relu", "tanh", "none")


@dataclass(frozen=True)
class RuleOptions:
    """How the paper's rules aggregate. The defaults are the paper's; other values are extensions.

    Parameters
    ----------
    aggregation
        ``"sum"``; or ``"mean"``: messages are divided by the degree, so that hubs do not explode.
    activation
        ``"relu"``; or ``"tanh"``, or ``"none"`` for a linear output.
    isolated
        A node that lost its last edge: ``"alone"`` updates it like any other end of a changed edge, and in
        the spectral pass it gets ``z Ws`` (half of what a node among its like gets, so that it fades);
        ``"rest"`` leaves it as it is until it has an edge again, its own neighbour in the pass.
    level
        Scale all vectors by one number after the spectral pass, so that their mean length stays what it was
        before the pass. No cosine changes by it.
    """

    aggregation: str = "sum"
    activation: str = "relu"
    isolated: str = "alone"
    level: bool = False

    def __post_init__(self) -> None:
        check_fields(self, aggregation=AGGREGATIONS, isolated=("alone", "rest"), activation=ACTIVATIONS)


@dataclass(frozen=True, slots=True)
class Mix:
    """Weighted sums of rows: entry i is the sum over j in first[i]..first[i + 1] of factor[j] row[j]."""

    first: Int64  # (n + 1,)
    row: Int64  # (m,) rows of the table that is summed
    factor: Float64  # (m,)


@dataclass(frozen=True, slots=True)
class Plan:
    """One update of the paper's rules without vectors: the nodes that change, and their senders."""

    arrived: Nodes  # (a,) new nodes
    first_look: Mix  # (a) rows of Z: the aggregation of their linked nodes
    influence: Influence  # V_1..V_K, without nodes that are no more
    changes: tuple[Mix, ...]  # da of V_k: from rows of Z for k = 1, then from the changes of V_(k-1)
    whole: tuple[Nodes, Mix] | None = None  # the spectral pass: every node, from rows of Z


def make_plan(
    graph: Graph, delta: GraphDelta, orders: int, options: RuleOptions | None = None, spectral: bool = False
) -> Plan:
    """Plan one update of the rolling rule, or (orders = 1, `spectral`) of the spectral one."""
    options = options or RuleOptions()
    aggregation = options.aggregation
    rings = influenced(graph, delta, orders, options.isolated)
    changes = [_first_change(graph, delta, rings.orders[0], aggregation)]
    changes += [_later_change(graph, rings, k, aggregation) for k in range(1, orders)]
    whole = None
    if spectral and len(delta.receiver) + len(delta.arrived) + len(delta.left):  # else nothing happened
        nodes = graph.nodes()
        whole = nodes, spectral_mix(graph, nodes, options.isolated)
    arrived = np.sort(delta.arrived)
    return Plan(arrived, first_look(graph, arrived, aggregation), rings, tuple(changes), whole)


def influenced(graph: Graph, delta: GraphDelta, orders: int, isolated: str = "alone") -> Influence:
    """Return V_1..V_K of a change: V_1 are the ends of the changed edges that are still in the graph.

    It is a set: a node that gains one neighbour and loses another belongs to it.
    """
    ends = delta.receiver
    if isolated == "rest":
        ends = ends[graph.pull.count[ends] > 0]
    ends = np.concatenate((ends, delta.arrived))
    return influence(graph, np.setdiff1d(ends, delta.left), orders)


def layer_mix(graph: Graph, nodes: Nodes, aggregation: str) -> Mix:
    """Return A^ = A + I of eq. gconv as sums over rows of `nodes`; divided by its row sums for the mean."""
    place = _places(graph, nodes)
    receiver, sender, weight = graph.pull.arcs(nodes)
    factor = np.concatenate((np.abs(weight) * graph.grid, np.ones(len(nodes))))
    receivers, senders = np.concatenate((receiver, nodes)), np.concatenate((sender, nodes))
    if aggregation == "mean":
        factor /= 1 + graph.strength[receivers] * graph.grid
    return _mix(graph, place[receivers], senders, place[senders], factor, len(nodes))


def spectral_mix(graph: Graph, nodes: Nodes, isolated: str) -> Mix:
    """Return I + D^-1/2 A D^-1/2 as sums over rows of Z; where D is 0 there is I alone, or I + I.

    In a directed graph the D on the left counts what a node aggregates, that on the right its receivers.
    """
    receiver, sender, weight = graph.pull.arcs(nodes)
    degree: Float = graph.strength * graph.grid
    pushed = degree
    if graph.directed:
        pushed = np.bincount(sender, np.abs(weight) * graph.grid, len(degree)).astype(np.float64)
    factor = np.abs(weight) * graph.grid / np.sqrt(degree[receiver] * pushed[sender])
    receivers, senders = np.concatenate((nodes, receiver)), np.concatenate((nodes, sender))
    own = np.where((isolated == "rest") & (degree[nodes] == 0), 2.0, 1.0)
    factor = np.concatenate((own, factor))
    return _mix(graph, _places(graph, nodes)[receivers], senders, senders, factor, len(nodes))


def first_look(graph: Graph, arrived: Nodes, aggregation: str) -> Mix:
    """Aggregate, for each new node (sorted), its linked nodes that are not new; a mean is over these."""
    receiver, sender, weight = graph.pull.arcs(arrived)
    known = _position(arrived, sender) < 0
    receiver, sender = receiver[known], sender[known]
    factor = np.abs(weight[known]) * graph.grid
    position = _position(arrived, receiver)
    if aggregation == "mean":
        factor /= np.bincount(position, factor, len(arrived))[position]
    return _mix(graph, position, sender, sender, factor, len(arrived))


def _first_change(graph: Graph, delta: GraphDelta, ring: Nodes, aggregation: str) -> Mix:
    """Eq. change_aggr1: what v aggregates from z^t now, minus what it aggregated from z^t before."""
    position = _position(ring, delta.receiver)
    inside = position >= 0
    position, sender = position[inside], delta.sender[inside]
    shift = (delta.new - delta.old)[inside] * graph.grid
    if aggregation == "sum":
        return _mix(graph, position, sender, sender, shift, len(ring))
    # a = (z_v + sum of w z_u) / (1 + sum of w). The arcs that exist now change their share of the
    # mean; a changed arc, besides, had another weight in the old mean.
    now = 1 / (1 + graph.strength[ring] * graph.grid)
    strength = graph.strength[ring] * graph.grid - np.bincount(position, shift, len(ring))
    before = 1 / (1 + strength)
    owner, other, weight = graph.pull.arcs(ring)
    owned = _position(ring, owner)
    share = np.abs(weight) * graph.grid * (now - before)[owned]
    positions = np.concatenate((np.arange(len(ring)), owned, position))
    senders = np.concatenate((ring, other, sender))
    factor = np.concatenate((now - before, share, shift * before[position]))
    return _mix(graph, positions, senders, senders, factor, len(ring))


def _later_change(graph: Graph, rings: Influence, k: int, aggregation: str) -> Mix:
    """Eq. change_aggr2: the changes of the neighbours in V_k (counted from 1), for those in V_(k+1)."""
    last, ring = rings.orders[k - 1], rings.orders[k]
    sender, receiver, weight = graph.push.arcs(last)
    position = _position(ring, receiver)
    inside = position >= 0
    sender, receiver, position = sender[inside], receiver[inside], position[inside]
    factor = np.abs(weight[inside]) * graph.grid
    if aggregation == "mean":
        factor /= 1 + graph.strength[receiver] * graph.grid
    return _mix(graph, position, sender, _position(last, sender), factor, len(ring))


def _position(ring: Nodes, nodes: Nodes) -> Int64:
    """Return where each node stands in a sorted ring, -1 where it does not. N plays no part."""
    if len(ring) == 0:
        return np.full(len(nodes), -1, np.int64)
    at = np.searchsorted(ring, nodes)
    at[at == len(ring)] = 0
    return np.where(ring[at] == nodes, at, -1)


def _places(graph: Graph, nodes: Nodes) -> Int64:
    place = np.full(graph.ids.high, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    return place


def _mix(graph: Graph, position: Int64, sender: Nodes, row: Int64 | Nodes, factor: Float, n: int) -> Mix:
    """Group terms by position; inside a group by the key of the sender's id."""
    order = np.lexsort((graph.ids.keys[sender], position))
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(position, minlength=n), out=first[1:])
    return Mix(first, row[order].astype(np.int64), factor[order].astype(np.float64))
