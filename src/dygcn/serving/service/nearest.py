"""The nearest nodes by cosine: candidates from an index that a thread maintains, ranked by their vectors."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from dygcn.engine.records import Float32, Nodes
from dygcn.errors import OptionError, TornState, UnknownNode
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.finding import EVERY_KIND, check_kind, of_kind, own_kind
from dygcn.live.search.backends import Cancelled
from dygcn.live.search.index import IndexStatus, NearestIndex
from dygcn.live.search.nearest import VectorCache, top_k
from dygcn.schema import answers, requests
from dygcn.serving.observing.events import note
from dygcn.serving.service.cost_estimate import ROWS_RANKED, RowBudget
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.vectors import VectorReads, known_and_missing
from dygcn.serving.service.web import ID, KIND, K, RequestParser, respond_beside, route

_RANKED_AGAIN = 400_000  # rows that may be ranked again under the lock: answers of small graphs are exact
Id = int | str
_AT_ONCE = 512  # nodes that are put into the index before others may have it
_RECENT = 60.0  # seconds after a question in which the index is kept up
_SHARE = 0.2  # of the time that keeping it up may take
_LONGEST_STOP = 1.0  # seconds
_PATIENCE = 0.05  # seconds to wait for a fresh status


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates for the nearest nodes, as the index had them after a sequence."""

    nodes: Nodes
    sequence: int
    whole: bool  # no node was left out because it moved


class NearestSearch:
    """Finds candidates without the writer's lock, then ranks them under the embedding's lock."""

    def __init__(
        self,
        live: DurableEmbedding,
        reads: VectorReads,
        worker: IndexWorker,
        observations: Observations,
        exact_up_to: int,
        budget: RowBudget,
    ) -> None:
        self._live, self._reads, self._seen = live, reads, observations
        self._worker, self.index = worker, worker.index
        self._exact_up_to, self._budget = exact_up_to, budget
        self._graph, self._cache, self._ahead = live._state.graph, live._cached(), live._ahead

    def nearest_to(self, node: Id, k: int, kind: str | None = None) -> answers.ScoredNodes:
        """Return the nearest nodes of a node."""
        found = self._candidates_of([node], k)
        with self._live.lock:  # it may have left since, and its number be another's
            near = self._best_of(*found[0], k, kind) if found else None
            if near is None:
                raise UnknownNode(node)
            return answers.ScoredNodes(self._ahead.sequence, near)

    def nearest(self, vector: list[float], k: int, kind: str | None = None) -> answers.ScoredNodes:
        """Return the nearest nodes to a vector."""
        query = self.index.checked(vector)
        found = self._candidates(query, k)
        with self._live.lock:
            near = self._best(self._of_kind(self._as_of_now(found), kind, k), query, k)
            return answers.ScoredNodes(self._ahead.sequence, near)

    def nearest_of(self, ids: list[Id], k: int, kind: str | None = None) -> answers.NearestOf:
        """Return the nearest nodes of each of many; ids that are not in the graph are listed as missing."""
        check_kind(self._graph.ids, kind)
        self._budget.check(len(ids) * ROWS_RANKED, "ask for fewer ids")
        queries = self._candidates_of(ids, k)
        with self._live.lock:
            again = len(queries) * len(self._graph) <= _RANKED_AGAIN
            ranked = [(one, self._best_of(one, found, k, kind, again=again)) for one, found in queries]
            of = [answers.NodesOf(one, near) for one, near in ranked if near is not None]
            missing = known_and_missing(ids, self._reads.nodes(ids))[1]
            return answers.NearestOf(self._ahead.sequence, of, missing)

    def probe(self) -> None:
        """Read one vector and search once, as requests do; not counted as a request."""
        with self._live.lock:
            some = self._reads.ids_of(self._graph.some_nodes(0, 1))
        for node in some:
            vector = self._reads.find(node)[1]
            if vector is not None:
                with self.index.lock:
                    candidates = self.index.candidates(vector, 1)
                with self._live.lock:
                    self._best(candidates, vector, 1)

    def _candidates_of(self, ids: list[Id], k: int) -> list[tuple[Id, Candidates]]:
        found = [(one, self._reads.find(one)[1]) for one in ids]
        return [(one, self._candidates(vector, k + 1)) for one, vector in found if vector is not None]

    def _candidates(self, query: Float32, k: int) -> Candidates:
        self._seen.reads += 1
        self._worker.asked_at = time.monotonic()
        sequence, behind = self._ahead.sequence, self.index.behind
        nodes = self.index.candidates(query, k)
        return Candidates(nodes, sequence, whole=not (behind or self.index.behind))

    def _best_of(
        self, node: Id, found: Candidates, k: int, kind: str | None, *, again: bool = True
    ) -> list[answers.ScoredNode] | None:
        """Rank candidates for a node by current vectors; None if the node has left meanwhile."""
        at, vector = self._reads.find(node)
        if vector is None:
            return None
        nodes = self._as_of_now(found) if again else found.nodes
        kind = own_kind(self._graph.ids, at) if kind is None else kind
        nodes = self._of_kind(nodes, kind, k + 1)
        return self._best(nodes[nodes != at], vector, k)

    def _as_of_now(self, found: Candidates) -> Nodes:
        """Return the candidates; every node, if a small graph changed since they were found.

        The nearest of a small graph are exact, so a node that came near meanwhile must not be missing.
        """
        few = len(self._graph) <= self._exact_up_to
        if few and not (found.whole and found.sequence == self._ahead.sequence):
            return np.flatnonzero(self._graph.here).astype(np.int32)
        return found.nodes

    def _of_kind(self, nodes: Nodes, kind: str | None, k: int) -> Nodes:
        """Return the candidates of a kind; if these are too few, every node of the kind."""
        ids, here = self._graph.ids, self._graph.here
        found = of_kind(ids, nodes[here[nodes] > 0], kind)
        if len(found) >= k or kind in (None, EVERY_KIND):
            return found
        return of_kind(ids, np.flatnonzero(here).astype(np.int32), kind)

    def _best(self, candidates: Nodes, query: Float32, k: int) -> list[answers.ScoredNode]:
        """Rank candidates by current vectors: some may have moved or left since they were found."""
        nodes, scores = top_k(self._cache, candidates, query, k)
        return list(map(answers.ScoredNode, self._reads.ids_of(nodes), scores.tolist()))


