"""Every metric, once: `/metrics`, the page of settings, the dashboard and the alerts read this table.

Names follow the conventions of Prometheus: base units at the end (seconds, bytes, a ratio from 0 to 1),
`_total` for counters. Moments are Unix times, so that an age keeps growing in a process that hangs. No label
has more values than there are routes, statuses, sources, sinks or classes of reasons.

Distributions are counted by hand, cheap enough for every request; those of several processes can be added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import msgspec

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
_SHORT = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_NATS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10000.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table; the kind follows from the name and the bounds."""

    panel: str  # the row of the dashboard
    name: str
    about: str
    bounds: tuple[float, ...] = ()  # of a histogram
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """One of GAUGE, COUNTER and HISTOGRAM."""
        if self.name.endswith("_total"):
            return COUNTER
        return HISTOGRAM if self.bounds else GAUGE


def panel_of(panel: str, *rows: tuple[Any, ...], labels: tuple[str, ...] = ()) -> tuple[Metric, ...]:
    """Return the metrics of a panel, with its labels unless they have some of their own."""
    found = (Metric(panel, *row) for row in rows)
    return tuple(one if one.labels else replace(one, labels=labels) for one in found)


METRICS = (
    *panel_of(
        "Process",
        ("dygcn_build_info", "1, with the versions of the running code", (), ("version", "python")),
        ("dygcn_ready", "1 while reads, writes and searches are answered"),
        ("dygcn_accepting", "1 while events are accepted; 0 after a failed write"),
        ("dygcn_draining", "1 while the service goes down"),
        ("dygcn_reader_processes", "reader processes that run"),
        ("dygcn_connections", "open HTTP connections"),
    ),
    *panel_of(
        "Graph",
        ("dygcn_sequence", "last sequence that vectors reflect"),
        ("dygcn_nodes", "nodes of the graph"),
        ("dygcn_edges", "edges of the graph"),
        (
            "dygcn_unreached_nodes",
            "nodes that no row of the model reaches; many of them are a reason to refit",
        ),
    ),
    *panel_of(
        "Requests",
        ("dygcn_requests_total", "requests by route and status", (), ("route", "status")),
        ("dygcn_request_duration_seconds", "time from a request to its answer", _SHORT, ("route",)),
        ("dygcn_reads_total", "reads answered"),
    ),
    *panel_of(
        "Events",
        ("dygcn_events_total", "events applied"),
        ("dygcn_batch_events", "events of one batch", _SIZES),
        ("dygcn_queue_wait_seconds", "time that a request waits in the ingest queue", _SHORT),
        ("dygcn_log_write_seconds", "time to write a batch to the log and sync it", _SHORT),
        ("dygcn_apply_seconds", "time to apply a batch that is in the log", _SHORT),
        ("dygcn_lag_seconds", "from arrival to being readable, of the last batch"),
        ("dygcn_queue_events", "events in the ingest queue"),
        ("dygcn_queue_rows", "rows that queued events are expected to change"),
        ("dygcn_queue_limit_events", "events that the queue holds at most"),
        ("dygcn_shed_requests_total", "requests refused for overload"),
        ("dygcn_overloaded", "1 while requests are refused for overload"),
        ("dygcn_old_events_total", "events of forgotten ids that were dropped"),
        ("dygcn_surprise", "surprise of measured events, in nats", _NATS),
        (
            "dygcn_surprising_events_total",
            "measured events of rank 0.99 or more among the last ones of their source",
        ),
        ("dygcn_dead_letters_kept", "dead letters that are kept"),
        (
            "dygcn_dead_letters_total",
            "dead letters since the start: unreadable messages, malformed events, "
            "events that the graph refused",
            (),
            ("reason",),
        ),
        ("dygcn_mass_rejection", "1 while too many of the last 1,000 events became dead letters"),
    ),
    *panel_of(
        "Snapshots",
        ("dygcn_snapshot_sequence", "sequence of the newest snapshot"),
        (
            "dygcn_snapshot_timestamp_seconds",
            "when the newest snapshot was written; before the first, when the service began",
        ),
        ("dygcn_snapshot_write_seconds", "time that the last snapshot took"),
        ("dygcn_snapshots_total", "snapshots written since the start"),
        ("dygcn_snapshot_failures_total", "snapshots that could not be written"),
        (
            "dygcn_snapshot_failing",
            "1 while the last snapshot could not be written: events are taken, and the log grows",
        ),
        ("dygcn_disk_free_bytes", "bytes that the service can still write to the file system of its folder"),
        ("dygcn_disk_size_bytes", "size of that file system"),
    ),
    *panel_of(
        "Index",
        ("dygcn_index_nodes", "nodes in the index"),
        ("dygcn_index_pending_nodes", "nodes that moved and are not in the index yet"),
        ("dygcn_index_recall_ratio", "recall at 10 as last measured; missing until then"),
    ),
    *panel_of(
        "Sources",
        ("dygcn_source_failing", "1 while a source cannot be read"),
        ("dygcn_source_lag_messages", "messages behind the last one read; missing while it is not known"),
        ("dygcn_source_messages_total", "messages read"),
        ("dygcn_source_failures_total", "tries that failed"),
        ("dygcn_source_success_timestamp_seconds", "when a source was last read without an error; 0: never"),
        labels=("source",),
    ),
    *panel_of(
        "Sinks",
        ("dygcn_sink_failing", "1 while a sink cannot be written"),
        ("dygcn_sink_backlog_sequences", "sequences that a sink does not have yet"),
        ("dygcn_sink_rows_total", "rows written"),
        ("dygcn_sink_failures_total", "tries that failed"),
        (
            "dygcn_sink_success_timestamp_seconds",
            "when a sink was last written or found up to date; 0: never",
        ),
        ("dygcn_sink_write_seconds", "time that a sink takes for one page of rows", _SHORT),
        labels=("sink",),
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}


class Distribution(msgspec.Struct):
    """Counts of values up to each bound, as in a histogram of Prometheus. For one writing thread."""

    bounds: tuple[float, ...]
    counts: list[int] = []
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Distribution) -> None:
        """Add the counts of another process."""
        self.counts = [own + theirs for own, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def since(self, before: Distribution | None) -> Distribution:
        """Return the counts since an earlier copy of this distribution; None: all of them."""
        earlier = before or Distribution(self.bounds)
        counts = [max(now - then, 0) for now, then in zip(self.counts, earlier.counts, strict=True)]
        return Distribution(self.bounds, counts, self.total - earlier.total)

    def quantile(self, share: float) -> float | None:
        """Return the value that a share of all values does not exceed, None without values.

        Values are taken to be spread evenly between two bounds; a value above all bounds counts as the last
        bound, as in Prometheus.
        """
        wanted, seen, low = share * sum(self.counts), 0, 0.0
        if not any(self.counts):
            return None
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if count and seen + count >= wanted:
                return low + (bound - low) * (wanted - seen) / count
            seen, low = seen + count, bound
        return self.bounds[-1]

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each bound with the number of values up to it."""
        bounds = (*map(str, self.bounds), "+Inf")
        return list(zip(bounds, accumulate(self.counts), strict=True))


def distribution(metric: str) -> Distribution:
    """Return an empty distribution for a histogram of the table."""
    return Distribution(BY_NAME[metric].bounds)


class RequestCounts(msgspec.Struct):
    """Requests by route and status, and their times by route, of one process or of several."""

    statuses: dict[str, dict[str, int]] = {}
    seconds: dict[str, Distribution] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        if route not in self.seconds:
            self._add_route(route)
        self.seconds[route].observe(seconds)
        found, key = self.statuses[route], str(status)
        found[key] = found.get(key, 0) + 1

    def _add_route(self, route: str) -> None:
        self.statuses.setdefault(route, {})
        self.seconds.setdefault(route, distribution("dygcn_request_duration_seconds"))

    @property
    def requests(self) -> int:
        """Number of all requests."""
        return sum(count for _, _, count in self.each())

    def added(self, others: list[RequestCounts]) -> RequestCounts:
        """Return the sums with the counts of other processes, which stay as they are."""
        sums = RequestCounts()
        for one in (self, *others):
            for route, timer in list(one.seconds.items()):
                sums._add_route(route)
                sums.seconds[route].add(timer)
            for route, status, count in one.each():
                sums._add_route(route)
                sums.statuses[route][status] = sums.statuses[route].get(status, 0) + count
        return sums

    def each(self) -> Iterator[tuple[str, str, int]]:
        """Yield route, status and count."""
        for route, statuses in list(self.statuses.items()):
            for status, count in list(statuses.items()):
                yield route, status, count
