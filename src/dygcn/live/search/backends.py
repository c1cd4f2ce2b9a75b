"""Where vectors of length one are searched: few of them all at once, many in the lists of FAISS."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.graph.ids import grown
from dygcn.errors import MissingExtra
from dygcn.live.search.nearest import rounding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.engine.records import Float32, Int64, Nodes

_FOR_A_LIST = 40  # vectors that its centre is learned from
_ROUNDS = 8
_SPARE = 8  # asked for beyond k: what float32 put in the wrong order, who is left out
_MOST = 4096  # equally near ones that are put in order


class UnitRows:
    """A matrix without gaps of vectors of length one, and whose they are."""

    kind = "exact"

    def __init__(self, dim: int) -> None:
        self._rows: Float32 = np.zeros((0, dim), np.float32)
        self._nodes: Nodes = np.zeros(0, np.int32)
        self._place: Nodes = np.zeros(0, np.int32)  # by node; only that of a node which is in is looked at
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, nodes: Nodes, units: Float32) -> None:
        """Add nodes that are not in, none twice."""
        if len(nodes) == 0:
            return
        end = self._count + len(nodes)
        self._rows, self._nodes = grown(self._rows, end), grown(self._nodes, end)
        self._place = grown(self._place, int(nodes.max()) + 1)
        self._rows[self._count : end], self._nodes[self._count : end] = units, nodes
        self._place[nodes] = np.arange(self._count, end)
        self._count = end

    def drop(self, nodes: Nodes) -> None:
        """Take out nodes that are in; the last rows move to where they were."""
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
        """Return the k nearest and all who may be as near, in no order; `query` has length one."""
        n, k = self._count, min(k, self._count)
        if k <= 0:
            return self._nodes[:0]
        scores = self._rows[:n] @ query
        bar = np.partition(scores, n - k)[n - k]
        return self._nodes[np.flatnonzero(scores >= bar - rounding(len(query)))]


def load_faiss() -> tuple[Any, str]:
    """Return the package, or None and the line that installs it."""
    try:
        with extra("ann"):
            import faiss  # noqa: PLC0415 - an extra, and slow to import
    except MissingExtra as error:
        return None, str(error)
    return faiss, ""


def lists_for(nodes: int) -> int:
    """Return how many lists so many nodes want: twice the square root."""
    return max(1, min(round(2 * math.sqrt(nodes)), nodes))


def sample_for(nodes: int) -> int:
    """Return how many vectors the centres for so many nodes are learned from."""
    return min(nodes, _FOR_A_LIST * lists_for(nodes))


class InvertedLists:
    """Vectors of length one in the lists of the centres that they are nearest to, replaced one by one."""

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
        """FAISS takes the number of threads from OpenMP, which others share: give it back."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(self._threads)
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def put(self, nodes: Nodes, units: Float32) -> None:
        """Add nodes that are not in, none twice."""
        if len(nodes):
            with self._alone():
                self._index.add_with_ids(np.ascontiguousarray(units), nodes.astype(np.int64))

    def drop(self, nodes: Nodes) -> None:
        """Take out nodes that are in."""
        numbers = nodes.astype(np.int64)
        with self._alone():
            self._index.remove_ids(self._faiss.IDSelectorArray(len(numbers), self._faiss.swig_ptr(numbers)))

    def search(self, queries: Float32, k: int, probes: int) -> tuple[Float32, Int64]:
        """Return scores and nodes, (n, k), best first; -1 where no more was found."""
        self._index.nprobe = min(probes, self.lists)
        with self._alone():
            scores, nodes = self._index.search(queries, k)
        return scores, nodes

    def candidates(self, query: Float32, k: int) -> Nodes:
        """Return the k nearest that are found, with all who may be as near, in no order.

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
