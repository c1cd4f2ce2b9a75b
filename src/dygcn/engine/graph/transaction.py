"""One change of a graph, from the first check to the last write; an exception leaves all of it or nothing.

`stage` checks a batch and reserves capacity: nothing visible. Then the batch is written, and `release`
forgets the nodes that left. An exception before the first write is answered by `undo`; a later one leaves the
mark `torn`, and `complete` finishes the graph.

A *trial* is a change that is taken back: `open_trial`, then `stage`, `note_before` and the writes; later the
state before is staged or written again, and `close_trial` ends it. Trials can be nested. While one is open,
`complete` brings back the graph from before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dygcn.engine.events import moment
from dygcn.engine.graph import writing
from dygcn.engine.graph.ageing import Memory
from dygcn.engine.graph.constants import AGE, FOUND, LOOP, MOVED, OVERWEIGHT, SMALL_POOL, UNCHANGED
from dygcn.engine.graph.staging import Before, NodeEvents, StagedPairs
from dygcn.engine.graph.store import Graph
from dygcn.engine.records import (
    EventBatch,
    FeatureDelta,
    Float64,
    GraphDelta,
    IdColumn,
    Int64,
    Nodes,
    Parts,
    Written,
)
from dygcn.errors import CapacityError, EventError, FeatureError, OpenTrial

_NO_TIMES, _NO_COUNTS = np.empty(0), np.empty(0, np.float32)
_NOBODY = np.empty(0, np.int32)
_REMOVE_OR_ADD = np.array([-1, 1], np.int8)
_REFUSALS = EventError, FeatureError
_IN_A_TRIAL = (
    "a trial is open, and what it did will be taken back: leave it before the next change; "
    "inside a trial, only another trial can be entered"
)


class Transaction:
    """A change of a graph; the object is reused for the next one. As a context it marks a torn state."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.torn = self.begun = self.written = False
        self.expired = 0
        self.events: NodeEvents | None = None
        self.edge: tuple[int, int, int] | None = None
        self.pairs: StagedPairs | None = None
        self.features: FeatureDelta | None = None
        self.trials: list[Before] = graph.trials
        self.nobody = graph.ids.names(_NOBODY)
        self.after: Callable[[], None] | None = None

    def __enter__(self) -> None:
        if self.trials:
            raise OpenTrial(_IN_A_TRIAL)
        self.expired = 0
        self.torn, self.written = True, False  # one line: an exception after it would leave the mark

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            if self.begun and (self.written or not issubclass(kind, _REFUSALS)):
                return
            self.undo()  # a refusal comes before the first write
        self.end()

    def end(self) -> None:
        """Mark the state as consistent."""
        self.begun = self.torn = False
        if self.after is not None and not self.trials:
            self.after()

    # ---- before the first write ------------------------------------------------------------------------

    def stage(self, batch: EventBatch, now: float | None = None, seen: Float64 | None = None) -> None:
        """Check a batch, find its nodes and reserve capacity; raise an `EventError` if the batch is bad.

        The finest weight of the batch is noted here, also where an edge comes and goes inside the batch: its
        ghost weighs a part of it. `seen` is the clock at each event, where it is not that of these alone.
        """
        graph, contacts, count = self.graph, self.graph.contacts, len(batch.op)
        if now is not None:
            now = moment(now)
        relations = graph.relations
        plain = batch.weight is None and relations is None and batch.relation is None
        plain = plain and count <= len(graph.ones)
        if count and not (plain and graph.memory is None and graph.expiry is None):
            graph.check_form(batch, now)  # first, as in `check_batch`: of several faults all name the same
        weight = graph.ones[:count] if plain else graph.on_grid(batch)
        clock = 0.0 if graph.memory is None and now is None else graph.clock_after(batch, now)
        times = _NO_TIMES if graph.memory is None and contacts is None else graph.dates(batch, now)
        contact_clock = 0.0 if contacts is None else contacts.clock_after(batch, now)
        op = batch.op if relations is None else np.where(weight > 0, batch.op, np.int8(-1))
        src, dst = graph.ids.resolve(batch.src, batch.dst, op)
        events = self.events = NodeEvents(src, dst, batch.op, weight, times, clock, contact_clock)
        graph.reserve()
        codes = None if relations is None else relations.codes(batch)
        if graph.expiry is not None:
            codes = graph.expiry.play(graph, events, codes, seen)
            self.expired += events.lapsed
        if relations is not None and codes is not None and len(events.op):
            relations.play(graph.pull, graph.buffers, events, codes)
        if not plain or graph.weight_shift > graph.plain_shift:
            graph.note_bits(events.weight)

    def undo(self) -> None:
        """Discard what is staged, and release the nodes created for it."""
        events, graph = self.events, self.graph
        if events is not None:
            named = np.unique(np.concatenate((events.src, events.dst)))
            named = named[named >= 0]
            inside = named[named < len(graph.here)]
            here = inside[graph.present(inside)]
            graph.ids.release(np.setdiff1d(named, here, assume_unique=True))
        self.events = self.edge = None
        if self.trials and not self.trials[-1].entered:
            self.close_trial()

    # ---- writing ---------------------------------------------------------------------------------------

    def write(self) -> GraphDelta:
        """Write staged events to the graph alone and return their net effect.

        After a `CapacityError` (a node would carry too much weight) nothing was written. Any other exception
        may leave a torn graph; `complete` mends it.
        """
        graph, events = self.graph, self.events
        assert events is not None
        self.begun = True
        if graph.memory is not None:
            return self._write_remembering(events, graph.memory)
        graph.buffers.reserve(len(events.op))
        while True:
            written = self.collect(writing.write_events(graph.arrays, events.arrays))
            if written is not None:
                return self.delta(written)

    def preview(self) -> tuple[Nodes, Nodes, Int64, Int64]:
        """Return the pairs that staged events will change, with their old and new weights.

        Nothing is written; 0 is no pair, and a ghost has the weight that is left of it.
        """
        graph, events, buffers, before = self.graph, self.events, self.graph.buffers, 0.0
        assert events is not None
        if graph.memory is not None:
            before = graph.memory.clock
            if events.clock > before:
                events = _with_ageing(events, *graph.memory.look_due(events.clock))
        buffers.reserve(len(events.op))
        writing.play_events(graph.arrays, events.arrays, before, events.clock)
        found = int(buffers.sizes[FOUND])
        old, new = np.abs(buffers.old[:found]), np.abs(buffers.new[:found])
        changed = np.flatnonzero(old != new)
        return buffers.a[changed], buffers.b[changed], old[changed], new[changed]

    def collect(self, status: int) -> Written | None:
        """Read the results of a loop; None: capacity was too small and has been increased.

        Raises a `CapacityError` if nothing was written because a node would carry too much weight.
        """
        graph, buffers = self.graph, self.graph.buffers
        if status == SMALL_POOL:
            pool, table, more_pool, more_table = buffers.needed.tolist()
            graph.pull.reserve_arcs(pool, table)
            if graph.directed:
                graph.push.reserve_arcs(more_pool, more_table)
            return None
        if status == OVERWEIGHT:
            self.undo()
            raise CapacityError(graph.too_heavy)
        if graph.relations is not None and self.events is not None and self.events.parts is not None:
            graph.relations.put(*self.events.parts)
        if graph.contacts is not None and self.events is not None:
            graph.contacts.clock = self.events.contact_clock
        if graph.expiry is not None:
            graph.expiry.note(buffers)
        came, went, idle, _, _, edges, unchanged, missing, loops, _ = buffers.sizes.tolist()
        graph.edge_count += edges
        graph._node_count += came - went
        if idle:
            graph.ids.release(buffers.nodes[3, :idle])
        left = buffers.nodes[2, :went].copy() if went else _NOBODY
        if graph.follower is not None:
            graph.follower.follow(graph)
        return Written(left, unchanged, missing, loops)

    def delta(self, written: Written) -> GraphDelta:
        """Return the written change with its arcs."""
        buffers = self.graph.buffers
        arcs = int(buffers.sizes[MOVED]) * (1 if self.graph.directed else 2)
        counts = written.left, written.unchanged, written.missing, written.loops
        receiver, sender, old, new, touched, arrived = buffers.take(arcs)
        return GraphDelta(*counts, receiver, sender, old, new, touched, arrived)

    def _write_remembering(self, events: NodeEvents, memory: Memory) -> GraphDelta:
        """Play events in a graph that remembers removed edges, and write the resulting pairs."""
        graph, buffers, contacts = self.graph, self.graph.buffers, self.graph.contacts
        if events.clock > memory.clock:
            events = _with_ageing(events, *memory.take_due(events.clock))
        count = len(events.op)
        buffers.reserve(count)
        status = writing.play_events(graph.arrays, events.arrays, memory.clock, events.clock)
        *counts, found = buffers.sizes[UNCHANGED:].tolist()
        if status == OVERWEIGHT:
            due = buffers.a[:found], buffers.b[:found]
            memory.remember(*due, *memory.recall(*due))  # ageing pairs were taken from the queue
            self.collect(status)
        kept = dict.fromkeys(("a", "b", "new", "ghosts", "ghost_t"), found)
        kept |= {"last": 0, "count": 0} if contacts is None else {"last": found, "count": found}
        columns: dict[str, Any] = {name: getattr(buffers, name)[:size] for name, size in kept.items()}
        columns |= {"clock": events.clock, "contact_clock": events.contact_clock}
        pairs = StagedPairs(**columns, named=events.src, pair_of=buffers.pair_of[:count])
        if contacts is not None:
            pairs.touched = contacts.after(events.src, events.dst, events.t, buffers.mark[:count])
        return self.write_pairs(pairs, buffers.old[:found], counts)

    def write_pairs(self, pairs: StagedPairs, old: Int64, counts: Sequence[int] = (0, 0, 0)) -> GraphDelta:
        """Write staged pairs: marks, arcs, ghosts, clocks; after an exception `complete` does it again.

        `old` is what is stored of them so far; `counts` are events without effect (see `Written`).
        """
        self.pairs, graph = pairs, self.graph
        if pairs.own is not None:
            graph._own[pairs.named] = pairs.own
        if graph.contacts is not None and pairs.touched is not None:
            graph.contacts.put(*pairs.touched)
        delta = self._write_arcs(pairs, old, counts)
        if graph.memory is not None:
            graph.memory.clock = max(graph.memory.clock, pairs.clock)
            graph.memory.remember(pairs.a, pairs.b, pairs.ghosts, pairs.ghost_t)
        if graph.contacts is not None:
            graph.contacts.clock = max(graph.contacts.clock, pairs.contact_clock)
        if graph.relations is not None and pairs.parts is not None:
            graph.relations.replace(pairs.a, pairs.b, pairs.parts)
        return delta

    def _write_arcs(self, pairs: StagedPairs, old: Int64, counts: Sequence[int]) -> GraphDelta:
        graph = self.graph
        graph.buffers.load(pairs, old, counts)
        while True:
            written = self.collect(writing.write_pairs(graph.arrays, pairs.named, len(pairs.last) > 0))
            if written is not None:
                return self.delta(written)

    def remove(self, nodes: Nodes) -> GraphDelta:
        """Remove nodes: their edges, their ghosts, and the mark of having features of their own."""
        return self._take_away(*self.pairs_of(nodes), nodes, own=0)

    def drop_pairs(self, a: Nodes, b: Nodes) -> GraphDelta:
        """Remove pairs of nodes, with their ghosts."""
        return self._take_away(a, b, _NOBODY, own=0)

    def pairs_of(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Return the pairs that nodes belong to, each once."""
        owner, other, _ = self.graph.pull.arcs(nodes)
        if self.graph.directed:
            receiver, sender, _ = self.graph.push.arcs(nodes)
            owner, other = np.concatenate((owner, sender)), np.concatenate((other, receiver))
        return self._distinct(owner, other)

    def _distinct(self, src: Nodes, dst: Nodes) -> tuple[Nodes, Nodes]:
        if len(src) == 1 and 0 <= src[0] != dst[0] >= 0:  # a single edge needs no loop
            return (src, dst) if self.graph.directed or src[0] < dst[0] else (dst, src)
        buffers = self.graph.buffers
        found = buffers.number(src, dst)
        return buffers.a[:found].copy(), buffers.b[:found].copy()

    def set_own(self, nodes: Nodes) -> Nodes:
        """Mark nodes as having features of their own; return those that entered the graph by it."""
        return self._take_away(nodes[:0], nodes[:0], nodes, own=1).arrived

    def _take_away(self, a: Nodes, b: Nodes, nodes: Nodes, own: int) -> GraphDelta:
        """Remove pairs and their ghosts, set the mark of nodes, and count the nodes that came and went."""
        zeros, loops = np.zeros(len(a), np.int64), np.full(len(nodes), LOOP, np.int32)
        none, no_times = (_NO_TIMES, _NO_COUNTS), np.zeros(len(a))
        pairs = StagedPairs(a, b, zeros, *none, nodes, loops, zeros, no_times, -np.inf, own=own)
        pairs.parts = Parts(zeros[:0], np.empty(0, np.int16), zeros[:0])
        return self.write_pairs(pairs, self.graph.pull.look_up(a, b))

    # ---- trials ----------------------------------------------------------------------------------------

    def open_trial(self) -> None:
        """Begin a change that will be rolled back. From here on no node is recycled."""
        graph, self.expired = self.graph, 0
        self.torn, self.written = True, False
        clock = -np.inf if graph.memory is None else graph.memory.clock
        contact_clock = -np.inf if graph.contacts is None else graph.contacts.clock
        self.trials.append(Before(graph.ids.hold(), clock, contact_clock))

    def staged_pairs(self) -> tuple[Nodes, Nodes]:
        """Return the distinct pairs that staged events will write, and ghosts that weigh less by then."""
        events, memory = self.events, self.graph.memory
        assert events is not None
        src, dst = events.src, events.dst
        if memory is not None and events.clock > memory.clock:
            self.begun = True  # the queue is written to
            due = memory.take_due(events.clock)
            memory.remember(*due, *memory.recall(*due))
            src, dst = np.concatenate((src, due[0])), np.concatenate((dst, due[1]))
        return self._distinct(src, dst)

    def note_before(self, a: Nodes, b: Nodes, nodes: Nodes = _NOBODY) -> None:
        """Save the state of pairs and nodes before a trial writes them."""
        graph, memory, contacts = self.graph, self.graph.memory, self.graph.contacts
        if contacts is None:
            weight, last, count, touched = graph.pull.look_up(a, b), _NO_TIMES, _NO_COUNTS, None
        else:
            weight, last, count = graph.pull.look_up_contacts(a, b)
            ends = np.concatenate((a, b, nodes) if len(nodes) else (a, b))
            touched = ends, contacts.times[ends], contacts.counts[ends]
        ghosts, ghost_t = (weight, _NO_TIMES) if memory is None else memory.recall(a, b)
        own = nodes[graph.owns(nodes)] if len(nodes) else nodes
        loops = np.full(len(own), LOOP, np.int32) if len(own) else own
        stored = a, b, weight, last, count, own, loops, ghosts, ghost_t
        parts = None if graph.relations is None else graph.relations.of(a, b)
        self.trials[-1].pairs = StagedPairs(*stored, -np.inf, own=1, touched=touched, parts=parts)

    def stage_before(self) -> bool:
        """Stage the state before the innermost trial as events; False: it has to be written as pairs.

        Events are written in one call. They bring back arcs, and nothing else: `write_contacts` follows.
        """
        before, pairs = self.trials[-1], self.trials[-1].pairs
        assert pairs is not None
        self._set_clocks(before)
        graph, more = self.graph, len(pairs.named) > 0 or before.features is not None
        if more or graph.memory is not None or graph.relations is not None:
            return False
        op = _REMOVE_OR_ADD.take(pairs.new > 0)
        times = _NO_TIMES if self.graph.contacts is None else np.zeros(len(op))
        self.events = NodeEvents(pairs.a, pairs.b, op, pairs.new, times, 0.0, before.contact_clock)
        return True

    def write_before(self) -> GraphDelta:
        """Restore the state before the innermost trial; return the net effect."""
        pairs = self.trials[-1].pairs
        assert pairs is not None
        return self.write_pairs(pairs, self.graph.pull.look_up(pairs.a, pairs.b))

    def write_contacts(self) -> None:
        """Restore the contacts before the innermost trial, once all arcs are restored."""
        graph, pairs = self.graph, self.trials[-1].pairs
        assert pairs is not None
        if graph.contacts is not None and pairs.touched is not None:
            graph.contacts.put(*pairs.touched)
            graph.buffers.load(pairs, pairs.new, (0, 0, 0))
            writing.write_pairs(graph.arrays, pairs.named, True)
            if graph.expiry is not None:
                graph.expiry.note(graph.buffers)
            if graph.follower is not None:
                graph.follower.follow(graph)

    def close_trial(self) -> None:
        """End a trial, and release the nodes that it created."""
        before = self.trials.pop()
        self.pairs = self.features = self.events = self.edge = None
        # Last: `complete` must not write pairs of nodes that are forgotten.
        self.graph.ids.let_go(before.given)

    def _set_clocks(self, before: Before) -> None:
        """Restore the clocks. Must come first: a ghost's next due time depends on its clock."""
        if self.graph.memory is not None:
            self.graph.memory.clock = before.clock
        if self.graph.contacts is not None:
            self.graph.contacts.clock = before.contact_clock

    # ---- after the last write, or an exception ---------------------------------------------------------

    def release(self, left: Nodes) -> IdColumn:
        """Discard what is staged, release the nodes that left; return the ids of these."""
        names = self.nobody
        if len(left):
            names = self.graph.ids.names(left)
            self.graph.release(left)
        self.pairs = self.features = self.events = self.edge = None
        return names

    def complete(self) -> bool:
        """Finish an interrupted change; return whether staged pairs were written for that.

        Afterwards the graph holds all of the interrupted change, or nothing of it; nothing of trials. If
        `complete` is interrupted itself, it may be called again.
        """
        graph, pairs = self.graph, None if self.trials else self.pairs
        if self.trials:
            self.events = self.edge = None
            self._set_clocks(self.trials[0])
        graph.ids.repair()
        graph.reserve()
        graph.forget_scratch()
        if graph.memory is not None:
            graph.memory.rebuild_heap()
        if pairs is not None:
            self.write_pairs(pairs, graph.pull.look_up(pairs.a, pairs.b))
        for before in reversed(self.trials):
            if before.pairs is not None:
                self.write_pairs(before.pairs, graph.pull.look_up(before.pairs.a, before.pairs.b))
        if graph.relations is not None and self.events is not None:
            graph.relations.finish(graph.pull, self.events)
        self.trials.clear()
        graph.ids.end_holds()
        graph.count_again()
        return pairs is not None


def _with_ageing(events: NodeEvents, a: Nodes, b: Nodes) -> NodeEvents:
    """Append silent events for pairs whose ghosts may weigh less by now."""
    none = np.zeros(len(a))
    return NodeEvents(
        np.concatenate((events.src, a)),
        np.concatenate((events.dst, b)),
        np.concatenate((events.op, np.full(len(a), AGE, np.int8))),
        np.concatenate((events.weight, none.astype(np.int64))),
        np.concatenate((events.t, none)),
        events.clock,
        events.contact_clock,
    )


def apply_batch(graph: Graph, batch: EventBatch, now: float | None = None) -> GraphDelta:
    """Apply a batch to a graph alone and return its net effect; after an `EventError` nothing was applied."""
    transaction = Transaction(graph)
    with transaction:
        transaction.stage(batch, now)
        return transaction.write()
