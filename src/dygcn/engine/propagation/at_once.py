"""A small update in one call: the graph, then every order, without coming back to Python in between.

It is the same loops as of a large one (`graph.writing`, `kernels.do_order`), one after the other. Where
an order finds its buffers too small, or rows in the wrong place, the call ends before it, and `spreading`
goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.graph.constants import CAME, DONE, MOVED, TOUCHED, WENT
from dygcn.engine.propagation.outcomes import ALL_DONE, NOT_BEGUN

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine.features.units import UnitTable, find_units
    from dygcn.engine.graph.arcs import tier_is_due
    from dygcn.engine.graph.batch import BatchArrays, EventArrays, GraphArrays
    from dygcn.engine.graph.ids_kernels import IdArrays, hashes_at, keys_at
    from dygcn.engine.graph.writing import apply_events
    from dygcn.engine.propagation.gathering import ArcChanges, Arcs, MessageBuffer, number_nodes
    from dygcn.engine.propagation.kernels import Step, Tools, do_order

if TYPE_CHECKING:
    from dygcn.engine.records import UInt64


class UpdatePlan:
    """All that an update in one call works in, and buffers for one event."""

    # arcs: The graph's, with a buffer for those that change.
    # start, wanted: Buffers for the features of their senders, and for the keys of these.
    # tools, heavy_from: What orders work with; from how many arcs on a node is heavy.
    # first: The first order.
    # units, ids: Where features are found, and by what.
    # graph: See `graph.writing.apply_events`.

    def __init__(
        self,
        arcs: Arcs,
        start: MessageBuffer,
        wanted: UInt64,
        tools: Tools,
        heavy_from: int,
        first: Step,
        units: UnitTable,
        ids: IdArrays,
        graph: GraphArrays,
    ) -> None:
        self.parts = arcs, start, wanted, tools, heavy_from, first, units, ids, graph
        self.arcs, self.start, self.wanted, self.tools, self.first = arcs, start, wanted, tools, first
        self.heavy_from, self.units, self.ids = heavy_from, units, ids
        self.graph = graph
        ends = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.src, self.dst = ends
        self.op, self.weight = np.zeros(1, np.int8), np.zeros(1, np.int64)
        self.t = np.zeros(1 if self.graph.count_half_life > 0 else 0)  # where contacts are kept
        self.edge = EventArrays(*ends, self.op, self.weight, self.t)

    def __reduce__(self) -> tuple[type[UpdatePlan], tuple[Any, ...]]:
        return UpdatePlan, self.parts


def _note_nodes(plan: UpdatePlan, batch: BatchArrays) -> int:
    """Mark who left, note who came; return how many nodes were reached."""
    reached_count = 0
    for i in range(batch.sizes[WENT]):
        plan.tools.marks.seen[batch.nodes[2, i]] = 1  # who left is reported by the graph
    for i in range(batch.sizes[CAME]):
        node = batch.nodes[1, i]
        if plan.tools.marks.seen[node] == 0:
            plan.tools.marks.seen[node] = 1
            plan.tools.reached.nodes[reached_count] = node
            plan.tools.reached.orders[reached_count] = 1
            reached_count += 1
    return reached_count


def _start(plan: UpdatePlan, changes: ArcChanges, batch: BatchArrays, ids: IdArrays, units: UnitTable) -> int:
    """Fill in what order 1 starts from: who sends, over which arcs, their features; return how many send."""
    arcs = plan.arcs.count
    n = number_nodes(batch.arcs, arcs, arcs, plan.tools.marks.place, changes.changed_senders, changes.row)
    for i in range(arcs):
        changes.receiver[i] = batch.arcs[i]
        changes.change[i] = batch.arc_weights[arcs + i] - batch.arc_weights[i]
    if units.hashed:
        keys_at(ids, changes.changed_senders, n, plan.wanted)
    else:
        hashes_at(ids, changes.changed_senders, n, plan.wanted)
    find_units(units, plan.wanted, n, plan.start.table, plan.start.has)
    return n


def _orders_from(
    step: Step,
    frontier: MessageBuffer,
    senders: int,
    plan: UpdatePlan,
    changed_senders: int,
    reached: int,
    added: int,
) -> tuple[int, int, int, int]:
    """Do order after order; return the one that could not be done, or `ALL_DONE`, and how far it went."""
    last = step.following is None
    old = 0 if last else changed_senders
    status, found, changed, now = do_order(frontier, senders, plan.arcs, old, plan.tools, step, reached)
    if status != DONE:
        return step.order, senders, reached, added
    if last:
        return ALL_DONE, changed, now, added + found
    return _orders_from(step.following, step.out, changed, plan, changed_senders, now, added + found)


def _forget_marks(plan: UpdatePlan, batch: BatchArrays, reached_count: int) -> None:
    for i in range(reached_count):
        plan.tools.marks.seen[plan.tools.reached.nodes[i]] = 0
    for i in range(batch.sizes[WENT]):
        plan.tools.marks.seen[batch.nodes[2, i]] = 0


def _propagate(plan: UpdatePlan, batch: BatchArrays) -> tuple[int, int, int, int]:
    """Take what was written to the graph through every order."""
    plan.arcs.count = batch.sizes[MOVED] if plan.graph.directed else 2 * batch.sizes[MOVED]
    if batch.sizes[CAME] > len(plan.tools.reached.nodes) or plan.arcs.count > len(plan.wanted):
        return NOT_BEGUN, 0, 0, 0
    reached_count = _note_nodes(plan, batch)
    changed_senders = _start(plan, plan.arcs.changes, batch, plan.ids, plan.units)
    order, changed, reached_count, added = _orders_from(
        plan.first, plan.start, 0, plan, changed_senders, reached_count, 0
    )
    if order == ALL_DONE:
        _forget_marks(plan, batch, reached_count)
    return order, changed, reached_count, added


def _count_due(plan: UpdatePlan, batch: BatchArrays) -> int:
    """Return how many of the touched nodes belong to another tier now."""
    due = 0
    for i in range(batch.sizes[TOUCHED]):
        node = batch.nodes[0, i]
        arcs = max(plan.arcs.pull.count[node], plan.arcs.push.count[node])
        due += tier_is_due(plan.arcs.pull, node, arcs, plan.heavy_from)
    return due


def _update(plan: UpdatePlan, events: EventArrays) -> tuple[int, int, int, int, int, int]:
    order, changed, reached_count, added, due = ALL_DONE, 0, 0, 0, 0
    status = apply_events(plan.graph, events)
    if status == DONE:
        order, changed, reached_count, added = _propagate(plan, plan.graph.batch)
        due = _count_due(plan, plan.graph.batch)
    return status, order, due, changed, reached_count, added


def update_at_once(plan: UpdatePlan, events: EventArrays) -> tuple[int, int, int, int, int, int]:
    """Apply events to the graph and to every order of the state.

    Return what `apply_events` returned; the order that could not be done, or `ALL_DONE`, or `NOT_BEGUN` if
    newcomers need larger buffers; how many nodes belong to another tier now; how many messages changed in the
    order before that one, how many nodes were reached (`UpdatePlan.tools`) and rows added to so far.
    """
    with cython.nogil:
        done = _update(plan, events)
    return done


def update_edge(
    plan: UpdatePlan, a: int, b: int, op: int, weight: int, t: float
) -> tuple[int, int, int, int, int, int]:
    """Apply one event, as `update_at_once` does, without an array made for it."""
    with cython.nogil:
        plan.src[0], plan.dst[0], plan.op[0], plan.weight[0] = a, b, op, weight
        if len(plan.t) > 0:
            plan.t[0] = t
        done = _update(plan, plan.edge)
    return done
