"""What an update costs: beside the bare additions and beside a full recompute, in one run on one graph."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.events import read_events
from dygcn.engine.features.inputs import Hashed
from dygcn.engine.graph import apply_batch
from dygcn.engine.models.choices import weight_grid
from dygcn.engine.models.model import Model
from dygcn.engine.propagation import gathering
from dygcn.engine.records import EventBatch
from dygcn.engine.training.matrices import starting_matrices
from dygcn.live.embedding import LiveEmbedding, start
from dygcn_lab.costs.bare import Bare, compiled_loop
from dygcn_lab.costs.graphs import PART, graph_events, graph_parts, random_graph
from dygcn_lab.costs.timing import (
    load_average,
    median_ratio,
    on_one_thread,
    parts_of,
    spread,
    timed,
    undisturbed,
)
from dygcn_lab.costs.traffic import Stream, Traffic, as_users_do
from dygcn_lab.testbed.seeding import own_state

STREAM = "stream:"
GRAPH = "power-law-50k-300k"
_IN_A_BLOCK = 100
_SINGLES = 50  # single edges for each batch of another size
_WARM = 3  # rounds that are not counted
_RECOMPUTES = 3
_STAGED = 3  # batches that are taken apart


_Round: TypeAlias = tuple[float, float, int, int, int]


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What batches of one size cost."""

    events: int
    median_us: float
    p99_us: float
    bare_us: float  # median
    times_bare: float  # median of the ratios of single batches
    events_per_second: float
    rows_per_event: float  # rows of state that were added to
    additions_per_event: float  # rows added; one row of state may take several
    vectors_per_event: float  # nodes that moved


def live_of(
    events: EventBatch, width: int = 256, dim: int = 128, orders: int = 2, seed: int = 0
) -> LiveEmbedding:
    """Return an embedding at work on a graph. Its matrices are untrained; updates cost the same."""
    live = start(_model(events, width, dim, orders, seed))
    live.update(dataclasses.replace(events, t=None))
    return live


def _model(events: EventBatch, width: int, dim: int, orders: int, seed: int) -> Model:
    matrices = starting_matrices(width, dim, orders, seed)
    grid = weight_grid(events, Hashed.message_bits)
    return Model(matrices, events.src.kind, "hashed", np.ones(width), seed, grid=grid)


def load_graph(
    name: str, width: int, orders: int, seed: int = 0, dim: int = 128
) -> tuple[LiveEmbedding, EventBatch]:
    """Load a graph by name, a very large random one part by part; return some of its events, too."""
    random = random_graph(name)
    if random is None or random[2] <= PART:
        events = graph_events(name, seed)
        return live_of(events, width, dim, orders, seed), events
    sample = next(graph_parts(name, seed, lambda: PART))
    live = start(_model(sample, width, dim, orders, seed))
    edges, graph = random[2], live._state.graph  # the embedding itself answers nothing while it loads
    live.bulk(graph_parts(name, seed, lambda: edges - graph.edge_count))
    return live, sample


