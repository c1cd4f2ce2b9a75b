"""The loops of a filter: edges come, go and age, messages are added to sums, sums become scores.

All sums are of integers. An edge weighs ``mantissa * 2^(octave - base)``: 8 bits and an octave that follow
from the edge's own time, and the base, which follows from the clock. When the base moves, edges whose octave
is below it are subtracted first; each weight that is left is then a multiple of the shift, so that no bit is
lost.
"""

from __future__ import annotations

from typing import Any

from dygcn.engine.filter.head import (
    ANSWERS,
    ASKS,
    COUNTED,
    DIRTY,
    GREATEST_MESSAGE,
    MESSAGE_SCALE,
    MOST_EDGES,
    MOST_OCTAVES,
    MOST_ON_PATHS,
    PATH_UNIT,
    ROWS,
    SUMS,
    TOUCHED,
    TREND,
    WINDOW,
)
from dygcn.engine.records import Float32, Float64, Int64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from math import exp2, floor, sqrt

    from dygcn.engine._holder import Holder
    from dygcn.engine._rows import RowBlock, add_row, prefetch_row, write_scores
    from dygcn.engine.graph.arcs import ArcArrays
    from dygcn.engine.graph.delta import BatchArrays

    rint, whole = round, int


class FilterArrays(Holder):
    """The arrays of a `Filter`. They never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # Of each node: its roles; its row among those that ask and among answers, or -1.
        self.role, self.asks, self.answers = arrays[:3]
        # Of each node: how many answers it has edges with, how many nodes that ask.
        self.out, self.into = arrays[3:5]
        # Of each row of a node that asks: the node, or -1; the sum of its answers' rows; the message sent.
        self.asker, self.taste, self.said = arrays[5:8]
        # Rows whose message is to be sent again: marks, and a list.
        self.dirty, self.dirty_rows = arrays[8:10]
        # Of each row of an answer: the node, or -1; its row of the model is a block only.
        self.answer = arrays[10]
        # Its sum of messages, by age; its count of edges, by age; its sum as scores read it.
        self.total, self.recent, self.prepared = arrays[12:15]
        # Rows whose sums changed: marks, and a list.
        self.touched, self.touched_rows = arrays[15:17]
        # Scratch: the change of a message; see `head`.
        self.change, self.sizes = arrays[17:19]
        # Of both ages: the lowest octave that counts; the half-life, 0: no edge grows old.
        self.base, self.half_life = arrays[19:]
        # The same as blocks of rows, which hold the arrays and not views of them.
        self.row_block, self.total_block = RowBlock(arrays[11]), RowBlock(arrays[12])
        self.taste_block, self.said_block = RowBlock(arrays[6]), RowBlock(arrays[7])
        self.change_block = RowBlock(arrays[17])


# ---- ages ------------------------------------------------------------------------------------------------


def _age(of: FilterArrays, which: int, t: float) -> float:
    """Return a time in half-lives; beyond `MOST_OCTAVES`, where doubles lose fractions, all are the same."""
    age: float = t / of.half_life[which]
    return max(-MOST_OCTAVES, min(MOST_OCTAVES, age))


def octave_of(of: FilterArrays, which: int, t: float) -> float:
    """Return the octave of the weight of an edge with a time."""
    return floor(_age(of, which, t))


def weight_of(of: FilterArrays, which: int, t: float) -> int:
    """Return the weight of an edge with a time; 0 if its octave is outside the window."""
    if of.half_life[which] == 0:
        return 1
    octave = octave_of(of, which, t)
    above = octave - of.base[which]
    if above < 0 or above >= WINDOW:
        return 0
    return whole(128.0 * exp2(_age(of, which, t) - octave)) << whole(above)


def _is_beyond(of: FilterArrays, which: int, t: float, top: int) -> bool:
    return bool(of.half_life[which] > 0 and octave_of(of, which, t) > top)


# ---- edges -----------------------------------------------------------------------------------------------


def follow(of: FilterArrays, batch: BatchArrays, found: int, timed: bool) -> int:
    """Add the changes of a batch to pairs; return the number of weights with an octave beyond the window.

    Those are left out: `follow_later` adds them after the base moved.
    """
    beyond = 0
    with cython.nogil:
        for p in range(found):
            before = batch.before[p] if timed else 0.0
            last = batch.last[p] if timed else 0.0
            was, now = batch.old[p] > 0, batch.new[p] > 0
            if was != now or (now and before != last):
                beyond += _change_edge(of, batch.a[p], batch.b[p], was, now, before, last)
                beyond += _change_edge(of, batch.b[p], batch.a[p], was, now, before, last)
    return beyond


def _change_edge(
    of: FilterArrays, asking: int, answering: int, was: bool, now: bool, before: float, last: float
) -> int:
    if not (of.role[asking] & ASKS and of.role[answering] & ANSWERS):
        return 0
    row, to = of.asks[asking], of.answers[answering]
    if was != now:
        step = 1 if now else -1
        of.out[asking] += step
        of.into[answering] += step
        add_row(of.taste_block, row, of.row_block, to, step)
        _mark_dirty(of, row)
    beyond = 0
    if was:
        _add_weights(of, row, to, -weight_of(of, SUMS, before), -weight_of(of, TREND, before))
    if now:
        _add_weights(of, row, to, weight_of(of, SUMS, last), weight_of(of, TREND, last))
        for which in range(2):
            beyond += _is_beyond(of, which, last, of.base[which] + WINDOW - 1)
    _touch(of, to)
    return beyond


def _add_weights(of: FilterArrays, row: int, to: int, weight: int, recent: int) -> None:
    of.recent[to] += recent
    of.sizes[COUNTED] += recent
    if weight != 0:
        add_row(of.total_block, to, of.said_block, row, weight)
        of.sizes[ROWS] += 1


def follow_later(of: FilterArrays, batch: BatchArrays, found: int, tops: Int64) -> int:
    """Add weights that `follow` skipped, beyond these octaves; return how many are still skipped."""
    beyond = 0
    with cython.nogil:
        for p in range(found):
            if batch.new[p] > 0 and (batch.old[p] <= 0 or batch.before[p] != batch.last[p]):
                beyond += _add_later(of, batch.a[p], batch.b[p], batch.last[p], tops)
                beyond += _add_later(of, batch.b[p], batch.a[p], batch.last[p], tops)
    return beyond


def _add_later(of: FilterArrays, asking: int, answering: int, last: float, tops: Int64) -> int:
    if not (of.role[asking] & ASKS and of.role[answering] & ANSWERS):
        return 0
    row, to = of.asks[asking], of.answers[answering]
    beyond = 0
    for which in range(2):
        if _is_beyond(of, which, last, tops[which]):
            weight = weight_of(of, which, last)
            _add_weights(of, row, to, weight if which == SUMS else 0, weight if which == TREND else 0)
            beyond += _is_beyond(of, which, last, of.base[which] + WINDOW - 1)
    return beyond


def _mark_dirty(of: FilterArrays, row: int) -> None:
    if of.dirty[row] == 0:
        of.dirty[row] = 1
        of.dirty_rows[of.sizes[DIRTY]] = row
        of.sizes[DIRTY] += 1


def _touch(of: FilterArrays, row: int) -> None:
    if of.touched[row] == 0:
        of.touched[row] = 1
        of.touched_rows[of.sizes[TOUCHED]] = row
        of.sizes[TOUCHED] += 1


def load(of: FilterArrays, pull: ArcArrays, nodes: int) -> None:
    """Count the edges of a graph from nothing; no message is sent yet."""
    with cython.nogil:
        for asking in range(nodes):
            if of.asks[asking] >= 0:
                for at in range(pull.start[asking], pull.start[asking] + pull.count[asking]):
                    to = of.answers[pull.others[at]]
                    if to >= 0 and pull.weights[at] > 0:
                        of.out[asking] += 1
                        of.into[pull.others[at]] += 1
                        add_row(of.taste_block, of.asks[asking], of.row_block, to, 1)
                        recent = weight_of(of, TREND, pull.times[at] if len(pull.times) > 0 else 0.0)
                        of.recent[to] += recent
                        of.sizes[COUNTED] += recent
                        _touch(of, to)
                _mark_dirty(of, of.asks[asking])


# ---- messages --------------------------------------------------------------------------------------------


def _next_message(of: FilterArrays, row: int) -> bool:
    """Write the message of an asking node, and its change; return whether it changed."""
    edges = of.out[of.asker[row]]
    factor = MESSAGE_SCALE / sqrt(edges) if 0 < edges <= MOST_EDGES else 0.0
    moved = False
    for column in range(of.taste.shape[1]):
        value = whole(rint(of.taste[row, column] * factor))
        value = max(-GREATEST_MESSAGE, min(GREATEST_MESSAGE, value))
        of.change[0, column] = value - of.said[row, column]
        of.said[row, column] = value
        moved = moved or of.change[0, column] != 0
    return moved


def tell(of: FilterArrays, pull: ArcArrays) -> None:
    """Send all changed messages to the answers of their nodes."""
    with cython.nogil:
        for i in range(of.sizes[DIRTY]):
            row = of.dirty_rows[i]
            of.dirty[row] = 0
            if of.asker[row] >= 0 and _next_message(of, row):
                _tell_answers(of, pull, of.asker[row])
        of.sizes[DIRTY] = 0


def _tell_answers(of: FilterArrays, pull: ArcArrays, node: int) -> None:
    end = pull.start[node] + pull.count[node]
    for at in range(pull.start[node], end):
        to = of.answers[pull.others[at]]
        if at + 4 < end and of.answers[pull.others[at + 4]] >= 0:
            prefetch_row(of.total_block, of.answers[pull.others[at + 4]])
        if to >= 0 and pull.weights[at] > 0:
            weight = weight_of(of, SUMS, pull.times[at] if len(pull.times) > 0 else 0.0)
            if weight != 0:
                add_row(of.total_block, to, of.change_block, 0, weight)
                of.sizes[ROWS] += 1
                _touch(of, to)


def advance(of: FilterArrays, pull: ArcArrays, nodes: int, rows: int, which: int, base: int) -> None:
    """Move the base up: subtract the edges that leave the window, then shift, which loses no bit."""
    with cython.nogil:
        for asking in range(nodes):
            if of.asks[asking] >= 0:
                for at in range(pull.start[asking], pull.start[asking] + pull.count[asking]):
                    to = of.answers[pull.others[at]]
                    if to >= 0 and pull.weights[at] > 0 and octave_of(of, which, pull.times[at]) < base:
                        weight = -weight_of(of, which, pull.times[at])
                        if which == SUMS:
                            _add_weights(of, of.asks[asking], to, weight, 0)
                        else:
                            _add_weights(of, of.asks[asking], to, 0, weight)
        by = min(base - of.base[which], 63)
        for row in range(rows):
            if which == SUMS:
                for column in range(of.total.shape[1]):
                    of.total[row, column] >>= by
            else:
                of.recent[row] >>= by
            _touch(of, row)
        if which == TREND:
            of.sizes[COUNTED] >>= by
        of.base[which] = base


# ---- scores ----------------------------------------------------------------------------------------------


def prepare(of: FilterArrays, powers: Float64) -> int:
    """Write the moved sums in the form that scores read; `powers` has the factor of each number of edges.

    Returns how many rows were touched; they stay listed for the caller.
    """
    count = of.sizes[TOUCHED]
    with cython.nogil:
        for i in range(count):
            row = of.touched_rows[i]
            of.touched[row] = 0
            edges = of.into[of.answer[row]] if of.answer[row] >= 0 else 0
            factor = powers[min(edges, len(powers) - 1)]
            for column in range(of.total.shape[1]):
                of.prepared[row, column] = of.total[row, column] * factor
        of.sizes[TOUCHED] = 0
    done: int = count
    return done


def score(of: FilterArrays, rows: Int64, query: Float32, out: Float64) -> None:
    """Write the products of a query with the prepared sums of some rows."""
    with cython.nogil:
        write_scores(of.prepared, rows, query, out)


def walk_paths(
    of: FilterArrays, pull: ArcArrays, node: int, roots: Float64, passing: Int64, out: Int64, reached: Int64
) -> int:
    """Add the weights of paths from an asking node over an answer and another asking node, in `PATH_UNIT`.

    First the paths to each of the other asking nodes are added up, in `passing`, which is zero before and
    after: the answers of each are walked over once. `roots` has the inverse square root of each number of
    edges: the weight of an answer, and of another asking node. The rows with a weight are the first in
    `reached`, unordered; returns how many.
    """
    last, count = len(roots) - 1, 0
    with cython.nogil:
        for one in range(pull.start[node], pull.start[node] + pull.count[node]):
            answer = pull.others[one]
            if pull.weights[one] <= 0 or of.answers[answer] < 0 or of.into[answer] > MOST_ON_PATHS:
                continue
            mass = PATH_UNIT * roots[min(of.into[answer], last)]
            for two in range(pull.start[answer], pull.start[answer] + pull.count[answer]):
                other = pull.others[two]
                if pull.weights[two] <= 0 or of.asks[other] < 0 or of.out[other] > MOST_ON_PATHS:
                    continue
                if other != node:
                    passing[of.asks[other]] += whole(rint(mass * roots[min(of.out[other], last)]))
        for one in range(pull.start[node], pull.start[node] + pull.count[node]):
            answer = pull.others[one]
            if of.answers[answer] < 0 or of.into[answer] > MOST_ON_PATHS:
                continue
            for two in range(pull.start[answer], pull.start[answer] + pull.count[answer]):
                row = of.asks[pull.others[two]]
                if row >= 0 and passing[row] > 0:
                    count = _end_paths(of, pull, pull.others[two], passing[row], out, reached, count)
                    passing[row] = 0
    done: int = count
    return done


def _end_paths(
    of: FilterArrays, pull: ArcArrays, node: int, mass: int, out: Int64, reached: Int64, count: int
) -> int:
    for at in range(pull.start[node], pull.start[node] + pull.count[node]):
        to = of.answers[pull.others[at]]
        if to >= 0 and pull.weights[at] > 0:
            weight = mass * weight_of(of, SUMS, pull.times[at] if len(pull.times) > 0 else 0.0)
            if weight > 0 and out[to] == 0:
                reached[count] = to
                count += 1
            out[to] += weight
    return count
