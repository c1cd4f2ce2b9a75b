"""What an update costs as the graph grows and nothing else changes."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence
from typing import Any

from dygcn._progress import Notify
from dygcn_lab.costs.bare import compiled_loop
from dygcn_lab.costs.footprint import peak_bytes
from dygcn_lab.costs.timing import load_average, parts_of
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import batch_cost, load_graph

_SINGLES = 2000


def measure_scale(
    nodes: Sequence[int],
    *,
    degree: int = 20,
    width: int = 64,
    orders: int = 2,
    batch: int = 1000,
    repeats: int = 20,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Time batches on random graphs of one distribution of degrees (see `graphs.steady`), by their size."""
    compiled_loop()
    names = [f"steady-{count}-{count * degree // 2}" for count in sorted(set(nodes))]
    rows = []
    for name, tell in parts_of(names, notify):
        rows.append(_measure_graph(name, width, orders, batch, repeats, seed, tell))
        gc.collect()
    return {
        "kind": "scale",
        "width": width,
        "orders": orders,
        "degree": degree,
        "repeats": repeats,
        "load_average": load_average(),
        "rows": rows,
    }


def _measure_graph(
    name: str, width: int, orders: int, batch: int, repeats: int, seed: int, notify: Notify
) -> dict[str, Any]:
    notify(1, 3, "loading the graph")
    live, events = load_graph(name, width, orders, seed)
    traffic = Traffic(live._state.graph, events, seed)
    del events
    # Now, before the bare additions get rows of their own.
    about = {"graph": name, "nodes": len(live), "edges": live.edge_count, "peak_bytes": peak_bytes()}
    notify(2, 3, f"batches of {batch:,}")
    singles = [live.update(**as_users_do(single)).rows for single in traffic.rounds(1, _SINGLES)]
    cost = dataclasses.asdict(batch_cost(live, traffic, batch, repeats))
    return {**about, "rows_of_a_single_edge": sum(singles) / len(singles), **cost}