def measure_updates(
    graphs: Sequence[str],
    *,
    widths: Sequence[int] = (256,),
    orders: int = 2,
    sizes: Sequence[int] = (1, 1000),
    repeats: int = 30,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Load graphs one by one, and time batches of mixed adds and removes, the bare additions and recomputes.

    See `Traffic` for the batches. They are handed over as a user would: one edge as ``add=[(a, b)]``, more
    as columns. Vectors are not read. There are `repeats` batches of each size, and fifty times as many single
    edges. A graph whose name begins with ``stream:`` changes as its edges came (`Stream`).
    """
    compiled_loop()
    about_graphs, batches = [], []
    settings = [(name, width) for width in widths for name in graphs or (GRAPH,)]
    parts = parts_of([f"{name}, width {width}" for name, width in settings], notify)
    for (name, width), (_, tell) in zip(settings, parts, strict=True):
        about, rows = _measure_graph(name, width, orders, sizes, repeats, seed, tell)
        about_graphs.append(about)
        batches += rows
    return {
        "kind": "update",
        "orders": orders,
        "repeats": repeats,
        "load_average": load_average(),
        "graphs": about_graphs,
        "batches": batches,
    }


def _measure_graph(
    name: str,
    width: int,
    orders: int,
    sizes: Sequence[int],
    repeats: int,
    seed: int,
    notify: Notify,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    steps = len(sizes) + 2
    notify(0, steps, "loading the graph")
    begun = time.perf_counter()
    traffic: Traffic | Stream
    if name.startswith(STREAM):
        traffic = Stream(graph_events(name.removeprefix(STREAM), seed))
        live = live_of(traffic.base, width, orders=orders, seed=seed)
    else:
        live, events = load_graph(name, width, orders, seed)
        traffic = Traffic(live._state.graph, events, seed)
        del events
    loaded = time.perf_counter() - begun
    costs = []
    for done, size in enumerate(sizes):
        notify(1 + done, steps, f"batches of {size:,}")
        costs.append(batch_cost(live, traffic, size, repeats if size > 1 else _SINGLES * repeats))
    stages = [
        {
            "graph": name,
            "width": width,
            "events": size,
            "stages": measure_stages(live, traffic, size, _STAGED),
        }
        for size in sizes
        if size > 1
    ]
    notify(steps - 1, steps, "recomputing")
    recompute = statistics.median(timed(live.recompute) for _ in range(_RECOMPUTES))
    about = {
        "graph": name,
        "width": width,
        "nodes": len(live),
        "edges": live.edge_count,
        "load_seconds": loaded,
        "recompute_seconds": recompute,
    }
    rows = [
        {
            "graph": name,
            "width": width,
            **dataclasses.asdict(cost),
            "vectors_of_a_rerun": len(live),
            "times_cheaper_than_recompute": 1e6 * recompute / cost.median_us,
        }
        for cost in costs
    ]
    return {**about, "stages": stages}, rows


@on_one_thread()
def batch_cost(live: LiveEmbedding, traffic: Traffic | Stream, size: int, repeats: int) -> BatchCost:
    """Time batches of one size, and the bare additions of those that take them back.

    In blocks: a few small updates one after the other, then as many bare additions, so that neither finds
    the other's code and rows in the caches.
    """
    block = min(repeats, _IN_A_BLOCK) if size == 1 else 1
    found: list[_Round] = []
    bare = Bare(own_state(live).exact)
    for number in range(-_WARM, -(-repeats // block)):
        rounds = [tuple(map(as_users_do, traffic.round(size))) for _ in range(block)]
        timed_block = _time_block(live, bare, rounds, traffic.moves_on)
        if number >= 0:
            found += timed_block
    seconds, least, rows, additions, moved = np.array(found).T
    ours = spread(seconds)
    return BatchCost(
        size,
        ours.median,
        ours.p99,
        spread(least).median,
        median_ratio(seconds, least),
        1e6 * size / ours.median,
        *(float(counts.mean() / size) for counts in (rows, additions, moved)),
    )


def _time_block(
    live: LiveEmbedding, bare: Bare, rounds: list[tuple[dict[str, Any], ...]], moves_on: bool
) -> list[_Round]:
    ours, least = [], []
    with undisturbed():
        for there, back in rounds:
            begun = time.perf_counter()
            change = live.update(**there)
            took = time.perf_counter() - begun
            ours.append((took, change.rows, len(change)))
            live.update(**back)
    for there, back in rounds:
        live.update(**there)
        additions = bare.watch(lambda back=back: live.update(**back))  # type: ignore[misc]
        least.append((bare.kept, additions))
        if moves_on:
            live.update(**there)
    with undisturbed():
        seconds = [bare.repeat(kept) for kept, _ in least]
    return [
        (took, alone, rows, additions, moved)
        for (took, rows, moved), alone, (_, additions) in zip(ours, seconds, least, strict=True)
    ]


@on_one_thread()
def measure_stages(
    live: LiveEmbedding, traffic: Traffic | Stream, size: int, repeats: int
) -> dict[str, float]:
    """Return the microseconds of each stage of a batch of many, the median of repeats, on one thread.

    A mark is made when an order is gathered: what lies before it is gathering (and the adding of the order
    before), what lies after the last is adding it, and listing the nodes that moved.
    """
    found: list[dict[str, float]] = []
    for _ in range(repeats):
        there, back = traffic.round(size)
        found.append(_one(live, there))
        live.update(back)
        if traffic.moves_on:
            live.update(there)
    return {name: 1e6 * statistics.median(each[name] for each in found) for name in found[0]}


def _one(live: LiveEmbedding, batch: EventBatch) -> dict[str, float]:
    state, handed = own_state(live), as_users_do(batch)
    marks: list[tuple[str, float]] = []

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter()))

    whole = gathering.gather_part

    def gather(*arguments: Any) -> Any:
        gathered, order = whole(*arguments), len(marks) - 2
        mark(f"add order {order - 1}, gather order {order}" if order > 1 else "gather order 1")
        return gathered

    with undisturbed(), mock.patch.object(gathering, "gather_part", gather):
        mark("")
        events = read_events(handed["events"], live.model.ids)
        mark("read events")
        delta = apply_batch(state.graph, events)
        mark("ids and graph")
        state.exact.apply(state.graph, delta)
        mark(f"add order {state.exact.orders}, who moved")
    state.graph.release(delta.left)
    return {name: at - marks[i][1] for i, (name, at) in enumerate(marks[1:])}
