"""Bytes of graphs, predicted and measured, and whether a stream of changes makes the process grow."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.records import EventBatch, IdColumn
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.costs.footprint import peak_bytes, predict, resident_bytes
from dygcn_lab.costs.timing import load_average, parts_of, timed
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of, load_graph

_BATCH = 1000
_UPDATES = 10
_CHURN_NODES = 50_000
_CHURN_BATCH = 10_000
_WARM = 0.1  # of the events, before the process is measured for the first time


def measure_memory(
    graphs: Sequence[str] = (),
    *,
    width: int = 64,
    orders: int = 2,
    churn: int = 0,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Load graphs one by one, and compare the growth of the process with the prediction.

    In the end, on a small graph, `churn` events of ids that come and go; see `measure_churn`.
    """
    rows = []
    _measure_graph(
        "power-law-1k-5k", width, orders, seed, lambda *_: None
    )  # the code itself takes memory, too
    for name, tell in parts_of(graphs or ("power-law",), notify):
        rows.append(_measure_graph(name, width, orders, seed, tell))
        gc.collect()
    result = {
        "kind": "memory",
        "width": width,
        "orders": orders,
        "load_average": load_average(),
        "rows": rows,
    }
    return {**result, "churn": measure_churn(churn, width, orders, seed, notify)} if churn else result


def _measure_graph(name: str, width: int, orders: int, seed: int, notify: Notify) -> dict[str, Any]:
    notify(0, 2, "loading the graph")
    before = resident_bytes()
    live, events = load_graph(name, width, orders, seed)
    traffic = Traffic(live._state.graph, events, seed)
    del events
    notify(1, 2, "updating")
    seconds = [_timed_update(live, batch) for batch in traffic.rounds(_BATCH, _UPDATES)]
    del traffic
    measured = resident_bytes() - before
    graph = live._state.graph
    parts = predict(graph.pull.count[graph.nodes()].astype(np.int64), live.model)
    return {
        "graph": name,
        "nodes": len(live),
        "edges": live.edge_count,
        "width": width,
        "predicted_bytes": sum(parts.values()),
        "measured_bytes": measured,
        "predicted_over_measured": sum(parts.values()) / measured if measured else None,
        "peak_bytes": peak_bytes(),
        "bytes_per_node": sum(parts[name] for name in ("ids", "adjacency", "marks", "sums")) / len(live),
        "bytes_per_edge": (parts["arcs"] + parts["hubs"]) / live.edge_count,
        "batch": _BATCH,
        "median_us": 1e6 * statistics.median(seconds),
        "parts": parts,
    }


def _timed_update(live: LiveEmbedding, batch: EventBatch) -> float:
    return timed(lambda: live.update(**as_users_do(batch)))


def measure_churn(
    events: int, width: int, orders: int, seed: int = 0, notify: Notify | None = None
) -> dict[str, Any]:
    """Let ids come and go, and say how much the process grew after the first tenth of it.

    Half of the events add an edge between two of a window of ids that moves on, half remove the oldest
    edge: in the end every id but the last ones has left.
    """
    random = np.random.default_rng([seed, 11])
    half = _CHURN_BATCH // 2
    waiting: list[EventBatch] = []
    first = _drawn(random, 0, half)
    live = live_of(first, width, orders=orders, seed=seed)
    waiting.append(first)
    begun, sizes = 0, []
    batches = max(events // _CHURN_BATCH, 2)
    for number in range(1, batches + 1):
        if number == max(1, round(_WARM * batches)):
            begun = resident_bytes()
        adds = _drawn(random, number, half)
        waiting.append(adds)
        live.update(adds)
        if len(waiting) > _CHURN_NODES // half:
            old = waiting.pop(0)
            live.update(EventBatch(old.src, old.dst, -old.op))
        if notify is not None and number % 50 == 0:
            notify(number, batches, "churn")
        if number % max(1, batches // 20) == 0:
            sizes.append(resident_bytes())
    grown = sizes[-1] - begun
    return {
        "events": batches * _CHURN_BATCH,
        "nodes": len(live),
        "ids_seen": (batches + 1) * half // 2,
        "begun_bytes": begun,
        "grown_bytes": grown,
        "resident_bytes": sizes,
    }


def _drawn(random: np.random.Generator, number: int, count: int) -> EventBatch:
    """Draw edges between ids of a window that moves on with the number of the batch."""
    low = number * count // 2
    src, dst = random.integers(low, low + _CHURN_NODES, (2, count))
    return EventBatch(IdColumn(src), IdColumn(dst), np.ones(count, np.int8))
