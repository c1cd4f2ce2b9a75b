"""A filter: recommendations from integer sums that are a function of the graph and its clock.

An event changes the edges of an asking node, and so its message. Messages are added to the sums of the node's
answers when the next query is read: a batch sends each message once, and no bit depends on when it is sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.features.units import row_table, units_of
from dygcn.engine.filter import head as settings
from dygcn.engine.filter import loops
from dygcn.engine.filter.head import ANSWERS, ASKS, CANDIDATES, SUMS, TREND, WINDOW, FilterHead
from dygcn.engine.filter.loops import FilterArrays
from dygcn.engine.graph import Graph
from dygcn.engine.graph.constants import CAME, FOUND, WENT
from dygcn.engine.graph.ids import IdMap, grown, replace_together
from dygcn.engine.records import Float64, Int8, Int32, Int64, Nodes

_Own = tuple[Int32, Float64]
_UNSET = -(1 << 60)  # a base below all octaves
_POWERS = 1 << 16  # numbers of edges that have a factor of their own
_LEVELS = 8  # in an octave: the mean count is rounded to such a part, since the trends of all depend on it
_FLOOR = 0.1  # of a trend
_PLENTY = 10  # candidates for each answer that is wanted


class Filter:
    """The sums over a graph, and the scores computed from them."""

    def __init__(self, head: FilterHead) -> None:
        self.head = head
        self.width = head.rows.shape[1]
        self._half_life = np.array([head.half_life, head.trend_half_life])
        counts = np.arange(_POWERS, dtype=np.float64).clip(min=1.0)
        self._weights = head.weights.astype(np.float64)
        self._powers, self._roots = counts**-head.degree, counts**-0.5
        self._names: IdMap | None = None
        self._clear()
        self._whole = True  # False while sums are written: after an exception they are computed anew

    # ---- rows --------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        width, none = self.width, np.empty(0, np.int32)
        self._role: Int8 = np.empty(0, np.int8)
        self._asks, self._answers, self._out, self._into = (none.copy() for _ in range(4))
        self._asker, self._dirty_rows = none.copy(), none.copy()
        self._taste, self._said = np.empty((0, width), np.int32), np.empty((0, width), np.int16)
        self._dirty, self._touched = np.empty(0, np.int8), np.empty(0, np.int8)
        self._answer, self._touched_rows = none.copy(), none.copy()
        self._rows, self._total = np.empty((0, width), np.int8), np.empty((0, width), np.int64)
        self._recent, self._prepared = np.empty(0, np.int64), np.empty((0, width), np.float32)
        self._change, self._sizes = np.zeros((1, width), np.int32), np.zeros(4, np.int64)
        self._base = np.full(2, _UNSET)
        self._factors, self._trend = np.empty(0), np.empty(0)
        self._level: tuple[int, int] | None = None
        self._free: tuple[list[int], list[int]] = [], []
        self._high = [0, 0]  # rows ever given to askers, and to answers
        self.arrays = self._handed()

    def _handed(self) -> FilterArrays:
        arrays: list[Any] = [getattr(self, name) for name in _HELD]
        return FilterArrays(*arrays)

    def _reserve(self, nodes: int, asking: int, answering: int) -> None:
        wanted = dict.fromkeys(_OF_NODES, nodes) | dict.fromkeys(_OF_ASKERS, asking)
        wanted |= dict.fromkeys(_OF_ANSWERS, answering)
        small = {name: size for name, size in wanted.items() if len(getattr(self, name)) < size}
        if not small:
            return
        fresh: dict[str, Any] = {name: grown(getattr(self, name), size) for name, size in small.items()}
        for name in _NOBODY:
            if name in fresh:
                fresh[name][len(getattr(self, name)) :] = -1
        replace_together(self, **fresh)
        self.arrays = self._handed()

    def _arrive(self, ids: IdMap, nodes: Nodes) -> None:
        role = self._roles_of(ids, nodes)
        asking, answering = nodes[role & ASKS > 0], nodes[role & ANSWERS > 0]
        rows = self._take(0, len(asking)), self._take(1, len(answering))
        self._reserve(ids.high, self._high[0], self._high[1])
        self._role[nodes] = role
        self._asks[asking], self._asker[rows[0]] = rows[0], asking
        self._answers[answering], self._answer[rows[1]] = rows[1], answering
        if self._names is not ids:
            self._table, self._names = row_table(ids.hashes_of(self.head.ids), self.head.rows), ids
        self._rows[rows[1]] = units_of(self._table, ids.hashes.take(answering))[0]
        self._touch(rows[1])

    def _roles_of(self, ids: IdMap, nodes: Nodes) -> Int8:
        role = np.zeros(len(nodes), np.int8)
        for bit, kinds in ((ASKS, self.head.asks), (ANSWERS, self.head.answers)):
            for kind in kinds:
                role[ids.of_kind(nodes, kind)] |= bit
            if not kinds:
                role |= bit
        return role

    def _take(self, side: int, count: int) -> Int64:
        """Return rows for `count` nodes: first those of nodes that left."""
        free = self._free[side]
        again = [free.pop() for _ in range(min(count, len(free)))]
        first = self._high[side]
        self._high[side] += count - len(again)
        return np.array([*again, *range(first, self._high[side])], np.int64)

    def _depart(self, nodes: Nodes) -> None:
        """Free the rows of nodes that left: without edges, their sums are zero."""
        for side, of_node, owner, kept in (
            (0, self._asks, self._asker, self._said.view()),
            (1, self._answers, self._answer, self._rows.view()),
        ):
            rows = of_node[nodes]
            rows = rows[rows >= 0]
            of_node[nodes], owner[rows] = -1, -1
            kept[rows] = 0
            self._free[side].extend(rows.tolist())
        self._role[nodes] = 0
        self._touch(rows)

    def _touch(self, rows: Int64 | Int32) -> None:
        """Mark answers that came or went, perhaps without an edge: the mean count changes."""
        fresh, count = rows[self._touched[rows] == 0], int(self._sizes[settings.TOUCHED])
        self._touched_rows[count : count + len(fresh)] = fresh
        self._touched[fresh], self._sizes[settings.TOUCHED] = 1, count + len(fresh)

    # ---- following a graph ---------------------------------------------------------------------------------

    def follow(self, graph: Graph) -> None:
        """Process a change that was just written to the graph, from the graph's buffers."""
        if not self._whole:
            return
        self._whole = False
        buffers, sizes = graph.buffers, graph.buffers.sizes
        if sizes[CAME]:
            self._arrive(graph.ids, buffers.nodes[1, : sizes[CAME]].copy())
        found, beyond = int(sizes[FOUND]), 0
        if loops.follow(self.arrays, buffers.arrays, found, graph.contacts is not None):
            tops = self._base + (WINDOW - 1)
            self._advance(graph)
            beyond = loops.follow_later(self.arrays, buffers.arrays, found, tops)
        if sizes[WENT]:
            self._depart(buffers.nodes[2, : sizes[WENT]])
        self._whole = beyond == 0

    def rebuild(self, graph: Graph) -> None:
        """Compute all sums from nothing."""
        self._whole = False
        self._clear()
        self._arrive(graph.ids, np.flatnonzero(graph.here).astype(np.int32))
        for which in (SUMS, TREND):
            self._base[which] = self._base_of(graph, which)
        loops.load(self.arrays, graph.pull.arrays, graph.ids.high)
        self._whole = True

    def _base_of(self, graph: Graph, which: int) -> int:
        """Return the lowest octave that still counts at the clock of a graph."""
        contacts, half_life = graph.contacts, self._half_life[which]
        if contacts is None or half_life == 0 or np.isinf(contacts.clock):
            return _UNSET
        return int(loops.octave_of(self.arrays, which, contacts.clock)) - WINDOW + 1

    def _advance(self, graph: Graph) -> None:
        for which in (SUMS, TREND):
            base = self._base_of(graph, which)
            if base > self._base[which]:
                where = self.arrays, graph.pull.arrays, min(graph.ids.high, len(self._role))
                loops.advance(*where, self._high[1], which, base)

    def _sync(self, graph: Graph) -> None:
        """Bring the sums to the clock, send pending messages, and prepare rows that changed."""
        bases = [self._base_of(graph, which) for which in (SUMS, TREND)]
        if self._whole and not self._sizes[: settings.COUNTED].any() and bases == self._base.tolist():
            return
        # An exception interrupted a read, or a trial took the clock back.
        if not self._whole or (bases < self._base).any():
            self.rebuild(graph)
        self._whole = False
        self._advance(graph)
        loops.tell(self.arrays, graph.pull.arrays)
        rows = self._touched_rows[: loops.prepare(self.arrays, self._powers)]
        self._weigh(rows)
        self._whole = True

    def _weigh(self, rows: Int32) -> None:
        """Compute path factors and trends of rows; trends of all rows if the mean count changed."""
        high = self._high[1]
        if len(self._factors) < len(self._answer):
            size = len(self._answer)
            self._factors, self._trend = grown(self._factors, size), grown(self._trend, size)
        self._factors[rows] = self._roots[self._into[self._answer[rows]].clip(max=_POWERS - 1)]
        if self.head.trend:
            mean = self._sizes[settings.COUNTED] / max(high - len(self._free[1]), 1)
            level = int(np.rint(_LEVELS * np.log2(mean))) if mean > 0 else 0, int(self._base[TREND])
            if level != self._level:
                self._level, rows = level, np.arange(high, dtype=np.int32)
            self._trend[rows] = (_FLOOR + self._recent[rows] / 2.0 ** (level[0] / _LEVELS)) ** self.head.trend

    # ---- asking --------------------------------------------------------------------------------------------

    def scores(
        self, graph: Graph, node: int, linked: bool = True, among: Nodes | None = None, count: int = 0
    ) -> tuple[Nodes, Float64]:
        """Return possible answers of a node and their scores; by numbers of edges if it shares no edge.

        `linked`: neighbours can be answers; `among`: only these can be; `count`: wanted ones, 0: all. If it
        is few and paths reach more than `CANDIDATES`, the heaviest on paths and own edges are returned.
        Excluded: -infinity.
        """
        self._sync(graph)
        high, own, paths = self._high[1], self._own(graph, node), self._paths(graph, node)
        me = self._answers[node : node + 1][self._answers[node : node + 1] >= 0]
        known = np.append(own[0], me)
        out = me if linked else known
        if paths is not None and among is None and 0 < count * _PLENTY <= CANDIDATES:
            weights = paths[0].copy()
            weights[known] = 0.0
            reached = paths[1][weights[paths[1]] > 0]
            if len(reached) > CANDIDATES:
                # The greatest weights, and all that tie with the last of them.
                least = np.partition(weights[reached], -CANDIDATES)[-CANDIDATES]
                some = reached[weights[reached] >= least]
                some = np.append(some, np.setdiff1d(own[0], me)) if linked else some
                return self._answer[some], self._weighed(graph, node, some, own, paths)
        rows = np.arange(high)
        found = self._weighed(graph, node, rows, own, paths)
        if np.count_nonzero(found) == np.count_nonzero(found[known]):
            found = self._recent[:high] + self._into[self._answer[:high]] * 2.0**-40
        found[out] = -np.inf
        if among is not None:
            rows = self._answers[among].astype(np.int64)
            rows = rows[rows >= 0]
        elif self._free[1]:
            found[self._answer[:high] < 0] = -np.inf
        return self._answer[rows], found[rows]

    def _weighed(
        self, graph: Graph, node: int, rows: Int64, own: _Own, paths: tuple[Float64, Int64] | None
    ) -> Float64:
        """Return the scores of some answers: product and paths, times the trend."""
        found = np.zeros(len(rows))
        if node < len(self._asks) and self._asks[node] >= 0:
            query = self._query(graph, self._asks[node], *own)
            if query.any():
                loops.score(self.arrays, rows, query.astype(np.float32), found)
        if paths is not None:
            found += paths[0][rows]
        if self.head.trend:
            np.multiply(found, self._trend[rows], out=found, where=found > 0)
        return found

    def _paths(self, graph: Graph, node: int) -> tuple[Float64, Int64] | None:
        """Return the weight of paths to each answer, and which answers they reach; None without paths."""
        if not self.head.paths or node >= len(self._asks) or self._asks[node] < 0:
            return None
        (asking, answering), arcs = self._high, graph.pull.arrays
        found, reached = np.zeros(answering, np.int64), np.empty(answering, np.int64)
        count = loops.walk_paths(
            self.arrays, arcs, node, self._roots, np.zeros(asking, np.int64), found, reached
        )
        reached, weights = reached[:count], np.zeros(answering)
        factor = self.head.paths * settings.MESSAGE_SCALE / settings.PATH_UNIT
        weights[reached] = found[reached] * (factor * self._factors[reached])
        return weights, reached

    def _own(self, graph: Graph, node: int) -> _Own:
        """Return the rows of the answers that a node has an edge with, and the last contacts."""
        me = np.array([node], np.int32)
        _, other, weight = graph.pull.arcs(me)
        rows = self._answers[other]
        there = (weight > 0) & (rows >= 0)
        times = (
            graph.pull.contacts(me)[0]
            if self.head.profile_half_life and graph.contacts
            else np.zeros(len(rows))
        )
        return rows[there], times[there]

    def _query(self, graph: Graph, row: int, own: Int32, times: Float64) -> Float64:
        """Return the query vector of an asking node: newer edges weigh more; columns have weights."""
        half_life = self.head.profile_half_life
        if not half_life or np.isinf(times.max(initial=-np.inf)):  # none that is known
            summed: Float64 = self._taste[row].astype(np.float64)
        else:
            order = np.argsort(graph.ids.keys[self._answer[own]])  # arcs lie in no order, and floats round
            with np.errstate(over="ignore"):
                age = np.exp2((times[order] - times.max()) / half_life)
            summed = (age[:, None] * self._rows[own[order]]).sum(axis=0)
        return summed * self._weights

    def knows(self, graph: Graph, node: int, kind: str | None, allowed: Nodes | None = None) -> bool:
        """Return whether a node can get answers of a kind, or any of `allowed`; kind None: of any kind."""
        if not self._whole:
            self.rebuild(graph)
        asks = 0 <= node < len(self._asks) and self._asks[node] >= 0
        some = allowed is None or bool((self._answers[allowed] >= 0).any())
        answers = self.head.answers
        return bool(asks) and some and (kind is None or not answers or kind in answers)


_OF_NODES = "_role", "_asks", "_answers", "_out", "_into"
_OF_ASKERS = "_asker", "_taste", "_said", "_dirty", "_dirty_rows"
_OF_ANSWERS = "_answer", "_rows", "_total", "_recent", "_prepared", "_touched", "_touched_rows"
_NOBODY = "_asks", "_answers", "_asker", "_answer"
_HELD = *_OF_NODES, *_OF_ASKERS, *_OF_ANSWERS, "_change", "_sizes", "_base", "_half_life"
