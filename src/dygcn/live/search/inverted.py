"""Many vectors in FAISS: lists around centres, of which a search looks at some."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.errors import MissingExtra
from dygcn.live.search.unit_rows import rounding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.engine.records import Float32, Int64, Nodes

_FOR_A_LIST = 40  # vectors that its centre is learned from
_ROUNDS = 8
_SPARE = 8  # asked for beyond k: what float32 put in the wrong order, who is left out
_MOST = 4096  # equally near ones that are put in order


def load_faiss() -> tuple[Any, str]:
    """Return the package, or None and the line that installs it."""
    try:
        with extra("ann"):
            import faiss  # noqa: PLC0415 - an extra, and slow to import
    except MissingExtra as error:
        return None, str(error)
    return faiss, ""


def lists_for(nodes: int) -> int:
    """Return how many lists so many nodes want: twice the square root.

    Examples
    --------
    >>> lists_for(250_000), lists_for(3)
    (1000, 3)
    """
    return max(1, min(round(2 * math.sqrt(nodes)), nodes))


def sample_for(nodes: int) -> int:
    """Return how many vectors the centres for so many nodes are learned from."""
    return min(nodes, _FOR_A_LIST * lists_for(nodes))


class InvertedLists:
    """Vectors of length one in the lists of the centres that they are nearest to, replaced one by one.

    Parameters
    ----------
    faiss
        The package.
    sample
        Vectors that the centres are learned from, (n, dim).
    lists
        How many lists, at most a quarter of the sample.
    seed
        Of the first centres.
    threads
        Of FAISS; one by default, since others are at work, too.
    """

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
