"""The front of the shards: all of them as one graph and one state, as `live` knows them.

Ids and present nodes are here, arcs are queried from the shards that own them: every method about arcs,
weights or contacts waits for shards, and so does `edge_count`. A batch is written to the log of the shards,
and is done when every shard has applied it. Between two batches all shards are at the same one, so all reads
are of one graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import msgspec
import numpy as np

from dygcn.cluster import queries as q
from dygcn.cluster.messages import Entry, Events, Move, Remove, Resize
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import join_ids, moment, read_events, take
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ageing import Contacts, Memory
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.graph.tiers import NOBODY_IS_HEAVY
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.contracts import Outcome, StateImage
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.propagation import ExactRule
from dygcn.engine.propagation.sums import heavy_from
from dygcn.engine.records import Changed, EventBatch, Float32, Float64, IdColumn, Int32, Int64, Nodes, Parts
from dygcn.errors import ClusterError, FeatureError

T = TypeVar("T", q.NodeReply, q.PairReply)


class FarArcs:
    """Arcs of nodes in one direction, with the methods of `Adjacency`, read from shards."""

    def __init__(self, graph: FrontGraph, *, push: bool) -> None:
        self._graph, self._push = graph, push

    def degrees(self, nodes: Nodes) -> Int32:
        """Return how many arcs each node has."""
        found = self._graph.facts(nodes)
        return found.aggregated if self._push else found.aggregates

    def arcs(self, nodes: Nodes) -> tuple[Int32, Int32, Int64]:
        """Return all arcs of the given nodes as (node, other, stored weight)."""
        graph = self._graph
        nodes = nodes[graph.present(nodes)]
        counts, other, weight = graph.queries.arcs(graph.ids.names(nodes), push=self._push)
        return np.repeat(nodes, counts), graph.ids.find(other), weight

    def look_up(self, nodes: Nodes, other: Nodes) -> Int64:
        """Return the stored weight of each arc; 0 where there is no arc."""
        return self.look_up_contacts(nodes, other)[0]

    def look_up_contacts(self, nodes: Nodes, other: Nodes) -> tuple[Int64, Float64, Float32]:
        """Return the stored weight of each arc, its last contact and its count."""
        found = self._graph.pairs(*((other, nodes) if self._push else (nodes, other)))
        return found.weight, found.last, found.count


class _FarMemory(Memory):
    def __init__(self, graph: FrontGraph, half_life: float) -> None:
        super().__init__(half_life)
        self._graph = graph

    def recall(self, a: Nodes, b: Nodes) -> tuple[Int64, Float64]:
        found = self._graph.pairs(a, b)
        return found.ghost, found.ghost_t


class _FarContacts(Contacts):
    def __init__(self, graph: FrontGraph, half_life: float) -> None:
        super().__init__(half_life)
        self._graph = graph

    def of(self, nodes: Nodes) -> tuple[Float64, Float32]:
        found = self._graph.facts(nodes)
        return found.contact, found.activity


class FrontGraph(Graph):
    """The graph of all shards, with the options of another graph. Nodes are numbers of this process."""

    def __init__(self, like: Graph, to_shards: q.ShardQueries) -> None:
        super().__init__(
            like.ids.type,
            directed=like.directed,
            grid=like.grid,
            whole=like.whole,
            limit=like.limit,
            half_life=None if like.memory is None else like.memory.half_life,
            count_half_life=None if like.contacts is None else like.contacts.half_life,
            relations=None if like.relations is None else like.relations.by_name,
            expire=None if like.expiry is None else like.expiry.span,
        )
        self.queries = to_shards
        self._edges_at = -1, 0  # a batch, and how many edges there were after it
        pull: Any = FarArcs(self, push=False)
        push: Any = FarArcs(self, push=True)
        self.pull, self.push = pull, push if self.directed else pull
        if self.memory is not None:
            self.memory = _FarMemory(self, self.memory.half_life)
        if self.contacts is not None:
            self.contacts = _FarContacts(self, self.contacts.half_life)
        self._heaviest: Int64 = np.empty(0, np.int64)  # a bound of what each node carries

    # ---- what shards did -------------------------------------------------------------------------------

    def take(self, shards: list[q.ShardReply]) -> None:
        """Add all nodes to an empty graph."""
        for shard in shards:
            nodes = self.arrive(shard.ids)
            self._heaviest[nodes] = shard.strength
            self.weight_shift = min(self.weight_shift, shard.bits)
            self.advance_clock(shard.clock)

    def arrive(self, ids: IdColumn) -> Nodes:
        """Give nodes to ids that came into the graph."""
        nodes = self.ids.intern(ids)
        high = self.ids.high
        if high > len(self._active):
            for name in ("_active", "_own", "_heaviest"):
                setattr(self, name, grown(getattr(self, name), high))
        self._node_count += int((self._active[nodes] == 0).sum())
        self._active[nodes] = 1
        return nodes

    def leave(self, ids: IdColumn) -> None:
        """Release ids that left the graph."""
        nodes = self.find(ids)
        nodes = nodes[nodes >= 0]
        self._active[nodes] = 0
        self._heaviest[nodes] = 0
        self._node_count -= len(nodes)
        self.ids.release(nodes)

    def advance_clock(self, clock: float | None) -> None:
        """Set the clock to a time, if that is later."""
        for watch in (self.memory, self.contacts):
            if watch is not None and clock is not None:
                watch.clock = max(watch.clock, clock)

    def note_weights(self, batch: EventBatch) -> None:
        """Update the bound on the weight at each end of a batch, without a query."""
        units = self.on_grid(batch)
        self.note_bits(units)
        nodes = self.ids.find(join_ids([batch.src, batch.dst]))
        known = nodes >= 0
        np.add.at(self._heaviest, nodes[known], np.tile(units, 2)[known])

    # ---- as other modules read it ----------------------------------------------------------------------

    @property
    def edge_count(self) -> int:
        """How many edges there are; the first read after a batch waits for all shards."""
        at = self.queries.at
        if self._edges_at[0] != at:
            self._edges_at = at, sum(reply.edges for reply in self.queries.all(q.SizeQuery(at)))
        return self._edges_at[1]

    @edge_count.setter
    def edge_count(self, count: int) -> None:
        """Ignored: shards count."""

    def carried(self, nodes: Nodes) -> Int64:
        """Return the sum of the weights that each node aggregates, in grid units."""
        return self.facts(nodes).strength

    def carried_at_most(self, nodes: Nodes) -> int:
        """Return a bound of the weight at each node; owners are queried only if the bound is too great."""
        most = int(self._heaviest[nodes].max(initial=0))
        if most >= self.limit // 2:
            self._heaviest[nodes] = self.carried(nodes)
            most = int(self._heaviest[nodes].max(initial=0))
        return most

    def facts(self, nodes: Nodes) -> q.NodeReply:
        """Return degrees, weights and contacts of nodes; 0 and no contact for nodes not in the graph."""
        here = np.flatnonzero(self.present(nodes))
        found: q.NodeReply = self.queries.owners(q.NodeQuery(self.queries.at, self.ids.names(nodes[here])))
        return _about_all(found, len(nodes), here, "contact")

    def pairs(self, a: Nodes, b: Nodes) -> q.PairReply:
        """Return weights and contacts of pairs; 0 and no contact where a node is not in the graph."""
        both = np.flatnonzero((a >= 0) & (b >= 0))
        both = both[self.present(a[both]) & self.present(b[both])]
        names = self.ids.names(a[both]), self.ids.names(b[both])
        found: q.PairReply = self.queries.owners(q.PairQuery(self.queries.at, *names))
        return _about_all(found, len(a), both, "last")

    def edges(self) -> tuple[Nodes, Nodes, Int64]:
        """Return every pair once as (a, b, stored weight), ghosts (below zero) included."""
        images = [reply.image for reply in self.queries.all(q.EdgeQuery(self.queries.at))]
        nodes = [self.ids.find(image.ids) for image in images]
        a, b = (
            np.concatenate([here[getattr(image, end)] for here, image in zip(nodes, images, strict=True)])
            for end in ("a", "b")
        )
        return a, b, np.concatenate([image.weight for image in images])


def _about_all(reply: T, count: int, rows: Int64, time: str) -> T:
    """Return a reply about some rows as one about all: 0 elsewhere, and no `time`."""
    _, *names = reply.__struct_fields__
    columns = {
        name: q.filled(count, rows, getattr(reply, name), -np.inf if name == time else 0) for name in names
    }
    return msgspec.structs.replace(reply, **columns)


class FrontState(State):
    """The state of all shards, as a `StateWriter`.

    `commit` sends shards an entry, once it is in the log that they fetch from, and returns its number; `at`
    is the last batch in the log. Batches are checked before they are logged, and so not here.
    """

    def __init__(
        self, model: Model, processes: q.ShardProcesses, commit: Callable[[Entry], int], at: int
    ) -> None:
        first: q.ShardReply = processes.query({0: q.ShardQuery(at)})[0]
        self.queries = q.ShardQueries(processes, SlotMap(first.owner), first.shards, at)
        super().__init__(model, FrontGraph(model.new_graph(), self.queries))
        self.history = None  # links="next" is refused
        self.filter = self.graph.follower = None  # and "filter"
        self.rule = _FarRule(self)
        self.transaction = _NoTrials(self.graph)
        self._commit, self._staged = commit, (read_events([]), None)
        others = processes.query(dict.fromkeys(range(1, first.shards), q.ShardQuery(at)))
        shards = [first, *(others[number] for number in range(1, first.shards))]
        _check_log(shards, at)
        self.graph.take(shards)

    graph: FrontGraph
    kept: int = 0  # a shard may need the log again from behind this batch on
    _staged: tuple[EventBatch, float | None]

    # ---- changing --------------------------------------------------------------------------------------

    def stage(self, batch: EventBatch, now: float | None = None) -> None:
        """Keep events until `write`."""
        self._staged = batch, None if now is None else moment(now)

    def find_edge(self, a: object, b: object, op: int) -> None:
        """Return None: a single edge is a batch, too."""

    def write(self) -> Outcome:
        """Have every shard apply what is staged."""
        batch, now = self._staged
        self.transaction.begun = True
        done = self.follow(Events(batch, now))
        self.graph.note_weights(batch)  # new ids have nodes only now
        return done

    def follow(self, entry: Entry) -> Outcome:
        """Give an entry its number, and wait until every shard has applied it."""
        queries, graph = self.queries, self.graph
        if isinstance(entry, Move | Resize):
            queries.slots, queries.shards = entry.owners(queries.slots, queries.shards)
        queries.at = self._commit(entry)
        replies: list[q.OutcomeReply] = queries.all(q.OutcomeQuery(queries.at))
        if isinstance(entry, Events):
            times = [] if entry.batch.t is None or not len(entry.batch) else [float(entry.batch.t.max())]
            graph.advance_clock(max([*times, *([] if entry.now is None else [entry.now])], default=None))
        self.kept = min(reply.kept for reply in replies)
        left = join_ids([self.transaction.nobody, *(reply.left for reply in replies)])
        if not all(reply.known for reply in replies):
            left = join_ids([left, self._gone(replies)])
        if len(left):
            graph.leave(left)
        nodes = graph.arrive(join_ids([reply.moved for reply in replies]))
        orders = np.concatenate([reply.orders for reply in replies])
        by_order = np.argsort(orders, kind="stable")
        counts = zip(*(reply.counts for reply in replies), strict=True)
        unchanged, missing, loops, ends = (sum(column) for column in counts)
        expired = ends // 2
        self.transaction.written, self.transaction.expired = True, self.transaction.expired + expired
        moved = Changed(nodes[by_order], orders[by_order], sum(reply.rows for reply in replies))
        return Outcome(moved, left, unchanged, missing, loops, expired=expired)

    def _gone(self, replies: list[q.OutcomeReply]) -> IdColumn:
        """Return the nodes that left shards whose replies list no departures."""
        doubtful = [number for number, reply in enumerate(replies) if not reply.known]
        nodes = np.flatnonzero(self.graph.here).astype(np.int32)
        names = self.graph.ids.names(nodes)
        owned = np.isin(self.queries.slots.owners(names), doubtful)
        there = np.zeros(self.graph.ids.high, np.bool_)
        for reply in replies:
            found = self.graph.find(reply.moved)
            there[found[found >= 0]] = True
        return take(names, np.flatnonzero(owned & ~there[nodes]))

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges and ghosts."""
        return self.follow(Remove(self.graph.ids.names(np.unique(nodes))))

    def complete(self) -> None:
        """Raise FeatureError: only reopening the folder shows whether an interrupted batch is in the log."""
        raise FeatureError("an update was interrupted; close the cluster, and start it again")

    def rebuild(self) -> None:
        """Do nothing: shards compute their own state."""

    # ---- reading ---------------------------------------------------------------------------------------

    @property
    def exact(self) -> _FarRule:
        """The rule, whose rows are at the owners of nodes."""
        return self.rule  # type: ignore[return-value]

    def reading(self) -> FrontState:
        """Return what reads vectors."""
        return self

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim), from the shards that own them."""
        query = q.VectorQuery(self.queries.at, self.graph.ids.names(nodes))
        found: q.VectorReply = self.queries.owners(query)
        return found.vectors

    def to_save(self) -> State:
        """Return an empty state: shards have snapshots of their own."""
        return State(self.model)

    def loose_image(self) -> tuple[StateImage, Nodes]:
        """Return all edges of the shards, unsorted."""
        parts = [reply.image for reply in self.queries.all(q.EdgeQuery(self.queries.at))]
        graph, nodes = self.graph, self.graph.nodes()
        rank = np.empty(graph.ids.high, np.int32)
        rank[nodes] = np.arange(len(nodes), dtype=np.int32)
        places = [rank[graph.ids.find(part.ids)] for part in parts]

        def joined(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        a, b = (
            np.concatenate([place[getattr(part, end)] for place, part in zip(places, parts, strict=True)])
            for end in ("a", "b")
        )
        if not graph.directed:
            a, b = np.minimum(a, b), np.maximum(a, b)
        contact, activity = np.empty(0), np.empty(0, np.float32)
        if graph.contacts is not None:  # an owner knows its own nodes, which are in its part
            contact, activity = np.full(len(nodes), -np.inf), np.zeros(len(nodes), np.float32)
            for place, part in zip(places, parts, strict=True):
                contact[place[part.own]], activity[place[part.own]] = (
                    part.contact[part.own],
                    part.activity[part.own],
                )
        names, none_own = graph.ids.names(nodes), np.zeros(len(nodes), np.bool_)
        related = Parts.joined([part.parts for part in parts], [len(part.a) for part in parts])
        weights = joined("weight"), joined("ghost_weight"), joined("ghost_t")
        pairs = joined("pair_t"), joined("pair_count")
        ends = names, none_own, a, b
        image = GraphImage(*ends, *weights, graph.clock, contact, activity, *pairs, related)
        return StateImage(image, {"features": np.empty((0, self.model.width), np.int32)}), nodes


def _check_log(shards: list[q.ShardReply], end: int) -> None:
    """Refuse a log that is older than its shards: they would take new entries for ones they have."""
    most = max(shard.position for shard in shards)
    if most > end:
        raise ClusterError(
            f"snapshots of shards are of batch {most}, and the log ends at {end}: the folder is older than "
            "its snapshots, or they are of another one; restore folder and snapshots from the same backup"
        )


class _NoTrials(Transaction):
    def open_trial(self, *_: object, **__: object) -> NoReturn:
        raise FeatureError(
            "shards try nothing (what_if, explain_change): they cannot take a batch back; "
            "save a copy, and ask that: dygcn.load(path)"
        )

    def undo(self) -> None:
        pass


class _FarRule(ExactRule):
    """The exact rule, as `Messages`; its rows are on the shards that own the nodes."""

    def __init__(self, state: FrontState) -> None:
        super().__init__(state.model.new_features(), state.model.orders, NOBODY_IS_HEAVY)
        self._state, self._heavy_at_shards = state, heavy_from()

    def _rows(self, nodes: Nodes, order: int, *, sums: bool) -> q.RowReply:
        queries = self._state.queries
        names = self._state.graph.ids.names(nodes)
        found: q.RowReply = queries.owners(q.RowQuery(queries.at, names, order, sums))
        return found

    def messages(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int32, Int64]:
        """Return h_order of nodes on the grid, and 1 where a node has one."""
        if order == 0:
            return super().messages(graph, nodes, 0)
        found = self._rows(nodes, order, sums=False)
        return found.rows.astype(np.int32), found.degree

    def whole_sums(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int64, Int64]:
        """Return degrees and sums of nodes, on the grid."""
        found = self._rows(nodes, order, sums=True)
        return found.degree, found.rows

    def pushes(self, graph: Graph, nodes: Nodes) -> Int32:
        """Return a bound of the neighbours that each node's message is pushed to, over all shards."""
        most = np.int64(self._state.queries.shards * self._heavy_at_shards)
        return np.minimum(graph.push.degrees(nodes), most).astype(np.int32)

    def reserve(self, graph: Graph) -> None:
        """Do nothing: no rows are kept here."""
