"""Loading a shard with a graph that is too large for one image, in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from dygcn.cluster.shard import Shard
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.graph.constants import SMALLEST_BLOCK
from dygcn.engine.graph.ids import grown
from dygcn.engine.records import EventBatch, Int64


def fill(shard: Shard, parts: Callable[[], Iterable[EventBatch]]) -> None:
    """Fill an empty shard with the edges of its own nodes, and compute order 1 of these, as `load` does.

    `parts`: yields edges, also those of others. They are read twice, to count them and to write them: so
    lists are as long as they must be from the beginning, and nothing is copied.
    """
    graph = shard.graph
    for arcs, most in zip((graph.pull, graph.push), _counted(shard, parts), strict=False):
        give_blocks(arcs, most)
    for part in parts():
        shard.stage(part, None)
        with shard.transaction:
            delta = shard.transaction.write()
        shard.transaction.release(delta.left)
    shard.after_loading()


def _counted(shard: Shard, parts: Callable[[], Iterable[EventBatch]]) -> list[Int64]:
    """Give nodes to ids; return how many arcs each may have, of a directed graph in both directions."""
    graph = shard.graph
    most = [np.zeros(0, np.int64) for _ in range(2 if graph.directed else 1)]
    for part in parts():
        batch, *_ = shard.own_events(part)
        ends = graph.ids.resolve(batch.src, batch.dst, batch.op)
        graph.reserve()
        most = [grown(count, graph.ids.high) for count in most]
        for end, nodes in enumerate(ends):
            np.add.at(most[end % len(most)], nodes[nodes >= 0], 1)
    return [count[: graph.ids.high] for count in most]


def give_blocks(arcs: Adjacency, most: Int64) -> None:
    """Give nodes that have no arc yet blocks for so many, with a sixteenth to spare.

    A node that outgrows such a block gets one that is a power of two long.
    """
    size = np.where(most > 0, most + most // 16 + SMALLEST_BLOCK - 1, 0) & -SMALLEST_BLOCK
    ends, start, room = np.cumsum(size), arcs.start.copy(), arcs._room.copy()
    start[: len(size)], room[: len(size)] = ends - size, size
    used = int(ends[-1]) if len(ends) else 0
    pools = {name: np.zeros(used + used // 16, getattr(arcs, name).dtype) for name in arcs._pools}
    arcs._replace(**pools, start=start, _room=room, _tail=np.array([used]))
