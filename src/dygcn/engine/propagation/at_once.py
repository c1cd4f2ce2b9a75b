"""A small update in one call: the graph, then every order, without coming back to Python in between.

It is the same loops as of a large one (`graph.writing`, `kernels.do_order`), one after the other. Where
an order finds its buffers too small, or rows in the wrong place, the call ends before it, and `spreading`
goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.graph.outcomes import CAME, DONE, MOVED, TOUCHED, WENT
from dygcn.engine.propagation.outcomes import ALL_DONE, NOT_BEGUN

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine.features.units import UnitTable, find_units
    from dygcn.engine.graph.arcs import tier_is_due
    from dygcn.engine.graph.batch import BatchArrays, NodeArrays
    from dygcn.engine.graph.ids_kernels import IdArrays, hashes_at, keys_at
    from dygcn.engine.graph.writing import apply_events
    from dygcn.engine.propagation.gathering import number_nodes
    from dygcn.engine.propagation.kernels import Tools, do_order
    from dygcn.engine.propagation.sum_rows import SumRows
    from dygcn.engine.propagation.work import ArcChanges, Arcs, Handoff

if TYPE_CHECKING:
    from dygcn.engine.records import Float64, Int8, Int64, Nodes, UInt64


class Step:
    """One order: its sums, what it hands on, and the order that follows; None: it is the last."""

    def __init__(self, sums: SumRows, out: Handoff, following: Step | None) -> None:
        self.parts = sums, out, following
        self.sums, self.out = sums, out
        self.following: Any = following

    def __reduce__(self) -> tuple[type[Step], tuple[Any, ...]]:
        return Step, self.parts


class Course:
    """All that an update in one call works in, and buffers for one event.

    Parameters
    ----------
    arcs
        The graph's, with a buffer for those that change.
    start, wanted
        Buffers for the features of their senders, and for the keys of these.
    tools, heavy_from
        What orders work with; from how many arcs on a node is heavy.
    first
        The first order.
    units, ids
        Where features are found, and by what.
    batch, nodes, directed, stay, limit, half_life
        See `graph.writing.apply_events`.
    """

    def __init__(
        self,
        arcs: Arcs,
        start: Handoff,
        wanted: UInt64,
        tools: Tools,
        heavy_from: int,
        first: Step,
        units: UnitTable,
        ids: IdArrays,
        batch: BatchArrays,
        nodes: NodeArrays,
        directed: bool,
        stay: bool,
        limit: int,
        half_life: float,
    ) -> None:
        graph = batch, nodes, directed, stay, limit, half_life
        self.parts = arcs, start, wanted, tools, heavy_from, first, units, ids, *graph
        self.arcs, self.start, self.wanted, self.tools, self.first = arcs, start, wanted, tools, first
        self.heavy_from, self.units, self.ids = heavy_from, units, ids
        self.batch, self.nodes = batch, nodes
        self.directed, self.stay, self.limit, self.half_life = directed, stay, limit, half_life
        self.src, self.dst = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.op, self.weight = np.zeros(1, np.int8), np.zeros(1, np.int64)
        self.t = np.zeros(1 if half_life > 0 else 0)

    def __reduce__(self) -> tuple[type[Course], tuple[Any, ...]]:
        return Course, self.parts


def _note_nodes(course: Course, batch: BatchArrays) -> int:
    """Mark who left, note who came; return how many nodes were reached."""
    reached_count = 0
    for i in range(batch.sizes[WENT]):
        course.tools.marks.seen[batch.nodes[2, i]] = 1  # who left is reported by the graph
    for i in range(batch.sizes[CAME]):
        node = batch.nodes[1, i]
        if course.tools.marks.seen[node] == 0:
            course.tools.marks.seen[node] = 1
            course.tools.reach.nodes[reached_count] = node
            course.tools.reach.orders[reached_count] = 1
            reached_count += 1
    return reached_count


def _start(course: Course, changes: ArcChanges, batch: BatchArrays, ids: IdArrays, units: UnitTable) -> int:
    """Fill in what order 1 starts from: who sends, over which arcs, their features; return how many send."""
    arcs = course.arcs.count
    n = number_nodes(batch.arcs, arcs, arcs, course.tools.marks.place, changes.changed_senders, changes.row)
    for i in range(arcs):
        changes.receiver[i] = batch.arcs[i]
        changes.change[i] = batch.arc_weights[arcs + i] - batch.arc_weights[i]
    if units.hashed:
        keys_at(ids, changes.changed_senders, n, course.wanted)
    else:
        hashes_at(ids, changes.changed_senders, n, course.wanted)
    find_units(units, course.wanted, n, course.start.table, course.start.has)
    return n


def _orders_from(
    step: Step,
    order: int,
    wave: Handoff,
    senders: int,
    course: Course,
    changed_senders: int,
    reached_count: int,
    added: int,
) -> tuple[int, int, int, int]:
    """Do order after order; return the one that could not be done, or `ALL_DONE`, and how far it went."""
    last = step.following is None
    old = 0 if last else changed_senders
    status, found, changed, reached = do_order(
        wave, senders, course.arcs, old, course.tools, step.sums, step.out, order, reached_count
    )
    if status != DONE:
        return order, senders, reached_count, added
    if last:
        return ALL_DONE, changed, reached, added + found
    return _orders_from(
        step.following, order + 1, step.out, changed, course, changed_senders, reached, added + found
    )


def _forget_marks(course: Course, batch: BatchArrays, reached_count: int) -> None:
    for i in range(reached_count):
        course.tools.marks.seen[course.tools.reach.nodes[i]] = 0
    for i in range(batch.sizes[WENT]):
        course.tools.marks.seen[batch.nodes[2, i]] = 0


def _propagate(course: Course, batch: BatchArrays) -> tuple[int, int, int, int]:
    """Take what was written to the graph through every order."""
    course.arcs.count = batch.sizes[MOVED] if course.directed else 2 * batch.sizes[MOVED]
    if batch.sizes[CAME] > len(course.tools.reach.nodes) or course.arcs.count > len(course.wanted):
        return NOT_BEGUN, 0, 0, 0
    reached_count = _note_nodes(course, batch)
    changed_senders = _start(course, course.arcs.changes, batch, course.ids, course.units)
    order, changed, reached_count, added = _orders_from(
        course.first, 1, course.start, 0, course, changed_senders, reached_count, 0
    )
    if order == ALL_DONE:
        _forget_marks(course, batch, reached_count)
    return order, changed, reached_count, added


def _count_due(course: Course, batch: BatchArrays) -> int:
    """Return how many of the touched nodes belong to another tier now."""
    due = 0
    for i in range(batch.sizes[TOUCHED]):
        node = batch.nodes[0, i]
        arcs = max(course.arcs.pull.count[node], course.arcs.push.count[node])
        due += tier_is_due(course.arcs.pull, node, arcs, course.heavy_from)
    return due


def _update(
    course: Course, src: Nodes, dst: Nodes, op: Int8, weight: Int64, t: Float64
) -> tuple[int, int, int, int, int, int]:
    order, changed, reached_count, added, due = ALL_DONE, 0, 0, 0, 0
    status = apply_events(
        course.batch,
        course.arcs.pull,
        course.arcs.push,
        course.nodes,
        course.directed,
        course.stay,
        course.limit,
        course.half_life,
        src,
        dst,
        op,
        weight,
        t,
    )
    if status == DONE:
        order, changed, reached_count, added = _propagate(course, course.batch)
        due = _count_due(course, course.batch)
    return status, order, due, changed, reached_count, added


def update_at_once(
    course: Course, src: Nodes, dst: Nodes, op: Int8, weight: Int64, t: Float64
) -> tuple[int, int, int, int, int, int]:
    """Apply events to the graph and to every order of the state.

    Returns
    -------
    tuple
        What `apply_events` returned; the order that could not be done, or `ALL_DONE`, or `NOT_BEGUN` if
        newcomers need larger buffers; how many nodes belong to another tier now; how many messages changed in
        the order before that one, how many nodes were reached (`Course.reach`) and rows added to so far.
    """
    with cython.nogil:
        done = _update(course, src, dst, op, weight, t)
    return done


def update_edge(
    course: Course, a: int, b: int, op: int, weight: int, t: float
) -> tuple[int, int, int, int, int, int]:
    """Apply one event, as `update_at_once` does, without an array made for it."""
    with cython.nogil:
        course.src[0], course.dst[0], course.op[0], course.weight[0] = a, b, op, weight
        if len(course.t) > 0:
            course.t[0] = t
        done = _update(course, course.src, course.dst, course.op, course.weight, course.t)
    return done
