"""Estimates of the cost of a batch, in rows of state, before it is accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dygcn.engine.events import join_ids, python_ids
from dygcn.engine.graph.ageing import Memory
from dygcn.engine.graph.constants import DEEPEST
from dygcn.engine.graph.pairs import count_due
from dygcn.engine.models.contracts import StateWriter
from dygcn.engine.propagation import ExactRule
from dygcn.engine.records import EventBatch, Float64, Nodes
from dygcn.errors import OptionError
from dygcn.live.finding import linked_nodes
from dygcn.live.recommending import asking_kind
from dygcn.serving.service.settings import CurrentSettings

_LOOK = 20_000  # arcs that are followed; a ring with more of them is taken to reach every node behind it

ROWS_OF_A_BOUNDED_EVENT = 40  # about, where no event adds to many: 30 to 75 on average, on graphs with hubs
ROWS_RANKED = 256  # that count for one node whose nearest are wanted
PATHS_A_ROW = 16  # paths of two edges that take as long as one row to rank, where nodes are recommended


class RowBudget:
    """How many rows of state a query may read or a trial may write, by the current limits."""

    def __init__(self, current: CurrentSettings) -> None:
        self.current = current

    def check(self, rows: int, instead: str) -> None:
        """Refuse more rows than allowed, with a hint what to do instead."""
        most = self.current.limits.query_rows
        if rows > most:
            raise OptionError(
                f"this would take about {rows} rows or more; allowed are up to {most} "
                f"(limits.query_rows): {instead}, or raise the limit"
            )


def expected_rows(state: StateWriter, batch: EventBatch) -> int:
    """Estimate the rows that events touch: each end, the nodes that aggregate it, and so on to order K."""
    if len(batch) == 0 or batch.src.kind != state.graph.ids.kind:
        return len(batch)
    return _rows_behind(state, state.graph.find(join_ids([batch.src, batch.dst])))


def expected_rows_one_by_one(state: StateWriter, batch: EventBatch, now: float | None, most: int) -> int:
    """Estimate the rows touched by events that are applied one by one, with time between.

    What a batch reaches twice it touches once; here every event touches all that it reaches. The count stops
    above `most`.
    """
    due = rows_of_expiry(state, batch, now)
    if len(batch) == 0 or batch.src.kind != state.graph.ids.kind:
        return len(batch) + due + _rows_of_ageing(state, _clocks(state, batch, now), most)
    nodes = state.graph.find(join_ids([batch.src, batch.dst])).reshape(2, -1)
    rows = due
    for ends, met in zip(nodes.T, _met_before(batch), strict=True):
        rows += _rows_behind(state, ends) + (state.model.orders - 1) * met
        if rows > most:
            return rows
    removed = batch.op < 0
    gone = None if batch.t is None else (*nodes[:, removed], batch.t[removed].astype(np.float64))
    return rows + _rows_of_ageing(state, _clocks(state, batch, now), most - rows, gone)


def expected_rows_of_ageing(state: StateWriter, batch: EventBatch, now: float | None, most: int) -> int:
    """Estimate the rows touched as ghosts lose weight, up to the end of a batch."""
    due = rows_of_expiry(state, batch, now)
    return due + _rows_of_ageing(state, _clocks(state, batch, now)[-1:], most)


def rows_of_expiry(state: StateWriter, batch: EventBatch, now: float | None = None) -> int:
    """Estimate the rows touched by edges that expire, up to the end of a batch.

    No edge is looked at: those that were in contact again count, too.
    """
    expiry, graph = state.graph.expiry, state.graph
    if expiry is None or graph.contacts is None:
        return 0
    return ROWS_OF_A_BOUNDED_EVENT * count_due(expiry.queue, graph.contacts.clock_after(batch, now))


def expected_rows_of_removal(state: StateWriter, nodes: Nodes) -> int:
    """Estimate the rows touched by removing nodes: theirs, their neighbours', and so on."""
    graph = state.graph
    ends = [nodes, graph.push.arcs(nodes)[1]]
    if graph.directed:
        ends.append(graph.pull.arcs(nodes)[1])
    return _rows_behind(state, np.concatenate(ends))