class NearestHandlers:
    """Handlers of nearest nodes."""

    def __init__(self, parser: RequestParser, search: NearestSearch) -> None:
        self._parser, self._search = parser, search

    @route("GET /v1/nearest/{id}", answers.ScoredNodes, (ID, K, KIND), statuses=(404,))
    def get_nearest(self, request: Request) -> Awaitable[Response]:
        """The nearest nodes of a node, by cosine."""
        node, k = self._parser.node(request), self._parser.k(request)
        return respond_beside(self._search.nearest_to, node, k, request.query_params.get("kind"))

    @route("POST /v1/nearest", answers.ScoredNodes | answers.NearestOf, body=requests.NearestRequest)
    async def post_nearest(self, request: Request) -> Response:
        """The nearest nodes to a vector, or of each of many nodes, by cosine."""
        wanted = await self._parser.body(request, requests.NearestRequest)
        self._parser.check_count(wanted.k, self._parser.limits.k, "neighbours")
        if (wanted.vector is UNSET) == (wanted.ids is UNSET):
            raise OptionError("pass either a vector or ids")
        if wanted.ids is not UNSET:
            self._parser.check_count(len(wanted.ids), self._parser.limits.ids, "ids")
            return await respond_beside(self._search.nearest_of, wanted.ids, wanted.k, wanted.kind)
        return await respond_beside(self._search.nearest, wanted.vector, wanted.k, wanted.kind)


# ---- the index ----------------------------------------------------------------------------------------


class IndexWorker:
    """Builds the index, and maintains it while requests use it.

    Two locks: the index's own, and the embedding's inside it. Both are taken for moments only: an index is
    built beside the one that answers, so that neither writers nor readers wait for it.
    """

    def __init__(self, index: NearestIndex, cache: VectorCache, measure_seconds: float) -> None:
        self.index, self._state, self._changes = index, cache.state, cache.changes
        self._measure_seconds = measure_seconds
        self._status = index.status()
        self._stop = threading.Event()
        self.asked_at = -_RECENT
        self._thread = threading.Thread(target=self._keep_up, name="dygcn-index", daemon=True)

    def start(self) -> None:
        """Begin to build and maintain the index."""
        self.index.load()
        self._thread.start()

    def stop(self, seconds: float = _LONGEST_STOP) -> bool:
        """Stop maintaining the index; wait at most so long, and return whether the thread ended.

        Learning the centres of lists is one step, of many seconds where there are many nodes, and cannot be
        interrupted. The thread then ends after it, or with the process, which does not wait for it.
        """
        self._stop.set()
        self.index.cancel()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def status(self) -> IndexStatus:
        """Return the state of the index; the last known one if the index is busy or the state is torn."""
        if not self._state.torn and self.index.lock.acquire(timeout=_PATIENCE):
            try:
                self._status = self.index.status()
            finally:
                self.index.lock.release()
        return self._status

    def _keep_up(self) -> None:
        try:
            self._work()
        except TornState:  # then nothing is answered until the folder is opened again
            note("index.failed", error="the state is torn")
        except Cancelled:
            return
        except Exception as error:
            note("index.failed", error=str(error) or type(error).__name__)
            raise

    def _work(self) -> None:
        index, built, measured = self.index, False, time.monotonic()
        start, nodes, reached = measured, len(self._state.graph), -1
        note("index.building", nodes=nodes)
        while not self._stop.is_set():
            recent = time.monotonic() - self.asked_at < _RECENT
            dirty, begun, tick = 0, time.monotonic(), self._changes.tick
            if not built or (recent and tick != reached):
                dirty = index.refresh(_AT_ONCE)
                reached = -1 if dirty else tick
            if not built and not dirty:
                built = True
                note("index.ready", nodes=nodes, seconds=round(time.monotonic() - start, 3))
            spent = time.monotonic() - begun
            if built and recent and time.monotonic() - measured > self._measure_seconds:
                index.measure()
                measured, reached = time.monotonic(), -1  # it may have found that vectors are missing
            self._stop.wait(0.25 if not dirty else spent / _SHARE if built else 0.001)
