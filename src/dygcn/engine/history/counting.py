"""Loops over a history: they count events one by one, and describe candidates.

Nothing here depends on how events were cut into batches. Counts that fade are kept as of the last event that
touched them (see `graph.delta.count_after`), so an event costs the same however large the history is.
"""

from __future__ import annotations

from typing import Any

from dygcn.engine.history.columns import (
    ANSWERED,
    ANSWERS,
    ASKED,
    COUNTED,
    FADE,
    FAR,
    FAST,
    FIRST,
    HABIT,
    MET,
    MOST,
    NEVER,
    NEW,
    PAIRS,
    PARTNERED,
    PARTNERS,
    PLAYED,
    RAW_COLUMNS,
    REPEATS,
    SLOW,
    WALK_SCALE,
)
from dygcn.engine.records import Float64, Int8, Int32, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from math import exp2, log1p

    from dygcn.engine._holder import Holder
    from dygcn.engine.graph.delta import count_after
    from dygcn.engine.graph.pairs import pair_key, pair_put, pair_slot


class HistoryArrays(Holder):
    """The arrays of a `History`. They never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # The number of each ordered pair of nodes that had an event.
        self.table = arrays[0]
        # (n, 3) when a node last asked, last was an answer, last was an answer to a node new to it.
        self.times = arrays[1]
        # (n, 4) habit of repeating; fading counts of events that it was the answer of: fast, slow, new.
        self.marks = arrays[2]
        # (n, 2) how many answers and partners were ever written to the rings; (n, 20) and (n, 10) the rings.
        self.counts, self.answers, self.partners = arrays[3:6]
        # (n,) the pair that a node made last as a source, -1 without one.
        self.first = arrays[6]
        # Of each pair: last event; when its edge was removed, minus infinity while it exists.
        self.pair_t, self.pair_gone = arrays[7:9]
        # Of each pair: fading count, count, destination, the pair that its source made before.
        self.pair_fast, self.pair_n, self.pair_dst, self.behind = arrays[9:13]
        # Scratch of walks, zero between calls.
        self.two, self.three = arrays[13:15]
        # Pairs, events of the batch that were played, events ever counted; the greatest time.
        self.sizes, self.clock = arrays[15:17]
        # Unit of ages; half-lives of quick and of slow counts.
        self.unit, self.fast, self.slow = arrays[17:]


# ---- events ----------------------------------------------------------------------------------------------


def play(of: HistoryArrays, src: Nodes, dst: Nodes, op: Int8, t: Float64) -> None:
    """Count events in order; `sizes` records the progress, from which an interrupted caller continues.

    A removal undoes no count: it is noted of the pair, in both directions.
    """
    with cython.nogil:
        for i in range(len(op)):
            if src[i] >= 0 and dst[i] >= 0 and src[i] != dst[i]:
                if op[i] > 0:
                    _count(of, src[i], dst[i], t[i])
                else:
                    _remove(of, src[i], dst[i], t[i])
                    _remove(of, dst[i], src[i], t[i])
            of.sizes[PLAYED] += 1


def _remove(of: HistoryArrays, u: int, v: int, t: float) -> None:
    pair = pair_slot(of.table, pair_key(u, v))
    if pair >= 0:
        of.pair_gone[pair] = t
        of.clock[0] = max(of.clock[0], t)


def _count(of: HistoryArrays, u: int, v: int, t: float) -> None:
    key = pair_key(u, v)
    pair = pair_slot(of.table, key)
    repeat = 1.0
    if pair < 0:
        repeat = 0.0
        pair = of.sizes[PAIRS]
        of.sizes[PAIRS] += 1
        pair_put(of.table, key, pair)
        of.pair_dst[pair] = v
        of.behind[pair] = of.first[u]
        of.first[u] = pair
        of.pair_t[pair] = t
        of.pair_fast[pair] = 0
        of.pair_n[pair] = 0
        of.marks[v, NEW] = count_after(of.times[v, FIRST], of.marks[v, NEW], t, of.fast)
        of.times[v, FIRST] = max(of.times[v, FIRST], t)
    of.pair_fast[pair] = count_after(of.pair_t[pair], of.pair_fast[pair], t, of.fast)
    of.pair_t[pair] = max(of.pair_t[pair], t)
    of.pair_gone[pair] = NEVER
    if of.pair_n[pair] < MOST:
        of.pair_n[pair] += 1
    of.marks[u, HABIT] = (1.0 - REPEATS) * of.marks[u, HABIT] + REPEATS * repeat
    of.marks[v, FAST] = count_after(of.times[v, MET], of.marks[v, FAST], t, of.fast)
    of.marks[v, SLOW] = count_after(of.times[v, MET], of.marks[v, SLOW], t, of.slow)
    of.times[v, MET] = max(of.times[v, MET], t)
    of.times[u, ASKED] = max(of.times[u, ASKED], t)
    of.clock[0] = max(of.clock[0], t)
    of.sizes[COUNTED] += 1
    of.answers[u, of.counts[u, ANSWERED] % ANSWERS] = v
    of.counts[u, ANSWERED] += 1
    _step_between(of, u, v)
    _step_between(of, v, u)


def _step_between(of: HistoryArrays, node: int, partner: int) -> None:
    of.partners[node, of.counts[node, PARTNERED] % PARTNERS] = partner
    of.counts[node, PARTNERED] += 1


# ---- candidates ------------------------------------------------------------------------------------------


def _age(now: float, last: float, unit: float) -> float:
    return log1p(max(now - last, 0.0) / unit)


def _left(count: float, last: float, now: float, half_life: float) -> float:
    return log1p(count * exp2(-max(now - last, 0.0) / half_life))


def _spread(of: HistoryArrays, node: int, mass: float, to: Float64, touched: Nodes, count: int) -> int:
    """Step from a node to its last partners, later ones more likely; return how many nodes were touched."""
    have = min(of.counts[node, PARTNERED], PARTNERS)
    total, share = 0.0, 1.0
    for _ in range(have):
        total += share
        share *= FADE
    share = 1.0
    for back in range(have):
        other = of.partners[node, (of.counts[node, PARTNERED] - 1 - back) % PARTNERS]
        if other >= 0:  # else it was forgotten
            if to[other] == 0.0:
                touched[count] = other
                count += 1
            to[other] += mass * share / total
        share *= FADE
    return count


def _walk(of: HistoryArrays, u: int, one: Nodes, two: Nodes, three: Nodes) -> int:
    """Write the chances of walks of three steps that do not come back after two; return how many ends."""
    begun = _spread(of, u, 1.0, of.three, one, 0)
    second = 0
    for i in range(begun):
        mass = of.three[one[i]]
        of.three[one[i]] = 0.0
        second = _spread(of, one[i], mass, of.two, two, second)
    ends = 0
    for i in range(second):
        mass = of.two[two[i]]
        of.two[two[i]] = 0.0
        if two[i] != u:
            ends = _spread(of, two[i], mass, of.three, three, ends)
    return ends


def describe(
    of: HistoryArrays,
    askers: Nodes,
    candidates: Nodes,
    now: float,
    walks: tuple[Nodes, Nodes, Nodes],
    out: Float64,
) -> None:
    """Write the columns of candidates (see `columns`) for asking nodes; -1 is an unknown node.

    Walks are computed anew where an asking node differs from the one before.
    """
    one, two, three = walks
    ends = 0
    with cython.nogil:
        for i in range(len(candidates)):
            if i == 0 or askers[i] != askers[i - 1]:
                _forget_walks(of, three, ends)
                ends = _walk(of, askers[i], one, two, three) if askers[i] >= 0 else 0
            _describe_one(of, askers[i], candidates[i], now, out, i)
        _forget_walks(of, three, ends)


def _forget_walks(of: HistoryArrays, three: Nodes, ends: int) -> None:
    for i in range(ends):
        of.three[three[i]] = 0.0


def _describe_one(of: HistoryArrays, u: int, v: int, now: float, out: Float64, row: int) -> None:
    for column in range(RAW_COLUMNS):
        out[row, column] = 0.0
    out[row, 12] = 0.5
    if u >= 0:
        out[row, 11] = _age(now, of.times[u, ASKED], of.unit) if of.counts[u, ANSWERED] > 0 else 0.0
        out[row, 12] = of.marks[u, HABIT]
    if v < 0 or of.marks[v, SLOW] == 0:
        out[row, 7] = FAR
        out[row, 9] = FAR
        if v >= 0 and of.counts[v, ANSWERED] > 0:
            out[row, 16] = 1.0
    else:
        out[row, 5] = _left(of.marks[v, FAST], of.times[v, MET], now, of.fast)
        out[row, 6] = _left(of.marks[v, SLOW], of.times[v, MET], now, of.slow)
        out[row, 7] = _age(now, of.times[v, MET], of.unit)
        out[row, 8] = _left(of.marks[v, NEW], of.times[v, FIRST], now, of.fast)
        out[row, 9] = _age(now, of.times[v, FIRST], of.unit)
    if u < 0 or v < 0:
        return
    there = pair_slot(of.table, pair_key(u, v))
    back = pair_slot(of.table, pair_key(v, u))
    if there >= 0:
        out[row, 0] = 1.0
        out[row, 1] = _age(now, of.pair_t[there], of.unit)
        out[row, 2] = _place(of.answers, u, v, of.counts[u, ANSWERED], ANSWERS)
        out[row, 3] = log1p(of.pair_n[there])
        out[row, 4] = _left(of.pair_fast[there], of.pair_t[there], now, of.fast)
    out[row, 10] = log1p(WALK_SCALE * of.three[v])
    if there >= 0 or back >= 0:
        _describe_edge(of, there, back, now, out, row)
        out[row, 17] = _place(of.partners, u, v, of.counts[u, PARTNERED], PARTNERS)
    if back >= 0:
        age = _age(now, of.pair_t[back], of.unit)
        out[row, 13] = 1.0
        out[row, 14] = age
        if there < 0 or age < out[row, 1]:
            out[row, 15] = 1.0
        else:
            out[row, 14] = out[row, 1]
    elif there >= 0:
        out[row, 13] = 1.0
        out[row, 14] = out[row, 1]


def _describe_edge(of: HistoryArrays, there: int, back: int, now: float, out: Float64, row: int) -> None:
    gone, here = NEVER, 0
    if there >= 0:
        gone, here = of.pair_gone[there], 1 if of.pair_gone[there] == NEVER else 0
    if back >= 0:
        gone, here = max(gone, of.pair_gone[back]), 1 if of.pair_gone[back] == NEVER else here
    if here == 1:
        out[row, 18] = 1.0
    else:
        out[row, 19] = _age(now, gone, of.unit)


def _place(ring: Int32, u: int, v: int, count: int, size: int) -> float:
    """Return 1 / (1 + number of later entries) for a node in a ring of u; 0 if it is not in the ring."""
    others = 0
    for back in range(min(count, size)):
        at = ring[u, (count - 1 - back) % size]
        if at == v:
            return 1.0 / (1.0 + others)
        seen = 0
        for later in range(back):
            if ring[u, (count - 1 - later) % size] == at:
                seen = 1
                break
        if seen == 0:
            others += 1
    return 0.0


def partners_of(of: HistoryArrays, u: int, out: Nodes) -> int:
    """Write a node's destinations, the newest pair first, up to capacity; return how many."""
    count = 0
    pair = of.first[u]
    with cython.nogil:
        while pair >= 0 and count < len(out):
            out[count] = of.pair_dst[pair]
            count += 1
            pair = of.behind[pair]
    return count


def chain(of: HistoryArrays, src: Nodes) -> int:
    """Put pairs into the table and into the chains of their sources, in order; return how many differ."""
    found = 0
    with cython.nogil:
        for pair in range(len(src)):
            key = pair_key(src[pair], of.pair_dst[pair])
            if pair_slot(of.table, key) < 0:
                found += 1
            pair_put(of.table, key, pair)
            of.behind[pair] = of.first[src[pair]]
            of.first[src[pair]] = pair
    return found
