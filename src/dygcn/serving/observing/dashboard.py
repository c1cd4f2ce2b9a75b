"""A dashboard for Grafana, one panel a metric, written from the table of metrics."""

from __future__ import annotations

import json
from typing import Any

from dygcn.serving.observing.metrics import (
    COUNTER,
    HISTOGRAM,
    METRICS,
    PROCESS_METRICS,
    SECONDS,
    TIMESTAMP,
    Metric,
)

_UNITS = {"seconds": "s", "bytes": "bytes", "ratio": "percentunit", "timestamp": "s"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_FILTER = 'instance=~"$instance"'


def expressions(metric: Metric) -> list[tuple[str, str]]:
    """Return what a panel asks for, each with its legend.

    Examples
    --------
    >>> from dygcn.serving.observing.metrics import BY_NAME
    >>> expressions(BY_NAME["dygcn_events_total"])
    [('sum(rate(dygcn_events_total{instance=~"$instance"}[$__rate_interval]))', 'a second')]
    >>> expressions(BY_NAME["dygcn_snapshot_timestamp_seconds"])
    [('time() - dygcn_snapshot_timestamp_seconds{instance=~"$instance"}', 'age')]
    """
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
    if metric.unit == TIMESTAMP:
        return [(f"time() - {name}", legend or "age")]
    return [(name, legend or metric.name)]


def _title(metric: Metric) -> str:
    if metric.kind == COUNTER:
        return f"{metric.about} (a second)"
    return f"{metric.about} (age)" if metric.unit == TIMESTAMP else metric.about


def _panel(metric: Metric, number: int, x: int, y: int) -> dict[str, Any]:
    """Return one panel; a counter of seconds shows a share, which has no unit."""
    unit = "none" if metric.kind == COUNTER and metric.unit == SECONDS else _UNITS.get(metric.unit, "short")
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
