"""What an update costs beside a full recompute, in one run on one graph."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn.errors import OptionError
from dygcn.events import read_events
from dygcn.features import Hashed
from dygcn.live import LiveEmbedding, start
from dygcn.live.choices import weight_grid
from dygcn.models import Model
from dygcn.records import EventBatch, Int64
from dygcn.training import starting_matrices

_TRIES = 1000
Notify = Callable[[int, int, str], None]


@dataclass(frozen=True)
class BatchCost:
    """Seconds and rows of one size of batch."""

    events: int
    median_seconds: float
    p99_seconds: float
    rows_per_event: float
    vectors_per_event: float


def power_law_events(nodes: int, edges: int, seed: int = 0) -> dict[str, Int64]:
    """Return a random graph whose degrees follow a power law (each end drawn with chance ~ rank^-0.6)."""
    random = np.random.default_rng(seed)
    chance = np.cumsum(np.arange(1, nodes + 1) ** -0.6)
    ends = np.searchsorted(chance, random.random((2, edges)) * chance[-1])
    shuffle = random.permutation(nodes)
    return {"src": shuffle[ends[0]], "dst": shuffle[ends[1]]}


def measure_updates(
    events: object,
    *,
    width: int = 256,
    dim: int = 128,
    orders: int = 2,
    sizes: tuple[int, ...] = (1, 1000),
    repeats: int = 30,
    recomputes: int = 3,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Load a graph, then time batches of mixed adds and removes, and recomputes, in one run.

    Half of each batch removes edges drawn from all edges, half adds pairs whose ends are drawn by
    degree; the batch after it takes both back, so the graph stays the same. A single-edge batch is by
    turns a remove, its return, an add, and its return. Vectors are not read.
    """
    batch = read_events(events)
    model = Model(
        starting_matrices(width, dim, orders, seed),
        batch.src.kind,
        "hashed",
        np.ones(width),
        seed,
        grid=weight_grid(batch, Hashed.message_bits),
    )
    live = start(model)
    _tell(notify, 0, "loading the graph")
    begun = time.perf_counter()
    live.update(EventBatch(batch.src, batch.dst, batch.op, batch.weight, None))
    loaded = time.perf_counter() - begun
    traffic = _Traffic(live, seed)
    costs = []
    for size in sizes:
        _tell(notify, 1, f"batches of {size}")
        costs.append(_cost(live, traffic, size, repeats if size > 1 else 50 * repeats))
    _tell(notify, 2, "recomputing")
    full = [_timed(live.recompute) for _ in range(recomputes)]
    recompute = statistics.median(full)
    return {
        "nodes": len(live),
        "edges": live.edge_count,
        "width": width,
        "orders": orders,
        "load_seconds": loaded,
        "recompute_seconds": recompute,
        "load_average": os.getloadavg()[0],
        "batches": [
            {
                "events": cost.events,
                "median_us": 1e6 * cost.median_seconds,
                "p99_us": 1e6 * cost.p99_seconds,
                "events_per_second": cost.events / cost.median_seconds,
                "rows_per_event": cost.rows_per_event,
                "vectors_per_event": cost.vectors_per_event,
                "times_cheaper_than_recompute": recompute / cost.median_seconds,
            }
            for cost in costs
        ],
    }


def _tell(notify: Notify | None, done: int, what: str) -> None:
    if notify is not None:
        notify(done, 3, what)


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


class _Traffic:
    """Batches that change the graph, each followed by the one that takes it back."""

    def __init__(self, live: LiveEmbedding, seed: int) -> None:
        self._random = np.random.default_rng([seed, 7])
        graph = live.state.graph
        a, b, _ = graph.edges()
        # Nodes are recycled while batches come and go, so edges are kept by the user's ids.
        names = graph.nodes()
        rank = np.empty(graph.ids.high, np.int64)
        rank[names] = np.arange(len(names))
        self._ids = live.ids()
        self._ends = np.sort(np.stack((rank[a], rank[b])), axis=0)
        self._there = set((self._ends[0] << 32 | self._ends[1]).tolist())

    def pairs(self, count: int, known: bool) -> list[tuple[Any, Any]]:
        """Return edges of the graph, or pairs that are no edges, ends by degree."""
        found: dict[int, None] = {}
        for _ in range(_TRIES):
            rows = self._random.integers(self._ends.shape[1], size=(2, count))
            a, b = self._ends[0][rows[0]], self._ends[1][rows[0 if known else 1]]
            low, high = np.minimum(a, b), np.maximum(a, b)
            for key in (low << 32 | high)[low != high].tolist():
                if (key in self._there) == known and len(found) < count:
                    found[key] = None
            if len(found) == count:
                break
        else:
            raise OptionError(f"the graph is too small or too dense for batches of {2 * count} changes")
        keys = np.fromiter(found, np.int64, count)
        return list(zip(self._ids[keys >> 32].tolist(), self._ids[keys & 0xFFFFFFFF].tolist(), strict=True))


def _cost(live: LiveEmbedding, traffic: _Traffic, size: int, repeats: int) -> BatchCost:
    seconds, rows, moved = [], 0, 0
    for repeat in range(repeats + 2):
        half = size // 2 if size > 1 else repeat % 2
        adds = traffic.pairs(half, known=False) if half else []
        removes = traffic.pairs(size - half, known=True) if size > half else []
        for added, removed in ((adds, removes), (removes, adds)):
            begun = time.perf_counter()
            change = live.update(add=added, remove=removed)
            took = time.perf_counter() - begun
            if repeat >= 2:  # the first ones warm up
                seconds.append(took)
                rows += change.rows
                moved += len(change)
    events = size * len(seconds)
    return BatchCost(
        size, statistics.median(seconds), float(np.quantile(seconds, 0.99)), rows / events, moved / events
    )
