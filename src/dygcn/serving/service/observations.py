"""What a service measures and logs: one object, which all its parts report to."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import Any

from dygcn.engine.events import python_ids
from dygcn.engine.models.surprise import Surprises, reason_names
from dygcn.engine.records import IdColumn
from dygcn.errors import WriteFailed
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import Receipt, SourceBatch
from dygcn.live.durable.write_ahead import Observer
from dygcn.schema.answers import Alarm, SurprisingEvent
from dygcn.serving.observing.events import Overload, Reachable, note
from dygcn.serving.observing.metrics import Distribution, RequestCounts, distribution
from dygcn.serving.observing.tracing import Otel, Tracing, make_tracing

REASONS = ("unreadable", "malformed", "refused")  # a message, an event, an event by the graph
MOST = 10_000  # events that are kept: some megabytes, and seconds of events at the speed of measuring
_HIGH = 0.99  # rank from which on an event is counted as surprising
_WINDOW = 1_000  # events
_LEAST = 20  # events, before which nothing is said
_ALARM = "mass rejection"


class SurpriseRecord:
    """The last events measured by this process, oldest first, and counts of all of them.

    Writers and readers hold the embedding's lock.
    """

    def __init__(self, floor: int = 0) -> None:
        self._floor, self._kept = floor, deque[SurprisingEvent](maxlen=MOST)
        self.values, self.high = distribution("dygcn_surprise"), 0

    def add(self, found: Surprises, sequence: int) -> None:
        """Record and count the events of a batch, except those that add nothing."""
        ids = (python_ids(column).tolist() for column in (found.src, found.dst))
        numbers = (column.tolist() for column in (found.value, found.rank))
        for src, dst, value, rank, reasons in zip(*ids, *numbers, reason_names(found.reasons), strict=True):
            if not math.isfinite(value):
                continue
            self.values.observe(value)
            self.high += rank >= _HIGH
            if len(self._kept) == self._kept.maxlen:
                self._floor = self._kept[0].sequence
            known = None if math.isnan(rank) else rank
            self._kept.append(SurprisingEvent(sequence, src, dst, value, known, reasons))

    def forget(self, ids: IdColumn) -> None:
        """Remove the events of forgotten ids."""
        gone = set(python_ids(ids).tolist())
        rest = (one for one in self._kept if one.src not in gone and one.dst not in gone)
        self._kept = deque(rest, maxlen=self._kept.maxlen)

    def behind(self, sequence: int, limit: int) -> tuple[list[SurprisingEvent], int | None]:
        """Return the newest events after a sequence, oldest first, and up to which sequence some miss."""
        newer = takewhile(lambda one: one.sequence > sequence, reversed(self._kept))
        found, missing = list(islice(newer, limit + 1)), self._floor
        if len(found) > limit:
            missing = found.pop().sequence
        return found[::-1], missing if missing > sequence else None


class Rejections:
    """The share of dead letters among the last events. One thread counts; any may read."""

    def __init__(self, bar: float = 1.0) -> None:
        self.bar = (
            bar  # the share of the last events from which on there is an alarm, until it is half as much
        )
        self._last: deque[tuple[int, int]] = deque()
        self._events = self._dead = 0
        self.active = False

    @property
    def share(self) -> float:
        """The share of rejected events among the last ones, from 0 to 1."""
        return self._dead / self._events if self._events else 0.0

    def count(self, applied: int, dead: int) -> None:
        """Count the events of a request or message; begin or end the alarm, and log that once."""
        if not applied + dead:
            return
        self._last.append((applied + dead, dead))
        self._events += applied + dead
        self._dead += dead
        while self._events - self._last[0][0] >= _WINDOW:
            events, gone = self._last.popleft()
            self._events -= events
            self._dead -= gone
        if not self.active and self._events >= _LEAST and self.share >= self.bar:
            self.active = True
            note("rejection.began", dead=self._dead, events=self._events)
        elif self.active and self.share < self.bar / 2:
            self.active = False
            note("rejection.ended", dead=self._dead, events=self._events)

    def alarms(self) -> list[Alarm]:
        """Return the alarm, if it is active."""
        return [Alarm(_ALARM, self._detail())] if self.active else []

    def _detail(self) -> str:
        return (
            f"{self._dead} of the last {self._events} events went to the dead letters; see why "
            "(GET /v1/dead-letters), mend the sender or the clock, then replay them"
        )


class Observations(Observer):
    """Counters and distributions since the start, and log lines."""

    def __init__(self, otel: Otel | None = None) -> None:
        self.tracing = make_tracing(otel) if otel is not None else Tracing()
        self.begun = time.time()
        self.requests = RequestCounts()
        self.other_requests: Callable[[], list[RequestCounts]] = list  # of reader processes
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
        self.surprises, self.rejections = SurpriseRecord(), Rejections()
        self.reads = 0  # of this process

    def total_reads(self) -> int:
        """Return the number of answered reads, with those of reader processes."""
        return self.reads + sum(one.requests for one in self.other_requests())

    # ---- the durable embedding ---------------------------------------------------------------------------

    def logged(self, entries: int, seconds: float) -> None:
        """Count a write to the log."""
        self.log_write.observe(seconds)
        if self.tracing.on:
            self.tracing.done("log write", seconds, entries=entries)

    def applied(self, seconds: float) -> None:
        """Count a batch that was applied."""
        self.apply.observe(seconds)
        if self.tracing.on:
            self.tracing.done("apply", seconds)

    def measured(self, found: Surprises, sequence: int) -> None:
        """Record and count the surprise of events."""
        self.surprises.add(found, sequence)

    def forgotten(self, ids: IdColumn) -> None:
        """Remove the surprising events of forgotten ids."""
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
        """Log that no more events are accepted."""
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
        """Log that the drain began."""
        self.ready, self.draining = False, True
        note("service.draining", queued_events=queued_events)

    def report(self, workers: Iterable[Reachable]) -> None:
        """Log the lines that are due although nothing happened since; called when a status is read."""
        self.overload.taken()
        for reachable in workers:
            reachable.report()

    @contextmanager
    def traced_batch(self, waits: Sequence[float], contexts: Sequence[Any]) -> Iterator[None]:
        """Trace a batch that begins now, with how long its parts waited."""
        for seconds, context in zip(waits, contexts, strict=True):
            self.tracing.done("queue wait", seconds, context)
        with self.tracing.batch(contexts):
            yield

    def batch(
        self, waits: Sequence[float], parts: Sequence[SourceBatch], results: Sequence[Receipt | BaseException]
    ) -> None:
        """Count a batch: how long its parts waited, and their receipts."""
        events = 0
        for seconds, part, result in zip(waits, parts, results, strict=True):
            self.queue_wait.observe(seconds)
            if isinstance(result, Receipt):
                events += result.applied
                self.rejections.count(result.applied, result.dead)
                if result.dead:
                    self._count_dead(part, result.dead)
        self.batch_events.observe(events)

    def _count_dead(self, part: SourceBatch, dead: int) -> None:
        unreadable = sum(letter.row < 0 for letter in part.dead)
        malformed = len(part.dead) - unreadable
        counts = {"unreadable": unreadable, "malformed": malformed, "refused": dead - len(part.dead)}
        for reason, count in counts.items():
            self.dead_letters[reason] += max(count, 0)

    @contextmanager
    def writing_sink(self, name: str, rows: int) -> Iterator[None]:
        """Measure the write of one page to a sink."""
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
