"""Batches of mixed adds and removes for a graph: drawn from all of it, or as its edges came.

Each comes with the batch that takes it back, so that the same change can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dygcn.engine.events import python_ids, take
from dygcn.engine.graph import Graph
from dygcn.engine.records import EventBatch, IdColumn, Int64, Nodes
from dygcn.errors import OptionError

_SAMPLE = 1_000_000  # edges from which ends are drawn
_TRIES = 100


class Traffic:
    """Changes to a graph, drawn so that the graph stays what it was after every second batch.

    Half of each batch removes edges drawn from all edges, half adds pairs that are no edges and whose ends
    are drawn by degree; the batch after it takes both back.

    `events`: what the graph was built from; edges are drawn from those that are still there.
    """

    moves_on = False

    def __init__(self, graph: Graph, events: EventBatch, seed: int = 0) -> None:
        self._random = np.random.default_rng([seed, 7])
        self._graph = graph
        rows = np.arange(len(events))
        if len(rows) > _SAMPLE:
            rows = self._random.choice(len(rows), _SAMPLE, replace=False, shuffle=False)
        self._src, self._dst = take(events.src, rows), take(events.dst, rows)

    def round(self, size: int) -> tuple[EventBatch, EventBatch]:
        """Return a batch and the one that takes it back; a batch of one adds and removes by turns."""
        adds = size // 2 if size > 1 else int(self._random.integers(2))
        known, new = self._rows(size - adds, known=True), self._rows(adds, known=False)
        src = np.concatenate((known[0], new[0]))
        dst = np.concatenate((known[1], new[1]))
        op = np.repeat(np.array([-1, 1], np.int8), (size - adds, adds))
        ends = take(self._src, src), take(self._dst, dst)
        return EventBatch(*ends, op), EventBatch(*ends, -op)

    def rounds(self, size: int, count: int) -> Iterator[EventBatch]:
        """Yield so many batches, twice: there and back."""
        for _ in range(count):
            yield from self.round(size)

    def _rows(self, count: int, *, known: bool) -> tuple[Int64, Int64]:
        """Return rows of sources and targets: the ends of edges that are there, or of pairs that are not."""
        found = np.empty((2, 0), np.int64)
        for _ in range(_TRIES):
            if found.shape[1] >= count:
                return found[0, :count], found[1, :count]
            src = self._random.integers(len(self._src), size=2 * count + 8)
            dst = src if known else self._random.integers(len(self._src), size=len(src))
            a = self._graph.find(take(self._src, src))
            b = self._graph.find(take(self._dst, dst))
            good = (a >= 0) & (b >= 0) & (a != b)
            there = np.zeros(len(a), np.bool_)
            there[good] = self._graph.pull.look_up(a[good], b[good]) > 0
            good &= there == known
            found = np.concatenate((found, np.stack((src, dst))[:, good]), axis=1)
            found = found[:, self._first_of_each(found)]
        raise OptionError(f"the graph is too small or too dense for batches of {2 * count} changes")

    def _first_of_each(self, rows: Int64) -> Int64:
        a: Nodes = self._graph.find(take(self._src, rows[0]))
        b: Nodes = self._graph.find(take(self._dst, rows[1]))
        keys = np.minimum(a, b).astype(np.int64) << 32 | np.maximum(a, b)
        return np.sort(np.unique(keys, return_index=True)[1])


class Stream:
    """Changes as they came: half of each batch are the next edges, half take away the oldest ones.

    `events`: of which `base` (all but the last tenth) is what the graph is built from. Edges that come again
    are left out: an event that changes nothing costs next to nothing.
    """

    moves_on = True

    def __init__(self, events: EventBatch) -> None:
        self._events = first_mentions(events)
        self._old, self._new = 0, len(self._events) - len(self._events) // 10

    @property
    def base(self) -> EventBatch:
        """What the graph is built from."""
        return _rows_of(self._events, np.arange(self._new))

    def round(self, size: int) -> tuple[EventBatch, EventBatch]:
        """Return a batch and the one that takes it back; a batch of one adds and removes by turns."""
        adds = (size + 1) // 2 if size > 1 else (self._old + self._new) % 2
        removes = size - adds
        if self._new + adds > len(self._events):
            raise OptionError("the stream is at its end; ask for fewer or smaller batches")
        old = np.arange(self._old, self._old + removes)
        new = np.arange(self._new, self._new + adds)
        self._old, self._new = self._old + removes, self._new + adds
        batch = _rows_of(self._events, np.concatenate((old, new)))
        op = np.repeat(np.array([-1, 1], np.int8), (removes, adds))
        return EventBatch(batch.src, batch.dst, op), EventBatch(batch.src, batch.dst, -op)


def first_mentions(events: EventBatch) -> EventBatch:
    """Return the adds, each pair where it came first, without loops."""
    graph = Graph(events.src.kind)
    a, b = graph.ids.intern(events.src), graph.ids.intern(events.dst)
    keys = np.minimum(a, b).astype(np.int64) << 32 | np.maximum(a, b)
    keys[(a == b) | (events.op < 0)] = -1
    found, first = np.unique(keys, return_index=True)
    return _rows_of(events, np.sort(first[found >= 0]))


def _rows_of(events: EventBatch, rows: Int64) -> EventBatch:
    return EventBatch(take(events.src, rows), take(events.dst, rows), events.op[rows])


def as_users_do(batch: EventBatch) -> dict[str, Any]:
    """Return the arguments of `update`: one edge as a pair, more as columns."""
    if len(batch) > 1:
        columns = {"src": _column(batch.src), "dst": _column(batch.dst), "op": batch.op}
        return {"events": columns}
    pair = (python_ids(batch.src).tolist()[0], python_ids(batch.dst).tolist()[0])
    return {"add" if batch.op[0] > 0 else "remove": [pair]}


def _column(ids: IdColumn) -> Any:
    return ids.values if ids.data is None else pa.array(python_ids(ids).tolist())
