"""A service without HTTP: its parts, how they are joined, and the order of start and stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from dygcn.errors import DygcnError, FeatureError, OptionError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.search.index import NearestIndex
from dygcn.serving.service.cost_estimate import RowBudget
from dygcn.serving.service.ingest_queue import EventClock, IngestQueue
from dygcn.serving.service.lifetime import Drain, Readiness
from dygcn.serving.service.nearest import IndexWorker, NearestSearch
from dygcn.serving.service.observations import Observations, SurpriseRecord
from dygcn.serving.service.settings import CurrentSettings, ServiceSettings
from dygcn.serving.service.status import LoadHistory, StatusReport
from dygcn.serving.service.vectors import PastReads, VectorReads
from dygcn.serving.service.workers import SinkWorker, SourceWorker
from dygcn.serving.sinks import OnOtherHistory, Sink
from dygcn.serving.sources import Source

_TO_END = 1.0  # seconds for the thread of the index, which is asked to end long before


def open_in_one_process(settings: ServiceSettings) -> DurableEmbedding:
    """Open the folder of a service in this process; refuse a divided folder, which only the commands open."""
    if settings.shards is not None:
        raise OptionError("shards are started by `dygcn serve` and `dygcn run`")
    return open_folder(settings.folder, snapshot_every=settings.snapshot_every, keep_log=settings.keep_log)


class Service:
    """A durable embedding with its queue, its index, its sources and its sinks."""

    def __init__(
        self,
        settings: ServiceSettings,
        open_embedding: Callable[[ServiceSettings], DurableEmbedding] = open_in_one_process,
    ) -> None:
        self.settings, self.current = settings, CurrentSettings(settings)
        self.drain = Drain(settings.drain_seconds)
        self.listeners: list[Callable[[], None]] = []  # called after every transaction
        sources = [one.make() for one in settings.sources]  # a missing package is the first error
        sinks = [one.make() for one in settings.sinks]
        self.live = live = open_embedding(settings)
        self.observations = seen = Observations(settings.otel)
        live._ahead.observe(seen)
        seen.opened(settings.folder, live)
        if settings.track_surprise:
            self._track_surprise()
        self.clock = EventClock(live._state, settings.time_unit, settings.clock_jump)
        self.queue = IngestQueue(live, self.current, self.listeners, seen)
        self.reads, self.past, self.budget = VectorReads(live, seen), PastReads(live), RowBudget(self.current)
        exact_up_to = settings.nearest.exact_up_to
        index = NearestIndex(live._cached(), exact_up_to=exact_up_to, guard=live.lock)
        self.index_worker = IndexWorker(index, live._cached(), settings.nearest.measure_seconds)
        self.search = NearestSearch(live, self.reads, self.index_worker, seen, exact_up_to, self.budget)
        self.readiness = Readiness(live, self.drain, self.search.probe, seen)
        self.load_history = LoadHistory(live, self.queue, seen)
        self.sources: list[SourceWorker] = []
        self.sinks: list[SinkWorker] = []
        parts = live, self.current, seen, self.queue, self.reads, self.index_worker, self.load_history
        self.report = StatusReport(*parts, self.sources, self.sinks)
        self.left_behind: list[str] = []  # what did not end with `stop`
        self.current.watch(self._follow_limits)
        for source in sources:
            self.add_source(source)
        for sink, one in zip(sinks, settings.sinks, strict=True):
            self.add_sink(sink, one.other_history)

    def add_source(self, source: Source) -> None:
        """Add a source; its worker starts with the service."""
        self.sources.append(SourceWorker(source, self.live, self.queue, self.clock))

    def add_sink(self, sink: Sink, other_history: OnOtherHistory = "rewrite") -> None:
        """Add a sink; its worker starts with the service."""
        self.sinks.append(SinkWorker(sink, self.live, self.listeners, self.observations, other_history))

    def start(self) -> None:
        """Begin to read sources, write sinks and maintain the index."""
        self.index_worker.start()
        for worker in (*self.sinks, *self.sources):
            worker.start()
        self.readiness.start()
        self.load_history.start()

    def stop(self) -> None:
        """Drain: read no more, apply what waits, write a snapshot, bring sinks up to it while there is time.

        What does not end in time is left behind: its thread ends with the process. See `left_behind`.
        """
        self.observations.begun_draining(self.queue.events)
        self.drain.begin()
        self.readiness.stop()
        self.load_history.stop()
        self.index_worker.stop(0.0)  # only asked: it may be in C, which nothing interrupts
        for source in self.sources:
            source.ask_to_stop()
        ended = [source.stop(self.drain.sources_until) for source in self.sources]
        self.queue.close()
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
        self.observations.rejections.bar = self.current.limits.rejected_share
