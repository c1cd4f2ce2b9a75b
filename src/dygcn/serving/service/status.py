"""The status of the service: counters, load of the last hour, health, and metrics for Prometheus."""

from __future__ import annotations

import platform
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import dygcn
from dygcn._extras import extra
from dygcn.engine.records import Nodes
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.schema import answers
from dygcn.serving.observing import metrics
from dygcn.serving.service.ingest_queue import IngestQueue
from dygcn.serving.service.lifetime import Readiness
from dygcn.serving.service.nearest import IndexWorker
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.problems import problem
from dygcn.serving.service.settings import CurrentSettings
from dygcn.serving.service.vectors import VectorReads
from dygcn.serving.service.web import SECONDS, V1, Param, respond, respond_beside, route, seconds
from dygcn.serving.service.workers import SinkWorker, SourceWorker

with extra("serve"):
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response


_SHOWN = 20
INTERVAL, KEPT = 5.0, 720  # seconds between two samples, and how many are kept: an hour
_MINUTE = 12  # samples
_OTHERS = "changes status map history events dead-letters nodes clients"  # the page's own, and no reads
_NO_READS = tuple(f"{V1}/{name}" for name in _OTHERS.split())
is_write = f"{V1}/events".__eq__


def is_read(path: str) -> bool:
    """Return whether a route is counted among the reads."""
    return path.startswith(V1) and not path.startswith(_NO_READS)


@dataclass
class StatusReport:
    """Builds the status from the parts of a service."""

    live: DurableEmbedding
    current: CurrentSettings
    observations: Observations
    queue: IngestQueue
    reads: VectorReads
    index_worker: IndexWorker
    load_history: LoadHistory
    sources: list[SourceWorker]
    sinks: list[SinkWorker]

    def __post_init__(self) -> None:
        self._begun = time.monotonic()
        self._moved_last: Nodes = np.empty(0, np.int32)
        self.live._ahead.watchers.append(self._moved)

    def _moved(self, nodes: Nodes) -> None:
        if len(nodes):
            self._moved_last = nodes[:_SHOWN].copy()

    def status(self) -> answers.ServiceStatus:
        """Return the status of the service at a glance."""
        live = self.live
        self.observations.report(one.reachable for one in (*self.sources, *self.sinks))
        index = msgspec.to_builtins(self.index_worker.status())
        sources = [worker.status() for worker in self.sources]  # first: the state below has what they count
        sinks = [worker.status() for worker in self.sinks]
        graph = live._state.graph
        with live.lock:  # it can be counted also while the state is torn
            shown = self._moved_last[graph.present(self._moved_last)]
            moved_last = [] if live._state.torn else self.reads.ids_of(shown)
            sizes = len(graph), graph.edge_count, 0 if live._state.torn else live._state.unreached()
        model, kept, failure = live.model, live._snapshots, live._log.failure
        known = model.dim, model.orders, model.rule, model.ids, time.monotonic() - self._begun
        saved = live._ahead.saved_at, kept.saved_time, kept.seconds, live._ahead.damage, kept.failure
        return answers.ServiceStatus(
            *(live.sequence, live.version, *sizes, *known),
            *(failure is None, None if failure is None else str(failure)),
            self.observations.rejections.alarms(),
            self._traffic(),
            self._queue_status(),
            self.load_history.latency,
            answers.SnapshotStatus(*saved),
            nearest=index,
            sources=sources,
            sinks=sinks,
            moved_last=moved_last,
        )

    def _traffic(self) -> answers.TrafficStatus:
        queue, reads, last = self.queue, self.observations.total_reads(), self.load_history.last
        dead_letters = self.live._log.count_dead_letters()
        rates = (0.0, 0.0) if last is None else (last.events_a_second, last.reads_a_second)
        return answers.TrafficStatus(queue.total_events, queue.total_requests, reads, dead_letters, *rates)

    def _queue_status(self) -> answers.QueueStatus:
        queue, limits = self.queue, self.current.limits
        most = limits.queued_events, limits.queued_rows
        return answers.QueueStatus(queue.events, queue.rows, *most, queue.shed, queue.longest_wait * 1e3)


class StatusHandlers:
    """Handlers of status, load, metrics and health."""

    def __init__(self, report: StatusReport, metrics_text: Callable[[], bytes], readiness: Readiness) -> None:
        self._report, self._metrics_text, self._readiness = report, metrics_text, readiness

    @route("GET /v1/status", answers.ServiceStatus)
    async def get_status(self, request: Request) -> Response:
        """Everything worth knowing at a glance."""
        return await respond_beside(self._report.status)  # it may wait for the disk

    @route(
        "GET /v1/history",
        answers.LoadSamples,
        (Param("since", "Only samples behind it, in seconds since 1970.", SECONDS),),
    )
    async def get_history(self, request: Request) -> Response:
        """The load of the last hour: a sample every few seconds."""
        since = seconds(request.query_params.get("since", "0"), "since", sys.float_info.max, "since 1970")
        return await respond_beside(self._report.load_history.since, since)

    @route("GET /metrics", media="text/plain")
    async def get_metrics(self, request: Request) -> Response:
        """Counts and times for Prometheus."""
        text = await run_in_threadpool(self._metrics_text)
        return Response(text, media_type="text/plain; version=0.0.4")

    @route("GET /livez", answers.Alive, scope="open")
    async def get_alive(self, request: Request) -> Response:
        """Whether the process answers."""
        return respond(answers.Alive(True))

    @route("GET /readyz", answers.Ready, scope="open")
    async def get_ready(self, request: Request) -> Response:
        """Whether requests should come."""
        reason = self._readiness.reason()
        if reason is not None:
            return problem("not-ready", reason, retry_after=1)
        return respond(answers.Ready(True, self._report.live._log.failure is None))


