"""What a tolerance saves, and what it costs: rows an event, and how far messages are from the exact ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average, parts_of
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import EventBatch, Float64
    from dygcn.live import LiveEmbedding
    from dygcn_lab.costs.timing import Notify

TOLERANCES = (0.0, 0.001, 0.002, 0.003, 0.01, 0.03, 0.07, 0.1)
ERRORS = (1e-3, 3e-2)
_CHECKED = 20_000  # nodes whose bound is compared with their error


def measure_tolerance(
    name: str = "power-law",
    *,
    tolerances: Sequence[float] = TOLERANCES,
    sizes: Sequence[int] = (1, 1000),
    events: int = 8000,
    width: int = 100,
    orders: int = 2,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Apply the same events with each tolerance, and compare with the exact state.

    The error is the norm of what is missing from the messages of the last order over the norm of these
    messages, all nodes together; the worst one is that of a single node.
    """
    drawn, rows = graph_events(name, seed), []
    names = [f"batches of {size:,}, tolerance {tolerance:g}" for size in sizes for tolerance in tolerances]
    settings = [(size, tolerance) for size in sizes for tolerance in tolerances]
    exact: dict[int, tuple[int, str]] = {}
    for (_, tell), (size, tolerance) in zip(parts_of(names, notify), settings, strict=True):
        tell(0, 1, "applying")
        live = live_of(drawn, width, orders=orders, seed=seed)
        row, digest = _apply(live, drawn, size, tolerance, events, seed)
        first = exact.setdefault(size, (row["rows"], digest))
        row["times_fewer_rows"] = first[0] / row["rows"]
        row["same_bits"] = digest == first[1]
        rows.append(row)
    at_error = [
        {"batch": size, "at_error": error, "times_fewer_rows": fewer_at(error, rows, size)}
        for size in sizes
        for error in ERRORS
    ]
    return {
        "kind": "tolerance",
        "at_error": at_error,
        "graph": name,
        "width": width,
        "orders": orders,
        "load_average": load_average(),
        "rows": rows,
    }


def fewer_at(error: float, rows: Sequence[dict[str, Any]], batch: int) -> float | None:
    """Return how many times fewer rows there are at an error, on a straight line (log-log) between rows.

    Examples
    --------
    >>> rows = [{"batch": 1, "error": 1e-3, "times_fewer_rows": 2.0}]
    >>> rows += [{"batch": 1, "error": 1e-1, "times_fewer_rows": 8.0}]
    >>> round(fewer_at(1e-2, rows, 1), 6), fewer_at(1.0, rows, 1)
    (4.0, None)
    """
    found = sorted((row["error"], row["times_fewer_rows"]) for row in rows if row["batch"] == batch)
    known = np.log([pair for pair in found if pair[0] > 0])
    if len(known) == 0 or not known[0, 0] <= np.log(error) <= known[-1, 0]:
        return None
    return float(np.exp(np.interp(np.log(error), known[:, 0], known[:, 1])))


def _apply(
    live: LiveEmbedding, drawn: EventBatch, size: int, tolerance: float, events: int, seed: int
) -> tuple[dict[str, Any], str]:
    traffic = Traffic(live.state.graph, drawn, seed)
    live.tolerate(tolerance)
    batches = max(events // size, 1)
    rows = sum(live.update(**as_users_do(traffic.round(size)[0])).rows for _ in range(batches))
    found, nodes = _messages(live), live.state.graph.nodes()
    checked = nodes[:: max(1, len(nodes) // _CHECKED)]
    bound = live.state.exact.error_bound(live.state.graph, checked)
    live.flush()
    exact = _messages(live)
    missing = np.linalg.norm(found - exact, axis=1)
    lengths = np.linalg.norm(exact, axis=1)
    inside = missing[:: max(1, len(nodes) // _CHECKED)] <= bound + 1e-12
    return {
        "batch": size,
        "tolerance": tolerance,
        "error": float(np.linalg.norm(missing) / np.linalg.norm(lengths)),
        "worst": float(np.max(missing / np.maximum(lengths, 1e-9))),
        "longest": float(np.max(missing)),
        "bound_honoured": bool(inside.all()),
        "rows": rows,
        "rows_per_event": rows / (size * batches),
    }, live.digest()


def _messages(live: LiveEmbedding) -> Float64:
    """Return the messages of the last order, in lengths of a feature vector."""
    graph, rule = live.state.graph, live.state.exact
    rows, _ = rule.messages(graph, graph.nodes(), rule.orders)
    lengths: Float64 = rows / (2.0**24 * np.sqrt(rows.shape[1]))
    return lengths
