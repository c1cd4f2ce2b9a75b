"""How a shard replies to queries: one handler for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from dygcn.cluster import queries as q
from dygcn.cluster.edge_images import edges_as_image, first_ends
from dygcn.cluster.queries import filled
from dygcn.cluster.shard import Applied, Shard
from dygcn.cluster.worker import Worker
from dygcn.engine.events import join_ids
from dygcn.engine.records import NO_CHANGE, IdColumn, Nodes
from dygcn.live.changed import ChangeRecord
from dygcn.live.search.nearest import VectorCache, top_k

_OUTCOMES = (
    256  # batches whose outcome is kept: the front asks soon, or a successor of it asks for later ones
)
_NOBODY = np.empty(0, np.int32)


class QueryHandlers:
    """Replies to queries about one shard; its worker calls `note` after every entry."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        worker.moved = self.note
        self._outcomes: OrderedDict[int, q.OutcomeReply] = OrderedDict()
        self._cache: VectorCache | None = None
        self._of: Shard | None = None

    def note(self, sequence: int, applied: Applied | None) -> None:
        """Remember what an entry did; None: it moved slots, and no vector."""
        names = self._worker.shard.graph.ids.names
        if applied is None:  # own nodes are others than before
            self._cache, applied = None, Applied(NO_CHANGE, names(_NOBODY))
        elif self._cache is not None:
            self._cache.changes.append(applied.moved.nodes, sequence)
        moved = applied.moved
        about = names(moved.nodes), moved.orders, int(moved.rows), applied.left
        kept = self._worker.snapshots.sequences[0]
        self._outcomes[sequence] = q.OutcomeReply(sequence, True, *about, kept, applied.counts)
        while len(self._outcomes) > _OUTCOMES:
            self._outcomes.popitem(last=False)

    def reply(self, query: q.Query) -> q.Reply:
        """Return the reply to a query whose batch the worker has applied."""
        worker = self._worker
        if isinstance(query, q.OutcomeQuery):
            return self._outcomes.get(query.at) or _unknown_outcome(query, worker)
        if isinstance(query, q.NearestQuery):
            return self._nearest(query, worker)
        return HANDLERS[type(query)](query, worker)

    def _nearest(self, query: q.NearestQuery, worker: Worker) -> q.Reply:
        shard, own = worker.shard, worker.shard.own_nodes()
        cache = self._cached(shard)
        found = [top_k(cache, own, vector, query.k) for vector in query.queries]
        names = shard.graph.ids.names
        ids = join_ids([names(_NOBODY), *(names(nodes) for nodes, _ in found)])
        counts = np.array([len(nodes) for nodes, _ in found], np.int64)
        scores = np.concatenate([np.empty(0), *(scores for _, scores in found)])
        return q.NearestReply(worker.position, counts, ids, scores)

    def _cached(self, shard: Shard) -> VectorCache:
        """Return the cache of own nodes' vectors; a new one after a move, which replaces the shard."""
        if self._cache is None or self._of is not shard:
            self._of = shard
            readable: Any = shard
            self._cache = VectorCache(readable, ChangeRecord(shard.graph.ids.high))
        self._cache.changes.reserve(shard.graph.ids.high)
        return self._cache


def _own(shard: Shard, ids: IdColumn) -> Nodes:
    """Return own nodes by their ids, -1 for all other ids."""
    nodes = shard.graph.find(ids)
    known = np.flatnonzero(nodes >= 0)
    nodes[known[shard.rule.own[nodes[known]] == 0]] = -1
    return nodes


def _unknown_outcome(query: q.OutcomeQuery, worker: Worker) -> q.Reply:
    own, names = worker.shard.own_nodes(), worker.shard.graph.ids.names
    about = names(own), np.ones(len(own), np.int8), 0, names(_NOBODY), worker.snapshots.sequences[0]
    return q.OutcomeReply(query.at, False, *about)


def _shard(query: q.ShardQuery, worker: Worker) -> q.Reply:
    shard, graph, own = worker.shard, worker.shard.graph, worker.shard.own_nodes()
    about = graph.ids.names(own), graph.strength[own], graph.clock, graph.weight_shift
    return q.ShardReply(worker.position, shard.slots.owner, shard.shards, *about)


