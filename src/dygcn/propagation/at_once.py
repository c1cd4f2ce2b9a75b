"""A small update in one call: the graph, then every order, without coming back to Python in between.

It is the same loops as of a large one (`graph.writing`, `kernels.do_order`), one after the other. Where
an order finds too little room, or rows in the wrong place, the call ends before it, and `spreading` goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dygcn.graph.outcomes import CAME, DONE, MOVED, WENT
from dygcn.propagation.outcomes import ALL_DONE, NOT_BEGUN

try:
    import cython
except ImportError:
    from dygcn import _native as cython
if not cython.compiled:
    from dygcn.features.units import UnitTable, find_units
    from dygcn.graph.arcs import ArcArrays
    from dygcn.graph.batch import BatchArrays, NodeArrays
    from dygcn.graph.ids_kernels import IdArrays, hashes_at, keys_at
    from dygcn.graph.writing import apply_events
    from dygcn.propagation.gathering import number_nodes
    from dygcn.propagation.kernels import do_order
    from dygcn.propagation.sum_rows import SumRows
    from dygcn.propagation.work import ArcChanges, Bank, Marks, Reach, Work

if TYPE_CHECKING:
    from dygcn.records import Float64, Int8, Int64, Nodes, UInt64


class Step:
    """One order: its sums, what it hands on, and the order that follows; None: it is the last."""

    def __init__(self, sums: SumRows, out: Bank, following: Step | None) -> None:
        self.parts = sums, out, following
        self.sums, self.out = sums, out
        self.following: Any = following

    def __reduce__(self) -> tuple[type[Step], tuple[Any, ...]]:
        return Step, self.parts


class Course:
    """All that an update in one call works in.

    Parameters
    ----------
    changes, start, wanted
        Room for the changed arcs, for the features of their senders, and for what these are looked up by.
    work, marks, reach
        Of all orders; `first` is the first of them.
    """

    def __init__(
        self,
        changes: ArcChanges,
        start: Bank,
        wanted: UInt64,
        work: Work,
        marks: Marks,
        reach: Reach,
        first: Step,
    ) -> None:
        self.parts = changes, start, wanted, work, marks, reach, first
        self.changes, self.start, self.wanted = changes, start, wanted
        self.work, self.marks, self.reach, self.first = work, marks, reach, first

    def __reduce__(self) -> tuple[type[Course], tuple[Any, ...]]:
        return Course, self.parts


def _note_nodes(course: Course, batch: BatchArrays) -> int:
    """Mark who left, note who came; return how many nodes were reached."""
    noted = 0
    for i in range(batch.sizes[WENT]):
        course.marks.seen[batch.nodes[2, i]] = 1  # who left is told elsewhere
    for i in range(batch.sizes[CAME]):
        node = batch.nodes[1, i]
        if course.marks.seen[node] == 0:
            course.marks.seen[node] = 1
            course.reach.nodes[noted] = node
            course.reach.orders[noted] = 1
            noted += 1
    return noted


def _start(
    course: Course, changes: ArcChanges, batch: BatchArrays, arcs: int, ids: IdArrays, units: UnitTable
) -> int:
    """Fill in what order 1 starts from: who sends, over which arcs, their features; return how many send."""
    n = number_nodes(batch.arcs, arcs, arcs, course.marks.place, changes.structural, changes.row)
    for i in range(arcs):
        changes.receiver[i] = batch.arcs[i]
        changes.change[i] = batch.arc_weights[arcs + i] - batch.arc_weights[i]
    if units.hashed:
        keys_at(ids, changes.structural, n, course.wanted)
    else:
        hashes_at(ids, changes.structural, n, course.wanted)
    find_units(units, course.wanted, n, course.start.table, course.start.has)
    return n


def _orders_from(
    step: Step,
    order: int,
    wave: Bank,
    senders: int,
    arcs: int,
    structural: int,
    course: Course,
    push: ArcArrays,
    shift: int,
    noted: int,
    added: int,
) -> tuple[int, int, int, int]:
    """Do order after order; return the one that could not be done, or `ALL_DONE`, and how far it went."""
    last = step.following is None
    status, found, moved, reached = do_order(
        wave,
        senders,
        course.changes,
        arcs,
        0 if last else structural,
        push,
        course.work,
        step.sums,
        step.out,
        course.marks,
        course.reach,
        shift,
        order,
        noted,
    )
    if status != DONE:
        return order, senders, noted, added
    if last:
        return ALL_DONE, moved, reached, added + found
    return _orders_from(
        step.following,
        order + 1,
        step.out,
        moved,
        arcs,
        structural,
        course,
        push,
        shift,
        reached,
        added + found,
    )


def _forget_marks(course: Course, batch: BatchArrays, noted: int) -> None:
    for i in range(noted):
        course.marks.seen[course.reach.nodes[i]] = 0
    for i in range(batch.sizes[WENT]):
        course.marks.seen[batch.nodes[2, i]] = 0


def _propagate(
    course: Course,
    units: UnitTable,
    ids: IdArrays,
    shift: int,
    batch: BatchArrays,
    push: ArcArrays,
    directed: bool,
) -> tuple[int, int, int, int]:
    """Take what was written to the graph through every order."""
    arcs = batch.sizes[MOVED] if directed else 2 * batch.sizes[MOVED]
    if batch.sizes[CAME] > len(course.reach.nodes) or arcs > len(course.wanted):
        return NOT_BEGUN, 0, 0, 0
    noted = _note_nodes(course, batch)
    structural = _start(course, course.changes, batch, arcs, ids, units)
    order, moved, noted, added = _orders_from(
        course.first, 1, course.start, 0, arcs, structural, course, push, shift, noted, 0
    )
    if order == ALL_DONE:
        _forget_marks(course, batch, noted)
    return order, moved, noted, added


def update_at_once(
    course: Course,
    units: UnitTable,
    ids: IdArrays,
    shift: int,
    batch: BatchArrays,
    pull: ArcArrays,
    push: ArcArrays,
    nodes: NodeArrays,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
    directed: bool,
    stay: bool,
    limit: int,
    half_life: float,
) -> tuple[int, int, int, int, int]:
    """Apply events to the graph and to every order of the state.

    Returns
    -------
    tuple
        What `apply_events` returned; the order that could not be done, or `ALL_DONE`, or `NOT_BEGUN` if
        newcomers need more room; how many messages moved in the order before it, how many nodes
        were reached (`Course.reach`) and rows added to so far.
    """
    order, moved, noted, added = ALL_DONE, 0, 0, 0
    with cython.nogil:
        status = apply_events(
            batch, pull, push, nodes, src, dst, op, weight, t, directed, stay, limit, half_life
        )
        if status == DONE:
            order, moved, noted, added = _propagate(course, units, ids, shift, batch, push, directed)
    return status, order, moved, noted, added
