"""The loops of the exact rule over rows, and a small update in one call. Sums may wrap around on the way.

An update in one call is the graph, then every order, without coming back to Python in between: the same loops
as of a large one, one after the other. Where an order finds its buffers too small, or rows in the wrong
place, the call ends before it, and `spreading` goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.constants import CAME, MOVED, TOUCHED, WENT
from dygcn.engine.graph.constants import DONE as WRITTEN
from dygcn.engine.propagation.outcomes import ALL_DONE, EVERYBODY, NARROW, NOT_BEGUN, NOT_DONE
from dygcn.engine.records import Int64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine._native import prefetch_8
    from dygcn.engine._rows import RowBlock, add_all, add_row, clear_row, prefetch_row
    from dygcn.engine.features.units import UnitTable, find_units
    from dygcn.engine.graph.arcs import ArcArrays, tier_is_due
    from dygcn.engine.graph.delta import BatchArrays, EventArrays
    from dygcn.engine.graph.ids_kernels import IdArrays, hashes_at, keys_at
    from dygcn.engine.graph.ticks import prefetch_stamp, stamp
    from dygcn.engine.graph.writing import apply_events
    from dygcn.engine.propagation.gathering import (
        ArcChanges,
        Arcs,
        Marks,
        MessageBuffer,
        ReachedNodes,
        Work,
        count_pushes,
        gather,
        in_units,
        note_orders,
        number_nodes,
    )
    from dygcn.engine.propagation.pulling import HeavyRows, follow
    from dygcn.engine.propagation.sum_rows import SumRows, inverse_of, narrow_row, write_messages


AHEAD = 6  # rows
CACHED = 1 << 18  # numbers; a table of more does not stay in the nearest cache
AT_ONCE = 96  # rows; no more are fetched before the first is needed


class Tools(Holder):
    """The working memory of an update: pushes, marks of nodes, reached nodes, heavy nodes' messages."""

    def __init__(self, work: Work, marks: Marks, reached: ReachedNodes, heavy: HeavyRows) -> None:
        self.arrays = work, marks, reached, heavy
        self.work, self.marks, self.reached, self.heavy = work, marks, reached, heavy


class Step(Holder):
    """One order: its sums, output messages, number, and the next step; None for the last."""

    def __init__(self, sums: SumRows, out: MessageBuffer, order: int, following: Step | None = None) -> None:
        self.arrays = sums, out, order, following
        self.sums, self.out, self.order = sums, out, order
        self.following: Any = following


def _prefetch_sums(sums: SumRows, node: int, slot: int) -> None:
    if slot < 0:
        prefetch_row(sums.narrow, narrow_row(slot, node))
    else:
        prefetch_row(sums.wide, slot)
    prefetch_stamp(sums.ticks, node)


def _pulls(v: int, first: int, stop: int, work: Work, pull: ArcArrays) -> bool:
    """Return whether a node pulls or pulled messages: its stored sum alone cannot show a change then."""
    found: bool = pull.upper[v] > 0
    for c in range(first, stop):
        found = found or work.sorted_factor[c] == 0  # a change over a pulled arc, which may be gone by now
    return found


def _add_one(
    stored: RowBlock, at: int, work: Work, i: int, scale: float, table: RowBlock, out: RowBlock, to: int
) -> bool:
    """Add the pushes to receiver i to its row; return whether its message moved."""
    first, stop = work.first[i], work.first[i + 1]
    was, now = scale * inverse_of(work.before[i]), scale * inverse_of(work.after[i])
    return add_all(
        stored, at, table, work.sorted_row, work.sorted_factor, first, stop, work.ahead, was, now, out, to
    )


def _add_up(
    work: Work, sums: SumRows, frontier: MessageBuffer, out: MessageBuffer, at: int, old: int, pull: ArcArrays
) -> int:
    """Add the pushes to each gathered receiver's row; return the number of changed messages.

    The table of `out` takes by how much, a row for each from `old + at` on; it has no rows for the last
    order. Its `has` takes who gained or lost having a message (+1, -1), its `nodes` and `row`, from `at` on,
    who changed.
    """
    n, found, out_row = 0, work.found, old + at
    wanted = out.table.rows > 0  # else nobody needs by how much
    work.ahead = work.first[found] if frontier.table.rows * frontier.table.width > CACHED else 0
    for i in range(found):
        near = min(i + AHEAD, found - 1)
        _prefetch_sums(sums, work.receivers[near], work.slots[near])
        v, slot, first, stop = work.receivers[i], work.slots[i], work.first[i], work.first[i + 1]
        to = out_row + n if wanted else -1
        stamp(sums.ticks, v)
        sums.degree[v] = work.after[i]
        if slot < 0:
            row = narrow_row(slot, v)
            changed = _add_one(sums.narrow, row, work, i, sums.scale, frontier.table, out.table, to)
        else:
            changed = _add_one(sums.wide, slot, work, i, sums.scale, frontier.table, out.table, to)
        gained = (1 if work.after[i] > 0 else 0) - (1 if work.before[i] > 0 else 0)
        if changed or gained != 0 or (sums.partial and _pulls(v, first, stop, work, pull)):
            out.nodes[at + n] = v
            out.row[at + n] = out_row + n
            out.has[out_row + n] = gained
            n += 1
    return n


