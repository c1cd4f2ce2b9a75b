"""The graph store: takes one batch, writes its net effect and returns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np

from dygcn.engine.events.keys import salted
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.graph.ageing import Contacts, Expiry, Memory
from dygcn.engine.graph.constants import DEEPEST
from dygcn.engine.graph.delta import GraphArrays, NodeArrays
from dygcn.engine.graph.ids import Allocator, IdMap, copied, grown, replace_together
from dygcn.engine.graph.relations import Relations, checked_units
from dygcn.engine.graph.staging import Before, PairBuffers
from dygcn.engine.graph.ticks import NO_TICKS, grown_ticks, new_ticks
from dygcn.engine.records import Bool, EventBatch, Float32, Float64, IdColumn, Int8, Int64, Nodes
from dygcn.errors import EventError

GREATEST_SHIFT = 30
_NO_CONTACTS = np.empty(0), np.empty(0, np.float32)
_NO_GHOSTS = Memory(1.0).arrays
_OF_NODES = ("strength", "_change", "_own", "_active", "_seen")  # arrays with one value for each node


class Follower(Protocol):
    """A listener to every change of a graph."""

    def follow(self, graph: Graph) -> None:
        """Process a change that was just written, while the buffers still hold its pairs and nodes."""


class Graph:
    """A dynamic weighted graph, directed (the source aggregates the target) or undirected.

    Weights are multiples of `grid`, a power of two; `whole` refuses others instead of rounding. `limit` is
    the greatest sum of weights (in grid units) at one node, exclusive. `half_life` is that of the weight that
    a removed edge leaves; None: it leaves nothing. With `stay`, a node that loses its last edge stays until
    it is removed itself. `count_half_life` is that of contacts; None: they are not kept. `relations` maps
    names to weights: a pair weighs what its relations add. `expire` is how long an edge stays after its last
    contact; contacts must be kept then, and removed edges leave nothing.
    """

    def __init__(
        self,
        kind: str,
        *,
        directed: bool = False,
        grid: float = 2.0**-16,
        limit: int = 1 << 38,
        half_life: float | None = None,
        stay: bool = False,
        count_half_life: float | None = None,
        whole: bool = False,
        relations: Mapping[str, float] | None = None,
        expire: float | None = None,
    ) -> None:
        self.ids = IdMap(kind)
        self.directed = directed
        self.grid, self.whole = grid, whole
        self.one = max(round(1.0 / grid), 1)  # a weight of one on the grid
        self.limit = limit
        self.stay = stay
        self.memory = None if half_life is None else Memory(half_life)
        self.contacts = None if count_half_life is None else Contacts(count_half_life)
        self.relations = Relations(relations) if relations else None
        self.expiry = None if expire is None else Expiry(expire)
        self.count_half_life = 0.0 if count_half_life is None else float(count_half_life)
        self.pull = Adjacency(contacts=self.contacts is not None)  # node -> the nodes that it aggregates
        self.push = Adjacency() if directed else self.pull  # node -> the nodes that aggregate it
        self.tiers: Int8 = np.empty(0, np.int8)  # of every node, as both adjacencies hold them
        self.divided = 0  # how often all of them were set anew
        self.edge_count = 0
        self.weight_shift = GREATEST_SHIFT  # every weight so far is a multiple of 2 to this
        self.strength: Int64 = np.empty(0, np.int64)  # sum of the weights that a node aggregates
        self._own = np.empty(0, np.int8)  # is there without an edge, too: has features of its own, or stays
        self._active = np.empty(0, np.int8)
        self._seen = np.empty(0, np.int8)
        self._change = np.empty(0, np.int64)
        self.ticks, self._zeros = NO_TICKS, cast("Allocator | None", None)
        self._node_count = 0
        self.trials: list[Before] = []  # open ones, the outermost first
        self.buffers = PairBuffers(directed)
        self.follower: Follower | None = None
        self.plain_shift = self._unused(self.one)
        plain = 1 <= round(1.0 / grid) < limit  # weights of one are on the grid
        self.ones = np.full(1 << 14 if plain else 0, self.one if plain else 0, np.int64)
        self.node_arrays: NodeArrays  # what there is of each node, for loops
        self._replace()

    def _replace(self, **fresh: Any) -> None:
        now = vars(self) | fresh
        contacts = _NO_CONTACTS if self.contacts is None else (self.contacts.times, self.contacts.counts)
        arrays = *(now[name] for name in _OF_NODES), *contacts, now["ticks"]
        replace_together(self, **fresh, node_arrays=NodeArrays(*arrays))

    @property
    def arrays(self) -> GraphArrays:
        """The current arrays for loops: a new holder, since its parts are replaced when they grow."""
        parts = self.buffers.arrays, self.pull.arrays, self.push.arrays, self.node_arrays
        ghosts, half_life = _NO_GHOSTS, 0.0
        if self.memory is not None:
            ghosts, half_life = self.memory.arrays, self.memory.half_life
        options = self.directed, self.stay, self.limit
        return GraphArrays(*parts, ghosts, *options, half_life, self.count_half_life)

    def __len__(self) -> int:
        return self._node_count

    @property
    def clock(self) -> float | None:
        """The greatest time seen, where the graph keeps one; None before the first."""
        watch = self.memory if self.memory is not None else self.contacts
        return None if watch is None or np.isinf(watch.clock) else float(watch.clock)

    def nodes(self) -> Nodes:
        """Return the nodes of the graph in the order of the user's ids."""
        return self.ids.sorted(np.flatnonzero(self._active[: self.ids.high]).astype(np.int32))

    def some_nodes(self, salt: int, count: int) -> Nodes:
        """Return `count` nodes, or all; the choice depends on the user's ids and the salt alone."""
        nodes = np.flatnonzero(self._active[: self.ids.high]).astype(np.int32)
        rank = salted(self.ids.keys[nodes], salt)
        if len(nodes) > count:
            chosen = np.argpartition(rank, count)[:count]
            nodes, rank = nodes[chosen], rank[chosen]
        return nodes[np.argsort(rank)]

    def find(self, column: IdColumn) -> Nodes:
        """Return the node of each id, -1 where the id is not in the graph now."""
        nodes = self.ids.find(column)
        nodes[nodes >= len(self._active)] = -1  # given to an id by an update that was interrupted then
        known = np.flatnonzero(nodes >= 0)
        nodes[known[self._active[nodes[known]] == 0]] = -1
        return nodes

    def present(self, nodes: Nodes) -> Bool:
        """Return which nodes are in the graph now."""
        return self._active[nodes] > 0

    @property
    def here(self) -> Int8:
        """1 for each node that is in the graph, 0 for other numbers ever given out. Read-only."""
        return self._active[: self.ids.high]

    def find_one(self, name: object, kind: str | None = None) -> int:
        """Return the node of one id, -1 if it is not in the graph; much faster than `find`."""
        node = self.ids.find_one(name, kind)
        return node if 0 <= node < len(self._active) and self._active[node] else -1

    def edges(self) -> tuple[Nodes, Nodes, Int64]:
        """Return every pair once as (a, b, stored weight), ghosts (below zero) included."""
        a, b, weight = self.pull.arcs(np.flatnonzero(self._active[: self.ids.high]).astype(np.int32))
        if self.directed:
            return a, b, weight
        once = a < b
        return a[once], b[once], weight[once]

    def pair_contacts(self, a: Nodes, b: Nodes) -> tuple[Int8, Float64, Float64]:
        """Return link, time since the last contact, and worth of contacts of pairs, in either direction.

        The link is 1 for an edge, -1 for a ghost, 0 for neither, also where a node is below 0 or both are the
        same. The time is infinity where none is known; contacts of both directions count.
        """
        link, since, count = np.zeros(len(a), np.int8), np.full(len(a), np.inf), np.zeros(len(a))
        rows = np.flatnonzero((a >= 0) & (b >= 0) & (a != b))
        first, second = self.canonical(a[rows].astype(np.int32), b[rows].astype(np.int32))
        found = self._contacts_one_way(first, second)
        if self.directed:
            back = self._contacts_one_way(second, first)
            ghosts = np.minimum(found[0], back[0])
            both = np.where(np.maximum(found[0], back[0]) > 0, np.int8(1), ghosts)
            found = both, np.minimum(found[1], back[1]), found[2] + back[2]
        link[rows], since[rows], count[rows] = found
        return link, since, count

    def _contacts_one_way(self, a: Nodes, b: Nodes) -> tuple[Int8, Float64, Float64]:
        if self.contacts is None:
            return np.sign(self.pull.look_up(a, b)).astype(np.int8), np.full(len(a), np.inf), np.zeros(len(a))
        weight, last, count = self.pull.look_up_contacts(a, b)
        link = np.sign(weight).astype(np.int8)
        return link, self.contacts.time_since(last), self.contacts.worth(last, count)

    def edge_contacts(self) -> tuple[Float64, Float32]:
        """Return last contacts and counts in the order of `edges`; empty where they are not kept."""
        if self.contacts is None:
            return _NO_CONTACTS
        nodes = np.flatnonzero(self.here).astype(np.int32)
        last, count = self.pull.contacts(nodes)
        if self.directed:
            return last, count
        a, b, _ = self.pull.arcs(nodes)
        return last[a < b], count[a < b]

    def dates(self, batch: EventBatch, now: float | None) -> Float64:
        """Return the times of events; without a time, an event happens now, or when the last one did."""
        if batch.t is not None:
            # Adding zero turns -0.0 into 0.0: they are the same time and must be the same bits.
            return batch.t.astype(np.float64) + 0.0
        if now is None and self.contacts is not None:
            return np.full(len(batch), self.contacts.clock)  # before the first time: never
        return np.full(len(batch), now or 0.0, np.float64)

    @property
    def takes_ones(self) -> bool:
        """Whether an edge of weight one, without a time, can skip the checks and is not too fine."""
        plain = self.memory is None and self.relations is None and self.expiry is None and len(self.ones) > 0
        return plain and self.weight_shift <= self.plain_shift

    @property
    def too_heavy(self) -> str:
        """The error for events that would give a node too much weight."""
        no_room = self.whole or self.memory is not None
        hubs = "" if no_room else "; where all weights are whole numbers, whole_weights=True gives hubs room"
        return (
            f"a node would carry weights of {self.limit * self.grid:g} or more in sum; "
            f"integer sums hold no more: scale the weights down and fit again{hubs}"
        )

    def carried(self, nodes: Nodes) -> Int64:
        """Return the sum of the weights that each node aggregates, in grid units."""
        found: Int64 = self.strength[nodes]
        return found

    def carried_at_most(self, nodes: Nodes) -> int:
        """Return an upper bound on the weight that any of these nodes aggregates, in grid units."""
        return int(self.strength[nodes].max(initial=0))

    def note_bits(self, weights: Int64) -> None:
        """Record the low bits unused by all weights and ghosts so far: sums need not store them."""
        bits = int(np.bitwise_or.reduce(weights))
        if bits:
            self.weight_shift = min(self.weight_shift, self._unused(bits))

    def _unused(self, bits: int) -> int:
        """Return how many low bits a weight and its ghost leave unused."""
        return max((bits & -bits).bit_length() - 1 - (0 if self.memory is None else DEEPEST), 0)

    def compact(self) -> None:
        """Release the memory that arcs no longer need; no value changes."""
        for arcs in {id(arcs): arcs for arcs in (self.pull, self.push)}.values():
            arcs.compact()

    def intern(self, column: IdColumn) -> Nodes:
        """Give nodes to ids; the caller releases nodes that get neither edge nor features."""
        nodes = self.ids.intern(column)
        self.reserve()
        return nodes

    def release(self, nodes: Nodes) -> None:
        """Release those nodes that are not in the graph, so that their numbers are recycled."""
        self.ids.release(nodes[self._active[nodes] == 0])

    def on_grid(self, batch: EventBatch) -> Int64:
        """Return the weights of a batch on the grid; raise an `EventError` where one cannot be."""
        if batch.weight is None and len(self.ones) and self.relations is None:
            return np.full(len(batch), self.one, np.int64)
        return checked_units(self, batch)

    def check_form(self, batch: EventBatch, now: float | None) -> None:
        """Refuse a batch with ids of another type, missing or unknown relations, or missing times."""
        if self.relations is None and batch.relation is not None:
            raise EventError(
                "events have relations, and this model has none: it would take all of them for one; leave "
                'them out, or fit with relations, as in dygcn.fit(df, relation="action")'
            )
        if self.relations is not None and batch.relation is None:
            raise EventError(
                f"an event has no relation; {self.relations.known}: say which one, in `relation`"
            )
        self.ids.check_kind(batch.src, batch.dst)
        self.clock_after(batch, now)
        if self.expiry is not None and batch.t is None and now is None and self.clock is None and len(batch):
            raise EventError(
                "edges of this model leave by the clock (expire=), and there is none yet: events need t, or "
                "pass now="
            )

    def clock_after(self, batch: EventBatch, now: float | None) -> float:
        """Return the memory's clock after a batch, 0 without a memory."""
        if self.memory is None:
            return 0.0
        if batch.t is None and now is None and len(batch):
            raise EventError("this model remembers removed edges (memory=), so events need t, or pass now=")
        seen = [float(self.memory.clock)]
        if batch.t is not None and len(batch):
            seen.append(float(batch.t.max()))
        if now is not None:
            seen.append(float(now))
        return max(seen) + 0.0

    def reserve(self) -> None:
        """Grow all arrays to every node that was given out; no value changes."""
        high = self.ids.high
        contacts = self.contacts
        if high <= len(self._active) and (contacts is None or self.node_arrays.arrays[-2] is contacts.counts):
            return
        tiers = grown(self.tiers, high)
        self.pull.reserve(high, tiers)
        self.push.reserve(high, tiers)
        if self.contacts is not None:
            self.contacts.reserve(high)
        fresh: dict[str, Any] = {name: grown(getattr(self, name), high) for name in _OF_NODES}
        fresh["tiers"] = tiers
        if self._zeros is not None:
            fresh["_active"] = grown(self._active, high, self._zeros)
            fresh["ticks"] = grown_ticks(self.ticks, high, self._zeros)
        self._replace(**fresh)

    @property
    def shared_arrays(self) -> tuple[Int8, Int64]:
        """Which nodes are in the graph, and their stamps, as other processes read them."""
        return self._active, self.ticks.arrays[0]

    def share(self, zeros: Allocator, now: Int64) -> None:
        """Move ids, arcs and marks of nodes to memory that other processes can read; see `Sums.share`."""
        self.ids.share(zeros)
        self.pull.share(zeros)
        self._zeros = zeros
        self._replace(_active=copied(self._active, zeros), ticks=new_ticks(len(self._active), zeros, now))

    def forget_scratch(self) -> None:
        """Clear values that are valid only while a batch is written."""
        self.buffers = PairBuffers(self.directed)
        self._seen[:], self._change[:] = 0, 0
        self.pull.forget_needs()
        self.push.forget_needs()

    def count_again(self) -> None:
        """Recompute from arcs and marks which nodes and edges exist; release all other nodes."""
        high = self.ids.high
        here = (self.pull.count[:high] > 0) | (self.push.count[:high] > 0) | (self._own[:high] > 0)
        self._active[:high] = here
        if self.contacts is not None:
            times = self.contacts.times[:high]
            times[~here] = -np.inf
            self.contacts.counts[:high][~here] = 0
            self.contacts.clock = max(self.contacts.clock, times.max(initial=-np.inf))
        self._node_count = int(here.sum())
        self.edge_count = int((self.edges()[2] > 0).sum())
        given = self.ids.given()
        self.ids.release(given[~here[given]])

    def canonical(self, a: Nodes, b: Nodes) -> tuple[Nodes, Nodes]:
        """Return pairs in stored order: in an undirected graph, the lower node first."""
        return (a, b) if self.directed else (np.minimum(a, b), np.maximum(a, b))

    def owns(self, nodes: Nodes) -> Bool:
        """Return which nodes have features of their own."""
        return self._own[nodes] > 0
