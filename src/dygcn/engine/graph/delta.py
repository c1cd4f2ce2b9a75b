"""The net effect of a batch: every pair before and after it. The holders of its arrays, and loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.constants import (
    AGE,
    CAME,
    FAR,
    FOUND,
    IDLE,
    LAPSE,
    LOOP,
    LOOPS,
    MISSING,
    NEVER,
    UNCHANGED,
    UNKNOWN,
    WENT,
)
from dygcn.engine.records import Bool, Float32, Float64, Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from math import exp2

    from dygcn.engine._holder import Holder
    from dygcn.engine._native import prefetch_64
    from dygcn.engine.graph.arcs import look_up
    from dygcn.engine.graph.pairs import ghost_weight, pair_home, pair_key
    from dygcn.engine.graph.ticks import stamp


# What an event was: no contact; a contact that parted the pair, found it linked, or linked it; an edge that
# expired, which is no contact.
NO_CONTACT, PARTED, LINKED, MET, LAPSED = range(5)


# ---- holders ----------------------------------------------------------------------------------------------


class EventArrays(Holder):
    """Checked events by nodes: source and target, operation, weight on the grid, time (or no times)."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.src, self.dst, self.op, self.weight, self.t = arrays


class BatchArrays(Holder):
    """Arrays of one batch, reused by the next. They never grow or move (see `PairBuffers`).

    Pairs are numbered in the order of their first mention, undirected ones as (lower, higher).
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # Of each pair: ends, stored weight before and after, last contact and count.
        self.a, self.b, self.old, self.new, self.last, self.count = arrays[:6]
        # Of each pair: full weight and time of removal of its ghost, where removed edges leave one.
        self.ghosts, self.ghost_t = arrays[6:8]
        # Of each event: its pair, or `UNKNOWN` or `LOOP`; what it was (see above).
        self.pair_of, self.mark = arrays[8:10]
        # Of each pair: its seat in the table; the table, a power of two long, empty (-1) between batches.
        self.seat, self.table = arrays[10:12]
        # The pairs that are written.
        self.end_a, self.end_b, self.weight = arrays[12:15]
        # Pool and table entries that pull takes, then those that push takes; counts (see `constants`).
        self.needed, self.sizes = arrays[15:17]
        # Secret of the table.
        self.secret = arrays[17]
        # The arcs whose weight changed: receivers, then senders; old weights, then new ones.
        self.arcs, self.arc_weights = arrays[18:20]
        # A row each for the nodes that were touched, that came, that went, that never were there.
        self.nodes = arrays[20]
        # Of each pair: its last contact before the batch, where contacts are kept.
        self.before = arrays[21]


class NodeArrays(Holder):
    """One value for each node, of a `Graph`. The arrays never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # The sum of the weights that a node aggregates; counters of a batch, zero between batches.
        self.strength, self.change = arrays[:2]
        # Stays without an edge, too; is in the graph; marks of a batch, zero between batches.
        self.own, self.active, self.seen = arrays[2:5]
        # Last contact and count of contacts; empty where they are not kept.
        self.last, self.count = arrays[5:7]
        # Stamps of nodes that came and went, and of those whose arcs in `pull` were written.
        self.ticks = arrays[7]