def add_part(
    work: Work, sums: SumRows, frontier: MessageBuffer, out: MessageBuffer, at: int, old: int, pull: ArcArrays
) -> int:
    """Add to the rows of one part of the nodes, in parallel with other threads.

    `at` is how many receivers the parts before this one have, `old` how many rows of the table of `out` are
    those of senders of changed arcs.
    """
    with cython.nogil:
        changed = _add_up(work, sums, frontier, out, at, old, pull)
    return changed


def do_order(
    frontier: MessageBuffer, arcs: Arcs, changed_senders: int, tools: Tools, step: Step, reached: int
) -> int:
    """Gather and write one order, and return how many nodes were reached so far.

    Or return `NOT_DONE`, having written nothing: a buffer is too small, or a row is in the wrong place.
    """
    pushes = arcs.count + count_pushes(frontier, arcs.push, step.sums)
    if pushes >= len(tools.work.node):
        return NOT_DONE
    found, moving = gather(frontier, arcs, EVERYBODY, step.sums, tools.marks, tools.work, pushes)
    small = changed_senders + found > len(step.out.has) or reached + found > len(tools.reached.nodes)
    if small or moving > 0:
        return NOT_DONE
    if found <= AT_ONCE:
        for i in range(found):
            _prefetch_sums(step.sums, tools.work.receivers[i], tools.work.slots[i])
            prefetch_8(tools.marks.seen, tools.work.receivers[i])
    # Old messages of this order are taken first, before its sums are written: the next order needs them.
    write_messages(step.sums, arcs.changes.changed_senders, changed_senders, step.out.table, step.out.has)
    step.out.count = _add_up(tools.work, step.sums, frontier, step.out, 0, changed_senders, arcs.pull)
    if step.order == 1:
        follow(tools.heavy, step.out, arcs.push)
    return note_orders(step.out.nodes, step.out.count, step.order, tools.marks.seen, tools.reached, reached)


def sum_degrees(low: int, high: int, pull: ArcArrays, has: Int64, sums: SumRows) -> None:
    """Write the degree of nodes low..high - 1: the weights of the neighbours that have a message."""
    with cython.nogil:
        for v in range(low, high):
            d = 0
            for i in range(_first_arc(v, pull, sums), pull.start[v] + pull.count[v]):
                weight = pull.weights[i]
                d += (weight if weight > 0 else -weight) * has[pull.others[i]]
            sums.degree[v] = d


def _first_arc(node: int, pull: ArcArrays, sums: SumRows) -> int:
    """Return the start of a node's arcs that its stored sum covers."""
    first: int = pull.start[node] + (pull.upper[node] if sums.partial else 0)
    return first


def _sum_row(
    stored: RowBlock, at: int, start: int, stop: int, pull: ArcArrays, message: RowBlock, shift: int
) -> None:
    clear_row(stored, at)
    for i in range(start, stop):
        weight = pull.weights[i]
        prefetch_row(message, pull.others[min(i + AHEAD, stop - 1)])
        add_row(stored, at, message, pull.others[i], in_units(weight if weight > 0 else -weight, shift))


def sum_neighbours(
    low: int, high: int, pull: ArcArrays, message: RowBlock, sums: SumRows, shift: int
) -> None:
    """Compute the sums of nodes low..high - 1; absent messages are zeros, all in stored units."""
    with cython.nogil:
        for v in range(low, high):
            slot, start, stop = sums.slot[v], _first_arc(v, pull, sums), pull.start[v] + pull.count[v]
            if slot >= 0:
                _sum_row(sums.wide, slot, start, stop, pull, message, shift)
            elif slot != NARROW or not sums.pooled:
                _sum_row(sums.narrow, narrow_row(slot, v), start, stop, pull, message, shift)


