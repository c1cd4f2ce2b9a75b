"""The same batches on one thread and on several: how much faster, and whether the bits are the same."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from dygcn._progress import Notify
from dygcn.engine.propagation import set_threads
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.costs.bare import Bare, compiled_loop
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average, parts_of, timed, undisturbed
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of
from dygcn_lab.testbed.seeding import own_state

_WARM = 2


def measure_threads(
    graphs: Sequence[str] = (),
    *,
    width: int = 100,
    orders: int = 2,
    sizes: Sequence[int] = (1000, 10_000),
    repeats: int = 15,
    threads: int = 2,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Time batches by turns on one thread and on `threads`, two embeddings side by side.

    Both get the same batches, so that they must have the same digest at the end.
    """
    compiled_loop()
    rows = []
    for name, tell in parts_of(graphs or ("power-law",), notify):
        tell(0, 1 + len(sizes), "loading the graph")
        drawn = graph_events(name, seed)
        lives = [live_of(drawn, width, orders=orders, seed=seed) for _ in range(2)]
        for done, size in enumerate(sizes):
            tell(1 + done, 1 + len(sizes), f"batches of {size:,}")
            traffic = Traffic(lives[0]._state.graph, drawn, seed)
            rows.append({"graph": name, "batch": size, **_by_turns(lives, traffic, size, repeats, threads)})
    return {
        "kind": "threads",
        "width": width,
        "orders": orders,
        "threads": threads,
        "load_average": load_average(),
        "rows": rows,
    }


def _by_turns(
    lives: list[LiveEmbedding], traffic: Traffic, size: int, repeats: int, count: int
) -> dict[str, Any]:
    seconds: tuple[list[float], list[float]] = ([], [])
    same = True
    try:
        for number in range(repeats + _WARM):
            for batch in traffic.round(size):
                handed = as_users_do(batch)
                for live, threads, found in zip(lives, (1, count), seconds, strict=True):
                    set_threads(threads)
                    with undisturbed():
                        took = timed(lambda live=live, handed=handed: live.update(**handed))  # type: ignore[misc]
                    if number >= _WARM:
                        found.append(took)
    finally:
        set_threads(None)
    same = lives[0].digest() == lives[1].digest()
    one, two = (1e6 * statistics.median(found) for found in seconds)
    return {
        "one_us": one,
        "two_us": two,
        "times_faster": one / two,
        "events_per_second": 1e6 * size / two,
        "bare_times_faster": _bare_by_turns(lives[0], traffic, size, repeats, count),
        "same_bits": same,
    }


def _bare_by_turns(live: LiveEmbedding, traffic: Traffic, size: int, repeats: int, count: int) -> float:
    """Return how much faster the bare additions are on several threads: what the machine has to give."""
    bare = Bare(own_state(live).exact)
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * (repeats + _WARM)):  # by turns, each time with other rows: none is in a cache
        there, back = (as_users_do(batch) for batch in traffic.round(size))
        live.update(**there)
        bare.watch(lambda back=back: live.update(**back))  # type: ignore[misc]
        with undisturbed():
            took = bare.repeat(bare.kept, (1, count)[number % 2])
        if number >= 2 * _WARM:
            seconds[number % 2].append(took)
    return statistics.median(seconds[0]) / statistics.median(seconds[1])
