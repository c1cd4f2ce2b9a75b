"""Every metric, once: `/metrics`, the page of settings, the dashboard and the alerts read this table.

Names follow the conventions of Prometheus: base units at the end (seconds, bytes, a ratio from 0 to 1),
`_total` for counters. Moments are Unix times, so that an age keeps growing in a process that hangs. No label
has more values than there are routes, statuses, sources, sinks or classes of reasons.
"""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
SECONDS, BYTES, RATIO, TIMESTAMP = "seconds", "bytes", "ratio", "timestamp"
_SHORT = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_NATS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10000.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured."""

    name: str
    kind: str
    about: str
    panel: str  # the row of the dashboard
    labels: tuple[str, ...] = ()
    unit: str = ""  # of SECONDS, BYTES, RATIO and TIMESTAMP; otherwise a number of things
    bounds: tuple[float, ...] = ()  # of a histogram


METRICS = (
    # ---- the process
    Metric(
        "dygcn_build_info",
        GAUGE,
        "1, with the versions of the running code",
        "Process",
        ("version", "python"),
    ),
    Metric("dygcn_ready", GAUGE, "1 while reads, writes and searches are answered", "Process"),
    Metric("dygcn_accepting", GAUGE, "1 while events are accepted; 0 after a failed write", "Process"),
    Metric("dygcn_draining", GAUGE, "1 while the service goes down", "Process"),
    Metric("dygcn_reader_processes", GAUGE, "reader processes that run", "Process"),
    Metric("dygcn_connections", GAUGE, "open HTTP connections", "Process"),
    # ---- the graph
    Metric("dygcn_sequence", GAUGE, "last sequence that vectors reflect", "Graph"),
    Metric("dygcn_nodes", GAUGE, "nodes of the graph", "Graph"),
    Metric("dygcn_edges", GAUGE, "edges of the graph", "Graph"),
    Metric(
        "dygcn_unreached_nodes",
        GAUGE,
        "nodes that no row of the model reaches; many of them are a reason to refit",
        "Graph",
    ),
    # ---- requests
    Metric("dygcn_requests_total", COUNTER, "requests by route and status", "Requests", ("route", "status")),
    Metric(
        "dygcn_request_duration_seconds",
        HISTOGRAM,
        "time from a request to its answer",
        "Requests",
        ("route",),
        SECONDS,
        _SHORT,
    ),
    Metric("dygcn_reads_total", COUNTER, "reads answered", "Requests"),
    # ---- events
    Metric("dygcn_events_total", COUNTER, "events applied", "Events"),
    Metric("dygcn_batch_events", HISTOGRAM, "events of one batch", "Events", bounds=_SIZES),
    Metric(
        "dygcn_queue_wait_seconds",
        HISTOGRAM,
        "time that a request waits in the ingest queue",
        "Events",
        unit=SECONDS,
        bounds=_SHORT,
    ),
    Metric(
        "dygcn_log_write_seconds",
        HISTOGRAM,
        "time to write a batch to the log and sync it",
        "Events",
        unit=SECONDS,
        bounds=_SHORT,
    ),
    Metric(
        "dygcn_apply_seconds",
        HISTOGRAM,
        "time to apply a batch that is in the log",
        "Events",
        unit=SECONDS,
        bounds=_SHORT,
    ),
    Metric(
        "dygcn_lag_seconds",
        GAUGE,
        "from arrival to being readable, of the last batch",
        "Events",
        unit=SECONDS,
    ),
    Metric("dygcn_queue_events", GAUGE, "events in the ingest queue", "Events"),
    Metric("dygcn_queue_rows", GAUGE, "rows that queued events are expected to change", "Events"),
    Metric("dygcn_queue_limit_events", GAUGE, "events that the queue holds at most", "Events"),
    Metric("dygcn_shed_requests_total", COUNTER, "requests refused for overload", "Events"),
    Metric("dygcn_overloaded", GAUGE, "1 while requests are refused for overload", "Events"),
    Metric("dygcn_old_events_total", COUNTER, "events of forgotten ids that were dropped", "Events"),
    Metric("dygcn_surprise", HISTOGRAM, "surprise of measured events, in nats", "Events", bounds=_NATS),
    Metric(
        "dygcn_surprising_events_total",
        COUNTER,
        "measured events of rank 0.99 or more among the last ones of their source",
        "Events",
    ),
    Metric("dygcn_dead_letters_kept", GAUGE, "dead letters that are kept", "Events"),
    Metric(
        "dygcn_dead_letters_total",
        COUNTER,
        "dead letters since the start: unreadable messages, malformed events, events that the graph refused",
        "Events",
        ("reason",),
    ),
    Metric(
        "dygcn_mass_rejection",
        GAUGE,
        "1 while too many of the last 1,000 events became dead letters",
        "Events",
    ),
    # ---- snapshots
    Metric("dygcn_snapshot_sequence", GAUGE, "sequence of the newest snapshot", "Snapshots"),
    Metric(
        "dygcn_snapshot_timestamp_seconds",
        GAUGE,
        "when the newest snapshot was written; before the first, when the service began",
        "Snapshots",
        unit=TIMESTAMP,
    ),
    Metric(
        "dygcn_snapshot_write_seconds", GAUGE, "time that the last snapshot took", "Snapshots", unit=SECONDS
    ),
    Metric("dygcn_snapshots_total", COUNTER, "snapshots written since the start", "Snapshots"),
    Metric("dygcn_snapshot_failures_total", COUNTER, "snapshots that could not be written", "Snapshots"),
    Metric(
        "dygcn_snapshot_failing",
        GAUGE,
        "1 while the last snapshot could not be written: events are taken, and the log grows",
        "Snapshots",
    ),
    Metric(
        "dygcn_disk_free_bytes",
        GAUGE,
        "bytes that the service can still write to the file system of its folder",
        "Snapshots",
        unit=BYTES,
    ),
    Metric("dygcn_disk_size_bytes", GAUGE, "size of that file system", "Snapshots", unit=BYTES),
    # ---- the index
    Metric("dygcn_index_nodes", GAUGE, "nodes in the index", "Index"),
    Metric("dygcn_index_pending_nodes", GAUGE, "nodes that moved and are not in the index yet", "Index"),
    Metric(
        "dygcn_index_recall_ratio",
        GAUGE,
        "recall at 10 as last measured; missing until then",
        "Index",
        unit=RATIO,
    ),
    # ---- sources
    Metric("dygcn_source_failing", GAUGE, "1 while a source cannot be read", "Sources", ("source",)),
    Metric(
        "dygcn_source_lag_messages",
        GAUGE,
        "messages behind the last one read; missing while it is not known",
        "Sources",
        ("source",),
    ),
    Metric("dygcn_source_messages_total", COUNTER, "messages read", "Sources", ("source",)),
    Metric("dygcn_source_failures_total", COUNTER, "tries that failed", "Sources", ("source",)),
    Metric(
        "dygcn_source_success_timestamp_seconds",
        GAUGE,
        "when a source was last read without an error; 0: never",
        "Sources",
        ("source",),
        TIMESTAMP,
    ),
    # ---- sinks
    Metric("dygcn_sink_failing", GAUGE, "1 while a sink cannot be written", "Sinks", ("sink",)),
    Metric(
        "dygcn_sink_backlog_sequences", GAUGE, "sequences that a sink does not have yet", "Sinks", ("sink",)
    ),
    Metric("dygcn_sink_rows_total", COUNTER, "rows written", "Sinks", ("sink",)),
    Metric("dygcn_sink_failures_total", COUNTER, "tries that failed", "Sinks", ("sink",)),
    Metric(
        "dygcn_sink_success_timestamp_seconds",
        GAUGE,
        "when a sink was last written or found up to date; 0: never",
        "Sinks",
        ("sink",),
        TIMESTAMP,
    ),
    Metric(
        "dygcn_sink_write_seconds",
        HISTOGRAM,
        "time that a sink takes for one page of rows",
        "Sinks",
        ("sink",),
        SECONDS,
        _SHORT,
    ),
)

PROCESS_METRICS = (
    Metric("process_resident_memory_bytes", GAUGE, "resident memory", "Process", unit=BYTES),
    Metric("process_virtual_memory_bytes", GAUGE, "virtual memory", "Process", unit=BYTES),
    Metric("process_cpu_seconds_total", COUNTER, "time on processors", "Process", unit=SECONDS),
    Metric("process_open_fds", GAUGE, "open file descriptors", "Process"),
    Metric("process_max_fds", GAUGE, "file descriptors that are allowed", "Process"),
    Metric("process_start_time_seconds", GAUGE, "when the process began", "Process", unit=TIMESTAMP),
)
"""Of the writing process, where the system tells them (Linux); `prometheus_client` collects them."""

BY_NAME = {metric.name: metric for metric in (*METRICS, *PROCESS_METRICS)}


def as_table(metrics: tuple[Metric, ...] = (*METRICS, *PROCESS_METRICS)) -> str:
    """Return the metrics as a table in Markdown, for the page of the configuration.

    Examples
    --------
    >>> print(as_table(METRICS[1:2]))
    | name | type | labels | meaning |
    |---|---|---|---|
    | `dygcn_ready` | gauge | | 1 while reads, writes and searches are answered |
    """
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels}{' ' * bool(labels)}| {metric.about} |")
    return "\n".join(lines)
