"""What a batch will cost, before it is taken in: rows of state, since one edge at a hub touches them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.events import join_ids

if TYPE_CHECKING:
    from dygcn.models import State
    from dygcn.records import EventBatch


def expected_rows(state: State, batch: EventBatch) -> int:
    """Return about how many rows events will touch: each end, and whoever aggregates it.

    Examples
    --------
    >>> import dygcn
    >>> from dygcn.events import read_events
    >>> live = dygcn.fit([(0, spoke) for spoke in range(1, 100)], dim=8)
    >>> expected_rows(live.state, read_events([(0, 7)])), expected_rows(live.state, read_events([(500, 501)]))
    (102, 2)
    """
    if len(batch) == 0 or batch.src.kind != state.model.kind:
        return len(batch)
    nodes = state.graph.find(join_ids([batch.src, batch.dst]))
    known = nodes[nodes >= 0]
    if state.model.orders == 1:
        return len(nodes)
    return len(nodes) + int(np.sum(state.graph.push.count[known], dtype=np.int64))
