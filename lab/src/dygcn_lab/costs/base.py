"""What the walk base takes: seconds, processor seconds and memory, each case in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.records import Float64, Int32
from dygcn.engine.training.walks import BUDGET, walk_base
from dygcn_lab.costs.footprint import peak_bytes
from dygcn_lab.costs.graphs import distinct_edges, graph_events
from dygcn_lab.costs.timing import in_a_process, load_average, parts_of

RANK = 128


@dataclass(frozen=True, slots=True)
class Case:
    """One base of one graph."""

    graph: str
    window: int | None = None
    budget_bytes: int = BUDGET
    rank: int = RANK
    seed: int = 0


CASES = (
    Case("arxiv-coauthor", 1),
    Case("arxiv-coauthor", 2),
    Case("arxiv-coauthor"),
    Case("power-law-3m-30m", 1),
    Case("power-law-3m-30m", 1, budget_bytes=1_300_000_000),
)
"""Data, walks of one and two steps and of what fits; a large graph, and only the core of it."""


def measure_base(
    graphs: Sequence[str] = (), *, rank: int = RANK, window: int | None = None, notify: Notify | None = None
) -> dict[str, Any]:
    """Make the base of each graph, or of each case, and return one row for each."""
    cases = [Case(graph, window, rank=rank) for graph in graphs] or CASES
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for place, tell in parts_of([f"{number} {case.graph}" for number, case in enumerate(cases)], notify):
            case = cases[int(place.partition(" ")[0])]
            file = Path(folder) / f"{case.graph.replace(os.sep, '-')}-{case.seed}.npz"
            if not file.exists():
                tell(0, 2, "drawing the graph")
                _write_edges(case, file)
            tell(1, 2, "making the base")
            rows.append(in_a_process(_work, case, file))
    return {"kind": "base", "load_average": load_average(), "rows": rows}


def _write_edges(case: Case, file: Path) -> None:
    events = graph_events(case.graph, case.seed)
    ids, places = np.unique(np.concatenate((events.src.values, events.dst.values)), return_inverse=True)
    first, second = np.split(places, 2)
    edges = distinct_edges(first, second, len(first))
    a, b = edges.src.values.astype(np.int32), edges.dst.values.astype(np.int32)
    np.savez(file, first=a, second=b, nodes=len(ids))


def _work(case: Case, file: Path) -> dict[str, Any]:
    """Make one base, in this process."""
    with np.load(file) as edges:
        first, second, nodes = edges["first"], edges["second"], int(edges["nodes"])
    weight = np.ones(len(first))
    _warm_up(first, second, weight)
    before = peak_bytes()
    begun, begun_cpu = time.perf_counter(), time.process_time()
    base = walk_base(
        first, second, weight, nodes, case.rank, case.seed, budget=case.budget_bytes, window=case.window
    )
    return {
        **dataclasses.asdict(case),
        "asked_window": case.window,
        "window": base.window,
        "nodes": nodes,
        "edges": len(first),
        "core": base.core,
        "rows": int(base.has.sum()),
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - begun_cpu,
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
        "grown_bytes": peak_bytes() - before,
        "result_bytes": base.rows.nbytes,
        "load_average": load_average(),
    }


def _warm_up(first: Int32, second: Int32, weight: Float64) -> None:
    """Compile, or load, every loop."""
    few = (first < 300) & (second < 300)
    few[np.flatnonzero(few)[1000:]] = False
    some = first[few], second[few], weight[few]
    for window in (None, 1):
        walk_base(*some, 300, 4, 0, window=window)
