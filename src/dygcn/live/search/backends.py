"""The inverted lists of FAISS, their upkeep, and their recall."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn._extras import extra
from dygcn.engine.graph.ids import grown
from dygcn.engine.models.read_kernels import to_units
from dygcn.engine.records import Float, Float32, Float64, Int8, Int64, Nodes
from dygcn.errors import MissingExtra
from dygcn.live.search.nearest import VectorCache, rounding

AT = 10  # recall is measured at
_FOR_A_LIST = 40  # vectors that its centre is learned from
_ROUNDS = 8
_SPARE = 8  # asked for beyond k: what float32 put in the wrong order, who is left out
_MOST = 4096  # equally near ones that are put in order


def load_faiss() -> tuple[Any, str]:
    """Return the FAISS module and "", or None and the message that says how to install it."""
    try:
        with extra("ann"):
            import faiss  # noqa: PLC0415 - an extra, and slow to import
    except MissingExtra as error:
        return None, str(error)
    return faiss, ""


def lists_for(nodes: int) -> int:
    """Return the number of lists for so many nodes: twice the square root."""
    return max(1, min(round(2 * math.sqrt(nodes)), nodes))


def sample_for(nodes: int) -> int:
    """Return the number of vectors from which the centres for so many nodes are learned."""
    return min(nodes, _FOR_A_LIST * lists_for(nodes))


class InvertedLists:
    """Inverted lists of FAISS: unit vectors in the list of their nearest centre, replaced one by one."""

    def __init__(self, faiss: Any, sample: Float32, lists: int, seed: int) -> None:
        self._faiss = faiss
        dim = sample.shape[1]
        sample = sample[np.abs(sample).max(axis=1) > 0]
        if len(sample) == 0:  # every vector is zero: one list holds them
            sample = np.eye(1, dim, dtype=np.float32)
        self.lists = max(1, min(lists, len(sample) // 4))
        self.probes = self.lists
        centres = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFFlat(centres, dim, self.lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.niter, index.cp.spherical = seed % (1 << 31), _ROUNDS, True
        index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, _FOR_A_LIST
        with self._alone():
            index.train(sample)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index = index

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let FAISS use one OpenMP thread in the block, then restore the number: other libraries share it."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(1)
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def put(self, nodes: Nodes, units: Float32) -> None:
        """Add nodes that are not in the lists, each once."""
        if len(nodes):
            with self._alone():
                self._index.add_with_ids(np.ascontiguousarray(units), nodes.astype(np.int64))

    def drop(self, nodes: Nodes) -> None:
        """Remove nodes that are in the lists."""
        numbers = nodes.astype(np.int64)
        with self._alone():
            self._index.remove_ids(self._faiss.IDSelectorArray(len(numbers), self._faiss.swig_ptr(numbers)))

    def search(self, queries: Float32, k: int, probes: int) -> tuple[Float32, Int64]:
        """Return scores and nodes, (n, k), best first; node -1 where fewer were found."""
        self._index.nprobe = min(probes, self.lists)
        with self._alone():
            scores, nodes = self._index.search(queries, k)
        return scores, nodes

    def candidates(self, query: Float32, k: int) -> Nodes:
        """Return the k nearest that were found and all that tie within rounding, unordered.

        More lists are looked at than usual if those hold fewer than k. `query` has length one.
        """
        k = min(k, len(self))
        if k <= 0:
            return np.empty(0, np.int32)
        ask, probes, row = k + _SPARE, self.probes, query.reshape(1, -1)
        while True:
            scores, nodes = self.search(row, ask, probes)
            found = int((nodes[0] >= 0).sum())
            if found < k and probes < self.lists:
                probes = min(4 * probes, self.lists)
            elif found == ask < _MOST and scores[0, -1] >= scores[0, k - 1] - rounding(len(query)):
                ask *= 4
            else:
                return nodes[0, :found].astype(np.int32)


@dataclass(frozen=True)
class RecallQuestions:
    """Query vectors for a measurement of recall, with the cosines of their true nearest neighbours."""

    askers: Nodes  # (n,) the nodes of the vectors, which are no neighbours of themselves
    units: Float32  # (n, dim) of length one
    bars: Float64  # (n,) the cosine of the last of the true ones
    most: int  # true ones of each

    def recall(self, found: Iterable[tuple[NDArray[np.integer], Float]]) -> float:
        """Return recall: the share of the true neighbours that was found, over all queries.

        One counts if it is as near as the last of the true ones, whichever of equals it is, and counts once.
        """
        if self.most <= 0 or len(self.askers) == 0:
            return 1.0
        bars = self.bars - rounding(self.units.shape[1])
        hits = [
            min(len(np.unique(nodes[cosines >= bar])), self.most)
            for (nodes, cosines), bar in zip(found, bars, strict=True)
        ]
        return sum(hits) / (self.most * len(hits))


def ask(
    askers: Nodes, units: Float32, everyone: Iterable[tuple[Nodes, Float32]], others: int
) -> RecallQuestions:
    """Find the true nearest cosines of each query by brute force."""
    most = min(AT, others)
    best = np.full((len(askers), max(most, 1)), -np.inf, np.float32)
    for nodes, rows in everyone:
        scores = units @ rows.T
        scores[askers[:, None] == nodes] = -np.inf
        both = np.concatenate((best, scores), axis=1)
        best = np.partition(both, both.shape[1] - best.shape[1], axis=1)[:, -best.shape[1] :]
    return RecallQuestions(askers, units, best.min(axis=1).astype(np.float64), most)


def choose_probes(lists: InvertedLists, asked: RecallQuestions, start: int, target: float) -> int:
    """Return the number of lists to search, at least `start`, for a recall."""

    def share(probes: int) -> float:
        scores, nodes = lists.search(asked.units, AT + 1, probes)
        others = (nodes != asked.askers[:, None]) & (nodes >= 0)
        rows = zip(nodes, scores, others, strict=True)
        return asked.recall((found[keep], near[keep]) for found, near, keep in rows)

    return fewest(share, start, lists.lists, target)


def fewest(share: Callable[[int], float], start: int, end: int, target: float) -> int:
    """Return (about) the smallest number from `start` to `end` that reaches a target share, else `end`."""
    low, high = start - 1, min(start, end)
    while high < end and share(high) < target:
        low, high = high, min(2 * high, end)
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if share(middle) < target else (low, middle)
    return high


_BLOCK, _SMALL_BLOCK = 1 << 14, 512


class Cancelled(Exception):
    """The build of an index was cancelled; its partial result was never used."""


class Upkeep:
    """Inverted lists that are kept in step with a state that changes; None while there are few vectors.

    After `poll`, every node of the graph is either in the lists, with the vector it has now, or waits. With a
    `guard`, waiting nodes stay in the lists with their old vectors.
    """

    def __init__(self, cache: VectorCache, guard: AbstractContextManager[Any] | None = None) -> None:
        self._cache, self._state, self._changes = cache, cache.state, cache.changes
        self.late = guard is not None
        self.guard: AbstractContextManager[Any] = nullcontext() if guard is None else guard
        self._block = _BLOCK if guard is None else _SMALL_BLOCK
        self.backend: InvertedLists | None = None
        self._held: Int8 = np.zeros(0, np.int8)  # by node: 1 if it is in the lists
        self._position = 0  # in the record of changes: all up to it is in the lists
        self.dirty: Nodes = np.empty(0, np.int32)  # nodes that wait, as of `poll`, the earliest move first
        self._positions: Int64 = np.empty(0, np.int64)  # theirs in the record
        self.cancelled = False

    def poll(self) -> None:
        """Read which nodes moved and which left; remove their old vectors from the lists."""
        graph = self._state.graph
        if self.backend is None:
            return
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
        """Put the longest waiting nodes into the lists, after `poll`; return how many."""
        taken = self.dirty[:limit]
        if len(taken):
            self._drop(taken[self._held[taken] > 0])
            self._put(taken)
            self._position = int(self._positions[len(taken) - 1])
            self.dirty, self._positions = self.dirty[len(taken) :], self._positions[len(taken) :]
        return len(taken)

    def fill(self, backend: InvertedLists | None) -> Callable[[], None]:
        """Put every node into empty lists, while the old ones answer; return the call that swaps them."""
        with self.guard:  # one moment for all three: another thread may bring nodes in between
            held = np.zeros(self._state.graph.ids.high, np.int8)
            nodes, position = self._numbers(), self._changes.last
        if backend is not None:
            for some, units in self._units(nodes):
                backend.put(some, units)
            held[nodes] = 1

        def swap() -> None:
            self.backend, self._held, self._position = backend, held, position
            self.dirty, self._positions = nodes[:0], self._positions[:0]

        return swap

    def everyone(self) -> Iterator[tuple[Nodes, Float32]]:
        """Yield all nodes, in blocks, with their current vectors, whatever is in the lists."""
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
        if len(nodes) and self.backend is not None:
            self.backend.drop(nodes)
            self._held[nodes] = 0

    def _put(self, nodes: Nodes) -> None:
        for some, units in self._units(nodes):
            if self.backend is not None:
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
