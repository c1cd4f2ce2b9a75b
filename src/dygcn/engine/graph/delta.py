"""The net effect of a batch: what each pair of nodes was before it, and what it is after. Loops only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.fixed import FAR
from dygcn.engine.graph.outcomes import (
    AGE,
    CAME,
    FOUND,
    IDLE,
    LAPSE,
    LAPSED,
    LINKED,
    LOOP,
    LOOPS,
    MET,
    MISSING,
    NO_CONTACT,
    PARTED,
    UNCHANGED,
    UNKNOWN,
    WENT,
)

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import prefetch_64
    from dygcn.engine.graph.arcs import ArcArrays
    from dygcn.engine.graph.batch import BatchArrays, NodeArrays
    from dygcn.engine.graph.ghosts import ghost_weight
    from dygcn.engine.graph.pairs import pair_home, pair_key
    from dygcn.engine.graph.ticks import stamp
    from dygcn.engine.graph.touching import touch_pair

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64, Int8, Int64, Nodes

NEVER = -np.inf


def magnitude(weight: int) -> int:
    """Return what a stored weight weighs: that of a ghost is below zero."""
    return weight if weight >= 0 else -weight


# ---- pairs -------------------------------------------------------------------------------------------------


def number_pairs(batch: BatchArrays, src: Nodes, dst: Nodes, directed: bool) -> int:
    """Number the pairs that events speak of; return how many there are."""
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
    """Return where a pair stands in the table, or the free seat that it would take."""
    mask = len(batch.table) - 1
    at = pair_home(pair_key(a, b), mask, batch.secret[0], batch.secret[1])
    while batch.table[at] >= 0:
        p = batch.table[at]
        if batch.a[p] == a and batch.b[p] == b:
            break
        at = (at + 1) & mask
    return at


def find_pairs(batch: BatchArrays, src: Nodes, dst: Nodes, directed: bool) -> int:
    """Number the pairs that events speak of, for plain Python."""
    with cython.nogil:
        found = number_pairs(batch, src, dst, directed)
    return found


# ---- events ------------------------------------------------------------------------------------------------


def play(
    batch: BatchArrays,
    op: Int8,
    weight: Int64,
    t: Float64,
    before: float,
    clock: float,
    half_life: float,
    count_half_life: float,
) -> None:
    """Play the events of each pair in order of arrival; the last one wins. What had no effect is counted.

    Parameters
    ----------
    before, clock
        The memory's clock before the batch, and after it.
    half_life
        Of the weight of ghosts; 0: nothing is remembered.
    count_half_life
        Of contacts; 0: they are not kept.
    """
    unchanged, missing, loops = 0, 0, 0
    for p in range(batch.sizes[FOUND]):
        batch.new[p] = max(batch.old[p], 0)
    for i in range(len(op)):
        p = batch.pair_of[i]
        batch.mark[i] = NO_CONTACT
        if p == UNKNOWN:
            missing += 1
        elif p == LOOP:
            loops += 1
        elif op[i] > 0:
            unchanged += batch.new[p] == weight[i]
            if count_half_life > 0:
                batch.mark[i] = LINKED if batch.new[p] > 0 else MET
                if half_life > 0 and batch.new[p] == 0 and _is_forgotten(batch, p, before, half_life):
                    _forget_contacts(batch, p)
                touch_pair(batch, p, t[i], count_half_life)
            batch.new[p] = weight[i]
        elif op[i] < 0 and batch.new[p] == 0:
            missing += 1
        elif op[i] < 0:
            if count_half_life > 0:
                batch.mark[i] = LAPSED if op[i] == LAPSE else PARTED
                if half_life > 0:
                    touch_pair(batch, p, t[i], count_half_life)
                else:
                    _forget_contacts(batch, p)
            if half_life > 0:
                batch.ghosts[p] = batch.new[p]
                batch.ghost_t[p] = t[i]
            batch.new[p] = 0
        if half_life > 0 and op[i] != AGE:
            before = max(before, t[i])
    if half_life > 0:
        _age(batch, clock, half_life)
    batch.sizes[UNCHANGED] = unchanged
    batch.sizes[MISSING] = missing
    batch.sizes[LOOPS] = loops


def _is_forgotten(batch: BatchArrays, pair: int, clock: float, half_life: float) -> bool:
    """Say whether a pair had a ghost that is forgotten by now."""
    full = batch.ghosts[pair]
    return full > 0 and ghost_weight(full, batch.ghost_t[pair], clock, half_life) == 0


def _forget_contacts(batch: BatchArrays, pair: int) -> None:
    batch.last[pair] = NEVER
    batch.count[pair] = 0


def _age(batch: BatchArrays, clock: float, half_life: float) -> None:
    """Give pairs that are no edge what their ghosts weigh; there is no ghost where that is nothing."""
    for p in range(batch.sizes[FOUND]):
        if batch.new[p] > 0:
            batch.ghosts[p] = 0
        if batch.ghosts[p] > 0:
            batch.new[p] = -ghost_weight(batch.ghosts[p], batch.ghost_t[p], clock, half_life)
            if batch.new[p] == 0:
                batch.ghosts[p] = 0


# ---- what nodes carry --------------------------------------------------------------------------------------


def overweight(
    n: int,
    a: Nodes,
    b: Nodes,
    old: Int64,
    new: Int64,
    directed: bool,
    strength: Int64,
    change: Int64,
    limit: int,
) -> bool:
    """Say whether a node would carry too much weight. `change` is zero before and after.

    What a node gains is held at four times the limit: no more than the limit can be taken from it again, and
    any number of edges would wrap around otherwise.
    """
    for i in range(n):
        if i + FAR < n:
            prefetch_64(strength, a[i + FAR])
            prefetch_64(strength, b[i + FAR])
        more = magnitude(new[i]) - magnitude(old[i])
        change[a[i]] = min(change[a[i]] + more, 4 * limit)
        if not directed:
            change[b[i]] = min(change[b[i]] + more, 4 * limit)
    found = False
    for i in range(n):
        if strength[a[i]] + change[a[i]] >= limit or strength[b[i]] + change[b[i]] >= limit:
            found = True
            break
    for i in range(n):
        change[a[i]] = 0
        change[b[i]] = 0
    return found


def play_weights(
    batch: BatchArrays,
    op: Int8,
    weight: Int64,
    t: Float64,
    old: Int64,
    carried: Int64,
    directed: bool,
    clock: float,
    half_life: float,
    limit: int,
    refuse: bool,
) -> tuple[Bool, Int64]:
    """Play events one by one; return which of them were refused, and what is stored of pairs in the end.

    With `refuse`, an event is refused that would bring what one of its ends carries to the limit. The
    half-life is that of ghosts, 0 where nothing is remembered.
    """
    played = np.zeros(len(op), np.int8), old.copy()
    refused, stored = played
    with cython.nogil:
        for i in range(len(op)):
            p = batch.pair_of[i]
            if p < 0 or (op[i] < 0 and stored[p] <= 0):
                continue
            new = weight[i]
            if op[i] < 0:
                # The clock after the batch is not before any event that is played.
                new = -ghost_weight(stored[p], t[i], max(clock, t[i]), half_life) if half_life > 0 else 0
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


def census(
    batch: BatchArrays, n: int, pull: ArcArrays, push: ArcArrays, nodes: NodeArrays, stay: bool
) -> None:
    """Say which of the first n touched nodes came, went, or never were in the graph, and count them.

    `active` is brought up to date; last contacts and counts (if they are kept) forget who is not there.
    """
    for i in range(n):
        node = batch.nodes[0, i]
        now = pull.count[node] > 0 or push.count[node] > 0 or nodes.own[node] > 0
        if now and nodes.active[node] == 0:
            _list(batch, CAME, node)
            if stay:
                nodes.own[node] = 1
        elif not now:
            _list(batch, WENT if nodes.active[node] else IDLE, node)
        if now != (nodes.active[node] > 0):
            stamp(nodes.ticks, node)
        nodes.active[node] = 1 if now else 0
        if not now and len(nodes.last) > 0:
            nodes.last[node] = NEVER
            nodes.count[node] = 0


def _list(batch: BatchArrays, kind: int, node: int) -> None:
    """Add a node to those that came, went or never were there: these stand one row below their counts."""
    batch.nodes[kind + 1, batch.sizes[kind]] = node
    batch.sizes[kind] += 1
