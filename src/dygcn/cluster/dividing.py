"""A graph, divided among shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import take
from dygcn.engine.graph.image import GraphImage

if TYPE_CHECKING:
    from dygcn.cluster.slots import SlotMap
    from dygcn.engine.records import Int64


def part_for(image: GraphImage, slots: SlotMap, shard: int) -> GraphImage:
    """Return the edges and ghosts that have an end on a shard, and the clock, which is everyone's.

    Examples
    --------
    >>> import dygcn
    >>> from dygcn.cluster.slots import SlotMap
    >>> image = dygcn.fit([(1, 2), (2, 3), (3, 4)], dim=4)._state.image()[0].graph
    >>> [part_for(image, SlotMap.even(2), shard).ids.values.tolist() for shard in range(2)]
    [[1, 2, 3, 4], [1, 2, 3, 4]]
    """
    own = slots.owners(image.ids) == shard if len(image.ids) else np.empty(0, np.bool_)
    rows = np.flatnonzero(own[image.a] | own[image.b])
    nodes, places = np.unique(np.concatenate((image.a[rows], image.b[rows])), return_inverse=True)
    faded = image.weight < 0
    ghosts = (np.cumsum(faded) - 1)[rows[faded[rows]]]
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
        None if image.parts is None else image.parts.placed(_places(rows, len(image.a))),
    )


def _places(rows: Int64, count: int) -> Int64:
    """Return where each of so many rows stands among some of them, -1 where it does not."""
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return places
