"""A graph whose arcs are elsewhere: ids and who is there are known here, all else is asked of the owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.cluster import questions as ask
from dygcn.engine.graph import Graph
from dygcn.engine.graph.contacts import Contacts
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dygcn.cluster.asking import Asking
    from dygcn.engine.records import EventBatch, Float32, Float64, IdColumn, Int32, Int64, Nodes


class FarColumn:
    """One number for each node, asked for when it is read."""

    def __init__(self, graph: FrontGraph, of: Callable[[ask.NodeFacts], NDArray[Any]], absent: Any) -> None:
        self._graph, self._of = graph, of
        self._absent = absent  # an array of one: what a number has that is no node

    def __getitem__(self, chosen: Any) -> Any:
        nodes = np.arange(self._graph.ids.high, dtype=np.int32)[chosen]
        flat = np.atleast_1d(nodes)
        values = np.repeat(self._absent, len(flat))
        here = np.flatnonzero(self._graph.present(flat))
        if len(here):
            names = self._graph.ids.names(flat[here])
            values[here] = self._of(self._graph.asking.nodes(names))
        return values[0] if np.ndim(nodes) == 0 else values


class FarArcs:
    """Arcs of nodes, in one direction."""

    def __init__(self, graph: FrontGraph, *, push: bool) -> None:
        self._graph, self._push = graph, push
        self.count = FarColumn(
            graph, lambda facts: facts.aggregated if push else facts.aggregates, np.zeros(1, np.int32)
        )

    def arcs(self, nodes: Nodes) -> tuple[Int32, Int32, Int64]:
        """Return all arcs of the given nodes as (node, other, stored weight)."""
        graph = self._graph
        nodes = nodes[graph.present(nodes)]
        if not len(nodes):
            return nodes, nodes, np.empty(0, np.int64)
        counts, other, weight = graph.asking.arcs(graph.ids.names(nodes), push=self._push)
        return np.repeat(nodes, counts), graph.ids.find(other), weight

    def look_up(self, nodes: Nodes, other: Nodes) -> Int64:
        """Return the stored weight of each arc, 0 where there is none."""
        return self._graph.pairs(*self._as_pairs(nodes, other)).weight

    def look_up_contacts(self, nodes: Nodes, other: Nodes) -> tuple[Int64, Float64, Float32]:
        """Return the stored weight of each arc, its last contact and its count."""
        facts = self._graph.pairs(*self._as_pairs(nodes, other))
        return facts.weight, facts.last, facts.count

    def _as_pairs(self, nodes: Nodes, other: Nodes) -> tuple[Nodes, Nodes]:
        return (other, nodes) if self._push else (nodes, other)

    def reserve(self, nodes: int) -> None:
        """Nothing is kept here."""

    def compact(self) -> None:
        """Nothing is kept here."""

    def forget_needs(self) -> None:
        """Nothing is kept here."""


class _FarMemory(Memory):
    def __init__(self, graph: FrontGraph, half_life: float) -> None:
        super().__init__(half_life)
        self._graph = graph

    def recall(self, a: Nodes, b: Nodes) -> tuple[Int64, Float64]:
        facts = self._graph.pairs(a, b)
        return facts.ghost, facts.ghost_t


class _FarContacts(Contacts):
    def __init__(self, graph: FrontGraph, half_life: float) -> None:
        super().__init__(half_life)
        self.times = FarColumn(graph, lambda facts: facts.contact, np.full(1, -np.inf))  # type: ignore[assignment]
        self.counts = FarColumn(graph, lambda facts: facts.activity, np.zeros(1, np.float32))  # type: ignore[assignment]

    def reserve(self, nodes: int) -> None:
        pass


class FrontGraph(Graph):
    """The graph of all shards. Nodes are numbers of this process, as in any graph.

    Parameters
    ----------
    like
        A graph of the model, for its options.

    Attributes
    ----------
    asking
        Whom to ask.
    """

    def __init__(self, like: Graph, asking: Asking) -> None:
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
        self.asking = asking
        self._edges_at = -1, 0  # how many edges there were after a batch
        self.pull = FarArcs(self, push=False)  # type: ignore[assignment]
        self.push = FarArcs(self, push=True) if self.directed else self.pull  # type: ignore[assignment]
        self.strength = FarColumn(self, lambda facts: facts.strength, np.zeros(1, np.int64))  # type: ignore[assignment]
        if self.memory is not None:
            self.memory = _FarMemory(self, self.memory.half_life)
        if self.contacts is not None:
            self.contacts = _FarContacts(self, self.contacts.half_life)
        self._heaviest: Int64 = np.empty(0, np.int64)  # never less than what a node carries

    # ---- what shards said ------------------------------------------------------------------------------

    def take(self, shards: list[ask.AboutShard]) -> None:
        """Take all nodes over, into an empty graph."""
        for about in shards:
            nodes = self.intern(about.ids)
            self._active[nodes] = 1
            self._heaviest[nodes] = about.strength
            self.weight_shift = min(self.weight_shift, about.bits)
            self.tell_time(about.clock)
        self._node_count = int(self._active.sum())

    def arrive(self, ids: IdColumn) -> Nodes:
        """Give nodes to ids that are in the graph now."""
        nodes = self.intern(ids)
        self._node_count += int((self._active[nodes] == 0).sum())
        self._active[nodes] = 1
        return nodes

    def leave(self, ids: IdColumn) -> None:
        """Forget ids that are in the graph no more."""
        nodes = self.find(ids)
        nodes = nodes[nodes >= 0]
        self._active[nodes] = 0
        self._heaviest[nodes] = 0
        self._node_count -= len(nodes)
        self.ids.release(nodes)

    def tell_time(self, clock: float | None) -> None:
        """Let the clock go forward."""
        for watch in (self.memory, self.contacts):
            if watch is not None and clock is not None:
                watch.clock = max(watch.clock, clock)

    def note_weights(self, batch: EventBatch) -> None:
        """Bound what the ends of a batch can carry after it, without asking anyone."""
        units = self.on_grid(batch)
        self.note_bits(units)
        for ends in (batch.src, batch.dst):
            nodes = self.find(ends)
            known = nodes >= 0
            np.add.at(self._heaviest, nodes[known], units[known])

    # ---- as other modules read it ----------------------------------------------------------------------

    @property
    def edge_count(self) -> int:
        """How many edges there are."""
        at = self.asking.at
        if self._edges_at[0] != at:
            self._edges_at = at, sum(answer.edges for answer in self.asking.everyone(ask.AskSize(at)))
        return self._edges_at[1]

    @edge_count.setter
    def edge_count(self, count: int) -> None:
        """Shards count."""

    def carried_at_most(self, nodes: Nodes) -> int:
        """Return a bound of what each of some nodes carries; owners are only asked where it says too much."""
        most = int(self._heaviest[nodes].max(initial=0))
        if most >= self.limit // 2:
            self._heaviest[nodes] = self.strength[nodes]
            most = int(self._heaviest[nodes].max(initial=0))
        return most

    def reserve(self) -> None:
        """Have a place for every node that was given out."""
        high = self.ids.high
        if high > len(self._active):
            self._active, self._own, self._heaviest = (
                grown(self._active, high),
                grown(self._own, high),
                grown(self._heaviest, high),
            )

    def pairs(self, a: Nodes, b: Nodes) -> ask.PairFacts:
        """Return what pairs are; one that is not in the graph has nothing to do with anyone."""
        count = len(a)
        weight, ghost = np.zeros(count, np.int64), np.zeros(count, np.int64)
        ghost_t, last, times = np.zeros(count), np.full(count, -np.inf), np.zeros(count, np.float32)
        both = np.flatnonzero((a >= 0) & (b >= 0))
        both = both[self.present(a[both]) & self.present(b[both])]
        if len(both):
            found = self.asking.pairs(self.ids.names(a[both]), self.ids.names(b[both]))
            weight[both], ghost[both], ghost_t[both] = found.weight, found.ghost, found.ghost_t
            last[both], times[both] = found.last, found.count
        return ask.PairFacts(self.asking.at, weight, ghost, ghost_t, last, times)

    def edges(self) -> tuple[Nodes, Nodes, Int64]:
        """Return every pair once as (a, b, stored weight), ghosts (below zero) included."""
        found = [
            self._edges_of(answer.image) for answer in self.asking.everyone(ask.AskEdges(self.asking.at))
        ]
        a, b, weight = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return a, b, weight

    def _edges_of(self, image: Any) -> tuple[Nodes, Nodes, Int64]:
        nodes = self.ids.find(image.ids)
        return nodes[image.a], nodes[image.b], image.weight