def _size(query: q.SizeQuery, worker: Worker) -> q.Reply:
    return q.SizeReply(
        worker.position, int((first_ends(worker.shard.graph, worker.shard.rule.own)[2] > 0).sum())
    )


def _vectors(query: q.VectorQuery, worker: Worker) -> q.Reply:
    shard, nodes = worker.shard, _own(worker.shard, query.ids)
    rows = np.flatnonzero(nodes >= 0)
    here = (nodes >= 0).astype(np.int8)
    here[shard.slots.owners(query.ids) != shard.number] = -1
    return q.VectorReply(
        worker.position, here, filled(len(nodes), rows, shard.reading().vectors(nodes[rows]))
    )


def _rows(query: q.RowQuery, worker: Worker) -> q.Reply:
    graph, rule, nodes = worker.shard.graph, worker.shard.rule, _own(worker.shard, query.ids)
    here = np.flatnonzero(nodes >= 0)
    rows: Any
    if query.sums:
        degree, rows = rule.whole_sums(graph, nodes[here], query.order)
    else:
        rows, degree = rule.messages(graph, nodes[here], query.order)
    columns = (filled(len(nodes), here, values.astype(np.int64)) for values in (rows, degree))
    return q.RowReply(worker.position, *columns)


def _nodes(query: q.NodeQuery, worker: Worker) -> q.Reply:
    graph, nodes = worker.shard.graph, _own(worker.shard, query.ids)
    here = np.flatnonzero(nodes >= 0)
    found, times, counts = nodes[here], np.full(len(here), -np.inf), np.zeros(len(here), np.float32)
    if graph.contacts is not None:
        times, counts = graph.contacts.of(found)
    arcs = graph.pull.degrees(found), graph.push.degrees(found), graph.carried(found)
    columns = (*((column, 0.0) for column in arcs), (times, -np.inf), (counts, 0.0))
    return q.NodeReply(worker.position, *(filled(len(nodes), here, *column) for column in columns))


def _pairs(query: q.PairQuery, worker: Worker) -> q.Reply:
    graph = worker.shard.graph
    a, b = graph.find(query.ids), graph.find(query.other)
    both = np.flatnonzero((a >= 0) & (b >= 0))
    pairs, count = graph.canonical(a[both], b[both]), len(both)
    weight, last, times = (
        (graph.pull.look_up(*pairs), np.full(count, -np.inf), np.zeros(count, np.float32))
        if graph.contacts is None
        else graph.pull.look_up_contacts(*pairs)
    )
    ghost, ghost_t = (
        (np.zeros(count, np.int64), np.zeros(count)) if graph.memory is None else graph.memory.recall(*pairs)
    )
    known = (weight, 0), (ghost, 0), (ghost_t, 0), (last, -np.inf), (times, 0)
    return q.PairReply(worker.position, *(filled(len(a), both, *column) for column in known))


def _arcs(query: q.ArcQuery, worker: Worker) -> q.Reply:
    graph, nodes = worker.shard.graph, _own(worker.shard, query.ids)
    side = graph.push if query.push else graph.pull
    here = np.flatnonzero(nodes >= 0)
    _, other, weight = side.arcs(nodes[here])
    counts = filled(len(nodes), here, side.count[nodes[here]].astype(np.int64))
    return q.ArcReply(worker.position, counts, graph.ids.names(other), weight)


def _edges(query: q.EdgeQuery, worker: Worker) -> q.Reply:
    shard = worker.shard
    a, b, weight, rows = first_ends(shard.graph, shard.rule.own)
    own = shard.rule.own[: shard.graph.ids.high] > 0
    return q.EdgeReply(
        worker.position, edges_as_image(shard.graph, rows, (a, b, weight), own, shard.own_nodes())
    )


HANDLERS: dict[type, Callable[[Any, Worker], q.Reply]] = {
    q.ShardQuery: _shard,
    q.SizeQuery: _size,
    q.VectorQuery: _vectors,
    q.RowQuery: _rows,
    q.NodeQuery: _nodes,
    q.PairQuery: _pairs,
    q.ArcQuery: _arcs,
    q.EdgeQuery: _edges,
}
