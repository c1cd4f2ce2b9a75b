"""Finds the events of a batch that a graph would refuse, in one pass, before anything is written."""

from __future__ import annotations

import numpy as np

from dygcn.engine.events import join_ids, rows_of, take
from dygcn.engine.graph.delta import EventArrays, overweight, play_weights
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.pairs import weights_left
from dygcn.engine.graph.relations import checked_units, off_grid, units_of
from dygcn.engine.graph.staging import PairBuffers
from dygcn.engine.graph.store import Graph
from dygcn.engine.records import Bool, EventBatch, Int32, Int64, Nodes
from dygcn.errors import CapacityError, EventError

_SPARE = 1.0 + 1e-9  # for what a sum of floats may lose


def find_refused(graph: Graph, batch: EventBatch, now: float | None = None) -> dict[int, str]:
    """Return the rows that cannot be applied, with reasons; the rest can be applied as one batch.

    A weight that is off the grid is refused wherever it stands. Where a node would carry too much in sum,
    events are played in order of arrival, and each that would bring one of its own ends to the limit is
    refused. Edges that expire meanwhile still count: close to the limit, a little too much is refused.
    """
    if len(batch) == 0:
        return {}
    try:
        graph.check_form(batch, now)
    except EventError as error:
        return dict.fromkeys(range(len(batch)), error.reason)
    units, off = units_of(graph, batch)
    found = off_grid(graph, batch, np.flatnonzero(off))
    rest = np.flatnonzero(~off) if found else np.arange(len(batch))
    if found:
        batch, units = rows_of(batch, rest), units[rest]
    heavy = _Trial(graph, batch, units, now).heavy_events()
    if len(heavy) == 0:
        return found
    found |= dict.fromkeys(rest[heavy].tolist(), graph.too_heavy)
    return dict(sorted(found.items()))


def check_batch(graph: Graph, batch: EventBatch, now: float | None = None) -> None:
    """Raise the `EventError` that applying a batch would raise, if any."""
    if len(batch) == 0:
        return
    graph.check_form(batch, now)
    units = checked_units(graph, batch)
    if _Trial(graph, batch, units, now).is_heavy():
        raise CapacityError(graph.too_heavy)


