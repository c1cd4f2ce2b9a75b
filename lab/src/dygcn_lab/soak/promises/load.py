"""Ten thousand events a second, and reads beside: how late, how many, and against a bare route.

`python -m dygcn_lab.soak.promises.load` prints what it found. It needs `wrk`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import msgspec

import dygcn
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.service_reads import measure_folder
from dygcn_lab.soak.check import Check, Finding


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


def run(size: int, seed: int) -> Finding:
    """Measure for so many seconds."""
    begun = time.perf_counter()
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
    holds = figures["refused"] == 0 and figures["p99_ms"] <= 50 and figures["ratio"] >= 0.6
    return Finding(
        "fresh and fast",
        "10,000 events a second, event to readable; reads against a bare route",
        size,
        figures["refused"],
        holds,
        "",
        True,
        time.perf_counter() - begun,
        seed,
        figures,
    )


CHECK = Check("load", 2, 10, run)

if __name__ == "__main__":
    finding = run(int(sys.argv[1]) if len(sys.argv) > 1 else CHECK.full, 0)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(finding), indent=2).decode() + "\n")
