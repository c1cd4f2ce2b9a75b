"""Ten thousand events a second, and reads beside: how late, how many, and against a bare route; needs wrk."""

from __future__ import annotations

import tempfile
from typing import Any

import dygcn
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.service_reads import measure_folder
from dygcn_lab.soak.check import Check, Found


def measure(
    *, nodes: int, edges: int, rate: int, size: int, seconds: int, repeats: int, seed: int = 0
) -> dict[str, Any]:
    """Return what a service with one reader process does under a steady stream of events."""
    with tempfile.TemporaryDirectory() as folder:
        live = dygcn.fit(graph_events(f"power-law-{nodes}-{edges}", seed), seed=seed, progress=False)
        live.save(f"{folder}/graph")
        ids = live.ids().tolist()
        found = measure_folder(
            f"{folder}/graph", ids, rate=rate, size=size, seconds=seconds, repeats=repeats, seed=seed
        )
    alone, busy = found["events"]["alone"], found["rounds"][1]
    return {
        "nodes": nodes,
        "edges": edges,
        "asked_events_a_second": rate,
        "events_a_second": alone["events_a_second"],
        "request_size": size,
        "p50_ms": alone["p50_ms"],
        "p99_ms": alone["p99_ms"],
        "p99_ms_with_reads": found["events"]["with_reads"]["p99_ms"],
        "refused": int(alone["refused"] + found["events"]["with_reads"]["refused"]),
        "reads_a_second": busy["reads_a_second"],
        "bare_a_second": busy["bare_a_second"],
        "ratio": busy["ratio"],
        "sequence": found["sequence"],
    }


def look(size: int, seed: int) -> Found:
    """Measure for so many seconds."""
    quick = size < 5
    figures = measure(
        nodes=10_000 if quick else 200_000,
        edges=50_000 if quick else 1_000_000,
        rate=2_000 if quick else 10_000,
        size=100,
        seconds=size,
        repeats=1 if quick else 3,
        seed=seed,
    )
    fast = figures["p99_ms"] <= 50 and figures["ratio"] >= 0.6
    return Found(size, figures["refused"], figures=figures, holds=fast)


CHECK = Check(
    "load",
    2,
    10,
    "fresh and fast",
    "10,000 events a second, event to readable; reads against a bare route",
    "",
    look,
)
