"""The influenced sets V_1..V_K of the paper (its section 4.2), shared by every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.propagation.gathering import next_ring
from dygcn.engine.records import Influence

if TYPE_CHECKING:
    from dygcn.engine.graph import Graph
    from dygcn.engine.records import Nodes


def influence(graph: Graph, touched: Nodes, orders: int) -> Influence:
    """Return V_1..V_K: the ends of the changed edges, then ring by ring who aggregates them.

    Each node stands in its lowest order. The touched set is a set: a node that gained one edge and
    lost another belongs to V_1.

    Examples
    --------
    >>> from dygcn.engine.events import read_events
    >>> from dygcn.engine.graph import Graph
    >>> graph = Graph("int64")
    >>> _ = graph.apply(read_events([(0, 1), (1, 2), (2, 3)]))
    >>> delta = graph.apply(read_events([(0, 9)]))
    >>> [ring.tolist() for ring in influence(graph, delta.touched, 3).orders]
    [[0, 4], [1], [2]]
    """
    seen = np.zeros(graph.ids.high, np.int8)
    ring = np.unique(touched)
    seen[ring] = 1
    rings = [ring]
    push = graph.push
    for _ in range(orders - 1):
        ring = np.sort(next_ring(ring, seen, push.start, push.count, push.others))
        rings.append(ring)
    return Influence(tuple(rings))
