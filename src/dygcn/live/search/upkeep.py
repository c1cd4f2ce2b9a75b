"""Upkeep of a search backend: which nodes wait to be put there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from dygcn.engine.graph.ids import grown
from dygcn.engine.models.read_kernels import to_units
from dygcn.engine.records import Float32, Int8, Int64, Nodes
from dygcn.live.search.backends import InvertedLists, UnitRows
from dygcn.live.search.nearest import VectorCache

_BLOCK, _SMALL_BLOCK = 1 << 14, 512


class Cancelled(Exception):
    """The build of an index was cancelled; its partial result was never used."""


class Upkeep:
    """A backend of vectors of length one, kept in step with a state that changes.

    After `poll`, every node of the graph is either on the backend, with the vector it has now, or waits.
    With a `guard`, waiting nodes stay on the backend with their old vectors.
    """

    def __init__(self, cache: VectorCache, guard: AbstractContextManager[Any] | None = None) -> None:
        self._cache, self._state, self._changes = cache, cache.state, cache.changes
        self.late = guard is not None
        self.guard: AbstractContextManager[Any] = nullcontext() if guard is None else guard
        self._block = _BLOCK if guard is None else _SMALL_BLOCK
        self.backend: UnitRows | InvertedLists = UnitRows(cache.state.model.dim)
        self._held: Int8 = np.zeros(0, np.int8)  # by node: 1 if it is on the backend
        self._position = 0  # in the record of changes: all up to it is on the backend
        self.dirty: Nodes = np.empty(0, np.int32)  # nodes that wait, as of `poll`, the earliest move first
        self._positions: Int64 = np.empty(0, np.int64)  # theirs in the record
        self.cancelled = False

    def poll(self) -> None:
        """Read which nodes moved and which left; remove their old vectors from the backend."""
        graph = self._state.graph
        if self._position == self._changes.last and len(self.backend) == len(graph):
            return
        self._reserve()
        moves = self._changes.behind(self._position)
        if not self.late:
            self._drop(moves.nodes[self._held[moves.nodes] > 0])
        here = np.flatnonzero(graph.present(moves.nodes))
        self.dirty, self._positions = moves.nodes[here], moves.positions[here]
        if not len(here):
            self._position = self._changes.last
        new = len(here) - int(self._held[self.dirty].sum(dtype=np.int64))
        if len(self.backend) + new != len(graph):
            # Departures are reported by id, when the number may be another's already: so it is looked for.
            now = graph.here
            self._drop(np.flatnonzero(self._held[: len(now)] > now).astype(np.int32))

    def put(self, limit: int | None = None) -> int:
        """Put the longest waiting nodes on the backend, after `poll`; return how many."""
        taken = self.dirty[:limit]
        if len(taken):
            self._drop(taken[self._held[taken] > 0])
            self._put(taken)
            self._position = int(self._positions[len(taken) - 1])
            self.dirty, self._positions = self.dirty[len(taken) :], self._positions[len(taken) :]
        return len(taken)

    def fill(self, backend: UnitRows | InvertedLists) -> Callable[[], None]:
        """Put every node on an empty backend, while the old one answers; return the call that swaps them."""
        with self.guard:  # one moment for all three: another thread may bring nodes in between
            held = np.zeros(self._state.graph.ids.high, np.int8)
            nodes, position = self._numbers(), self._changes.last
        for some, units in self._units(nodes):
            backend.put(some, units)
        held[nodes] = 1

        def swap() -> None:
            self.backend, self._held, self._position = backend, held, position
            self.dirty, self._positions = nodes[:0], self._positions[:0]

        return swap

    def everyone(self) -> Iterator[tuple[Nodes, Float32]]:
        """Yield all nodes, in blocks, with their current vectors, whatever is on the backend."""
        yield from self._units(self.numbers())

    def numbers(self) -> Nodes:
        """Return all nodes of the graph in ascending order."""
        with self.guard:
            return self._numbers()

    def units(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, scaled to length one."""
        blocks = [units for _, units in self._units(nodes)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self._state.model.dim), np.float32)

    def _numbers(self) -> Nodes:
        return np.flatnonzero(self._state.graph.here).astype(np.int32)

    def _reserve(self) -> None:
        self._held = grown(self._held, self._state.graph.ids.high)

    def _drop(self, nodes: Nodes) -> None:
        if len(nodes):
            self.backend.drop(nodes)
            self._held[nodes] = 0

    def _put(self, nodes: Nodes) -> None:
        for some, units in self._units(nodes):
            self.backend.put(some, units)
            self._held[some] = 1

    def _units(self, nodes: Nodes) -> Iterator[tuple[Nodes, Float32]]:
        held = 0.0
        for start in range(0, len(nodes), self._block):
            if self.cancelled:
                raise Cancelled
            if self.late:  # a lock that is taken again at once starves other threads
                time.sleep(held)
            some = nodes[start : start + self._block]
            with self.guard:
                begun = time.perf_counter()
                read = self._cache.refresh(some)
                held = time.perf_counter() - begun
            yield some, to_units(*read)