# ---- a small update in one call ----------------------------------------------------------------------------


class UpdatePlan(Holder):
    """Everything an update in one call works on, with buffers for one event."""

    # arcs: The graph's, with a buffer for those that change.
    # start, wanted: Buffers for the features of their senders, and for the keys of these.
    # tools, heavy_from: What orders work with; from how many arcs on a node is heavy.
    # first: The first order.
    # units, ids: Where features are found, and by what.
    # graph: See `graph.writing.apply_events`.

    def __init__(self, *parts: Any) -> None:
        self.arrays = parts
        self.arcs, self.start, self.wanted, self.tools, self.heavy_from, self.first, *rest = parts
        self.units, self.ids, self.graph = rest
        ends = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.src, self.dst = ends
        self.op, self.weight = np.zeros(1, np.int8), np.zeros(1, np.int64)
        self.t = np.zeros(1 if self.graph.count_half_life > 0 else 0)  # where contacts are kept
        self.edge = EventArrays(*ends, self.op, self.weight, self.t)


def _note_nodes(plan: UpdatePlan, batch: BatchArrays) -> int:
    """Mark nodes that left, record nodes that came; return the number of reached nodes."""
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
    step: Step, frontier: MessageBuffer, plan: UpdatePlan, changed_senders: int, reached: int, added: int
) -> tuple[int, int, int]:
    last = step.following is None
    now = do_order(frontier, plan.arcs, 0 if last else changed_senders, plan.tools, step, reached)
    if now == NOT_DONE:
        return step.order, reached, added
    added += plan.tools.work.found
    if last:
        return ALL_DONE, now, added
    return _orders_from(step.following, step.out, plan, changed_senders, now, added)


def _forget_marks(plan: UpdatePlan, batch: BatchArrays, reached_count: int) -> None:
    for i in range(reached_count):
        plan.tools.marks.seen[plan.tools.reached.nodes[i]] = 0
    for i in range(batch.sizes[WENT]):
        plan.tools.marks.seen[batch.nodes[2, i]] = 0


def _propagate(plan: UpdatePlan, batch: BatchArrays) -> tuple[int, int, int]:
    plan.arcs.count = batch.sizes[MOVED] if plan.graph.directed else 2 * batch.sizes[MOVED]
    if batch.sizes[CAME] > len(plan.tools.reached.nodes) or plan.arcs.count > len(plan.wanted):
        return NOT_BEGUN, 0, 0
    reached_count = _note_nodes(plan, batch)
    changed_senders = _start(plan, plan.arcs.changes, batch, plan.ids, plan.units)
    order, reached_count, added = _orders_from(
        plan.first, plan.start, plan, changed_senders, reached_count, 0
    )
    if order == ALL_DONE:
        _forget_marks(plan, batch, reached_count)
    return order, reached_count, added


def _count_due(plan: UpdatePlan, batch: BatchArrays) -> int:
    due = 0
    for i in range(batch.sizes[TOUCHED]):
        node = batch.nodes[0, i]
        arcs = max(plan.arcs.pull.count[node], plan.arcs.push.count[node])
        due += tier_is_due(plan.arcs.pull, node, arcs, plan.heavy_from)
    return due


def _update(plan: UpdatePlan, events: EventArrays) -> tuple[int, int, int, int, int]:
    order, reached_count, added, due = ALL_DONE, 0, 0, 0
    status = apply_events(plan.graph, events)
    if status == WRITTEN:
        order, reached_count, added = _propagate(plan, plan.graph.batch)
        due = _count_due(plan, plan.graph.batch)
    return status, order, due, reached_count, added


def update_at_once(plan: UpdatePlan, events: EventArrays) -> tuple[int, int, int, int, int]:
    """Apply events to the graph and to every order of the state.

    Return what `apply_events` returned; the order that could not be done, or `ALL_DONE`, or `NOT_BEGUN` if
    newcomers need larger buffers; how many nodes belong to another tier now; how many nodes were reached
    (`UpdatePlan.tools`) and rows added to so far.
    """
    with cython.nogil:
        done = _update(plan, events)
    return done


def update_edge(
    plan: UpdatePlan, a: int, b: int, op: int, weight: int, t: float
) -> tuple[int, int, int, int, int]:
    """Apply one event, as `update_at_once` does, without allocating an array."""
    with cython.nogil:
        plan.src[0], plan.dst[0], plan.op[0], plan.weight[0] = a, b, op, weight
        if len(plan.t) > 0:
            plan.t[0] = t
        done = _update(plan, plan.edge)
    return done
