"""What a batch will cost, before it is taken in: rows of state, since one edge at a hub touches them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import join_ids

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.engine.records import EventBatch

_LOOK = 20_000  # arcs that are followed; a ring with more of them is taken to reach every node behind it


def expected_rows(state: State, batch: EventBatch) -> int:
    """Return about how many rows events will touch: each end, whoever aggregates it, and so on up to order K.

    Examples
    --------
    >>> import dygcn
    >>> from dygcn.engine.events import read_events
    >>> live = dygcn.fit([(0, spoke) for spoke in range(1, 100)], dim=8)
    >>> expected_rows(live.state, read_events([(0, 7)])), expected_rows(live.state, read_events([(500, 501)]))
    (102, 2)
    """
    if len(batch) == 0 or batch.src.kind != state.model.kind:
        return len(batch)
    graph, orders = state.graph, state.model.orders
    nodes = graph.find(join_ids([batch.src, batch.dst]))
    ring = nodes[nodes >= 0]
    total = ends = len(nodes)
    for order in range(2, orders + 1):
        arcs = int(np.sum(graph.push.count[ring], dtype=np.int64))
        total += arcs if order == 2 else min(arcs, len(graph)) + ends
        if order < orders and arcs > _LOOK:
            return total + (orders - order) * (len(graph) + ends)
        if order < orders:
            ring = np.unique(np.concatenate((ring, graph.push.arcs(np.unique(ring))[1])))
    return total
