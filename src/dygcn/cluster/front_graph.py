"""The graph of the front: ids and present nodes are here, arcs are queried from the shards that own them.

Every method that is about arcs, weights or contacts waits for shards, and so does `edge_count`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np

from dygcn.cluster.queries import (
    EdgeQuery,
    NodeQuery,
    NodeReply,
    PairQuery,
    PairReply,
    ShardQueries,
    ShardReply,
    SizeQuery,
    filled,
)
from dygcn.engine.events import join_ids
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ageing import Contacts, Memory
from dygcn.engine.graph.ids import grown
from dygcn.engine.records import EventBatch, Float32, Float64, IdColumn, Int32, Int64, Nodes

T = TypeVar("T", NodeReply, PairReply)


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

    def __init__(self, like: Graph, to_shards: ShardQueries) -> None:
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

    def take(self, shards: list[ShardReply]) -> None:
        """Add all nodes to an empty graph."""
        for shard in shards:
            nodes = self.arrive(shard.ids)
            self._heaviest[nodes] = shard.strength
            self.weight_shift = min(self.weight_shift, shard.bits)
            self.advance_clock(shard.clock)

    def arrive(self, ids: IdColumn) -> Nodes:
        """Give nodes to ids that came into the graph."""
        nodes = self.ids.intern(ids)
        self.reserve()
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
            self._edges_at = at, sum(reply.edges for reply in self.queries.all(SizeQuery(at)))
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

    def reserve(self) -> None:
        """Grow the arrays to every node that was given out."""
        high = self.ids.high
        if high > len(self._active):
            for name in ("_active", "_own", "_heaviest"):
                setattr(self, name, grown(getattr(self, name), high))

    def facts(self, nodes: Nodes) -> NodeReply:
        """Return degrees, weights and contacts of nodes; 0 and no contact for nodes not in the graph."""
        here = np.flatnonzero(self.present(nodes))
        found: NodeReply = self.queries.owners(NodeQuery(self.queries.at, self.ids.names(nodes[here])))
        return _about_all(found, len(nodes), here, "contact")

    def pairs(self, a: Nodes, b: Nodes) -> PairReply:
        """Return weights and contacts of pairs; 0 and no contact where a node is not in the graph."""
        both = np.flatnonzero((a >= 0) & (b >= 0))
        both = both[self.present(a[both]) & self.present(b[both])]
        names = self.ids.names(a[both]), self.ids.names(b[both])
        found: PairReply = self.queries.owners(PairQuery(self.queries.at, *names))
        return _about_all(found, len(a), both, "last")

    def edges(self) -> tuple[Nodes, Nodes, Int64]:
        """Return every pair once as (a, b, stored weight), ghosts (below zero) included."""
        images = [reply.image for reply in self.queries.all(EdgeQuery(self.queries.at))]
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
        name: filled(count, rows, getattr(reply, name), -np.inf if name == time else 0) for name in names
    }
    return msgspec.structs.replace(reply, **columns)
