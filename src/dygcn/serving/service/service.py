"""The service without its web: one synchronous object that everything else is a shell around."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dygcn.engine.events import python_ids
from dygcn.engine.records import Float32, Nodes
from dygcn.errors import DygcnError, FeatureError, OptionError
from dygcn.live import DurableEmbedding
from dygcn.live.durable.histories import FeedCursor
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.finding import EVERY_KIND, of_kind, own_kind
from dygcn.live.search.index import NearestIndex
from dygcn.live.search.nearest import top_k
from dygcn.schema import answers
from dygcn.serving.service.clock import latest_of, now_in
from dygcn.serving.service.current import CurrentSettings
from dygcn.serving.service.drain import Drain
from dygcn.serving.service.index_worker import IndexWorker
from dygcn.serving.service.ingest_queue import IngestQueue
from dygcn.serving.service.load_history import LoadHistory
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.past import Past
from dygcn.serving.service.reader_processes import ReaderProcesses
from dygcn.serving.service.readiness import Readiness
from dygcn.serving.service.settings import ServiceSettings
from dygcn.serving.service.surprises import SurpriseRecord
from dygcn.serving.service.traffic import Rate
from dygcn.serving.service.workers import SinkWorker, SourceWorker
from dygcn.serving.sinks import make_sink
from dygcn.serving.sources import make_source

_SHOWN = 20
_UNTIL_STRAIGHT = 0.25  # seconds of waiting for an update, after which a shard is asked without the lock
_TO_END = 1.0  # seconds for the thread of the index, which is asked to end long before


@dataclass(frozen=True, slots=True)
class Candidates:
    """Nodes that may be the nearest, as an index found them after a sequence."""

    nodes: Nodes
    sequence: int
    whole: bool  # no node was left out because it moved


def open_in_one_process(settings: ServiceSettings) -> DurableEmbedding:
    """Open the folder of a service.

    Raises
    ------
    OptionError
        If shards are asked for: whoever starts the service has to open these.
    """
    if settings.shards is not None:
        raise OptionError("shards are started by `dygcn serve` and `dygcn run`")
    return open_folder(settings.folder, snapshot_every=settings.snapshot_every, keep_log=settings.keep_log)


class Service:
    """A durable embedding, its queue, its index, its sources and sinks.

    Reads take the embedding's lock, so that no one ever sees half an update.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        open_embedding: Callable[[ServiceSettings], DurableEmbedding] = open_in_one_process,
    ) -> None:
        self.settings, self.current = settings, CurrentSettings(settings)
        self.drain = Drain(settings.drain_seconds)
        sources = [
            make_source(one) for one in settings.sources
        ]  # a missing package is an error before all else
        sinks = [make_sink(one) for one in settings.sinks]
        self.live: DurableEmbedding = open_embedding(settings)
        self.observations = Observations(settings.otel)
        self.live._ahead.observe(self.observations)
        self.observations.opened(settings.folder, self.live)
        if settings.track_surprise:
            self._track_surprise()
        self.past = Past(self.live)
        self.begun = time.monotonic()
        self._graph, self._cache = self.live._state.graph, self.live._cached()
        self.index = NearestIndex(self._cache, exact_up_to=settings.nearest.exact_up_to, guard=self.live.lock)
        self.index_worker = IndexWorker(self.index, self.live._state, settings.nearest.measure_seconds)
        self.reads = 0
        self.readers: ReaderProcesses | None = None
        self.left_behind: list[str] = []  # what did not end with `stop`
        self._anonymous = time.time_ns()
        self._trials = 0  # odd while one is made
        self._latest: float | None = None  # `latest_time` before it
        self._moved_last: Nodes = np.empty(0, np.int32)
        self.live._ahead.watchers.append(self._moved)
        self._listeners: list[Callable[[], None]] = []
        self._event_rate, self._read_rate = Rate(), Rate()
        self.ingest_queue = IngestQueue(self.live, self.current, self._applied, self.observations)
        self.current.watch(self._follow_limits)
        self._follow_limits()
        self.readiness = Readiness(self)
        self.load_history = LoadHistory(self)
        self.sources = [SourceWorker(self, one) for one in sources]
        self.sinks = [
            SinkWorker(self, sink, one.other_history) for sink, one in zip(sinks, settings.sinks, strict=True)
        ]

    def start(self) -> None:
        """Begin to read sources, write sinks and keep the index."""
        self.index_worker.start()
        for worker in (*self.sinks, *self.sources):
            worker.start()
        self.readiness.start()
        self.load_history.start()

    def stop(self) -> None:
        """Drain: read no more, apply what waits, write a snapshot, bring sinks up to it while there is time.

        What does not end in time is left behind: its thread ends with the process. See `left_behind`.
        """
        self.observations.begun_draining(self.ingest_queue.events)
        self.drain.begin()
        self.readiness.stop()
        self.load_history.stop()
        self.index_worker.stop(0.0)  # only asked: it may be in C, which nothing interrupts
        for source in self.sources:
            source.ask_to_stop()
        ended = [source.stop(self.drain.sources_until) for source in self.sources]
        self.ingest_queue.close()
        with contextlib.suppress(DygcnError):  # the log has the failure, and `close` leaves it at that
            self.live.snapshot()
        for sink in self.sinks:
            sink.ask_to_stop(self.drain.sinks_until)
        ended += [sink.stop(self.drain.sinks_until) for sink in self.sinks]
        ended.append(self.index_worker.stop(max(min(self.drain.left / 2, _TO_END), 0.0)))
        names = [*(one.name for one in (*self.sources, *self.sinks)), "the index"]
        self.left_behind = [name for name, done in zip(names, ended, strict=True) if not done]
        self.live.close()
        self.observations.stopped(self.live.sequence)

    def _track_surprise(self) -> None:
        try:
            self.live.track(surprise=True)
        except FeatureError as error:
            self.live.close()
            raise FeatureError(f"track_surprise cannot be true: {error}") from None
        self.observations.surprises = SurpriseRecord(self.live.sequence)

    def _follow_limits(self) -> None:
        self.live._offsets.idle_seconds = self.current.limits.client_idle_seconds
        self.ingest_queue.rejections.bar = self.current.limits.rejected_share

    def try_reads(self) -> None:
        """Read one vector and search once, as requests do; it is not counted.

        Raises
        ------
        DygcnError
            If there is no answer yet.
        """
        with self.live.lock:
            some = self.ids_of(self._graph.some_nodes(0, 1))
        for node in some:
            _, vector = self._find(node)
            if vector is not None:
                with self.index.lock:
                    candidates = self.index.candidates(vector, 1)
                with self.live.lock:
                    self._best(candidates, vector, 1)

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
        return self.live._log.failure is None

    def vector(self, node: int | str) -> tuple[int, Float32 | None]:
        """Return the sequence and the vector of a node, None if it is not in the graph."""
        self.reads += 1
        if not self.live.lock.acquire(timeout=_UNTIL_STRAIGHT):
            straight = self.live._read_straight(node)
            if straight is not None:
                return straight
            self.live.lock.acquire()
        try:
            return self.live.sequence, self._find(node)[1]
        finally:
            self.live.lock.release()

    def vector_now(self, node: int | str, wait: float = 0.0) -> tuple[int, Float32 | None] | None:
        """Do what `vector` does, or return None if it would have to wait longer for an update."""
        if not self.live.lock.acquire(timeout=wait):
            return None
        try:
            return self.vector(node)
        finally:
            self.live.lock.release()

    def nearest_to(self, node: int | str, k: int, kind: str | None = None) -> answers.ScoredNodes | None:
        """Return the nearest nodes of a node, None if it is not in the graph."""
        found = self.candidates_of([node], k)
        if not found:
            return None
        with self.live.lock:
            near = self.best_of(*found[0], k, kind)  # it may have moved or left, and its number be another's
            return None if near is None else answers.ScoredNodes(self.live.sequence, near)

    def nearest(self, vector: list[float], k: int, kind: str | None = None) -> answers.ScoredNodes:
        """Return the nearest nodes to a vector."""
        query = self.index.checked(vector)
        found = self._candidates(query, k)
        with self.live.lock:
            return self._best(self._of_kind(self._mended(found), kind, k), query, k)

    def candidates_of(self, ids: list[int | str], k: int) -> list[tuple[int | str, Candidates]]:
        """Return candidates for the nearest of each node that is in the graph."""
        found = [(one, self._find(one)[1]) for one in ids]
        return [(one, self._candidates(vector, k + 1)) for one, vector in found if vector is not None]

    def best_of(
        self, node: int | str, found: Candidates, k: int, kind: str | None = None, *, mend: bool = True
    ) -> list[answers.ScoredNode] | None:
        """Rank candidates for a node as all are now, under the lock; None if the node has left meanwhile."""
        at, vector = self._find(node)
        if vector is None:
            return None
        nodes = self._mended(found) if mend else found.nodes
        kind = own_kind(self._graph.ids, at) if kind is None else kind
        nodes = self._of_kind(nodes, kind, k + 1)
        return self._best(nodes[nodes != at], vector, k).nodes

    def _of_kind(self, nodes: Nodes, kind: str | None, k: int) -> Nodes:
        """Return the candidates of a kind, under the lock; if few of them are, everybody of the kind."""
        ids, here = self._graph.ids, self._graph.here
        found = of_kind(ids, nodes[here[nodes] > 0], kind)
        if len(found) >= k or kind in (None, EVERY_KIND):
            return found
        return of_kind(ids, np.flatnonzero(here).astype(np.int32), kind)

    def _find(self, node: int | str) -> tuple[int, Float32 | None]:
        with self.live.lock:
            at = self._graph.find_one(node)
            return at, self._cache.one(at) if at >= 0 else None

    def _candidates(self, query: Float32, k: int) -> Candidates:
        self.reads += 1
        self.index_worker.asked_at = time.monotonic()
        sequence, behind = self.live.sequence, self.index.behind
        nodes = self.index.candidates(query, k)
        return Candidates(nodes, sequence, whole=not (behind or self.index.behind))

    def _mended(self, found: Candidates) -> Nodes:
        """Return candidates of now, under the lock: everyone, if a small graph changed since.

        The nearest of a small graph are exact, so whoever came near meanwhile must not be missing.
        """
        few = len(self._graph) <= self.settings.nearest.exact_up_to
        if few and not (found.whole and found.sequence == self.live.sequence):
            return np.flatnonzero(self._graph.here).astype(np.int32)
        return found.nodes

    def _best(self, candidates: Nodes, query: Float32, k: int) -> answers.ScoredNodes:
        """Rank candidates as they are now: some may have moved or left since they were found."""
        nodes, scores = top_k(self._cache, candidates, query, k)
        near = map(answers.ScoredNode, self.ids_of(nodes), scores.tolist())
        return answers.ScoredNodes(self.live.sequence, list(near))

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

    def page(self, since: str, limit: int) -> answers.Changes:
        """Return what moved behind a place."""
        with self.live.lock:
            page, latest = self.live.feed.since(since, limit), self.live.feed.cursor
            cursor = None if page.reset else FeedCursor.read(since)
            shown = 0 if cursor is None else cursor.sequence  # inside a run of pages, that of the one before
            surprises = self.observations.surprises.behind(shown, limit)
        rows = page.rows
        return answers.Changes(
            page.sequence,
            page.next,
            latest,
            page.reset,
            page.more,
            list(map(answers.MovedNode, rows.ids.tolist(), rows.versions.tolist(), rows.vectors)),
            list(map(answers.LeftNode, rows.left.tolist(), rows.left_versions.tolist())),
            *surprises,
        )

    def letters(
        self, limit: int, before: int, stream: str | None = None, reason: str | None = None
    ) -> answers.DeadLetters:
        """Return dead letters, newest first."""
        found = self.live._log.dead_letters(limit, before, stream=stream, reason=reason)
        listed = [answers.ListedDeadLetter.of(*one) for one in found]
        return answers.DeadLetters(self.live._log.count_dead_letters(), listed)

    def latest_time(self) -> float | None:
        """Return the latest time that an event may have now; None: any. No lock is taken for it."""
        while True:
            trials, found = self._trials, self._latest
            if trials % 2 == 0:  # else the clock is that of a trial
                found = latest_of(self.live._state, self.settings.time_unit, self.settings.clock_jump)
            if trials == self._trials:
                return found

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Let nobody see the clock of a trial; in the writing thread."""
        self._latest = self.latest_time()
        self._trials += 1
        try:
            yield
        finally:
            self._trials += 1

    def submit_forget(self, node: int | str, answer: Callable[[Any], None]) -> None:
        """Have the writing thread forget an id, in its turn; `answer` gets the receipt."""
        now = now_in(self.settings.time_unit)
        self.ingest_queue.submit_work(lambda: self.live.forget([node], t=now), 1, answer, changes=True)

    def next_letter(self) -> int:
        """Return a number for a request that has none, so that its dead letters can be distinguished."""
        self._anonymous += 1
        return self._anonymous

    def ids_of(self, nodes: Nodes) -> list[int | str]:
        """Return the user's ids of nodes."""
        found: list[int | str] = python_ids(self._graph.ids.names(nodes)).tolist()
        return found

    def total_reads(self) -> int:
        """Return how many reads were answered, those of reader processes included."""
        return self.reads + (0 if self.readers is None else self.readers.counts().requests)

    def status(self) -> answers.ServiceStatus:
        """Return everything worth knowing at a glance."""
        live, ingest_queue, written = self.live, self.ingest_queue, self.live._snapshots
        self.observations.report(*self.sources, *self.sinks)
        index = msgspec.to_builtins(self.index_worker.status())
        sources = [worker.status() for worker in self.sources]  # first: what they count is in the state below
        sinks = [worker.status() for worker in self.sinks]
        with live.lock:
            graph = self._graph  # it can be counted also while the state is torn
            shown = self._moved_last[graph.present(self._moved_last)]
            moved_last = [] if live._state.torn else self.ids_of(shown)
            sizes = len(graph), graph.edge_count, 0 if live._state.torn else live._state.unreached()
        model, reads = live.model, self.total_reads()
        return answers.ServiceStatus(
            live.sequence,
            live.version,
            *sizes,
            model.dim,
            model.orders,
            model.rule,
            model.ids,
            time.monotonic() - self.begun,
            self.accepting,
            None if live._log.failure is None else str(live._log.failure),
            ingest_queue.rejections.alarms(),
            answers.TrafficStatus(
                ingest_queue.total_events,
                ingest_queue.total_requests,
                reads,
                live._log.count_dead_letters(),
                self._event_rate.at(ingest_queue.total_events),
                self._read_rate.at(reads),
            ),
            answers.QueueStatus(
                ingest_queue.events,
                ingest_queue.rows,
                self.current.limits.queued_events,
                self.current.limits.queued_rows,
                ingest_queue.shed,
                ingest_queue.longest_wait * 1e3,
            ),
            self.load_history.latency(),
            answers.SnapshotStatus(
                live._ahead.saved_at,
                written.saved_time,
                written.seconds,
                live._ahead.damage,
                written.failure,
            ),
            index,
            sources,
            sinks,
            moved_last,
        )
