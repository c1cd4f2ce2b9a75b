"""What a service measures and logs while it works; one object, which all its parts tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dygcn.live.durable.source_batch import Receipt, SourceBatch
from dygcn.live.durable.write_ahead import Observer
from dygcn.serving.observing.events import Overload, note
from dygcn.serving.observing.metrics import Distribution, RequestCounts, distribution
from dygcn.serving.observing.tracing import Otel, Tracing, make_tracing
from dygcn.serving.service.surprises import SurpriseRecord

if TYPE_CHECKING:
    from dygcn.engine.models import Surprises
    from dygcn.engine.records import IdColumn
    from dygcn.errors import WriteFailed
    from dygcn.live import DurableEmbedding
    from dygcn.serving.service.workers import SinkWorker, SourceWorker

REASONS = ("unreadable", "malformed", "refused")  # a message, an event, an event by the graph


class Observations(Observer):
    """Counts and distributions since the start, and the lines of what happened.

    Attributes
    ----------
    requests
        Of this process; `other_requests` returns those that reader processes counted.
    reader_processes, connections
        Return how many there are; whoever has them sets these.
    surprises
        Events that were measured, where that is asked for.
    """

    def __init__(self, otel: Otel | None = None) -> None:
        self.tracing = make_tracing(otel) if otel is not None else Tracing()
        self.begun = time.time()
        self.requests = RequestCounts()
        self.other_requests: Callable[[], list[RequestCounts]] = list
        self.reader_processes: Callable[[], int] = int
        self.connections: Callable[[], int] = int
        self.ready = self.draining = False
        self.overload = Overload()
        self.batch_events = distribution("dygcn_batch_events")
        self.queue_wait = distribution("dygcn_queue_wait_seconds")
        self.lag = distribution("dygcn_queue_wait_seconds")  # from arrival to being readable
        self.log_write = distribution("dygcn_log_write_seconds")
        self.apply = distribution("dygcn_apply_seconds")
        self.sink_write: dict[str, Distribution] = {}
        self.dead_letters = dict.fromkeys(REASONS, 0)
        self.snapshots = self.snapshot_failures = 0
        self.snapshot_at = self.begun
        self.surprises = SurpriseRecord()

    # ---- the durable embedding ---------------------------------------------------------------------------

    def logged(self, entries: int, seconds: float) -> None:
        """Count a write to the log."""
        self.log_write.observe(seconds)
        self.tracing.done("log write", seconds, entries=entries)

    def applied(self, seconds: float) -> None:
        """Count a batch that was applied."""
        self.apply.observe(seconds)
        self.tracing.done("apply", seconds)

    def measured(self, found: Surprises, sequence: int) -> None:
        """Keep and count how surprising events were."""
        self.surprises.add(found, sequence)

    def forgotten(self, ids: IdColumn) -> None:
        """Keep no event of an id that is forgotten."""
        self.surprises.forget(ids)

    def snapshot_written(self, sequence: int, seconds: float) -> None:
        """Count a snapshot."""
        self.snapshots, self.snapshot_at = self.snapshots + 1, time.time()
        self.tracing.done("snapshot", seconds, sequence=sequence)
        note("snapshot.written", sequence=sequence, seconds=round(seconds, 3))

    def snapshot_failed(self, sequence: int, error: Exception) -> None:
        """Count a snapshot that failed."""
        self.snapshot_failures += 1
        note("snapshot.failed", sequence=sequence, error=str(error) or type(error).__name__)

    def write_failed(self, failure: WriteFailed) -> None:
        """Log that nothing more is accepted."""
        note("disk.failed", error=str(failure))

    # ---- the service -------------------------------------------------------------------------------------

    def opened(self, folder: str, live: DurableEmbedding) -> None:
        """Log what was opened."""
        graph = live._state.graph
        note(
            "service.starting",
            folder=folder,
            sequence=live.sequence,
            nodes=len(graph),
            edges=graph.edge_count,
        )
        if live._ahead.damage:
            note("service.recovered", folder=folder, damage="; ".join(live._ahead.damage))

    def begun_serving(self) -> None:
        """Log that requests are answered."""
        self.ready = True
        note("service.ready", seconds=round(time.time() - self.begun, 3))

    def begun_draining(self, queued_events: int) -> None:
        """Log that the service goes down."""
        self.ready, self.draining = False, True
        note("service.draining", queued_events=queued_events)

    def report(self, *workers: SourceWorker | SinkWorker) -> None:
        """Write the lines that are due, though nothing has happened since; called when somebody looks."""
        self.overload.taken()
        for worker in workers:
            worker.reachable.report()

    @contextmanager
    def batching(self, waits: Sequence[float], contexts: Sequence[Any]) -> Iterator[None]:
        """Trace a batch that begins now, and how long its parts have waited."""
        if not self.tracing.on:
            yield
            return
        for seconds, context in zip(waits, contexts, strict=True):
            self.tracing.done("queue wait", seconds, context)
        with self.tracing.batch(contexts):
            yield

    def batch(
        self, waits: Sequence[float], parts: Sequence[SourceBatch], results: Sequence[Receipt | BaseException]
    ) -> None:
        """Count a batch: how long its parts waited in the queue, and what became of them."""
        events = 0
        for seconds, part, result in zip(waits, parts, results, strict=True):
            self.queue_wait.observe(seconds)
            if isinstance(result, Receipt):
                events += result.applied
                self._count_dead(part, result.dead)
        self.batch_events.observe(events)

    def _count_dead(self, part: SourceBatch, dead: int) -> None:
        if not dead:
            return
        unreadable = sum(letter.row < 0 for letter in part.dead)
        malformed = len(part.dead) - unreadable
        counts = {"unreadable": unreadable, "malformed": malformed, "refused": dead - len(part.dead)}
        for reason, count in counts.items():
            self.dead_letters[reason] += max(count, 0)

    @contextmanager
    def writing_sink(self, name: str, rows: int) -> Iterator[None]:
        """Measure the write of a page to a sink."""
        if name not in self.sink_write:
            self.sink_write[name] = distribution("dygcn_sink_write_seconds")
        begun = time.perf_counter()
        yield
        seconds = time.perf_counter() - begun
        self.sink_write[name].observe(seconds)
        self.tracing.done("sink write", seconds, sink=name, rows=rows)

    def stopped(self, sequence: int) -> None:
        """Log that everything is on disk, and send the last spans."""
        note("service.stopped", sequence=sequence)
        self.tracing.close()
