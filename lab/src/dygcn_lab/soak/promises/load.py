"""Ten thousand events a second, and reads beside: how late, how many, and against a bare route.

`python -m dygcn_lab.soak.promises.load` prints what it found. It needs `wrk`.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

import dygcn
from dygcn.testing.subprocess_ready import started
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.soak.check import Check, Finding

_WRK = "function request() return wrk.format('GET', '%s/' .. math.random(0, %d)) end\n"
_WARM_UP = 200  # requests
_RATE = re.compile(r"Requests/sec:\s+([0-9.]+)")


class Ingest(threading.Thread):
    """Sends requests of events on a fixed schedule; lateness counts from when each was due."""

    def __init__(self, address: str, nodes: int, rate: int, size: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = httpx.Client(base_url=address, timeout=30.0)
        self._nodes, self._every, self._size = nodes, size / rate, size
        self._random = np.random.default_rng(seed)
        self._ended = threading.Event()
        self.waits: list[float] = []
        self.refused = 0

    def run(self) -> None:
        """Send until told to stop."""
        due = time.perf_counter()
        while not self._ended.is_set():
            body = self._events()
            due += self._every
            time.sleep(max(due - time.perf_counter(), 0.0))
            answer = self._client.post("/events", content=body, headers={"content-type": "application/json"})
            self.waits.append(time.perf_counter() - due)
            self.refused += answer.status_code != 200

    def _events(self) -> bytes:
        ends = self._random.integers(0, self._nodes, (self._size, 2)).tolist()
        op = self._random.choice([1, 1, -1], self._size).tolist()
        return msgspec.json.encode(
            [{"src": a, "dst": b, "op": o} for (a, b), o in zip(ends, op, strict=True)]
        )

    def stop(self) -> None:
        """Send no more."""
        self._ended.set()
        self.join()
        self._client.close()


@contextmanager
def served(folder: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a folder in a process of its own, with the bare route beside."""
    process, address = started("dygcn_lab.costs.load_server", [folder])
    try:
        yield address, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def wrk(address: str, path: str, nodes: int, seconds: int, folder: str) -> float:
    """Return requests a second that wrk reaches on a route, nodes at random."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is not installed; Debian's package wrk has it")
    script = Path(folder, "read.lua")
    script.write_text(_WRK % (path, nodes - 1))
    command = ["wrk", "-t1", "-c16", f"-d{seconds}s", "-s", str(script), address]
    found = _RATE.search(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found is not None
    return float(found.group(1))


def measure(
    *, nodes: int, edges: int, rate: int, size: int, seconds: int, repeats: int, seed: int = 0
) -> dict[str, Any]:
    """Return what a service does under a steady stream of events."""
    with tempfile.TemporaryDirectory() as folder:
        live = dygcn.start(dygcn.fit([(0, 1), (1, 2)], seed=seed).model)
        live.bulk([graph_events(f"power-law-{nodes}-{edges}", seed)])
        live.save(f"{folder}/graph")
        begun = time.perf_counter()
        with served(f"{folder}/graph") as (address, _):
            started = time.perf_counter() - begun
            while httpx.get(f"{address}/status").json()["nearest"]["pending"]:
                time.sleep(0.2)  # the index of neighbours is built after the start
            ingest = Ingest(address, nodes, rate, size, seed)
            ingest.start()
            while len(ingest.waits) < _WARM_UP:  # the first requests compile what is not compiled yet
                time.sleep(0.2)
            time.sleep(2.0)
            ingest.waits.clear()
            quiet_from = time.perf_counter()
            time.sleep(seconds)
            alone, span = np.array(ingest.waits), time.perf_counter() - quiet_from
            ratios, ours, bare = [], [], []
            for _ in range(repeats):
                ours.append(wrk(address, "/vectors", nodes, seconds, folder))
                bare.append(wrk(address, "/bare", nodes, seconds, folder))
                ratios.append(ours[-1] / bare[-1])
            ingest.stop()
            status = httpx.get(f"{address}/status").json()
        everything = np.array(ingest.waits)
    return {
        "nodes": nodes,
        "edges": edges,
        "asked_events_a_second": rate,
        "events_a_second": len(alone) * size / span,
        "request_size": size,
        "p50_ms": float(np.median(alone) * 1e3),
        "p99_ms": float(np.quantile(alone, 0.99) * 1e3),
        "p99_ms_with_reads": float(np.quantile(everything, 0.99) * 1e3),
        "refused": ingest.refused,
        "reads_a_second": float(np.median(ours)),
        "bare_a_second": float(np.median(bare)),
        "ratio": float(np.median(ratios)),
        "start_seconds": started,
        "sequence": status["sequence"],
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
