"""The index for nearest neighbours, over vectors that change, appear and disappear."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import msgspec
import numpy as np

from dygcn.engine.models.links import cosines, norms
from dygcn.engine.models.read_kernels import to_units
from dygcn.engine.records import Float32, Float64, Nodes
from dygcn.errors import OptionError
from dygcn.live.finding import at_least
from dygcn.live.search import backends
from dygcn.live.search.nearest import VectorCache, nearest_of_all, read_stale, top_k

_TARGET, _FLOOR = 0.98, 0.95  # of recall: what probes are chosen for, what is not good enough
_WORSE = 0.02  # than with fresh centres: then fresh ones may help
_HELD_OUT = 50  # questions that probes are chosen on
_TOO_MANY = 4  # times the probes that fresh centres wanted: then the centres are too old
_BESIDE = 256  # moved nodes that are looked at one by one, beside the lists
_AT_ONCE = 512  # moved nodes that are put in before an answer, where a guard is held for it
_MEASURED_AFTER = 0.2  # of all vectors were replaced


class IndexStatus(msgspec.Struct, frozen=True):
    """The state of an index."""

    kind: str  # "exact": all vectors are searched; "ivf": those of some lists
    nodes: int  # that can be answered
    lists: int  # 0 for an exact index
    probes: int  # lists that a search reads
    pending: int  # nodes whose vectors are to be read again; the latest 256 are searched beside the lists
    recall: float | None  # share of the true 10 nearest that was found when it was last measured
    measured_on: int  # nodes that were asked for it
    trained_at_nodes: int  # nodes when the centres of the lists were learned
    rebuilds: int  # how often the index was built again
    hint: str = ""  # what would make it better


class NearestIndex:
    """Candidates for the nearest by cosine, of vectors that move: exact while few, FAISS IVF beyond.

    `top_k` ranks them by the vectors as they are now: a node that moved and is not in the lists yet is a
    candidate, too. While there are no lists, all vectors are searched. With a guard several threads may ask,
    and one may `refresh` and `measure` meanwhile: lists are built beside those that are asked, and replace
    them when complete. Without one, threads hold `lock` around every call.
    """

    def __init__(
        self,
        cache: VectorCache,
        *,
        exact_up_to: int = 20_000,  # nodes; with more, some lists of vectors are searched (extra ``ann``)
        probes: int | None = None,  # lists that a search reads; None: as many as a recall of 0.98 takes
        seed: int = 0,
        guard: AbstractContextManager[Any] | None = None,  # of another thread that changes the state
    ) -> None:
        at_least("exact_up_to", exact_up_to, 0)
        at_least("probes", 1 if probes is None else probes, 1)
        self._cache, self._state, self._dim = cache, cache.state, cache.state.model.dim
        self.lock, self._reading = threading.RLock(), threading.Lock()
        self._exact_up_to, self._probes, self._seed = exact_up_to, probes, seed
        self._upkeep = backends.Upkeep(cache, guard)
        self._guard = self._upkeep.guard
        self._trained_at = self._wanted = 0  # nodes and probes when the centres were learned
        self._best_recall = 1.0  # that fresh centres can be hoped to bring
        self._rebuilds = self._replaced = self._measurements = self._measured_on = 0
        self._begun = self._measuring = False
        self._recall: float | None = None
        self._faiss: Any = None
        self._missing: str | None = None  # what must be installed; None: not tried yet

    def __reduce__(self) -> tuple[Any, ...]:
        # FAISS cannot be copied: a copy is an index of the copied vectors, built when it is asked.
        options: dict[str, Any] = {"exact_up_to": self._exact_up_to, "probes": self._probes}
        return partial(NearestIndex, **options, seed=self._seed), (self._cache,)

    # ---- keeping up --------------------------------------------------------------------------------

    def refresh(self, limit: int | None = None) -> int:
        """Put moved vectors into the lists, or read them again; return how many nodes still wait for it.

        The index is built anew if the graph has doubled or halved since its centres were learned, and
        measured if a fifth of its vectors were replaced; both may take seconds, whatever the limit.
        """
        at_least("limit", 0 if limit is None else limit, 0)
        if self._outgrown():  # without the guard: FAISS may have to be loaded
            self._best_recall = 1.0
            self._build()
            return 0
        self._put(limit)
        lists = self._upkeep.backend
        many = lists is not None and self._replaced > _MEASURED_AFTER * len(lists)
        if many and not self._measuring:  # a question of a measurement may refresh, too
            self.measure(_HELD_OUT)
        with self._guard:
            return self._waiting()

    def _waiting(self) -> int:
        return len(self._cache.stale()) if self._upkeep.backend is None else len(self._upkeep.dirty)

    def cancel(self) -> None:
        """Stop the running build or measurement: its next step raises `Cancelled`."""
        self._upkeep.cancelled = True

    def _put(self, limit: int | None) -> None:
        if self._upkeep.backend is None:
            self._begun = self._begun or len(self._state.graph) > 0
            self._read_stale(limit)
            return
        with self.lock:
            with self._guard:
                self._upkeep.poll()
            self._replaced += self._upkeep.put(limit)
            self._begun = self._begun or self._replaced > 0

    def _read_stale(self, limit: int | None = None) -> None:
        with self._reading:
            read_stale(self._cache, self._guard, lambda: self._upkeep.cancelled, limit)

    def _outgrown(self) -> bool:
        nodes = len(self._state.graph)
        if self._upkeep.backend is not None:
            return nodes >= 2 * self._trained_at or 2 * nodes <= self._trained_at
        if nodes <= self._exact_up_to:
            return False
        self.load()
        return self._faiss is not None

    def load(self) -> None:
        """Import FAISS if there are enough nodes to need it and no import was tried yet."""
        if self._missing is None and len(self._state.graph) > self._exact_up_to:
            self._faiss, self._missing = backends.load_faiss()

    def _build(self) -> None:
        """Build the index of all nodes from nothing, with fresh centres if there are many."""
        nodes = len(self._state.graph)
        if nodes <= self._exact_up_to or self._faiss is None:
            self._swap(self._upkeep.fill(None), 0, 0)
            self._read_stale()
            return
        if self._upkeep.late:
            self._read_stale()  # first, and in large parts: questions wait for these vectors
        # The first that are drawn are asked later, so no centre is learned from them.
        with self._guard:
            drawn = self._state.graph.some_nodes(self._seed, _HELD_OUT + backends.sample_for(nodes))
        sample = self._upkeep.units(drawn[_HELD_OUT:])
        lists = backends.InvertedLists(self._faiss, sample, backends.lists_for(nodes), self._seed)
        swap = self._upkeep.fill(lists)
        self._choose_probes(lists, 1)
        self._swap(swap, nodes, lists.probes)

    def _swap(self, swap: Callable[[], None], trained_at: int, wanted: int) -> None:
        with self.lock:
            swap()
            self._rebuilds += self._begun
            self._begun, self._replaced = True, 0
            self._trained_at, self._wanted = trained_at, wanted

    def _choose_probes(self, lists: backends.InvertedLists, start: int) -> None:
        """Set the number of lists to search: the caller's, or what sampled nodes need for the recall."""
        if self._probes is not None:
            lists.probes = min(self._probes, lists.lists)
            return
        with self._guard:
            askers = self._state.graph.some_nodes(self._seed, _HELD_OUT)
        asked = self._questions(askers)
        with self.lock if lists is self._upkeep.backend else nullcontext():
            lists.probes = backends.choose_probes(lists, asked, start, _TARGET)

    @property
    def behind(self) -> bool:
        """Whether more nodes wait than a search checks beside the index, so that it may miss some."""
        return len(self._upkeep.dirty) > _BESIDE

    # ---- asking ------------------------------------------------------------------------------------

    def candidates(self, query: Float32, k: int, leave_out: int = -1) -> Nodes:
        """Return nodes for `top_k` to choose from: the k nearest to a vector by cosine, and others."""
        at_least("k", k, 1)
        unit = to_units(query[None], norms(query[None]))[0]
        if not unit.any():  # as near to one as to any other: the first by id
            with self._guard:
                found = self._state.graph.nodes()[: k + 1]
        else:
            found = self._near(unit, k + (leave_out >= 0))
        others: Nodes = found[found != leave_out]
        return others

    def _near(self, unit: Float32, k: int) -> Nodes:
        """Return candidates; with a guard, without waiting for a writer or for a build of the index."""
        upkeep = self._upkeep
        if upkeep.backend is None and not upkeep.late and self._outgrown():
            self.refresh()
        with self.lock:
            with self._guard:
                upkeep.poll()
            if upkeep.backend is not None and len(upkeep.dirty) > _BESIDE:
                self._put(_AT_ONCE if upkeep.late else None)
            if upkeep.backend is not None:
                near = upkeep.backend.candidates(unit, 2 * k if upkeep.late else k)  # some moved
                return np.concatenate((near, upkeep.dirty[-_BESIDE:]))
        return nearest_of_all(self._cache, self._guard, self._reading, unit, 2 * k)

    def checked(self, vector: Float32 | list[float]) -> Float32:
        """Return a vector as a query; raise `OptionError` if it is none of `dim` finite numbers, or zero."""
        with np.errstate(over="ignore"):  # what is too large is not finite, and refused
            query = np.ascontiguousarray(vector, np.float32)
        if query.shape != (self._dim,) or not np.isfinite(query).all():
            raise OptionError(f"the vector has {query.size} numbers; allowed are {self._dim} finite ones")
        if not query.any():
            raise OptionError("the vector is zero, so it has no direction and no node is nearest to it")
        return query

    # ---- measuring ---------------------------------------------------------------------------------

    def measure(self, queries: int = 20) -> float:
        """Return recall at 10 on sampled nodes against brute force; `status` keeps it.

        If it is below 0.95, more lists are looked at from now on. If that does not help, or takes far more
        lists than it did at first, every vector is read again and the index built anew. What is returned was
        measured after that.
        """
        at_least("queries", queries, 1)
        self._measurements += 1
        self._replaced = 0
        with self._guard:
            askers = self._state.graph.some_nodes(self._seed + self._measurements, queries)
        share = self._ask(askers)
        return share if share >= _FLOOR else self._improved(askers, share)

    def _improved(self, askers: Nodes, share: float) -> float:
        """Raise recall by more lists or by a rebuild; return the recall afterwards."""
        backend, old = self._upkeep.backend, False
        if backend is not None and self._probes is None and backend.probes < backend.lists:
            self._choose_probes(backend, backend.probes + 1)
            share = self._ask(askers)
            old = backend.probes > _TOO_MANY * self._wanted
            if share >= _FLOOR and not old:
                return share
        if not old:
            if share >= self._best_recall - _WORSE:
                return share
            with self._guard:
                self._cache.forget()  # a move may be missing in the record
        self._build()
        self._best_recall = self._ask(askers)
        return self._best_recall

    def _ask(self, askers: Nodes) -> float:
        """Measure recall on these nodes; keep and return it."""
        asked, self._measuring = self._questions(askers), True
        try:
            found = [self._answered(*each) for each in zip(asked.units, askers, strict=True)]
        finally:
            self._measuring = False
        self._recall, self._measured_on = asked.recall(found), len(askers)
        return self._recall

    def _questions(self, askers: Nodes) -> backends.RecallQuestions:
        """Return queries with their true neighbours, from current vectors and not from the backend."""
        vectors = self._read(askers)
        units = to_units(vectors, norms(vectors))
        return backends.ask(askers, units, self._upkeep.everyone(), len(self._state.graph) - 1)

    def _answered(self, query: Float32, asker: int) -> tuple[Nodes, Float64]:
        """Return the nodes found for a query that are in the graph, with cosines of current vectors."""
        found = self.candidates(query, backends.AT, int(asker))
        with self._guard:
            nodes, _ = top_k(self._cache, found, query, backends.AT)
            vectors = self._read(nodes)
        return nodes, cosines(vectors, norms(vectors), query)

    def _read(self, nodes: Nodes) -> Float32:
        with self._guard:
            self._state.check()
            return self._state.reading().vectors(nodes)

    def status(self) -> IndexStatus:
        """Return the state of the index, without reading any vector."""
        with self.lock, self._guard:
            self._upkeep.poll()
            pending = self._waiting()
        backend = self._upkeep.backend
        lists, probes = (0, 0) if backend is None else (backend.lists, backend.probes)
        return IndexStatus(
            kind="exact" if backend is None else "ivf",
            nodes=len(self._state.graph),
            lists=lists,
            probes=probes,
            pending=pending,
            recall=self._recall,
            measured_on=self._measured_on,
            trained_at_nodes=self._trained_at,
            rebuilds=self._rebuilds,
            hint=self._hint(),
        )

    def _hint(self) -> str:
        if self._missing and len(self._state.graph) > self._exact_up_to:
            return f"every search looks at all vectors: {self._missing}"
        if self._probes is not None and self._recall is not None and self._recall < _FLOOR:
            return f"probes={self._probes} are too few: take more, or leave the choice to the index"
        return ""
