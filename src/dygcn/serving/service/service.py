"""The service without its web: one synchronous object that everything else is a shell around."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from dygcn.engine.events import python_ids
from dygcn.engine.records import Float32, Nodes
from dygcn.errors import StorageError
from dygcn.live import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.search.index import NearestIndex
from dygcn.live.search.nearest import top_k
from dygcn.serving.service import answers
from dygcn.serving.service.clock import latest_of
from dygcn.serving.service.index_worker import IndexWorker
from dygcn.serving.service.ingest_queue import IngestQueue
from dygcn.serving.service.settings import ServiceSettings
from dygcn.serving.service.traffic import Rate
from dygcn.serving.service.workers import SinkWorker, SourceWorker
from dygcn.serving.sinks import make_sink
from dygcn.serving.sources import make_source

_SHOWN = 20
_MAP_NODES = 2_000


class Service:
    """A durable embedding, its queue, its index, its sources and sinks.

    Reads take the embedding's lock, so that no one ever sees half an update.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        sources = [
            make_source(one) for one in settings.sources
        ]  # a missing package is an error before all else
        sinks = [make_sink(one) for one in settings.sinks]
        self.live: DurableEmbedding = open_folder(settings.folder, snapshot_every=settings.snapshot_every)
        self.live.followed.idle_seconds = settings.limits.client_idle_seconds
        self.begun = time.monotonic()
        self._graph, self._cache = self.live.state.graph, self.live.cached()
        self.index = NearestIndex(self._cache, exact_up_to=settings.nearest.exact_up_to, guard=self.live.lock)
        self.index_worker = IndexWorker(self.index, self.live.state, settings.nearest.measure_seconds)
        self.reads = 0
        self._anonymous = time.time_ns()
        self._moved_last: Nodes = np.empty(0, np.int32)
        self.live.watch(self._moved)
        self._listeners: list[Callable[[], None]] = []
        self._event_rate, self._read_rate = Rate(), Rate()
        self.ingest_queue = IngestQueue(self.live, settings.limits, self._applied)
        self.sources = [SourceWorker(self, one) for one in sources]
        self.sinks = [
            SinkWorker(self, sink, one.other_history) for sink, one in zip(sinks, settings.sinks, strict=True)
        ]

    def start(self) -> None:
        """Begin to read sources, write sinks and keep the index."""
        self.index_worker.start()
        for worker in (*self.sinks, *self.sources):
            worker.start()

    def stop(self) -> None:
        """Drain: read no more, apply what waits, bring sinks up to it, write a snapshot."""
        for source in self.sources:
            source.stop()
        self.ingest_queue.close()
        self._publish()
        for sink in self.sinks:
            sink.stop()
        self.index_worker.stop()
        self.live.close()

    def _publish(self) -> None:
        """Publish what a tolerance withholds while sinks can take it; the next start would write all rows."""
        if self.live.tolerance > 0 and self.accepting:
            with contextlib.suppress(StorageError):  # the log has the failure, and `close` leaves it at that
                self.live.flush()

    # ---- notifying -----------------------------------------------------------------------------------

    def _moved(self, nodes: Nodes) -> None:
        if len(nodes):
            self._moved_last = nodes[:_SHOWN].copy()

    def notify(self, listener: Callable[[], None]) -> None:
        """Have a function called after every transaction, in the writing thread."""
        self._listeners.append(listener)

    def _applied(self) -> None:
        for listener in self._listeners:
            listener()

    # ---- reading -------------------------------------------------------------------------------------

    @property
    def accepting(self) -> bool:
        """Whether events are taken."""
        return self.live.log.failure is None

    def vector(self, node: int | str) -> tuple[int, Float32 | None]:
        """Return the sequence and the vector of a node, None if it is not in the graph."""
        self.reads += 1
        with self.live.lock:
            return self.live.sequence, self._find(node)[1]

    def vector_now(self, node: int | str, wait: float = 0.0) -> tuple[int, Float32 | None] | None:
        """Do what `vector` does, or return None if it would have to wait longer for an update."""
        if not self.live.lock.acquire(timeout=wait):
            return None
        try:
            return self.vector(node)
        finally:
            self.live.lock.release()

    def nearest_to(self, node: int | str, k: int) -> answers.Neighbours | None:
        """Return the nearest nodes of a node, None if it is not in the graph."""
        at, vector = self._find(node)
        if vector is None:
            return None
        candidates = self._candidates(vector, k + 1)
        with self.live.lock:
            at, vector = self._find(node)  # it may have moved or left meanwhile, and its number be another's
            return None if vector is None else self._best(candidates[candidates != at], vector, k)

    def nearest(self, vector: list[float], k: int) -> answers.Neighbours:
        """Return the nearest nodes to a vector."""
        query = self.index.checked(vector)
        candidates = self._candidates(query, k)
        with self.live.lock:
            return self._best(candidates, query, k)

    def _find(self, node: int | str) -> tuple[int, Float32 | None]:
        with self.live.lock:
            at = self._graph.find_one(node)
            return at, self._cache.one(at) if at >= 0 else None

    def _candidates(self, query: Float32, k: int) -> Nodes:
        self.reads += 1
        self.index_worker.asked_at = time.monotonic()
        with self.index.lock:
            return self.index.candidates(query, k)

    def _best(self, candidates: Nodes, query: Float32, k: int) -> answers.Neighbours:
        """Rank candidates as they are now: some may have moved or left since they were found."""
        nodes, scores = top_k(self._cache, candidates, query, k)
        near = map(answers.Neighbour, self.ids_of(nodes), scores.tolist())
        return answers.Neighbours(self.live.sequence, list(near))

    def vectors(self, ids: list[int | str]) -> tuple[int, list[int | str], Float32, list[int | str]]:
        """Return the sequence, the ids that are in the graph with their vectors, and those that are not."""
        self.reads += 1
        with self.live.lock:
            nodes = np.array([self._graph.find_one(one) for one in ids], np.int32)
            known = nodes >= 0
            vectors = self._cache.refresh(nodes[known])[0]
            sequence = self.live.sequence
        here = [one for one, found in zip(ids, known, strict=True) if found]
        missing = [one for one, found in zip(ids, known, strict=True) if not found]
        return sequence, here, vectors, missing

    def scores(self, pairs: list[tuple[int | str, int | str]], links: str) -> answers.Scores:
        """Return the scores of pairs, None where an id is not in the graph."""
        self.reads += 1
        with self.live.lock:
            first = np.array([self._graph.find_one(a) for a, _ in pairs], np.int32)
            second = np.array([self._graph.find_one(b) for _, b in pairs], np.int32)
            found = self.live.scores_of(first, second, links)
            known = (first >= 0) & (second >= 0)
            scores = [float(score) if here else None for score, here in zip(found, known, strict=True)]
            return answers.Scores(self.live.sequence, scores)

    def page(self, since: str, limit: int) -> answers.Changes:
        """Return what moved behind a place."""
        with self.live.lock:
            page, latest = self.live.feed.since(since, limit), self.live.feed.cursor
        rows = page.rows
        return answers.Changes(
            page.sequence,
            page.next,
            latest,
            page.reset,
            page.more,
            list(map(answers.Changed, rows.ids.tolist(), rows.versions.tolist(), rows.vectors.tolist())),
            list(map(answers.Left, rows.left.tolist(), rows.left_versions.tolist())),
        )

    def letters(self, limit: int, before: int) -> answers.Letters:
        """Return dead letters, newest first."""
        log = self.live.log
        found = [
            answers.Letter(number, one.received, one.stream, one.position, one.row, one.reason, one.event)
            for number, one in log.dead_letters(limit, before)
        ]
        return answers.Letters(log.count_dead_letters(), found)

    def latest_time(self) -> float | None:
        """Return the latest time that an event may have now; None: any."""
        return latest_of(self.live.state, self.settings.time_unit, self.settings.clock_jump)

    def next_letter(self) -> int:
        """Return a number for a request that has none, so that its dead letters can be distinguished."""
        self._anonymous += 1
        return self._anonymous

    def ids_of(self, nodes: Nodes) -> list[int | str]:
        """Return the user's ids of nodes."""
        found: list[int | str] = python_ids(self._graph.ids.names(nodes)).tolist()
        return found

    def status(self) -> answers.Status:
        """Return everything worth knowing at a glance."""
        live, ingest_queue = self.live, self.ingest_queue
        index = msgspec.to_builtins(self.index_worker.status())
        with live.lock:
            graph = self._graph  # it can be counted also while the state is torn
            shown = self._moved_last[graph.present(self._moved_last)]
            moved_last = [] if live.state.torn else self.ids_of(shown)
            sizes = len(graph), graph.edge_count, 0 if live.state.torn else live.state.unreached()
        model = live.model
        return answers.Status(
            live.sequence,
            live.version,
            *sizes,
            model.dim,
            model.orders,
            model.rule,
            model.kind,
            time.monotonic() - self.begun,
            self.accepting,
            None if live.log.failure is None else str(live.log.failure),
            answers.TrafficStatus(
                ingest_queue.total_events,
                ingest_queue.total_requests,
                self.reads,
                live.log.count_dead_letters(),
                self._event_rate.at(ingest_queue.total_events),
                self._read_rate.at(self.reads),
            ),
            answers.QueueStatus(
                ingest_queue.events,
                ingest_queue.rows,
                self.settings.limits.queued_events,
                self.settings.limits.queued_rows,
                ingest_queue.shed,
                ingest_queue.longest_wait * 1e3,
            ),
            answers.SnapshotStatus(live.saved_at, live.snapshot_seconds, live.damage),
            index,
            [worker.status() for worker in self.sources],
            [worker.status() for worker in self.sinks],
            moved_last,
        )

    def map(self, count: int = _MAP_NODES) -> answers.Map:
        """Return some nodes in two dimensions; which ones depends on their ids alone."""
        with self.live.lock:
            nodes = self._graph.some_nodes(0, min(count, _MAP_NODES))
            vectors, ids = self.live.vectors_of(nodes), self.ids_of(nodes)
            sequence, total = self.live.sequence, len(self._graph)
        return answers.Map(sequence, total, _flat(ids, vectors))


def _flat(ids: list[Any], vectors: Float32) -> list[answers.Point]:
    """Project unit vectors on the two directions in which they differ most, with signs that do not jump."""
    if len(ids) == 0:
        return []
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, 1e-12)
    centred = unit - unit.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    two = directions[:, ::-1][:, :2]
    two = two * np.where(two[np.abs(two).argmax(axis=0), range(two.shape[1])] < 0, -1, 1)
    flat = np.zeros((len(ids), 2), np.float32)
    flat[:, : two.shape[1]] = centred @ two
    return [
        answers.Point(one, round(float(x), 5), round(float(y), 5))
        for one, (x, y) in zip(ids, flat, strict=True)
    ]