# ---- load ---------------------------------------------------------------------------------------------


class LoadHistory:
    """Samples the load of a service in a thread; any thread may read it.

    Times come from the monotonic clock, begun at the time of day, so they never go back.
    """

    def __init__(
        self,
        live: DurableEmbedding,
        queue: IngestQueue,
        observations: Observations,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live, self._queue, self._seen, self._clock = live, queue, observations, clock
        self._offset = time.time() - clock()
        self._samples: deque[answers.LoadSample] = deque(maxlen=KEPT)
        self._minute: deque[_Counted] = deque(maxlen=_MINUTE + 1)
        self._minute.append(self._count())
        self.latency = self._measured(self._minute[0])  # percentiles of the last minute
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dygcn-load", daemon=True)

    def start(self) -> None:
        """Begin to take samples."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.sample()

    def _now(self) -> float:
        return self._clock() + self._offset

    def _count(self) -> _Counted:
        requests = self._seen.requests.added(self._seen.other_requests())
        counts = self._queue.total_events, self._seen.total_reads(), requests, self._seen.lag.since(None)
        return _Counted(self._now(), *counts)

    def sample(self) -> None:
        """Take one sample; called by one thread."""
        before, now = self._minute[-1], self._count()
        seconds = now.time - before.time
        if seconds <= 0:
            return
        self._minute.append(now)
        self._samples.append(
            answers.LoadSample(
                now.time,
                max(now.events - before.events, 0) / seconds,
                max(now.reads - before.reads, 0) / seconds,
                _milliseconds(now.lag.since(before.lag), 0.99),
                _milliseconds(now.seconds_since(before, is_read), 0.99),
                _milliseconds(now.seconds_since(before, is_write), 0.99),
                self._queue.events,
            )
        )
        self.latency = self._measured(now)

    def _measured(self, now: _Counted) -> answers.LatencyStatus:
        before = self._minute[0]
        return answers.LatencyStatus(
            now.time - before.time,
            _percentiles(now.seconds_since(before, is_read)),
            _percentiles(now.seconds_since(before, is_write)),
            _percentiles(now.lag.since(before.lag)),
            {
                route: found
                for route in now.requests.seconds
                if (found := _percentiles(now.seconds_since(before, route.__eq__))).count
            },
        )

    @property
    def last(self) -> answers.LoadSample | None:
        """The newest sample, at most `INTERVAL` seconds old; None before the first one."""
        return self._samples[-1] if self._samples else None

    def since(self, moment: float = 0.0) -> answers.LoadSamples:
        """Return the samples after a moment, in seconds since 1970, oldest first."""
        found = [one for one in list(self._samples) if one.time > moment]
        return answers.LoadSamples(self._live.sequence, self._now(), INTERVAL, found)


@dataclass(frozen=True, slots=True)
class _Counted:
    time: float
    events: int
    reads: int
    requests: metrics.RequestCounts
    lag: metrics.Distribution

    def seconds_since(self, before: _Counted, wanted: Callable[[str], bool]) -> metrics.Distribution:
        """Return the times of requests to some routes after an earlier moment."""
        found = metrics.distribution("dygcn_request_duration_seconds")
        for path, timer in self.requests.seconds.items():
            if wanted(path):
                found.add(timer.since(before.requests.seconds.get(path)))
        return found


def _percentiles(found: metrics.Distribution) -> answers.Percentiles:
    three = (_milliseconds(found, share) for share in (0.5, 0.95, 0.99))
    return answers.Percentiles(sum(found.counts), *three)


def _milliseconds(found: metrics.Distribution, share: float) -> float | None:
    value = found.quantile(share)
    return None if value is None else round(1e3 * value, 3)


# ---- metrics -------------------------------------------------------------------------------------------


with extra("serve"):
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily


Value = float | int | metrics.Distribution
Values = Mapping[tuple[str, ...], Value]  # by the values of the labels
_NO_LABELS: tuple[str, ...] = ()
_OF_WORKERS: dict[str, Callable[[Any], Value | None]] = {
    "failing": lambda worker: int(worker.failure is not None),
    "failures_total": lambda worker: worker.failures,
    "success_timestamp_seconds": lambda worker: worker.reachable.worked_at,
}
_OF_KIND: dict[str, dict[str, Callable[[Any], Value | None]]] = {
    "source": {"lag_messages": lambda worker: worker.lag(), "messages_total": lambda worker: worker.messages},
    "sink": {"backlog_sequences": lambda worker: worker.behind(), "rows_total": lambda worker: worker.rows},
}


class Metrics:
    """The metrics of one service; several may live in one process."""

    def __init__(self, report: StatusReport) -> None:
        self._report = report
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self._registry)

    def describe(self) -> list[Any]:
        """Return nothing, so that registering reads no metric."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield one family after the other."""
        found = read_values(self._report)
        for metric in metrics.METRICS:
            yield _family(metric, found[metric.name])


def _family(metric: metrics.Metric, values: Values) -> Any:
    kinds = {metrics.GAUGE: GaugeMetricFamily, metrics.COUNTER: CounterMetricFamily}
    about = f"{metric.about[0].upper()}{metric.about[1:]}"
    family: Any = kinds.get(metric.kind, HistogramMetricFamily)(metric.name, about, labels=metric.labels)
    for labels, value in values.items():
        if isinstance(value, metrics.Distribution):
            family.add_metric(labels, value.cumulative(), value.total)
        else:
            family.add_metric(labels, value)
    return family


def read_values(report: StatusReport) -> dict[str, Values]:
    """Return the values of every metric of the table."""
    status = report.status()
    seen, live = report.observations, report.live
    recall, index = status.nearest.get("recall"), status.nearest
    requests = seen.requests.added(seen.other_requests())
    single: dict[str, Value | None] = {
        "dygcn_ready": int(seen.ready),
        "dygcn_accepting": int(status.accepting),
        "dygcn_draining": int(seen.draining),
        "dygcn_reader_processes": seen.reader_processes(),
        "dygcn_connections": seen.connections(),
        "dygcn_sequence": status.sequence,
        "dygcn_nodes": status.nodes,
        "dygcn_edges": status.edges,
        "dygcn_unreached_nodes": status.unreached,
        "dygcn_reads_total": status.traffic.reads,
        "dygcn_events_total": status.traffic.events,
        "dygcn_batch_events": seen.batch_events,
        "dygcn_queue_wait_seconds": seen.queue_wait,
        "dygcn_log_write_seconds": seen.log_write,
        "dygcn_apply_seconds": seen.apply,
        "dygcn_lag_seconds": status.queue.lag_ms / 1e3,
        "dygcn_queue_events": status.queue.events,
        "dygcn_queue_rows": status.queue.rows,
        "dygcn_queue_limit_events": status.queue.most_events,
        "dygcn_shed_requests_total": status.queue.shed,
        "dygcn_overloaded": int(seen.overload.on),
        "dygcn_old_events_total": live._forgetting.summary().old_events,
        "dygcn_surprise": seen.surprises.values,
        "dygcn_surprising_events_total": seen.surprises.high,
        "dygcn_dead_letters_kept": status.traffic.dead_letters,
        "dygcn_mass_rejection": int(seen.rejections.active),
        "dygcn_snapshot_sequence": status.snapshot.sequence,
        "dygcn_snapshot_timestamp_seconds": seen.snapshot_at,
        "dygcn_snapshot_write_seconds": live._snapshots.seconds,
        "dygcn_snapshots_total": seen.snapshots,
        "dygcn_snapshot_failures_total": seen.snapshot_failures,
        "dygcn_snapshot_failing": int(status.snapshot.failure is not None),
        "dygcn_index_nodes": index.get("nodes") or 0,
        "dygcn_index_pending_nodes": index.get("pending") or 0,
        "dygcn_index_recall_ratio": recall,
    }
    found: dict[str, Values] = {
        name: {} if value is None else {_NO_LABELS: value} for name, value in single.items()
    }
    versions = dygcn.__version__, platform.python_version()
    return {
        **found,
        "dygcn_build_info": {versions: 1},
        "dygcn_requests_total": {(route, status): count for route, status, count in requests.each()},
        "dygcn_request_duration_seconds": {(route,): one for route, one in requests.seconds.items()},
        "dygcn_dead_letters_total": {(reason,): count for reason, count in seen.dead_letters.items()},
        **_of_disk(live._folder),
        **_of_workers("source", report.sources),
        **_of_workers("sink", report.sinks),
        "dygcn_sink_write_seconds": {(name,): one for name, one in seen.sink_write.items()},
    }


def _of_disk(folder: Path) -> dict[str, Values]:
    try:
        disk = shutil.disk_usage(folder)
    except OSError:  # the folder is gone
        return {"dygcn_disk_free_bytes": {}, "dygcn_disk_size_bytes": {}}
    return {
        "dygcn_disk_free_bytes": {_NO_LABELS: disk.free},
        "dygcn_disk_size_bytes": {_NO_LABELS: disk.total},
    }


def _of_workers(kind: str, workers: Iterable[Any]) -> dict[str, Values]:
    return {
        f"dygcn_{kind}_{name}": {(one.name,): value for one in workers if (value := read(one)) is not None}
        for name, read in (_OF_WORKERS | _OF_KIND[kind]).items()
    }
