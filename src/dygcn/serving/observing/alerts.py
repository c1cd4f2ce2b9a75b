"""Alert rules for Prometheus, written from the table of metrics."""

from __future__ import annotations

import json
from dataclasses import dataclass


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


def as_rules(alerts: tuple[Alert, ...] = ALERTS) -> str:
    """Return the rules as YAML; strings are written as JSON, which YAML reads.

    Examples
    --------
    >>> print(as_rules(ALERTS[2:3]))
    # Written by: python -m dygcn.serving.observing deploy docs
    groups:
      - name: dygcn
        rules:
          - alert: DygcnNotAccepting
            expr: "dygcn_accepting == 0"
            for: 0m
            labels:
              severity: critical
            annotations:
              summary: "A write failed, and events are refused; reads go on."
              description: "Free or mend the disk, then restart: what was acknowledged is on disk."
    <BLANKLINE>
    """
    lines = ["# Written by: python -m dygcn.serving.observing deploy docs", "groups:", "  - name: dygcn"]
    lines.append("    rules:")
    for one in alerts:
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
