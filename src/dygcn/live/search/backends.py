"""Backends of nearest-neighbour search: one matrix, or the inverted lists of FAISS; and their recall."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn._extras import extra
from dygcn.engine.graph.ids import grown
from dygcn.engine.records import Float, Float32, Float64, Int64, Nodes
from dygcn.errors import MissingExtra
from dygcn.live.search.nearest import rounding

AT = 10  # recall is measured at
_FOR_A_LIST = 40  # vectors that its centre is learned from
_ROUNDS = 8
_SPARE = 8  # asked for beyond k: what float32 put in the wrong order, who is left out
_MOST = 4096  # equally near ones that are put in order


class UnitRows:
    """A contiguous matrix of vectors of length one, and the node of each row."""

    kind = "exact"

    def __init__(self, dim: int) -> None:
        self._rows: Float32 = np.zeros((0, dim), np.float32)
        self._nodes: Nodes = np.zeros(0, np.int32)
        self._place: Nodes = np.zeros(0, np.int32)  # by node; only that of a node which is in is looked at
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, nodes: Nodes, units: Float32) -> None:
        """Add nodes that are not in the matrix, each once."""
        if len(nodes) == 0:
            return
        end = self._count + len(nodes)
        self._rows, self._nodes = grown(self._rows, end), grown(self._nodes, end)
        self._place = grown(self._place, int(nodes.max()) + 1)
        self._rows[self._count : end], self._nodes[self._count : end] = units, nodes
        self._place[nodes] = np.arange(self._count, end)
        self._count = end

    def drop(self, nodes: Nodes) -> None:
        """Remove nodes that are in the matrix; the last rows fill the gaps."""
        end = self._count - len(nodes)
        gone = self._place[nodes]
        last = np.ones(len(nodes), np.bool_)
        last[gone[gone >= end] - end] = False
        moved = np.flatnonzero(last) + end
        holes = gone[gone < end]
        self._rows[holes], self._nodes[holes] = self._rows[moved], self._nodes[moved]
        self._place[self._nodes[holes]] = holes
        self._count = end

    def candidates(self, query: Float32, k: int) -> Nodes:
        """Return the k nearest rows and all that tie within rounding, unordered. `query` is a unit vector."""
        n, k = self._count, min(k, self._count)
        if k <= 0:
            return self._nodes[:0]
        scores = self._rows[:n] @ query
        bar = np.partition(scores, n - k)[n - k]
        return self._nodes[np.flatnonzero(scores >= bar - rounding(len(query)))]


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

    kind = "ivf"

    def __init__(self, faiss: Any, sample: Float32, lists: int, seed: int, threads: int = 1) -> None:
        self._faiss = faiss
        self._threads = threads
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
        """Set FAISS's number of OpenMP threads for the block, then restore it: other libraries share it."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(self._threads)
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
