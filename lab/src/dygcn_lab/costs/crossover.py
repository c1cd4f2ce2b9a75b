"""From which size of batch on it is cheaper to do everything again."""

from __future__ import annotations

import dataclasses
import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.records import EventBatch, Int64
from dygcn.errors import DatasetError, MissingExtra
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average, parts_of, timed, undisturbed
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of
from dygcn_lab.testbed.seeding import own_state

GRAPHS = ("arxiv-coauthor", "as-caida", "power-law")
_SMALL = 1000  # events; of smaller batches more are timed
_MORE = 50


def crossing(sizes: Sequence[int], ours: Sequence[float], rival: float) -> float | None:
    """Return the least batch for which the rival is no dearer, None if there is none up to the largest.

    `sizes` rise, and `ours` is the time of each. Between two sizes times are taken to follow a power of the
    size (a straight line, log-log).
    """
    for i, took in enumerate(ours):
        if took < rival:
            continue
        if i == 0:
            return float(sizes[0])
        part = math.log(rival / ours[i - 1]) / math.log(took / ours[i - 1])
        return round(float(sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** part), 3)
    return None


def batch_sizes(edges: int) -> list[int]:
    """Return 1, 10, 100 ... up to half of the edges, and half of the edges."""
    most = max(1, edges // 2)
    return sorted({10**power for power in range(len(str(most)))} | {most})


def measure_crossovers(
    graphs: Sequence[str] = (),
    *,
    width: int = 256,
    dim: int = 128,
    orders: int = 2,
    sizes: Sequence[int] = (),
    repeats: int = 5,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Time batches of every size, and all that does without them, in one run on each graph.

    Without names, `GRAPHS` as far as they can be had. Small batches are repeated more often.
    """
    rows, notes = [], []
    for name, tell in parts_of(list(graphs or GRAPHS), notify):
        tell(0, 1, "reading the graph")
        try:
            events = graph_events(name, seed)
        except DatasetError as error:
            if graphs:
                raise
            notes.append(f"left out: {name}. {error}")
            continue
        found, more = _measure_graph(events, width, dim, orders, sizes, repeats, seed, tell)
        rows.append({"graph": name, **found})
        notes += [note for note in more if note not in notes]
        gc.collect()
    return {
        "kind": "crossover",
        "width": width,
        "dim": dim,
        "orders": orders,
        "repeats": repeats,
        "workers": WORKERS,
        "load_average": load_average(),
        "notes": notes,
        "graphs": rows,
    }


def _measure_graph(
    events: EventBatch,
    width: int,
    dim: int,
    orders: int,
    sizes: Sequence[int],
    repeats: int,
    seed: int,
    notify: Notify,
) -> tuple[dict[str, Any], list[str]]:
    notify(0, 1, "loading the graph")
    live = live_of(events, width, dim, orders, seed)
    nodes, edges = len(live), live.edge_count
    sizes = sorted(sizes) or batch_sizes(edges)
    traffic = Traffic(live._state.graph, events, seed)
    batches = []
    for done, size in enumerate(sizes):
        notify(done, len(sizes) + 3, f"batches of {size:,}")
        more = min(_MORE, max(1, _SMALL // size))
        batches.append(_time_batches(live, traffic, size, repeats * more))
    notify(len(sizes), len(sizes) + 3, "recomputing")
    found = [recompute(live, repeats)]
    ends = _edges(live)
    del live, traffic  # others get the memory
    gc.collect()

    def tell(name: str) -> None:
        notify(len(sizes) + 1, len(sizes) + 3, name)

    more_found, notes = others(ends, width, dim, repeats, tell)
    rivals = [_beside(rival, batches) for rival in found + more_found]
    return {"nodes": nodes, "edges": edges, "batches": batches, "rivals": rivals}, notes


def _time_batches(live: LiveEmbedding, traffic: Traffic, size: int, rounds: int) -> dict[str, Any]:
    """Time the update and the reading of what moved; the first round is not counted."""
    state, vectors, moved = [], [], []
    for number in range(rounds + 1):
        for batch in map(as_users_do, traffic.round(size)):
            with undisturbed():
                begun = time.perf_counter()
                change = live.update(**batch)
                updated = time.perf_counter()
                _ = change.vectors
                read = time.perf_counter()
            count = len(change)
            del change  # else the next update looks up its ids
            if number:
                state.append(updated - begun)
                vectors.append(read - begun)
                moved.append(count)
    return {
        "events": size,
        "update_us": median_us(state),
        "update_and_vectors_us": median_us(vectors),
        "vectors_moved": float(np.median(moved)),
    }


def _edges(live: LiveEmbedding) -> Int64:
    """Return every edge once, (m, 2), by numbers of nodes."""
    a, b, _ = live._state.graph.edges()
    return np.stack((np.minimum(a, b), np.maximum(a, b)), axis=1).astype(np.int64)


def _beside(rival: Rival, batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sizes = [batch["events"] for batch in batches]
    ours = [[batch[name] for batch in batches] for name in ("update_us", "update_and_vectors_us")]
    return {
        **dataclasses.asdict(rival),
        "cheaper_from_batch": crossing(sizes, ours[0], rival.state_us),
        "cheaper_from_batch_with_vectors": crossing(sizes, ours[1], rival.vectors_us),
    }


RECOMPUTE, CLEORA, CLEORA_READY, GCN = (
    "recompute in place",
    "Cleora rerun",
    "Cleora rerun, its graph ready",
    "GCN forward",
)
WORKERS = 2  # cores that others may use


@dataclass(frozen=True, slots=True)
class Rival:
    """Microseconds to be right again after any batch, medians."""

    name: str
    state_us: float
    vectors_us: float  # with the vectors of all nodes


def median_us(seconds: Sequence[float]) -> float:
    """Return the median in microseconds."""
    return 1e6 * statistics.median(seconds)


def recompute(live: LiveEmbedding, repeats: int) -> Rival:
    """Time the state from nothing, in place, and the reading of all vectors."""
    graph, rule = own_state(live).graph, own_state(live).exact
    nodes = graph.nodes()
    state, vectors = [], []
    for _ in range(repeats):
        with undisturbed():
            state.append(timed(lambda: rule.rebuild(graph)))
            vectors.append(state[-1] + timed(lambda: live._vectors_of(nodes)))
    return Rival(RECOMPUTE, median_us(state), median_us(vectors))


def cleora(edges: Int64, dim: int, repeats: int) -> list[Rival]:
    """Time Cleora as it is judged here, from lines of text in memory and from its own graph."""
    from dygcn_lab.baselines.cleora import Cleora, edge_lines, read_graph  # noqa: PLC0415

    method, lines = Cleora(dim=dim), edge_lines(edges)
    whole, ready = [], []
    for _ in range(repeats):
        with undisturbed():
            begun = time.perf_counter()
            graph = read_graph(lines, WORKERS)
            built = time.perf_counter()
            method.propagated(graph, WORKERS)
            done = time.perf_counter()
        whole.append(done - begun)
        ready.append(done - built)
    both = ((CLEORA, median_us(whole)), (CLEORA_READY, median_us(ready)))
    return [Rival(name, took, took) for name, took in both]


def gcn(edges: Int64, width: int, dim: int, repeats: int) -> list[Rival]:
    """Time one pass of a two-layer GCN, its matrix and features ready."""
    from dygcn_lab.baselines.gcn_forward import forward_seconds  # noqa: PLC0415

    took = median_us(forward_seconds(edges, (width, width, dim), WORKERS, repeats))
    return [Rival(GCN, took, took)]


def others(
    edges: Int64, width: int, dim: int, repeats: int, tell: Callable[[str], None]
) -> tuple[list[Rival], list[str]]:
    """Time what others published; return also a note for each that is not installed.

    `edges`: (m, 2), each once; nodes are numbers; `tell`: called before each with its name.
    """
    found: list[Rival] = []
    notes = []
    runs: dict[str, Callable[[], list[Rival]]] = {
        CLEORA: lambda: cleora(edges, dim, repeats),
        GCN: lambda: gcn(edges, width, dim, repeats),
    }
    for name, run in runs.items():
        tell(name)
        try:
            found += run()
        except MissingExtra as error:
            notes.append(f"left out: {name}. {error}")
    return found, notes
