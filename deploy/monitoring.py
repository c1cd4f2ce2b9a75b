"""Write the files that follow from the tables of metrics and log events: `python deploy/monitoring.py`.

Alert rules and dashboard go beside this script, the lists of metrics and log events into pages of docs.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dygcn.serving.observing.events import EVENTS
from dygcn.serving.observing.metrics import COUNTER, HISTOGRAM, METRICS, Metric, panel_of

DEPLOY = Path(__file__).parent
DOCS = DEPLOY.parent / "docs"
PROCESS_METRICS = panel_of(
    "Process",
    ("process_resident_memory_bytes", "resident memory"),
    ("process_virtual_memory_bytes", "virtual memory"),
    ("process_cpu_seconds_total", "time on processors"),
    ("process_open_fds", "open file descriptors"),
    ("process_max_fds", "file descriptors that are allowed"),
    ("process_start_time_seconds", "when the process began"),
)
"""Of the writing process, where the system reports them (Linux); `prometheus_client` collects them."""

SECONDS, BYTES, RATIO, TIMESTAMP = "seconds", "bytes", "ratio", "timestamp"
_SUFFIXES = {
    "_timestamp_seconds": TIMESTAMP,
    "_start_time_seconds": TIMESTAMP,
    "_seconds": SECONDS,
    "_bytes": BYTES,
    "_ratio": RATIO,
}
_UNITS = {SECONDS: "s", BYTES: "bytes", RATIO: "percentunit", TIMESTAMP: "s"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_FILTER = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Alert:
    """What an operator is called for."""

    name: str
    expression: str
    lasting: str  # how long it holds before anybody is called
    severity: str  # critical: somebody gets up; warning: somebody looks in the morning
    summary: str
    what_to_do: str


ALERTS = (
    Alert(
        "DygcnDown",
        'up{job="dygcn"} == 0',
        "2m",
        "critical",
        "The service does not answer /metrics.",
        "Look at the process and its last log lines; a start replays the log.",
    ),
    Alert(
        "DygcnNotReady",
        "dygcn_ready == 0 and dygcn_draining == 0",
        "5m",
        "critical",
        "The service runs and is not ready.",
        "Read the log from service.starting on; a long replay needs a lower snapshot_every.",
    ),
    Alert(
        "DygcnNotAccepting",
        "dygcn_accepting == 0",
        "0m",
        "critical",
        "A write failed, and events are refused; reads go on.",
        "Free or mend the disk, then restart: what was acknowledged is on disk.",
    ),
    Alert(
        "DygcnRestarts",
        'changes(process_start_time_seconds{job="dygcn"}[30m]) > 2',
        "0m",
        "critical",
        "The service was started more than twice in half an hour.",
        "Look for the reason of the last end: memory (sizing), a kill, an error in the log.",
    ),
    Alert(
        "DygcnOverloaded",
        "rate(dygcn_shed_requests_total[5m]) > 0",
        "10m",
        "warning",
        "Requests are refused for overload.",
        "Compare dygcn_apply_seconds and dygcn_batch_events with what is usual; send fewer requests.",
    ),
    Alert(
        "DygcnMassRejection",
        "dygcn_mass_rejection == 1",
        "1m",
        "critical",
        "Most events of a stream become dead letters.",
        "Read the reasons in /v1/dead-letters (a clock that is wrong?), mend the sender, then replay them.",
    ),
    Alert(
        "DygcnDeadLetters",
        "sum(rate(dygcn_dead_letters_total[15m])) > 0.01 * sum(rate(dygcn_events_total[15m]))",
        "15m",
        "warning",
        "More than one event in a hundred cannot be applied.",
        "Read the reasons in /v1/dead-letters.",
    ),
    Alert(
        "DygcnSourceLost",
        "dygcn_source_failing == 1",
        "5m",
        "critical",
        "A source cannot be read.",
        "Read source.lost in the log; the service reads on from its cursor when the broker is back.",
    ),
    Alert(
        "DygcnSourceLagGrows",
        "deriv(dygcn_source_lag_messages[15m]) > 0 and dygcn_source_lag_messages > 10000",
        "15m",
        "warning",
        "Messages come faster than they are applied.",
        "Look at dygcn_apply_seconds and dygcn_log_write_seconds; mind how long the broker keeps messages.",
    ),
    Alert(
        "DygcnSinkBehind",
        "dygcn_sink_backlog_sequences > 0 and time() - dygcn_sink_success_timestamp_seconds > 300",
        "5m",
        "warning",
        "A sink has not been written for five minutes, though there are rows for it.",
        "Read sink.lost or sink.refused in the log.",
    ),
    Alert(
        "DygcnSnapshotTooOld",
        "time() - dygcn_snapshot_timestamp_seconds > 86400 and dygcn_sequence > dygcn_snapshot_sequence",
        "15m",
        "warning",
        "The newest snapshot is older than a day: the next start replays much.",
        "Lower snapshot_every.",
    ),
    Alert(
        "DygcnSnapshotFailed",
        "dygcn_snapshot_failing == 1",
        "5m",
        "critical",
        "Snapshots cannot be written: events are taken, the log grows, and the next start replays it.",
        "Read snapshot.failed in the log; free or mend the disk: updates try again, without a restart.",
    ),
    Alert(
        "DygcnDiskAlmostFull",
        "dygcn_disk_free_bytes < 0.1 * dygcn_disk_size_bytes",
        "5m",
        "warning",
        "Less than a tenth of the disk of the folder is free; when it is full, events are refused.",
        "Free space, enlarge the disk, or lower keep_log.",
    ),
    Alert(
        "DygcnRecallLow",
        "dygcn_index_recall_ratio < 0.9",
        "30m",
        "warning",
        "The index finds less than nine of ten nearest neighbours.",
        "Look at dygcn_index_pending_nodes: while it falls, the index catches up.",
    ),
    Alert(
        "DygcnFewFileDescriptors",
        "process_open_fds > 0.9 * process_max_fds",
        "5m",
        "warning",
        "Nine of ten file descriptors are in use.",
        "Raise LimitNOFILE, or lower limits.connections.",
    ),
)


def as_rules() -> str:
    """Return the rules as YAML; strings are written as JSON, which YAML reads."""
    lines = ["# Written by: python deploy/monitoring.py", "groups:", "  - name: dygcn"]
    lines.append("    rules:")
    for one in ALERTS:
        lines += [
            f"      - alert: {one.name}",
            f"        expr: {json.dumps(one.expression)}",
            f"        for: {one.lasting}",
            "        labels:",
            f"          severity: {one.severity}",
            "        annotations:",
            f"          summary: {json.dumps(one.summary)}",
            f"          description: {json.dumps(one.what_to_do)}",
        ]
    return "\n".join(lines) + "\n"


def unit_of(metric: Metric) -> str:
    """Return one of SECONDS, BYTES, RATIO and TIMESTAMP; empty: a number of things."""
    name = metric.name.removesuffix("_total")
    return next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), "")


def expressions(metric: Metric) -> list[tuple[str, str]]:
    """Return the queries of a panel, each with its legend."""
    name, by = f"{metric.name}{{{_FILTER}}}", ", ".join(metric.labels)
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    if metric.kind == HISTOGRAM:
        bucket = f"{metric.name}_bucket{{{_FILTER}}}"
        grouped = ", ".join(("le", *metric.labels))
        return [
            (
                f"histogram_quantile({share}, sum by ({grouped}) (rate({bucket}[$__rate_interval])))",
                f"p{round(100 * share)} {legend}".strip(),
            )
            for share in (0.5, 0.99)
        ]
    if metric.kind == COUNTER:
        grouping = f" by ({by})" if by else ""
        return [(f"sum{grouping}(rate({name}[$__rate_interval]))".replace(")(", ") ("), legend or "a second")]
    if unit_of(metric) == TIMESTAMP:
        return [(f"time() - {name}", legend or "age")]
    return [(name, legend or metric.name)]


def _title(metric: Metric) -> str:
    if metric.kind == COUNTER:
        return f"{metric.about} (a second)"
    return f"{metric.about} (age)" if unit_of(metric) == TIMESTAMP else metric.about


def _panel(metric: Metric, number: int, x: int, y: int) -> dict[str, Any]:
    """Return one panel; a counter of seconds shows a share, which has no unit."""
    unit = (
        "none"
        if metric.kind == COUNTER and unit_of(metric) == SECONDS
        else _UNITS.get(unit_of(metric), "short")
    )
    return {
        "id": number,
        "type": "timeseries",
        "title": metric.name,
        "description": _title(metric),
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend, "datasource": _SOURCE}
            for at, (expression, legend) in enumerate(expressions(metric))
        ],
    }


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    metrics = (*METRICS, *PROCESS_METRICS)
    for row in dict.fromkeys(metric.panel for metric in metrics):
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": row,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
                "panels": [],
            }
        )
        y += 1
        of_row = [metric for metric in metrics if metric.panel == row]
        for at, metric in enumerate(of_row):
            x = at % _COLUMNS * _WIDTH
            found.append(_panel(metric, len(found) + 1, x, y + at // _COLUMNS * _HEIGHT))
        y += -(-len(of_row) // _COLUMNS) * _HEIGHT
    return found


def as_dashboard() -> str:
    """Return the dashboard as JSON, to be imported into Grafana."""
    choices = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {
            "name": "instance",
            "type": "query",
            "label": "Instance",
            "datasource": _SOURCE,
            "query": {"query": "label_values(dygcn_build_info, instance)", "refId": "instance"},
            "multi": True,
            "includeAll": True,
            "refresh": 2,
        },
    ]
    board = {
        "uid": "dygcn",
        "title": "dygcn",
        "tags": ["dygcn"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": choices},
        "annotations": {"list": []},
        "panels": _panels(),
    }
    return json.dumps(board, indent=1) + "\n"


def table_of_metrics() -> str:
    """Return the metrics as a table in Markdown."""
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for metric in (*METRICS, *PROCESS_METRICS):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels}{' ' * bool(labels)}| {metric.about} |")
    return "\n".join(lines)


def table_of_events() -> str:
    """Return the log events as a table in Markdown."""
    lines = ["| event | level | meaning |", "|---|---|---|"]
    for name, (level, about) in EVENTS.items():
        lines.append(f"| `{name}` | {logging.getLevelName(level).lower()} | {about} |")
    return "\n".join(lines)


def with_block(page: Path, name: str, block: str) -> str:
    """Return the text of a page with another block between the two comments that carry a name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{block}\n{end}{after}"


def files() -> dict[Path, str]:
    """Return every file with its text."""
    settings, monitoring = DOCS / "configuration.md", DOCS / "how-to" / "monitoring.md"
    return {
        DEPLOY / "prometheus" / "alerts.yml": as_rules(),
        DEPLOY / "grafana" / "dashboard.json": as_dashboard(),
        settings: with_block(settings, "metrics", table_of_metrics()),
        monitoring: with_block(monitoring, "log events", table_of_events()),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
