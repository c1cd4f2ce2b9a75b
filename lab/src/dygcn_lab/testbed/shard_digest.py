"""One number for all shards: the digest that one process with the same graph has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.cluster.edge_images import first_ends
from dygcn.cluster.shard import Shard
from dygcn.engine.events import join_ids
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.model import Model
from dygcn.engine.records import Bytes, Float64, IdColumn, Int64, Parts

_BLOCK = 1 << 14  # nodes, as in `ExactRule.state_bytes`


@dataclass(frozen=True, slots=True)
class DigestPart:
    """What a shard adds: its own nodes, and the edges whose lower end by id (directed: source) is its own."""

    ids: IdColumn  # (n,)
    rows: tuple[Bytes, ...]  # x, whether there is one, then degree and sums of each order: (n, bytes)
    a: IdColumn  # (e,)
    b: IdColumn  # (e,)
    weight: Int64  # (e,) stored
    ghost_weight: Int64  # (e,) full, 0 where there is no ghost
    ghost_t: Float64  # (e,)
    clock: float | None
    parts: Parts | None  # of edges


def part_of(shard: Shard) -> DigestPart:
    """Return what a shard adds."""
    graph, rule, own = shard.graph, shard.rule, shard.own_nodes()
    a, b, weight, _ = first_ends(graph, rule.own)
    full, t = np.zeros(len(a), np.int64), np.zeros(len(a))
    if graph.memory is not None:
        full, t = graph.memory.recall(*graph.canonical(a, b))
    x, has = rule.messages(graph, own, 0)
    parts: list[NDArray[Any]] = [
        x,
        has,
        *(part for order in range(1, rule.orders + 1) for part in rule.whole_sums(graph, own, order)),
    ]
    rows = tuple(_as_bytes(part) for part in parts)
    names = graph.ids.names
    related = None if graph.relations is None else graph.relations.of(*graph.canonical(a, b))
    return DigestPart(names(own), rows, names(a), names(b), weight, full, t, graph.clock, related)


def _as_bytes(rows: NDArray[Any]) -> Bytes:
    size = rows.itemsize * (rows.shape[1] if rows.ndim == 2 else 1)
    return np.frombuffer(rows.tobytes(), np.uint8).reshape(len(rows), size)


def digest_of_parts(model: Model, parts: Sequence[DigestPart]) -> str:
    """Return the digest of a graph that shards have together."""
    ids = IdMap(model.ids)
    node_of = ids.intern(join_ids([part.ids for part in parts]))
    order = ids.sorted(np.arange(len(node_of), dtype=np.int32))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    a, b = (rank[ids.find(join_ids([getattr(part, end) for part in parts]))] for end in ("a", "b"))
    weight, full, t = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("weight", "ghost_weight", "ghost_t")
    )
    by_pair = np.argsort(a.astype(np.int64) << 32 | b)
    ghosts = by_pair[weight[by_pair] < 0]
    whole = hashlib.blake2b(b"dygcn digest 1", digest_size=32)
    whole.update(np.array([model.directed, model.orders, model.width], np.int64).tobytes())
    names = ids.names(order)
    whole.update(names.values.tobytes() if len(names) else b"")
    if names.data is not None:
        whole.update(names.data.tobytes())
    none_own = np.zeros(len(order), np.bool_)
    for column in (none_own, a[by_pair], b[by_pair], weight[by_pair], full[ghosts], t[ghosts]):
        whole.update(np.ascontiguousarray(column).tobytes())
    related = Parts.joined([part.parts for part in parts], [len(part.weight) for part in parts])
    if related is not None:
        whole.update(related.placed(np.argsort(by_pair)).tobytes())
    if model.half_life is not None:
        clocks = [part.clock for part in parts if part.clock is not None]
        whole.update(np.array([max(clocks, default=-np.inf)]).tobytes())
    columns = [np.concatenate(column) for column in zip(*(part.rows for part in parts), strict=True)]
    for start in range(0, len(order), _BLOCK):
        for column in columns:
            whole.update(column[order[start : start + _BLOCK]].tobytes())
    return whole.hexdigest()