class GraphArrays(Holder):
    """All arrays that writing a batch needs, and the options of the graph."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.batch, self.pull, self.push, self.nodes, self.ghosts = arrays[:5]
        # Edges have a direction; nodes stay without edges; the limit of a node's strength.
        self.directed, self.stay, self.limit = arrays[5:8]
        # Of the weight of ghosts, 0: removed edges leave none; of contacts, 0: they are not kept.
        self.half_life, self.count_half_life = arrays[8:]


def magnitude(weight: int) -> int:
    """Return the weight that a stored weight stands for: that of a ghost is stored below zero."""
    return weight if weight >= 0 else -weight


# ---- pairs -------------------------------------------------------------------------------------------------


def number_pairs(batch: BatchArrays, src: Nodes, dst: Nodes, directed: bool) -> int:
    """Number the pairs that events name; return how many there are."""
    found = 0
    for i in range(len(src)):
        low, high = src[i], dst[i]
        if low < 0 or high < 0:
            batch.pair_of[i] = UNKNOWN
            continue
        if low == high:
            batch.pair_of[i] = LOOP
            continue
        if not directed and low > high:
            low, high = high, low
        seat = seat_of(batch, low, high)
        if batch.table[seat] < 0:
            batch.table[seat] = found
            batch.a[found] = low
            batch.b[found] = high
            batch.seat[found] = seat
            found += 1
        batch.pair_of[i] = batch.table[seat]
    for p in range(found):
        batch.table[batch.seat[p]] = -1
    batch.sizes[FOUND] = found
    return found


def seat_of(batch: BatchArrays, a: int, b: int) -> int:
    """Return the position of a pair in the table, or the free position where it belongs."""
    mask = len(batch.table) - 1
    at = pair_home(pair_key(a, b), mask, batch.secret[0], batch.secret[1])
    while batch.table[at] >= 0:
        p = batch.table[at]
        if batch.a[p] == a and batch.b[p] == b:
            break
        at = (at + 1) & mask
    return at


def find_pairs(batch: BatchArrays, src: Nodes, dst: Nodes, directed: bool) -> int:
    """Number the pairs that events name, for plain Python."""
    with cython.nogil:
        found = number_pairs(batch, src, dst, directed)
    return found


def find_stored(graph: GraphArrays, events: EventArrays) -> int:
    """Number the pairs that events name, look up what is stored of them; return how many there are."""
    found = number_pairs(graph.batch, events.src, events.dst, graph.directed)
    look_up(
        graph.pull, found, graph.batch.a, graph.batch.b, graph.batch.old, graph.batch.last, graph.batch.count
    )
    return found


# ---- events ------------------------------------------------------------------------------------------------


def play(
    batch: BatchArrays,
    events: EventArrays,
    before: float,
    clock: float,
    half_life: float,
    count_half_life: float,
) -> None:
    """Play the events of each pair in order of arrival; the last one wins. Count those without effect.

    `before`, `clock`: the memory's clock around the batch. Half-lives of ghosts and of contacts; 0: none are
    kept.
    """
    unchanged, missing, loops = 0, 0, 0
    for p in range(batch.sizes[FOUND]):
        batch.new[p] = max(batch.old[p], 0)
    for i in range(len(events.op)):
        p = batch.pair_of[i]
        batch.mark[i] = NO_CONTACT
        if p == UNKNOWN:
            missing += 1
        elif p == LOOP:
            loops += 1
        elif events.op[i] > 0:
            unchanged += batch.new[p] == events.weight[i]
            if count_half_life > 0:
                batch.mark[i] = LINKED if batch.new[p] > 0 else MET
                if half_life > 0 and batch.new[p] == 0 and _is_forgotten(batch, p, before, half_life):
                    _forget_contacts(batch, p)
                touch_pair(batch, p, events.t[i], count_half_life)
            batch.new[p] = events.weight[i]
        elif events.op[i] < 0 and batch.new[p] == 0:
            missing += 1
        elif events.op[i] < 0:
            if count_half_life > 0:
                batch.mark[i] = LAPSED if events.op[i] == LAPSE else PARTED
                if half_life > 0:
                    touch_pair(batch, p, events.t[i], count_half_life)
                else:
                    _forget_contacts(batch, p)
            if half_life > 0:
                batch.ghosts[p] = batch.new[p]
                batch.ghost_t[p] = events.t[i]
            batch.new[p] = 0
        if half_life > 0 and events.op[i] != AGE:
            before = max(before, events.t[i])
    if half_life > 0:
        _age(batch, clock, half_life)
    batch.sizes[UNCHANGED] = unchanged
    batch.sizes[MISSING] = missing
    batch.sizes[LOOPS] = loops


def _is_forgotten(batch: BatchArrays, pair: int, clock: float, half_life: float) -> bool:
    full = batch.ghosts[pair]
    return full > 0 and ghost_weight(full, batch.ghost_t[pair], clock, half_life) == 0


def _forget_contacts(batch: BatchArrays, pair: int) -> None:
    batch.last[pair] = NEVER
    batch.count[pair] = 0


def _age(batch: BatchArrays, clock: float, half_life: float) -> None:
    """Set pairs without an edge to the weight of their ghosts; drop ghosts without weight."""
    for p in range(batch.sizes[FOUND]):
        if batch.new[p] > 0:
            batch.ghosts[p] = 0
        if batch.ghosts[p] > 0:
            batch.new[p] = -ghost_weight(batch.ghosts[p], batch.ghost_t[p], clock, half_life)
            if batch.new[p] == 0:
                batch.ghosts[p] = 0


# ---- what nodes carry --------------------------------------------------------------------------------------


def overweight(batch: BatchArrays, directed: bool, strength: Int64, change: Int64, limit: int) -> bool:
    """Return whether a node would carry `limit` or more. `change` is zero before and after.

    The gain of a node is capped at four times the limit: no more than the limit can be taken off again, and a
    sum over any number of edges would wrap around.
    """
    found, heavy = batch.sizes[FOUND], False
    for p in range(found):
        if p + FAR < found:
            prefetch_64(strength, batch.a[p + FAR])
            prefetch_64(strength, batch.b[p + FAR])
        more = magnitude(batch.new[p]) - magnitude(batch.old[p])
        change[batch.a[p]] = min(change[batch.a[p]] + more, 4 * limit)
        if not directed:
            change[batch.b[p]] = min(change[batch.b[p]] + more, 4 * limit)
    for p in range(found):
        a, b = batch.a[p], batch.b[p]
        if strength[a] + change[a] >= limit or strength[b] + change[b] >= limit:
            heavy = True
            break
    for p in range(found):
        change[batch.a[p]] = 0
        change[batch.b[p]] = 0
    return heavy


def play_weights(
    batch: BatchArrays,
    events: EventArrays,
    old: Int64,
    carried: Int64,
    directed: bool,
    clock: float,
    half_life: float,
    limit: int,
    refuse: bool,
) -> tuple[Bool, Int64]:
    """Play events one by one; return which were refused, and the stored weights of pairs at the end.

    With `refuse`, an event that would bring one of its ends to the limit is refused. The half-life is that of
    ghosts, 0 where there are none.
    """
    played = np.zeros(len(events.op), np.int8), old.copy()
    refused, stored = played
    with cython.nogil:
        for i in range(len(events.op)):
            p = batch.pair_of[i]
            if p < 0 or (events.op[i] < 0 and stored[p] <= 0):
                continue
            new = events.weight[i]
            if events.op[i] < 0:
                # The clock after the batch is not before any event that is played.
                aged = max(clock, events.t[i])
                new = -ghost_weight(stored[p], events.t[i], aged, half_life) if half_life > 0 else 0
            if refuse:
                more, a, b = magnitude(new) - magnitude(stored[p]), batch.a[p], batch.b[p]
                heavy = carried[a] + more >= limit or (not directed and carried[b] + more >= limit)
                if more > 0 and heavy:
                    refused[i] = 1
                    continue
                carried[a] += more
                if not directed:
                    carried[b] += more
            stored[p] = new
    return played[0] > 0, played[1]


# ---- who is in the graph -----------------------------------------------------------------------------------


def census(graph: GraphArrays, n: int) -> None:
    """Classify the first n touched nodes: came, went, or never were in the graph; and update `active`.

    Where contacts are kept, those of nodes that are not in the graph are forgotten.
    """
    for i in range(n):
        node = graph.batch.nodes[0, i]
        now = graph.pull.count[node] > 0 or graph.push.count[node] > 0 or graph.nodes.own[node] > 0
        if now and graph.nodes.active[node] == 0:
            _list(graph.batch, CAME, node)
            if graph.stay:
                graph.nodes.own[node] = 1
        elif not now:
            _list(graph.batch, WENT if graph.nodes.active[node] else IDLE, node)
        if now != (graph.nodes.active[node] > 0):
            stamp(graph.nodes.ticks, node)
        graph.nodes.active[node] = 1 if now else 0
        if not now and len(graph.nodes.last) > 0:
            graph.nodes.last[node] = NEVER
            graph.nodes.count[node] = 0


def _list(batch: BatchArrays, kind: int, node: int) -> None:
    batch.nodes[kind + 1, batch.sizes[kind]] = node
    batch.sizes[kind] += 1


# ---- contacts --------------------------------------------------------------------------------------------


def count_after(last: float, count: float, t: float, half_life: float) -> float:
    """Return what a count as of `last` is after a contact at t, as of the later of both."""
    passed = float(t) - float(last)
    if passed != passed:  # neither has a time
        passed = 0.0
    if passed >= 0:
        return float(count) * exp2(-passed / half_life) + 1.0
    return float(count) + exp2(passed / half_life)


def touch_pair(batch: BatchArrays, pair: int, t: float, half_life: float) -> None:
    """Add a contact to a pair; a late contact counts with its faded weight."""
    batch.count[pair] = count_after(batch.last[pair], batch.count[pair], t, half_life)
    if t >= batch.last[pair]:
        batch.last[pair] = t


def _touch_node(nodes: NodeArrays, node: int, t: float, half_life: float) -> None:
    nodes.count[node] = count_after(nodes.last[node], nodes.count[node], t, half_life)
    if t >= nodes.last[node]:
        nodes.last[node] = t


def touch_nodes(graph: GraphArrays, found: int, src: Nodes, dst: Nodes, t: Float64) -> None:
    """Add the contacts of a written batch to both ends of each event, in a graph without ghosts.

    A node that loses its last arc on the way is forgotten, as if the batch had been cut there, unless it
    stays without arcs. `change` is zero before and after: arcs that a node still has to gain.
    """
    for p in range(found):
        gained = (1 if graph.batch.new[p] != 0 else 0) - (1 if graph.batch.old[p] != 0 else 0)
        graph.nodes.change[graph.batch.a[p]] += gained
        graph.nodes.change[graph.batch.b[p]] += gained
    for i in range(len(t)):
        if graph.batch.mark[i] == NO_CONTACT:
            continue
        lapsed = graph.batch.mark[i] == LAPSED
        gained = (PARTED if lapsed else graph.batch.mark[i]) - LINKED
        for end in range(2):
            node = src[i] if end == 0 else dst[i]
            if not lapsed:
                _touch_node(graph.nodes, node, t[i], graph.count_half_life)
            graph.nodes.change[node] -= gained
            if gained < 0 and not graph.stay and graph.nodes.own[node] == 0:
                arcs = graph.pull.count[node] - graph.nodes.change[node]
                arcs += graph.push.count[node] if graph.directed else 0
                if arcs == 0:
                    graph.nodes.last[node] = NEVER
                    graph.nodes.count[node] = 0


def touch_ends(a: Int64, b: Int64, t: Float64, half_life: float, last: Float64, count: Float32) -> None:
    """Add contacts of pairs to both ends of each."""
    with cython.nogil:
        for i in range(len(a)):
            for end in range(2):
                at = a[i] if end == 0 else b[i]
                count[at] = count_after(last[at], count[at], t[i], half_life)
                if t[i] >= last[at]:
                    last[at] = t[i]