def _rows_behind(state: StateWriter, nodes: Nodes) -> int:
    """Estimate the rows that changes of these nodes touch; below 0 stands for a new node."""
    graph, rule, orders = state.graph, state.rule, state.model.orders
    ring = nodes[nodes >= 0]
    total = ends = len(nodes)
    for order in range(2, orders + 1):
        pushes = rule.pushes(graph, ring) if isinstance(rule, ExactRule) else graph.push.degrees(ring)
        arcs = int(np.sum(pushes, dtype=np.int64))
        total += arcs if order == 2 else min(arcs, len(graph)) + ends
        if order < orders and arcs > _LOOK:
            return total + (orders - order) * (len(graph) + ends)
        if order < orders:
            ring = np.unique(np.concatenate((ring, graph.push.arcs(np.unique(ring))[1])))
    return total


def _met_before(batch: EventBatch) -> list[int]:
    """Return for each event how many ends of earlier events in the batch it shares."""
    seen: Counter[int | str] = Counter()
    met = []
    for pair in zip(python_ids(batch.src).tolist(), python_ids(batch.dst).tolist(), strict=True):
        met.append(sum(seen[one] for one in pair))
        seen.update(pair)
    return met


def rows_of_paths(state: StateWriter, ids: Sequence[int | str]) -> int:
    """Return the cost in rows of finding candidates by paths of two edges."""
    graph, kind = state.graph, asking_kind(state)
    nodes = np.array([graph.find_one(one, kind) for one in ids], np.int32)
    linked = (linked_nodes(graph, node) for node in nodes[nodes >= 0].tolist())
    return sum(int(graph.pull.degrees(near).sum(dtype=np.int64)) for near in linked) // PATHS_A_ROW


# ---- time --------------------------------------------------------------------------------------------------


def _clocks(state: StateWriter, batch: EventBatch, now: float | None) -> Float64:
    """Return the clock before the batch, after each event and at the end; empty without a memory."""
    memory = state.graph.memory
    if memory is None:
        return np.empty(0)
    times = [] if batch.t is None else batch.t.tolist()
    steps = np.array([memory.clock, *times, *(() if now is None else (now,))], np.float64)
    return np.maximum.accumulate(steps)


def _rows_of_ageing(
    state: StateWriter, clocks: Float64, most: int, gone: tuple[Nodes, Nodes, Float64] | None = None
) -> int:
    """Estimate the rows touched as ghosts age, clock by clock; `gone` are ghosts still to come."""
    memory = state.graph.memory
    if memory is None or not len(clocks) or clocks[-1] <= memory.clock:
        return 0
    ages, ends = _ages(memory, float(clocks[-1]), gone)
    order = np.argsort(ages, kind="stable")
    first = np.searchsorted(ages[order], clocks, side="right")  # behind what has aged by each clock
    rows = 0
    for begin, end in zip((0, *first[:-1]), first, strict=True):
        if end > begin:
            nodes = np.unique(ends[:, order[begin:end]])
            rows += _rows_behind(state, nodes[nodes >= 0])
        if rows > most:
            break
    return rows


def _ages(memory: Memory, clock: float, gone: tuple[Nodes, Nodes, Float64] | None) -> tuple[Float64, Nodes]:
    """Return the times at which ghosts lose weight up to a clock, (n,), and their pairs, (2, n)."""
    a, b = memory.look_due(clock)
    t = memory.recall(a, b)[1]
    if gone is not None:
        a, b, t = np.append(a, gone[0]), np.append(b, gone[1]), np.append(t, gone[2])
    ages = t + memory.half_life * np.arange(1, DEEPEST + 1)[:, None]
    ends = np.broadcast_to(np.stack((a, b))[:, None], (2, *ages.shape))
    wanted = (ages > memory.clock) & (ages <= clock)
    return ages[wanted], ends[:, wanted]
