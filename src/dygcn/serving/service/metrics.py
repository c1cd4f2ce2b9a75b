"""Metrics for Prometheus: the rows of the metrics table, read from the service at each scrape."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dygcn
from dygcn._extras import extra
from dygcn.serving.observing.metrics import COUNTER, GAUGE, METRICS, Distribution, Metric
from dygcn.serving.service.status import StatusReport

with extra("serve"):
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily


Value = float | int | Distribution
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
        for metric in METRICS:
            yield _family(metric, found[metric.name])


def _family(metric: Metric, values: Values) -> Any:
    kinds = {GAUGE: GaugeMetricFamily, COUNTER: CounterMetricFamily}
    about = f"{metric.about[0].upper()}{metric.about[1:]}"
    family: Any = kinds.get(metric.kind, HistogramMetricFamily)(metric.name, about, labels=metric.labels)
    for labels, value in values.items():
        if isinstance(value, Distribution):
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
