"""One number for graph and state.

With the exact rule, equal graphs have equal digests, whatever their history.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.models import State


def digest_of(state: State) -> str:
    """Return the hex digest of the graph and of every message sum (or vector), by the user's ids.

    It covers the nodes that have an edge or features of their own, sorted by id, and logical values:
    never internal ids, storage widths or the number of updates.
    """
    image, nodes = state.image()
    graph = image.graph
    whole = hashlib.blake2b(b"dygcn digest 1", digest_size=32)
    if not state.model.spec.from_graph:
        whole.update(state.model.rule.encode())
    whole.update(np.array([state.graph.directed, state.rule.orders, state.model.width], np.int64).tobytes())
    whole.update(graph.ids.values.tobytes() if len(graph.ids) else b"")
    if graph.ids.data is not None:
        whole.update(graph.ids.data.tobytes())
    for column in (graph.own, graph.a, graph.b, graph.weight, graph.ghost_weight, graph.ghost_t):
        whole.update(np.ascontiguousarray(column).tobytes())
    if graph.parts is not None:
        whole.update(graph.parts.tobytes())
    if state.graph.memory is not None:
        whole.update(np.array([-np.inf if graph.clock is None else graph.clock]).tobytes())
    for block in state.rule.state_bytes(state.graph, nodes):
        whole.update(block.tobytes())
    return whole.hexdigest()
