"""The net effect of a batch: what each pair of nodes was before it, and what it is after. Loops only.

`pairs` is always `PairRoom.arrays`: one row for each pair that the batch speaks of, undirected ones as
(lower, higher), in the order of their first mention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dygcn._jit import kernel, prefetch
from dygcn.graph.arcs import FAR
from dygcn.graph.contacts import LINKED, MET, NEVER, NO_CONTACT, PARTED, touch
from dygcn.graph.memory import ghost_weight
from dygcn.graph.pairs import pair_home, pair_key
from dygcn.records import Float32, Float64, Int8, Int32, Int64

if TYPE_CHECKING:
    from dygcn.records import Nodes

AGE = 0  # beside +1 and -1: the events were silent about the pair, but time has passed
UNKNOWN, LOOP = -1, -2  # events that speak of no pair
Pairs: TypeAlias = tuple[Int32, Int32, Int64, Int64, Float64, Int32, Int32, Int32, Float32, Int8]
"""Of every pair: ends, stored weight before and after, last contact; of every event: its pair; of every pair:
its seat in a table; the table; of every pair: its count; of every event: what it was (see `contacts`)."""


@kernel
def number_pairs(src: Nodes, dst: Nodes, directed: bool, secret: Int64, pairs: Pairs) -> int:
    """Number the pairs that events speak of; return how many there are."""
    a, b, _, _, _, pair_of, seat, table, _, _ = pairs
    mask = len(table) - 1
    found = 0
    for i in range(len(src)):
        low, high = src[i], dst[i]
        if low < 0 or high < 0:
            pair_of[i] = UNKNOWN
            continue
        if low == high:
            pair_of[i] = LOOP
            continue
        if not directed and low > high:
            low, high = high, low
        at = pair_home(pair_key(low, high), mask, secret[0], secret[1])
        while table[at] >= 0 and (a[table[at]] != low or b[table[at]] != high):
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = found
            a[found] = low
            b[found] = high
            seat[found] = at
            found += 1
        pair_of[i] = table[at]
    for p in range(found):
        table[seat[p]] = -1
    return found


@kernel
def play(
    found: int,
    op: Int8,
    weight: Int64,
    t: Float64,
    before: float,
    clock: float,
    half_life: float,
    count_half_life: float,
    ghosts: Int64,
    ghost_t: Float64,
    pairs: Pairs,
) -> tuple[int, int, int]:
    """Play the events of each pair in order of arrival; the last one wins.

    Parameters
    ----------
    before, clock
        The memory's clock before the batch, and after it.
    half_life
        Of the weight of ghosts; 0: nothing is remembered.
    count_half_life
        Of contacts; 0: they are not kept, and `pairs` has none.

    Returns
    -------
    tuple
        How many events were adds of an edge that had that weight, removes of an edge that was not there,
        and self loops.
    """
    _, _, old, new, last, pair_of, _, _, count, mark = pairs
    unchanged, missing, loops = 0, 0, 0
    for p in range(found):
        new[p] = max(old[p], 0)
    for i in range(len(op)):
        p = pair_of[i]
        mark[i] = NO_CONTACT
        if p == UNKNOWN:
            missing += 1
        elif p == LOOP:
            loops += 1
        elif op[i] > 0:
            unchanged += new[p] == weight[i]
            if count_half_life > 0:
                mark[i] = LINKED if new[p] > 0 else MET
                ghost = half_life > 0 and new[p] == 0 and ghosts[p] > 0
                if ghost and ghost_weight(ghosts[p], ghost_t[p], before, half_life) == 0:  # forgotten by now
                    last[p] = NEVER
                    count[p] = 0
                touch(last, count, p, t[i], count_half_life)
            new[p] = weight[i]
        elif op[i] < 0 and new[p] == 0:
            missing += 1
        elif op[i] < 0:
            if count_half_life > 0:
                mark[i] = PARTED
                if half_life > 0:
                    touch(last, count, p, t[i], count_half_life)
                else:
                    last[p] = NEVER
                    count[p] = 0
            if half_life > 0:
                ghosts[p] = new[p]
                ghost_t[p] = t[i]
            new[p] = 0
        if half_life > 0 and op[i] != AGE:
            before = max(before, t[i])
    if half_life > 0:
        for p in range(found):
            if new[p] > 0:
                ghosts[p] = 0
            left = ghost_weight(ghosts[p], ghost_t[p], clock, half_life) if ghosts[p] > 0 else 0
            if left == 0:
                ghosts[p] = 0
            new[p] = new[p] if new[p] > 0 else -left
    return unchanged, missing, loops


@kernel
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
            prefetch(strength, a[i + FAR])
            prefetch(strength, b[i + FAR])
        more = abs(new[i]) - abs(old[i])
        change[a[i]] = min(change[a[i]] + more, 4 * limit)
        if not directed:
            change[b[i]] = min(change[b[i]] + more, 4 * limit)
    found = False
    for i in range(n):
        found = found or strength[a[i]] + change[a[i]] >= limit or strength[b[i]] + change[b[i]] >= limit
    for i in range(n):
        change[a[i]] = 0
        change[b[i]] = 0
    return found


@kernel
def census(
    n: int,
    nodes: Nodes,
    pulls: Int32,
    pushes: Int32,
    own: Int8,
    active: Int8,
    last: Float64,
    count: Float32,
    stay: bool,
    came: Nodes,
    went: Nodes,
    idle: Nodes,
    sizes: Int64,
) -> None:
    """Say which of the nodes came, went, or never were in the graph, and count them in `sizes`.

    `active` is brought up to date, `last` and `count` (if contacts are kept) forget who is not there. A node
    that is named twice is looked at twice, and found the second time as the first time left it.
    """
    for i in range(n):
        node = nodes[i]
        now = pulls[node] > 0 or pushes[node] > 0 or own[node] > 0
        if now and active[node] == 0:
            came[sizes[0]] = node
            sizes[0] += 1
            if stay:
                own[node] = 1
        elif not now and active[node] == 1:
            went[sizes[1]] = node
            sizes[1] += 1
        elif not now and active[node] == 0:
            idle[sizes[2]] = node
            sizes[2] += 1
        active[node] = 1 if now else 0
        if not now and len(last) > 0:
            last[node] = -np.inf
            count[node] = 0
