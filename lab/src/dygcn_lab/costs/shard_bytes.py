"""What a shard holds in memory, by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.cluster.shard import Shard


def bytes_of(shard: Shard) -> dict[str, int]:
    """Return the bytes of a shard's arrays, by part; scratch buffers are left out.

    Examples
    --------
    >>> from dygcn.cluster.shard import Shard
    >>> from dygcn.cluster.slots import SlotMap
    >>> from dygcn.engine.models.model import Model
    >>> model = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
    >>> list(bytes_of(Shard(model, 0, SlotMap.even(2), 2)))
    ['arcs', 'hubs', 'lists', 'ids', 'marks', 'order 1', 'order 2', 'heavy', 'holders']
    """
    graph, rule = shard.graph, shard.rule
    sides = {id(side): side for side in (graph.pull, graph.push)}.values()
    pools = [getattr(side, name) for side in sides for name in ("others", "weights", "times", "counts")]
    arcs = sum(pool.nbytes for pool in pools) + (0 if graph.relations is None else graph.relations.nbytes)
    scratch = rule.place.nbytes + len(rule.place)  # and a mark
    return {
        "arcs": arcs,
        "hubs": sum(array.nbytes for side in sides for array in side._table.arrays),
        "lists": sum(_held(side) for side in sides) - arcs,
        "ids": _held(graph.ids),
        "marks": _held(graph) + scratch + rule.own.nbytes + shard.owner.nbytes,
        "order 1": rule.sums[0].nbytes,
        "order 2": rule.sums[1].nbytes,
        "heavy": rule._heavy.nbytes,
        "holders": sum(
            one.nbytes for one in (shard.subscribers._row, shard.subscribers._counts, shard.subscribers._free)
        ),
    }


def _held(owner: object) -> int:
    """Return the bytes of the arrays that are attributes of an object."""
    return sum(value.nbytes for value in vars(owner).values() if isinstance(value, np.ndarray))
