"""Counts and times for Prometheus, read from the service when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dygcn._extras import extra
from dygcn.serving.service.service import Service

with extra("serve"):
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one service; several may live in one process."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Reading(service))
        self._requests = Counter(
            "dygcn_requests", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "dygcn_request_seconds",
            "Seconds that requests took",
            ["route"],
            buckets=_TIMES,
            registry=self._registry,
        )
        self._children: dict[tuple[str, int], Any] = {}
        self._timers: dict[str, Any] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        child = self._children.get((route, status))
        if child is None:
            child = self._children[route, status] = self._requests.labels(route, str(status))
            self._timers.setdefault(route, self._seconds.labels(route))
        child.inc()
        self._timers[route].observe(seconds)

    def text(self) -> bytes:
        """Return them all in Prometheus' format."""
        return generate_latest(self._registry)


class _Reading:
    """Reads the service at every scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        """Yield one family after the other."""
        status = self._service.status()
        gauges = {
            "dygcn_sequence": ("The last event sequence that vectors reflect", status.sequence),
            "dygcn_nodes": ("Nodes in the graph", status.nodes),
            "dygcn_edges": ("Edges in the graph", status.edges),
            "dygcn_unreached": ("Nodes that no row of the model reaches", status.unreached),
            "dygcn_queue_events": ("Events that wait to be applied", status.queue.events),
            "dygcn_queue_rows": ("Rows that waiting events will touch", status.queue.rows),
            "dygcn_lag_seconds": ("From arrival to being readable, last cut", status.queue.lag_ms / 1e3),
            "dygcn_accepting": ("1 while events are taken", int(status.accepting)),
            "dygcn_snapshot_sequence": ("Sequence of the newest snapshot", status.snapshot.sequence),
            "dygcn_dead_letters": ("Events that could not be applied", status.traffic.dead_letters),
            "dygcn_nearest_pending": ("Nodes not yet in the index", status.nearest.get("pending") or 0),
        }
        for name, (about, value) in gauges.items():
            yield GaugeMetricFamily(name, about, value=value)
        recall = status.nearest.get("recall")
        if recall is not None:
            yield GaugeMetricFamily("dygcn_nearest_recall", "Recall at 10, last measured", value=recall)
        counters = {
            "dygcn_events": ("Events applied", status.traffic.events),
            "dygcn_reads": ("Reads answered", status.traffic.reads),
            "dygcn_shed": ("Requests refused for overload", status.queue.shed),
        }
        for name, (about, value) in counters.items():
            yield CounterMetricFamily(name, about, value=value)
        failures = GaugeMetricFamily(
            "dygcn_worker_failing", "1 while a source or sink fails", labels=["name"]
        )
        for worker in (*status.sources, *status.sinks):
            failures.add_metric([worker["name"]], 0 if worker["failure"] is None else 1)
        yield failures
