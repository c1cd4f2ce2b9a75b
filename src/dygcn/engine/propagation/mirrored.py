"""The exact rule on a part of the nodes: own ones, and mirrors of those that they aggregate.

A shard has every arc of its own nodes, so it adds order 1 of them by itself (`begin`). A mirror is the node
of another shard: of it a shard knows the sum of order 1, which changes when its owner says so (`finish`), and
not its arcs. Order 2 is added to own nodes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.propagation.exact import ExactRule
from dygcn.engine.propagation.gathering import distinct_rows
from dygcn.engine.propagation.outcomes import NARROW
from dygcn.engine.propagation.spreading import Arcs, Wave
from dygcn.engine.propagation.sums import Sums
from dygcn.engine.propagation.sum_rows import messages_of
from dygcn.engine.propagation.work import ArcChanges, Handoff
from dygcn.engine.records import Changed, GraphDelta, Int8, Int64, Nodes, Stored
from dygcn.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.engine.features import Features
    from dygcn.engine.graph import Graph

ORDERS = 2
_BLOCK = 1 << 16  # nodes
_NOBODY = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class FarChanges:
    """Arcs of mirrors that their owners changed, without those that the shard sees itself."""

    receiver: Nodes  # (n,) mirrors
    sender_row: Stored  # (n, width) h_0 of whom they aggregate
    sender_has: Int64  # (n,) 1 where there is an h_0
    change: Int64  # (n,) of the weight


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Sums of order 1 of mirrors that are new."""

    nodes: Nodes  # (n,)
    degree: Int64  # (n,)
    rows: Int64  # (n, width)


@dataclass(slots=True)
class _Begun:
    """What `begin` leaves for `finish`."""

    delta: GraphDelta
    arcs: Arcs  # those that own nodes aggregate
    units: Stored  # h_0 of the senders of changed arcs
    units_has: Int64
    row: Nodes  # the row of each changed arc's sender
    wave: Wave  # order 1 of own nodes


