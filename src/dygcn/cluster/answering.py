"""A shard's answers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.cluster import questions as ask
from dygcn.engine.events import join_ids
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.graph.pair_contacts import edge_contacts
from dygcn.live.changed import ChangeRecord
from dygcn.live.search.nearest import VectorCache, top_k

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.cluster.shard import Shard, Spread
    from dygcn.cluster.worker import Worker
    from dygcn.engine.models.readout import Readout
    from dygcn.engine.records import IdColumn, Int64, Nodes

_OUTCOMES = 256  # batches whose outcome is remembered: whoever asks is told soon, or has a successor


class Answering:
    """Answers questions about one shard; give `note` to its worker, and the worker to this."""

    def __init__(self) -> None:
        self._outcomes: OrderedDict[int, ask.BatchOutcome] = OrderedDict()
        self._cache: VectorCache | None = None
        self._of: Shard | None = None

    def note(self, sequence: int, spread: Spread | None, worker: Worker) -> None:
        """Remember what a batch did; None: it moved slots, and no vector."""
        shard = worker.shard
        nobody = shard.graph.ids.names(np.empty(0, np.int32))
        outcome = ask.BatchOutcome(
            sequence, True, nobody, np.empty(0, np.int8), 0, nobody, 0, 0, 0, worker.kept
        )
        if spread is None:
            self._cache = None  # of other nodes than before
        else:
            moved = spread.moved
            outcome = replace(
                outcome,
                moved=shard.graph.ids.names(moved.nodes),
                orders=moved.orders,
                rows=int(moved.rows),
                left=spread.left,
                unchanged=spread.unchanged,
                missing=spread.missing,
                loops=spread.loops,
                expired=spread.expired or None,
            )
            if self._cache is not None:
                self._cache.changes.append(moved.nodes, sequence)
        self._outcomes[sequence] = outcome
        while len(self._outcomes) > _OUTCOMES:
            self._outcomes.popitem(last=False)

    def answer(self, worker: Worker, question: ask.Question) -> ask.Answer | None:
        """Answer; None: not yet."""
        if not worker.whole or worker.position < question.at:
            return None
        if isinstance(question, ask.AskOutcome):
            return self._outcome(question, worker)
        if isinstance(question, ask.AskNearest):
            return self._nearest(question, worker)
        found: ask.Answer = _ANSWERS[type(question)](question, worker)
        return found

    def _outcome(self, question: ask.AskOutcome, worker: Worker) -> ask.Answer:
        known = self._outcomes.get(question.at)
        if known is not None:
            return known
        shard = worker.shard
        own = shard.own_nodes()
        names = shard.graph.ids.names
        moved, left = names(own), names(own[:0])
        orders = np.ones(len(own), np.int8)
        return ask.BatchOutcome(question.at, False, moved, orders, 0, left, 0, 0, 0, worker.kept)

    def _nearest(self, question: ask.AskNearest, worker: Worker) -> ask.Answer:
        shard, own = worker.shard, worker.shard.own_nodes()
        cache = self._cached(shard)
        found = [top_k(cache, own, query, question.k) for query in question.queries]
        nodes = [nodes for nodes, _ in found]
        names = shard.graph.ids.names
        ids = join_ids([names(own[:0]), *(names(some) for some in nodes)])
        counts = np.array([len(some) for some in nodes], np.int64)
        scores = np.concatenate([np.empty(0), *(scores for _, scores in found)])
        return ask.Nearest(worker.position, counts, ids, scores)

    def _cached(self, shard: Shard) -> VectorCache:
        """Return vectors that were read before; all anew after a move, which changes what is own."""
        if self._cache is None or self._of is not shard:
            self._of = shard
            self._cache = VectorCache(_Readable(shard), ChangeRecord(shard.graph.ids.high))  # type: ignore[arg-type]
        self._cache.changes.reserve(shard.graph.ids.high)
        return self._cache


class _Readable:
    """A shard as a cache of vectors reads it."""

    def __init__(self, shard: Shard) -> None:
        self.model, self.graph, self._shard = shard.model, shard.graph, shard

    def reading(self) -> Readout:
        """Return what reads vectors."""
        return self._shard.reading()

    def check(self) -> None:
        """A shard that answers is whole."""


def first_ends(shard: Shard) -> tuple[Nodes, Nodes, Int64, Int64]:
    """Return edges by their lower end by id (directed: source), where that is an own node, and which."""
    graph = shard.graph
    a, b, weight = graph.edges()
    if not graph.directed:
        rank = np.full(graph.ids.high, -1, np.int64)
        here = graph.nodes()
        rank[here] = np.arange(len(here))
        swapped = rank[a] > rank[b]
        a, b = np.where(swapped, b, a).astype(np.int32), np.where(swapped, a, b).astype(np.int32)
    mine = np.flatnonzero(shard.rule.own[a] > 0)
    return a[mine], b[mine], weight[mine], mine


def own_edges(shard: Shard) -> GraphImage:
    """Return all own nodes, and the edges and ghosts whose lower end by id (directed: source) is one.

    `own` of the image marks the shard's own nodes; edges are in no order.
    """
    graph, own = shard.graph, shard.own_nodes()
    a, b, weight, chosen = first_ends(shard)
    nodes = np.unique(np.concatenate((own, a, b))).astype(np.int32)
    place = np.empty(graph.ids.high, np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    full, t = np.empty(0, np.int64), np.empty(0)
    if graph.memory is not None:
        ghosts = weight < 0
        full, t = graph.memory.recall(*graph.canonical(a[ghosts], b[ghosts]))
    contacts, none = graph.contacts, (np.empty(0), np.empty(0, np.float32))
    last, count = edge_contacts(graph)
    return GraphImage(
        graph.ids.names(nodes),
        shard.rule.own[nodes] > 0,
        place[a],
        place[b],
        weight,
        full,
        t,
        graph.clock,
        *(none if contacts is None else (contacts.times[nodes], contacts.counts[nodes])),
        last[chosen] if len(last) else last,
        count[chosen] if len(count) else count,
        None if graph.relations is None else graph.relations.of(*graph.canonical(a, b)),
    )


def _own(shard: Shard, ids: IdColumn) -> Nodes:
    """Return own nodes by their ids, -1 for ids that are none."""
    nodes = shard.graph.find(ids)
    known = np.flatnonzero(nodes >= 0)
    nodes[known[shard.rule.own[nodes[known]] == 0]] = -1
    return nodes


def _about(question: ask.AskShard, worker: Worker) -> ask.Answer:
    shard, own = worker.shard, worker.shard.own_nodes()
    graph = shard.graph
    return ask.AboutShard(
        worker.position,
        shard.slots.owner,
        shard.shards,
        graph.ids.names(own),
        graph.strength[own],
        graph.clock,
        graph.weight_shift,
    )


def _size(question: ask.AskSize, worker: Worker) -> ask.Answer:
    return ask.Size(worker.position, int((first_ends(worker.shard)[2] > 0).sum()))


def _vectors(question: ask.AskVectors, worker: Worker) -> ask.Answer:
    shard, nodes = worker.shard, _own(worker.shard, question.ids)
    here = (nodes >= 0).astype(np.int8)
    here[shard.slots.owners(question.ids) != shard.number] = -1
    return ask.Vectors(worker.position, here, shard.reading().vectors(nodes[here > 0]))


def _rows(question: ask.AskRows, worker: Worker) -> ask.Answer:
    shard, nodes = worker.shard, _own(worker.shard, question.ids)
    here = np.flatnonzero(nodes >= 0)
    rows, degree = (
        np.zeros((len(nodes), shard.model.width), np.int64),
        np.zeros(len(nodes), np.int64),
    )
    if question.sums:
        degree[here], rows[here] = shard.rule.whole_sums(shard.graph, nodes[here], question.order)
    else:
        rows[here], degree[here] = shard.rule.messages(shard.graph, nodes[here], question.order)
    return ask.Rows(worker.position, rows, degree)


def _facts(question: ask.AskNodes, worker: Worker) -> ask.Answer:
    graph, nodes = worker.shard.graph, _own(worker.shard, question.ids)
    here, count = np.flatnonzero(nodes >= 0), len(nodes)
    pull, push = np.zeros(count, np.int32), np.zeros(count, np.int32)
    strength, contact = np.zeros(count, np.int64), np.full(count, -np.inf)
    activity = np.zeros(count, np.float32)
    found = nodes[here]
    pull[here], push[here] = graph.pull.count[found], graph.push.count[found]
    strength[here] = graph.strength[found]
    if graph.contacts is not None:
        contact[here], activity[here] = graph.contacts.times[found], graph.contacts.counts[found]
    return ask.NodeFacts(worker.position, pull, push, strength, contact, activity)


def _pairs(question: ask.AskPairs, worker: Worker) -> ask.Answer:
    graph = worker.shard.graph
    a, b = graph.find(question.a), graph.find(question.b)
    both, count = np.flatnonzero((a >= 0) & (b >= 0)), len(a)
    weight, ghost = np.zeros(count, np.int64), np.zeros(count, np.int64)
    ghost_t, last = np.zeros(count), np.full(count, -np.inf)
    times = np.zeros(count, np.float32)
    first, second = graph.canonical(a[both], b[both])
    if graph.contacts is None:
        weight[both] = graph.pull.look_up(first, second)
    else:
        weight[both], last[both], times[both] = graph.pull.look_up_contacts(first, second)
    if graph.memory is not None:
        ghost[both], ghost_t[both] = graph.memory.recall(first, second)
    return ask.PairFacts(worker.position, weight, ghost, ghost_t, last, times)


def _arcs(question: ask.AskArcs, worker: Worker) -> ask.Answer:
    graph, nodes = worker.shard.graph, _own(worker.shard, question.ids)
    side = graph.push if question.push else graph.pull
    here = np.flatnonzero(nodes >= 0)
    _, other, weight = side.arcs(nodes[here])
    counts = np.zeros(len(nodes), np.int64)
    counts[here] = side.count[nodes[here]]
    return ask.ArcsOf(worker.position, counts, graph.ids.names(other), weight)


def _edges(question: ask.AskEdges, worker: Worker) -> ask.Answer:
    return ask.Edges(worker.position, own_edges(worker.shard))


_ANSWERS: dict[type, Callable[[Any, Worker], ask.Answer]] = {
    ask.AskShard: _about,
    ask.AskSize: _size,
    ask.AskVectors: _vectors,
    ask.AskRows: _rows,
    ask.AskNodes: _facts,
    ask.AskPairs: _pairs,
    ask.AskArcs: _arcs,
    ask.AskEdges: _edges,
}
