"""How soon a service that was killed answers again: a million edges, and a log behind the snapshot."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

import dygcn
from dygcn.engine.events import read_events
from dygcn.live.durable.embedding import SNAPSHOT_EVERY
from dygcn.live.durable.source_batch import SourceBatch
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.soak.check import Check, Found
from dygcn_lab.testbed.served import served_process

_EACH = 1_000  # events of a batch
_REPEATS = 3
_ALLOWED = 5.0  # seconds


def look(size: int, seed: int) -> Found:
    """Restart a service on so many edges, with as many events in the log as there may be."""
    nodes, behind = size // 5, min(SNAPSHOT_EVERY, size // 2) - _EACH
    with tempfile.TemporaryDirectory() as name:
        folder = f"{name}/live"
        live = dygcn.start(dygcn.fit([(0, 1), (1, 2)], seed=seed).model)
        live.bulk([graph_events(f"power-law-{nodes}-{size}", seed)])
        with dygcn.open(folder, live) as durable:
            random = np.random.default_rng(seed)
            for _ in range(behind // _EACH):
                ends = random.integers(0, nodes, (_EACH, 2))
                op = random.choice([1, 1, -1], _EACH)
                batch = read_events({"src": ends[:, 0], "dst": ends[:, 1], "op": op})
                durable._ingest([SourceBatch(batch)])
            digest, sequence = durable.digest(), durable.sequence
            durable._let_go()  # as if it were killed: no snapshot is written
        first = str(int(ends[0, 0]))
        took = [_restart(folder, first, sequence) for _ in range(_REPEATS)]
        with dygcn.open(folder) as again:
            same = again.digest() == digest
    median = float(np.median(took))
    figures = {"seconds": took, "median": median, "events_behind": behind}
    what = f"killed and started again, {behind:,} events behind the snapshot; until a vector is read"
    return Found(size, int(not same), figures=figures, holds=median <= _ALLOWED, what=what)


def _restart(folder: str, node: str, sequence: int) -> float:
    """Start, read a vector, kill; return how long it took from the start to the answer."""
    begun = time.perf_counter()
    with served_process(Path(folder)) as one:
        answer = httpx.get(f"{one.address}/v1/vectors/{node}", timeout=60.0)
        took = time.perf_counter() - begun
    assert answer.json()["sequence"] == sequence, answer.text
    return took


CHECK = Check("restart", 20_000, 1_000_000, "a restart takes seconds", "", "", look)