class MirroredRule(ExactRule):
    """The exact rule of a shard.

    Attributes
    ----------
    own
        For each node, 1 if it is one of the shard's own, 0 if it is a mirror.
    """

    def __init__(self, features: Features, orders: int) -> None:
        if orders != ORDERS:
            raise OptionError(
                f"this model propagates {orders} orders, and shards need {ORDERS}: fit with orders={ORDERS}, "
                "or open the folder in one process"
            )
        super().__init__(features, orders)
        self.sums[1] = Sums(features.width, features.message_bits, 0, pooled=True)  # the list is shared
        self.own: Int8 = np.empty(0, np.int8)
        self._begun: _Begun | None = None

    @property
    def in_one_call(self) -> bool:
        """False: orders wait for other shards."""
        return False

    def begin(self, graph: Graph, delta: GraphDelta) -> Nodes:
        """Add order 1 of own nodes; return those whose message of order 1 changed."""
        self.reserve(graph)
        self._spreading.add_only_to(self.own)
        senders, row = distinct_rows(delta.sender, self._spreading.place)
        at_own = self.own[delta.receiver] > 0
        change = (delta.new - delta.old)[at_own]
        changes = ArcChanges(delta.receiver[at_own], row[at_own], change, senders)
        arcs = Arcs(changes, len(change), senders, graph.push.arrays, graph.weight_shift)
        units, has = self.features.units(senders, graph.ids)
        wave = self._copied(self._spreading.step(1, arcs, _start(units, has)), len(senders))
        self._begun = _Begun(delta, arcs, units, has, row, wave)
        self._spreading.seen[wave.handoff.arrays.nodes] = 0
        return wave.handoff.arrays.nodes

    def _copied(self, wave: Wave, senders: int) -> Wave:
        """Return a wave on arrays of its own: the buffers are used again before order 2."""
        given, rows = wave.handoff.arrays, senders + wave.senders
        arrays = given.table[:rows], given.has[:rows], given.nodes[: wave.senders], given.row[: wave.senders]
        return Wave(Handoff(*(array.copy() for array in arrays)), wave.senders, 0, wave.rows)

    def finish(
        self, graph: Graph, kept: Int8, far: FarChanges, first: FirstRows, gone: Nodes
    ) -> Changed:
        """Add order 1 of mirrors, then order 2 of own nodes, for the change that `begin` began.

        Parameters
        ----------
        kept
            For each arc of the change, 1 if its receiver is a mirror that was one before and still is.
        far, first
            What other shards sent.
        gone
            Mirrors that nobody here aggregates any more.

        Returns
        -------
        Changed
            Own nodes only.
        """
        begun, self._begun = self._begun, None
        assert begun is not None
        self.reserve(graph)  # others may have sent finer weights
        wave = self._at_mirrors(graph, begun, kept > 0, far)
        self.sums[0].put(first.nodes, first.degree, first.rows)
        wave = _joined(begun.wave, wave, self._first_messages(first.nodes))
        spreading, delta = self._spreading, begun.delta
        spreading.add_only_to(self.own)
        own_left, arrived = (nodes[self.own[nodes] > 0] for nodes in (delta.left, delta.arrived))
        spreading.seen[own_left] = 1
        own_changed = begun.wave.handoff.arrays.nodes
        wave.reached_count = spreading.note(np.concatenate((arrived, own_changed)), 1, 0)
        arcs = begun.arcs
        arcs = Arcs(arcs.changes, arcs.count, arcs.changed_senders, graph.push.arrays, graph.weight_shift)
        changed = self._spread(2, arcs, wave, own_left)
        self.sums[0].clear(gone)
        return changed

    def _at_mirrors(self, graph: Graph, begun: _Begun, kept: np.ndarray, far: FarChanges) -> Wave:
        """Add order 1 of mirrors that stay: over arcs that end here, and over those that others told of."""
        delta = begun.delta
        near = np.flatnonzero(kept)
        rows = np.arange(len(far.receiver), dtype=np.int32) + np.int32(len(begun.units))
        changes = ArcChanges(
            np.concatenate((delta.receiver[near], far.receiver)),
            np.concatenate((begun.row[near], rows)),
            np.concatenate(((delta.new - delta.old)[near], far.change)),
            _NOBODY,
        )
        units = np.concatenate((begun.units, far.sender_row))
        has = np.concatenate((begun.units_has, far.sender_has))
        arcs = Arcs(changes, len(near) + len(rows), _NOBODY, graph.push.arrays, graph.weight_shift)
        wave = self._copied(self._spreading.step(1, arcs, _start(units, has)), 0)
        self._spreading.seen[wave.handoff.arrays.nodes] = 0
        return wave

    def _first_messages(self, nodes: Nodes) -> Wave:
        """Return a wave of messages that mirrors have for the first time."""
        rows, has = messages_of(self.sums[0].arrays, nodes, self.features.width)
        return Wave(Handoff(rows, has, nodes, np.arange(len(nodes), dtype=np.int32)), len(nodes))

    def first_rows(self, nodes: Nodes) -> FirstRows:
        """Return the sums of order 1 of own nodes, as they are now."""
        sums = self.sums[0]
        return FirstRows(nodes, sums.degree[nodes], sums.rows(nodes))

    def rebuild_order_1(self, graph: Graph) -> None:
        """Compute order 1 of own nodes from nothing; mirrors have none."""
        self.reserve(graph)
        self.sums[0].clear(np.arange(graph.ids.high, dtype=np.int32))
        for nodes in _blocks(np.flatnonzero(self.own[: graph.ids.high] > 0)):
            receiver, sender, weight = graph.pull.arcs(nodes)
            senders, row = distinct_rows(sender, self._spreading.place)
            changes = ArcChanges(receiver, row, np.abs(weight), _NOBODY)
            arcs = Arcs(changes, len(row), _NOBODY, graph.push.arrays, graph.weight_shift)
            self._add(1, arcs, _start(*self.features.units(senders, graph.ids)))

    def rebuild_order_2(self, graph: Graph) -> None:
        """Compute order 2 of own nodes from nothing, out of order 1 of all."""
        self.reserve(graph)
        self._spreading.add_only_to(self.own)
        changes = ArcChanges(_NOBODY, _NOBODY, np.empty(0, np.int64), _NOBODY)
        arcs = Arcs(changes, 0, _NOBODY, graph.push.arrays, graph.weight_shift)
        here = np.flatnonzero(graph.here).astype(np.int32)
        self.sums[1].clear(here[self.sums[1].slot[here] != NARROW])
        for nodes in _blocks(here):
            self._add(2, arcs, self._first_messages(nodes))

    def _add(self, order: int, arcs: Arcs, wave: Wave) -> None:
        """Add one order, when nobody asks who changed."""
        wave = self._spreading.add(order, arcs, wave)
        self._spreading.seen[self._buffers.reach.arrays.nodes[: wave.reached_count]] = 0
        self._buffers.tidy(self.sums[-1].nbytes // 4)


def _start(units: Stored, has: Int64) -> Wave:
    """Return the wave of order 1: whose h_0 is added over which arc; no h_0 ever changes."""
    return Wave(Handoff(units, has, _NOBODY, _NOBODY), 0)


def _joined(*waves: Wave) -> Wave:
    """Return one wave of several; rows of the first keep their numbers."""
    tables = [wave.handoff.arrays for wave in waves]
    starts = np.cumsum([0, *(len(given.has) for given in tables[:-1])])
    table, has, nodes = (
        np.concatenate([getattr(given, name) for given in tables]) for name in ("table", "has", "nodes")
    )
    row = np.concatenate([given.row + np.int32(start) for given, start in zip(tables, starts, strict=True)])
    rows = sum(wave.rows for wave in waves)
    return Wave(Handoff(table, has, nodes, row.astype(np.int32)), len(nodes), 0, rows)


def _blocks(nodes: np.ndarray) -> Iterator[Nodes]:
    nodes = np.ascontiguousarray(nodes, np.int32)
    for start in range(0, len(nodes), _BLOCK):
        yield nodes[start : start + _BLOCK]
