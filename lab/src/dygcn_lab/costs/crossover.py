"""From which size of batch on it is cheaper to do everything again."""

from __future__ import annotations

import dataclasses
import gc
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import DatasetError
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.rivals import WORKERS, median_us, others, recompute
from dygcn_lab.costs.timing import load_average, parts_of, undisturbed
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import EventBatch, Int64
    from dygcn.live.embedding import LiveEmbedding
    from dygcn_lab.costs.rivals import Rival
    from dygcn_lab.costs.timing import Notify

GRAPHS = ("arxiv-coauthor", "as-caida", "power-law")
_SMALL = 1000  # events; of smaller batches more are timed
_MORE = 50


def crossing(sizes: Sequence[int], ours: Sequence[float], rival: float) -> float | None:
    """Return the least batch for which the rival is no dearer, None if there is none up to the largest.

    Between two sizes times are taken to follow a power of the size (a straight line, log-log).

    Parameters
    ----------
    sizes
        Of batches, rising.
    ours
        What each of them takes.
    rival
        What doing everything again takes, whatever the batch.

    Examples
    --------
    >>> crossing([1, 100, 10_000], [2.0, 20.0, 200.0], 63.24555320336759)
    1000.0
    >>> crossing([1, 10], [5.0, 50.0], 3.0), crossing([1, 10], [5.0, 50.0], 51.0)
    (1.0, None)
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
    """Return 1, 10, 100 ... up to half of the edges, and half of the edges.

    Examples
    --------
    >>> batch_sizes(5000)
    [1, 10, 100, 1000, 2500]
    """
    most = max(1, edges // 2)
    return sorted({10**power for power in range(len(str(most)))} | {most})


def measure_crossovers(
    names: Sequence[str] = (),
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

    Parameters
    ----------
    names
        Of graphs, see `graph_events`; without any `GRAPHS`, as far as they can be had.
    sizes
        Of batches; without any those of `batch_sizes`.
    repeats
        Batches of each size, there and back, more of the small ones; and reruns of each rival.
    """
    graphs, notes = [], []
    for name, tell in parts_of(list(names or GRAPHS), notify):
        tell(0, 1, "reading the graph")
        try:
            events = graph_events(name, seed)
        except DatasetError as error:
            if names:
                raise
            notes.append(f"left out: {name}. {error}")
            continue
        found, more = _measure_graph(events, width, dim, orders, sizes, repeats, seed, tell)
        graphs.append({"graph": name, **found})
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
        "graphs": graphs,
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
