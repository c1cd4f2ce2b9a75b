"""A reader's side: vectors from rows that another process may be writing, each answer of one sequence."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events import id_column, take
from dygcn.engine.features.units import UnitTable
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.ticks import Ticks, latest, published, stamps_of
from dygcn.engine.models.readout import ReadPlan
from dygcn.engine.propagation.pulling import Earlier, HeavyRows, PulledArcs, PulledCopies, Pulls, copy_pulled
from dygcn.engine.propagation.sum_rows import SumRows
from dygcn.engine.records import Float32, IdColumn, Int64, Nodes
from dygcn.errors import AmbiguousId, EventError
from dygcn.live.shared import sharing

_TRIES = 7
_ROUNDS = 200  # of a batch: each reads again what was written meanwhile, which is less and less
_WAITS = 16  # pauses until a change is made; then ask the writer, which may have a trial open
_PAUSE = 5e-4  # seconds
_NONE = np.empty(0, np.int32)


class _View:
    """The mapped arrays of one generation."""

    def __init__(self, generation: int, listed: sharing.SharedArrays) -> None:
        self.generation = generation
        self.units = UnitTable(listed.hashed, listed.unit_seed, *listed.units)
        self.ids = IdMap.attached(listed.kind, listed.ids, listed.secret)
        self.active = listed.active
        self.ticks = [Ticks(listed.stamps, _NOW), *(Ticks(one.stamps, _NOW) for one in listed.orders)]
        self.sums = [
            SumRows(one.degree, one.slot, one.narrow, one.wide, _NONE, _NOW, one.scale, one.limit, ticks)
            for one, ticks in zip(listed.orders, self.ticks[1:], strict=True)
        ]
        sizes = [len(ticks.arrays[0]) for ticks in self.ticks]
        sizes += [min(len(one.degree), len(one.slot)) for one in listed.orders]
        self._pulled = None if listed.pulled is None else _Pulled(listed.pulled)
        if self._pulled is not None:
            sizes.append(self._pulled.nodes)
        self.size = min(*sizes, len(self.active))
        self.plan = ReadPlan(listed.weights, listed.scales, *listed.numbers)

    def pull(self, nodes: Nodes, tick: int, latest: Int64) -> bool:
        """Copy the messages of heavy nodes as of a change; return False if they were written meanwhile."""
        if self._pulled is None:
            latest[:] = 0
            return True
        return self._pulled.copy(nodes, tick, latest)

    def vectors(self, nodes: Nodes) -> Float32:
        """Compute vectors, with the messages that were pulled last."""
        pulls = None if self._pulled is None else self._pulled.pulls()
        return self.plan.vectors(nodes, self.ids, self.units, self.sums, pulls)

    def latest(self, nodes: Nodes) -> int:
        """Return the last change that wrote to any of the nodes."""
        last = 0
        for ticks in self.ticks:
            last = max(last, latest(ticks, nodes))
        return last

    def stamps(self, nodes: Nodes) -> Int64:
        """Return, for each node, the last change that wrote to it."""
        found = np.zeros(len(nodes), np.int64)
        for ticks in self.ticks:
            stamps_of(ticks, nodes, found)
        return found

    def find(self, column: IdColumn) -> Nodes | None:
        """Return the nodes of ids; None unless all are in the graph and inside these arrays."""
        if column.kind != self.ids.kind or len(column) == 0:
            return None
        nodes = self.ids.find(column)
        inside = nodes.min() >= 0 and nodes.max() < self.size and self.active[nodes].all()
        return nodes if inside else None


class _Pulled:
    """Arcs to heavy nodes and the messages of these, with copies to read from."""

    def __init__(self, listed: sharing.PulledArrays) -> None:
        self._arcs = PulledArcs(*listed.arcs)
        slot, rows, has = listed.slot, listed.rows, listed.has
        before, had, since = listed.earlier
        earlier = Earlier(before, had, since, Ticks(listed.stamps, _NOW))
        self._heavy = HeavyRows(slot, rows, has, _NONE, _NOW, _NONE, earlier)
        self.nodes = min(map(len, (*listed.arcs[:2], slot)))
        messages = min(map(len, (rows, has, *listed.earlier, listed.stamps)))
        self._copies = PulledCopies(self.nodes, messages, rows.shape[1])
        self._shift = listed.shift

    def copy(self, nodes: Nodes, tick: int, latest: Int64) -> bool:
        return bool(copy_pulled(self._arcs, self._heavy, nodes, tick, self._copies, latest))

    def pulls(self) -> Pulls:
        return self._copies.pulls(self._shift)


_NOW = np.zeros(2, np.int64)


class RowReader(threading.local):
    """Reads vectors from the rows that `SharedRows` of another process publishes.

    Every thread that uses it has arrays of its own, since what was pulled is kept between two calls.
    Every answer is that of one sequence, and says which. Where it cannot be had (an unknown id, arrays that
    are being replaced, rows that are written all the time) None is returned: then the writer knows.
    """

    def __init__(self, handle: bytes) -> None:
        found = msgspec.json.decode(handle, type=sharing.Handle)
        self._process = found.process
        self._words = sharing.attach(found.process, found.words)
        self._list = sharing.attach(found.process, found.list)
        self._view: _View | None = None
        self._one, self._latest = np.zeros(1, np.int32), np.zeros(1, np.int64)

    @property
    def sequence(self) -> int:
        """The last sequence that was published."""
        while True:
            sequence = self._sequence_of(published(self._words, sharing.TICK))
            if sequence is not None:
                return sequence

    def vector(self, node: int | str) -> tuple[int, Float32 | None] | None:
        """Return a sequence and the vector of a node as of it; None: ask the writer."""
        for tried in range(_TRIES):
            if tried > 1:
                time.sleep(_PAUSE * 2 ** (tried - 4))  # the change is still being made
            view = self._view_of_now()
            if view is None:
                continue
            tick = published(self._words, sharing.TICK)
            try:
                at = view.ids.find_one(node)
            except AmbiguousId:  # the writer says so
                return None
            if not 0 <= at < view.size or not view.active[at]:
                return None
            self._one[0] = at
            if not view.pull(self._one, tick, self._latest):
                continue
            vector: Float32 = view.vectors(self._one)[0]
            if view.latest(self._one) <= tick and self._is_of_now(view):
                sequence = self._sequence_of(tick)
                if sequence is not None:
                    return sequence, vector
        return None

    def vectors(self, ids: list[int | str]) -> tuple[int, list[int | str], Float32, list[int | str]] | None:
        """Return a sequence, the ids, the vectors that they have at it, and no missing ones.

        None: ask the writer, also if an id is unknown.
        """
        for _ in range(_TRIES):
            view = self._view_of_now()
            if view is None:
                continue
            tick = published(self._words, sharing.TICK)
            column = _column_of(ids)
            nodes = None if column is None else view.find(column)
            if column is None or nodes is None:
                return None
            found = self._read(view, column, nodes, tick)
            sequence = None if found is None else self._sequence_of(found[0])
            if found is not None and sequence is not None:
                return sequence, ids, found[1], []
        return None

    def _read(self, view: _View, column: IdColumn, nodes: Nodes, tick: int) -> tuple[int, Float32] | None:
        """Read all rows, and again those written meanwhile, until none was; None: ids or arrays changed.

        Pulled messages are part of a vector: a node that pulls another message than before is read again.
        """
        count = len(nodes)
        vectors, read_at = np.empty((count, view.plan.dim), np.float32), np.full(count, -1)
        pulled, waits = np.zeros(count, np.int64), 0
        for _ in range(_ROUNDS):
            there = view.pull(nodes, tick, pulled)
            if there:
                stale = np.flatnonzero((pulled > read_at) | (read_at < 0))
                vectors[stale], read_at[stale] = view.vectors(nodes[stale]), tick
            stamps = view.stamps(nodes)
            if not self._is_of_now(view):
                return None
            stale = np.flatnonzero(stamps > read_at)
            if there and len(stale) == 0:
                return tick, vectors
            last, tick = tick, published(self._words, sharing.TICK)
            if tick == last:
                waits += 1
                if waits > _WAITS:
                    return None
                time.sleep(_PAUSE)  # the change is still being made
                continue
            if len(stale):
                found = view.find(take(column, stale))  # the number of a node may be another id's by now
                if found is None:
                    return None
                nodes[stale], read_at[stale] = found, -1
        return None

    def _view_of_now(self) -> _View | None:
        generation = published(self._words, sharing.GENERATION)
        if self._view is not None and self._view.generation == generation:
            return self._view
        if generation % 2:
            return None
        text = self._list[: self._words[sharing.LIST_BYTES]].tobytes()
        if published(self._words, sharing.GENERATION) != generation:
            return None
        try:
            listed = msgspec.json.decode(text, type=sharing.SharedArrays, dec_hook=self._attach)
        except OSError:  # replaced while they were mapped
            return None
        self._view = _View(generation, listed)
        return self._view

    def _attach(self, _: type, place: Any) -> NDArray[Any]:
        return sharing.attach(self._process, msgspec.convert(place, sharing.Place))

    def _is_of_now(self, view: _View) -> bool:
        return published(self._words, sharing.GENERATION) == view.generation

    def _sequence_of(self, tick: int) -> int | None:
        """Return the sequence of a tick; None if the tick is too old."""
        sequence = int(self._words[sharing.SEQUENCES + tick % sharing.KEPT])
        behind = published(self._words, sharing.TICK) - tick
        return sequence if behind < sharing.KEPT - 1 else None


def _column_of(ids: list[int | str]) -> IdColumn | None:
    try:
        return id_column(ids)
    except (EventError, OverflowError):  # of several types: the writer says so
        return None