class _Trial:
    """Plays events on copies, to find the weight that their ends would carry. The graph stays unchanged.

    Nearly always a bound is enough: all weights of the batch at the heaviest of its ends are not too much.
    Only otherwise are pairs looked up.
    """

    def __init__(self, graph: Graph, batch: EventBatch, units: Int64, now: float | None) -> None:
        self._graph, self._batch, self._units = graph, batch, units
        self._clock = graph.memory.clock if graph.memory is not None else 0.0
        self._clock_after = graph.clock_after(batch, now)
        self._now = now
        src, dst = graph.ids.find(batch.src), graph.ids.find(batch.dst)
        known = np.concatenate((src, dst))
        known = known[known >= 0]
        most = graph.carried_at_most(known)
        self._light = most + _SPARE * float(units.sum(dtype=np.float64)) < graph.limit
        self._found = src, dst

    def is_heavy(self) -> bool:
        """Return whether a node would carry too much after the batch."""
        if self._light:
            return False
        played, pairs, old, carried = self._play(self._clock_after, self._clock_after, refuse=False)
        buffers = PairBuffers(self._graph.directed)
        buffers.fill(*pairs, old, played[1])
        change = np.zeros_like(carried)
        return overweight(buffers.arrays, buffers.directed, carried, change, self._graph.limit)

    def heavy_events(self) -> Int64:
        """Return the events to refuse so that no node carries too much; empty if all are acceptable."""
        if not self.is_heavy():
            return np.empty(0, np.int64)
        # With events refused, the clock may stand earlier than with all of them: ghosts weigh more then.
        earliest = self._clock if self._now is None else max(self._clock, float(self._now))
        played, *_ = self._play(self._clock, earliest, refuse=True)
        return np.flatnonzero(played[0])

    def _play(
        self, aged_to: float, clock: float, *, refuse: bool
    ) -> tuple[tuple[Bool, Int64], tuple[Nodes, Nodes], Int64, Int64]:
        """Return the result of `play_weights`, the pairs, their stored weights, and the nodes' old loads."""
        graph, batch = self._graph, self._batch
        nodes, src, dst = self._numbers()
        buffers = PairBuffers(graph.directed)
        found = buffers.number(src, dst)
        a, b = buffers.a[:found], buffers.b[:found]
        old, carried = self._carried(nodes, a, b, aged_to)
        if graph.relations is not None:
            a, b, old = self._by_relation(nodes, a, b, buffers.pair_of[: len(batch)])
            buffers.a[: len(a)], buffers.b[: len(b)] = a, b  # by these numbers, now
        half_life = 0.0 if graph.memory is None else graph.memory.half_life
        times = np.zeros(len(batch)) if batch.t is None else batch.t.astype(np.float64)
        if batch.t is None and self._now is not None:
            times += float(self._now)
        events = EventArrays(src, dst, batch.op, self._units, times)
        how = graph.directed, clock, half_life, graph.limit, refuse
        played = play_weights(buffers.arrays, events, old, carried.copy(), *how)
        return played, (a, b), old, carried

    def _by_relation(self, nodes: Nodes, a: Nodes, b: Nodes, pair_of: Int32) -> tuple[Nodes, Nodes, Int64]:
        """Replace pairs by (pair, relation); return their numbers' ends and stored weights.

        The rest of a ghost that becomes an edge is not subtracted: close to the limit, a little too much is
        refused.
        """
        relations = self._graph.relations
        assert relations is not None
        known, codes, count = np.flatnonzero(pair_of >= 0), relations.codes(self._batch), len(relations.names)
        cells, place = np.unique(pair_of[known] * np.int64(count) + codes[known], return_inverse=True)
        pair_of[known] = place
        a, b = a[cells // count], b[cells // count]
        ends = self._graph.canonical(nodes[a], nodes[b])
        return a, b, relations.recall(*ends, (cells % count).astype(np.int16))

    def _numbers(self) -> tuple[Nodes, Nodes, Nodes]:
        """Return the distinct nodes of all ends, and each end's index among them; new ids come last."""
        graph, batch = self._graph, self._batch
        both = np.concatenate(self._found).astype(np.int64)
        unknown = np.flatnonzero(both < 0)
        if len(unknown):
            names = take(join_ids([batch.src, batch.dst]), unknown)
            both[unknown] = graph.ids.high + IdMap(graph.ids.kind).intern(names).astype(np.int64)
        nodes, place = np.unique(both, return_inverse=True)
        ends = place.astype(np.int32).reshape(2, -1)
        return nodes.astype(np.int32), ends[0], ends[1]

    def _carried(self, nodes: Nodes, a: Nodes, b: Nodes, clock: float) -> tuple[Int64, Int64]:
        """Return the stored weight of each pair and the load of each node, with ghosts aged to a clock."""
        graph = self._graph
        old = nodes < graph.ids.high
        here = nodes[old]
        carried = np.zeros(len(nodes), np.int64)
        carried[old] = graph.carried(here)
        stored = np.zeros(len(a), np.int64)
        both = np.flatnonzero(old[a] & old[b])
        first, second = nodes[a[both]], nodes[b[both]]
        stored[both] = graph.pull.look_up(first, second)
        if graph.memory is not None and clock > graph.memory.clock:
            owner, other, weight = graph.pull.arcs(here)
            faded = np.flatnonzero(weight < 0)
            lost = -weight[faded] - self._left(owner[faded], other[faded], clock)
            np.subtract.at(carried, np.searchsorted(nodes, owner[faded]), lost)
            ghosts = np.flatnonzero(stored[both] < 0)
            stored[both[ghosts]] = -self._left(first[ghosts], second[ghosts], clock)
        return stored, carried

    def _left(self, a: Nodes, b: Nodes, clock: float) -> Int64:
        memory = self._graph.memory
        assert memory is not None
        weight, t = memory.recall(*self._graph.canonical(a, b))
        return weights_left(weight, t, clock, memory.half_life)
