"""The graph store: one batch in, its net effect written and returned."""

from __future__ import annotations

import numpy as np

from dygcn.errors import CapacityError, EventError
from dygcn.events import seconds, take
from dygcn.events.keys import salted
from dygcn.graph.adjacency import Adjacency
from dygcn.graph.contacts import Contacts
from dygcn.graph.delta import (
    AGE,
    NetEffect,
    PairEvents,
    census,
    distinct,
    group_pairs,
    overweight,
    settle,
)
from dygcn.graph.ids import IdMap, grown
from dygcn.graph.memory import DEEPEST, Memory
from dygcn.records import Bool, EventBatch, Float64, GraphDelta, IdColumn, Int64, Nodes

GREATEST_SHIFT = 30


class Graph:
    """A weighted graph that changes, directed or not.

    Parameters
    ----------
    kind
        Type of the user ids, ``"int64"`` or ``"string"``.
    directed
        If so, the source of an edge aggregates its target; if not, each end aggregates the other.
    grid
        Weights are whole multiples of this, a power of two.
    limit
        Greatest sum of weights (in grid units) at one node, exclusive.
    half_life
        Of the weight that a removed edge leaves; None: it leaves nothing.
    stay
        A node that loses its last edge stays in the graph, until it is removed itself.
    timed
        Times of nodes' last contacts are kept.

    Examples
    --------
    >>> from dygcn.events import read_events
    >>> graph = Graph("string")
    >>> delta = graph.apply(read_events([("ann", "bob"), ("bob", "cat")]))
    >>> sorted(zip(delta.receiver.tolist(), delta.sender.tolist()))
    [(0, 1), (1, 0), (1, 2), (2, 1)]
    >>> graph.edge_count, len(graph)
    (2, 3)
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
        timed: bool = False,
    ) -> None:
        self.ids = IdMap(kind)
        self.directed = directed
        self.grid = grid
        self.limit = limit
        self.stay = stay
        self.memory = None if half_life is None else Memory(half_life)
        self.contacts = Contacts() if timed else None
        self.pull = Adjacency()  # node -> whom it aggregates
        self.push = Adjacency() if directed else self.pull  # node -> who aggregates it
        self.edge_count = 0
        self.weight_shift = GREATEST_SHIFT  # every weight so far is a multiple of 2 to this
        self.strength: Int64 = np.empty(0, np.int64)  # sum of the weights that a node aggregates
        self._own = np.empty(0, np.int8)  # is there without an edge, too: has features of its own, or stays
        self._active = np.empty(0, np.int8)
        self._seen = np.empty(0, np.int8)
        self._change = np.empty(0, np.int64)
        self._node_count = 0

    def __len__(self) -> int:
        return self._node_count

    @property
    def clock(self) -> float | None:
        """The greatest time seen, where the graph looks at times; None before the first."""
        watch = self.memory if self.memory is not None else self.contacts
        return None if watch is None or np.isinf(watch.clock) else float(watch.clock)

    def nodes(self) -> Nodes:
        """Return the nodes that have an edge or features of their own, in the order of the user's ids."""
        return self.ids.sorted(np.flatnonzero(self._active[: self.ids.high]).astype(np.int32))

    def some_nodes(self, salt: int, count: int) -> Nodes:
        """Return so many nodes, or all; which ones depends on the user's ids and the salt alone."""
        nodes = np.flatnonzero(self._active[: self.ids.high]).astype(np.int32)
        rank = salted(self.ids.keys[nodes], salt)
        if len(nodes) > count:
            chosen = np.argpartition(rank, count)[:count]
            nodes, rank = nodes[chosen], rank[chosen]
        return nodes[np.argsort(rank)]

    def find(self, column: IdColumn) -> Nodes:
        """Return the node of each id, -1 where the id is not in the graph now."""
        nodes = self.ids.find(column)
        known = np.flatnonzero(nodes >= 0)
        nodes[known[self._active[nodes[known]] == 0]] = -1
        return nodes

    def edges(self) -> tuple[Nodes, Nodes, Int64]:
        """Return every pair once as (a, b, stored weight), ghosts (below zero) included."""
        a, b, weight = self.pull.arcs(np.flatnonzero(self._active[: self.ids.high]).astype(np.int32))
        if self.directed:
            return a, b, weight
        once = a < b
        return a[once], b[once], weight[once]

    def apply(self, batch: EventBatch, now: float | None = None) -> GraphDelta:
        """Apply a batch of events and return its net effect.

        Raises
        ------
        EventError
            If the batch cannot be applied; then nothing was.
        """
        effect, named, clock, missing, loops = self._stage(batch, now)
        if self.contacts is not None and effect.contact is not None:
            ends, times = np.concatenate((effect.a, effect.b)), np.tile(effect.contact, 2)
            self.contacts.note(ends, times, self._clock_of_contacts(batch, now))
        return self._commit(effect, named, clock, missing, loops)

    def _clock_of_contacts(self, batch: EventBatch, now: float | None) -> float:
        assert self.contacts is not None
        latest = float(batch.t.max()) if batch.t is not None and len(batch) else -np.inf
        return max(latest, self.contacts.clock if now is None else float(seconds(now) or 0.0))

    def _dates(self, batch: EventBatch, now: float | None) -> Float64:
        """Return when events happened; those without a time happen now, or when the last one did."""
        if batch.t is not None:
            # Adding zero turns -0.0 into 0.0: they are the same time and must be the same bits.
            return batch.t.astype(np.float64) + 0.0
        if now is None and self.contacts is not None:
            return np.full(len(batch), self.contacts.clock)  # before the first time: never
        return np.full(len(batch), now or 0.0)

    def _stage(self, batch: EventBatch, now: float | None) -> tuple[NetEffect, Nodes, float, int, int]:
        now = seconds(now)
        weight = self._on_grid(batch)
        clock = self._clock_after(batch, now)
        src, dst = self._resolve(batch, batch.op > 0)
        known = (src >= 0) & (dst >= 0)
        loops = (src == dst) & known
        kept = known & ~loops
        times = self._dates(batch, now)
        events = PairEvents(src[kept], dst[kept], batch.op[kept], weight[kept], times[kept])
        effect = self._net_effect(self._with_ageing(events, clock), clock)
        named = np.concatenate((src[known], dst[known]))
        ends = effect.a, effect.b, effect.old, effect.new
        if overweight(*ends, self.directed, self.strength, self._change, self.limit):
            self._unstage(effect, named)
            raise CapacityError(
                f"a node would carry weights of {self.limit * self.grid:g} or more in sum; "
                "integer sums hold no more: scale the weights down and fit again"
            )
        return effect, named, clock, int((~known).sum()), int(loops.sum())

    def _unstage(self, effect: NetEffect, named: Nodes) -> None:
        self._census(named)
        if self.memory is not None:  # ageing pairs were taken from the queue: put them back
            self.memory.remember(effect.a, effect.b, *self.memory.recall(effect.a, effect.b))

    def remove(self, nodes: Nodes) -> GraphDelta:
        """Remove nodes: their edges, their ghosts, and the mark of having features of their own."""
        owner, other, _ = self.pull.arcs(nodes)
        if self.directed:
            receiver, sender, _ = self.push.arcs(nodes)
            owner, other = np.concatenate((owner, sender)), np.concatenate((other, receiver))
        a, b = self._canonical(owner, other)
        _, _, a, b = group_pairs(a, b)
        old = self.pull.look_up(a, b)
        zeros = np.zeros(len(a), np.int64)
        effect = NetEffect(a, b, old, zeros, zeros, np.zeros(len(a)), 0, 0)
        self._own[nodes] = 0
        return self._commit(effect, nodes, None, 0, 0)

    def set_own(self, nodes: Nodes) -> Nodes:
        """Say that nodes have features of their own; return those that came into the graph by it."""
        self._own[nodes] = 1
        came, _ = self._census(nodes)
        return came

    def intern(self, column: IdColumn) -> Nodes:
        """Give nodes to ids; those that get neither edge nor features must be released again."""
        nodes = self.ids.intern(column)
        self._make_room()
        return nodes

    def release(self, nodes: Nodes) -> None:
        """Forget those of the nodes that are not in the graph, so that their place can be used again."""
        self.ids.release(nodes[self._active[nodes] == 0])

    def _on_grid(self, batch: EventBatch) -> Int64:
        one = round(1.0 / self.grid)
        if batch.weight is None and 1 <= one < self.limit:
            return np.full(len(batch), one, np.int64)
        weight = np.ones(len(batch)) if batch.weight is None else batch.weight
        units = np.rint(weight / self.grid)
        bad = ~((units >= 1) & (units < self.limit)) & (batch.op > 0)
        if bad.any():
            row = int(bad.argmax())
            raise CapacityError(
                f"weight is {weight[row]:g}; this model carries weights from {self.grid:g} "
                f"to {self.limit * self.grid:g} "
                "(the grid follows from the weights it was fitted on; clip outliers or take logarithms)",
                row,
            )
        return np.where(batch.op > 0, units, 0).astype(np.int64)

    def _clock_after(self, batch: EventBatch, now: float | None) -> float:
        if now is not None and not (isinstance(now, int | float | np.number) and np.isfinite(now)):
            raise EventError(f"now is {now!r}; allowed is a finite number, in units of t")
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

    def _resolve(self, batch: EventBatch, adds: Bool) -> tuple[Nodes, Nodes]:
        if adds.all():
            src, dst = self.ids.intern(batch.src), self.ids.intern(batch.dst)
            self._make_room()
            return src, dst
        src, dst = self.ids.find(batch.src), self.ids.find(batch.dst)
        new = adds & ((src < 0) | (dst < 0))
        if new.any():  # an edge that is only removed must not create its ends
            rows = np.flatnonzero(new)
            self.ids.intern(take(batch.src, rows))
            self.ids.intern(take(batch.dst, rows))
            self._make_room()
            src, dst = self.ids.find(batch.src), self.ids.find(batch.dst)
        return src, dst

    def _make_room(self) -> None:
        high = self.ids.high
        if high <= len(self._active):
            return
        self.pull.make_room(high)
        self.push.make_room(high)
        if self.contacts is not None:
            self.contacts.make_room(high)
        for name in ("strength", "_own", "_active", "_seen", "_change"):
            setattr(self, name, grown(getattr(self, name), high))

    def _canonical(self, a: Nodes, b: Nodes) -> tuple[Nodes, Nodes]:
        return (a, b) if self.directed else (np.minimum(a, b), np.maximum(a, b))

    def _with_ageing(self, events: PairEvents, clock: float) -> PairEvents:
        a, b = self._canonical(events.a, events.b)
        if self.memory is None or clock <= self.memory.clock:
            return PairEvents(a, b, events.op, events.weight, events.t)
        due_a, due_b = self.memory.take_due(clock)
        silent = np.zeros(len(due_a))
        return PairEvents(
            np.concatenate((a, due_a)),
            np.concatenate((b, due_b)),
            np.concatenate((events.op, np.full(len(due_a), AGE, np.int8))),
            np.concatenate((events.weight, silent.astype(np.int64))),
            np.concatenate((events.t, silent)),
        )

    def _net_effect(self, events: PairEvents, clock: float) -> NetEffect:
        order, first, a, b = group_pairs(events.a, events.b)
        old = self.pull.look_up(a, b)
        if self.memory is None:
            ghosts, ghost_t = np.zeros(len(a), np.int64), np.zeros(len(a))
            half_life = 0.0
        else:
            ghosts, ghost_t = self.memory.recall(a, b)
            half_life = self.memory.half_life
        new, ghosts, ghost_t, unchanged, missing, contact = settle(
            order, first, old, ghosts, ghost_t, events.op, events.weight, events.t, clock, half_life
        )
        return NetEffect(a, b, old, new, ghosts, ghost_t, unchanged, missing, contact)

    def _commit(
        self, effect: NetEffect, named: Nodes, clock: float | None, missing: int, loops: int
    ) -> GraphDelta:
        stored = effect.old != effect.new
        a, b, new, old = effect.a[stored], effect.b[stored], effect.new[stored], effect.old[stored]
        self.pull.write(a, b, new)
        self.push.write(b, a, new)
        self.edge_count += int((new > 0).sum()) - int((old > 0).sum())
        self._note_weights(new)
        if self.memory is not None:
            if clock is not None:
                self.memory.clock = clock
            self.memory.remember(effect.a, effect.b, effect.ghost_weight, effect.ghost_t)
        receiver, sender, old, new = self._moved_arcs(a, b, np.abs(old), np.abs(new))
        np.add.at(self.strength, receiver, new - old)
        ends = np.concatenate((effect.a, effect.b))
        came, went = self._census(np.concatenate((named, ends)))
        return GraphDelta(
            receiver,
            sender,
            old,
            new,
            distinct(ends, self._seen),
            came,
            went,
            effect.unchanged,
            effect.missing + missing,
            loops,
        )

    def _note_weights(self, new: Int64) -> None:
        """Remember how many low bits no weight has used: sums need not store them."""
        bits = int(np.bitwise_or.reduce(new)) if len(new) else 0  # negating keeps the lowest set bit
        if bits:
            used = (bits & -bits).bit_length() - 1 - (0 if self.memory is None else DEEPEST)
            self.weight_shift = min(self.weight_shift, max(used, 0))

    def _moved_arcs(self, a: Nodes, b: Nodes, old: Int64, new: Int64) -> tuple[Nodes, Nodes, Int64, Int64]:
        moved = old != new
        a, b, old, new = a[moved], b[moved], old[moved], new[moved]
        if self.directed:
            return a, b, old, new
        double = np.concatenate
        return double((a, b)), double((b, a)), double((old, old)), double((new, new))

    def _census(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        nodes = distinct(nodes, self._seen)
        came, went, idle = census(nodes, self.pull.count, self.push.count, self._own, self._active)
        if self.stay:
            self._own[came] = 1
        self._node_count += len(came) - len(went)
        if self.contacts is not None:
            self.contacts.forget(np.concatenate((went, idle)))
        self.ids.release(idle)
        return came, went

    def owns(self, nodes: Nodes) -> Bool:
        """Say which nodes have features of their own."""
        return self._own[nodes] > 0

    def fill(
        self,
        own: Nodes,
        a: Nodes,
        b: Nodes,
        weight: Int64,
        ghost_weight: Int64,
        ghost_t: Float64,
        clock: float | None,
        contact: tuple[Nodes, Float64],
    ) -> None:
        """Fill an empty graph with pairs as `edges` returns them, their ghosts and last contacts."""
        self._own[own] = 1
        zeros = np.zeros(len(a), np.int64)
        ghosts, times = np.zeros(len(a), np.int64), np.zeros(len(a))
        faded = weight < 0
        ghosts[faded], times[faded] = ghost_weight, ghost_t
        effect = NetEffect(*self._canonical(a, b), zeros, weight, ghosts, times, 0, 0)
        self._commit(effect, own, clock, 0, 0)
        if self.contacts is not None:
            self.contacts.note(*contact, -np.inf if clock is None else clock)
