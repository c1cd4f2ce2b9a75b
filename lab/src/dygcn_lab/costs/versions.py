"""A checkout beside another one: processor time, calls and bytes of the same work, as ratios.

``python -m dygcn_lab.costs.versions OTHER/src [TURNS]`` runs the tasks below in processes of their own,
the two checkouts by turns, and prints the median ratio of each task. The other needs its kernels compiled.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.events.wire import decode_events

NODES, EDGES, TURNS = 5_000, 40_000, 9


def tasks() -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yield the name of each task, the task, and how many events or reads it has."""
    random = np.random.default_rng(0)
    pairs = random.integers(0, NODES, (EDGES, 2))
    more = [(int(a), int(b)) for a, b in random.integers(0, NODES, (400, 2))]
    for ids in ("int64", "string"):
        table = pairs if ids == "int64" else pairs.astype(str)
        live = dygcn.fit({"src": table[:, 0].tolist(), "dst": table[:, 1].tolist()}, dim=32, progress=False)
        some = more if ids == "int64" else [(str(a), str(b)) for a, b in more]
        yield f"one edge, {ids}", _single(live, some), 2 * len(some)
        yield f"batches of 100 edges, {ids}", _batches(live, some), 2 * len(some)
        yield f"read events, {ids}", _reads(some), 20 * len(some)
        events = json.dumps([{"src": a, "dst": b} for a, b in some]).encode()
        yield f"decode JSON, {ids}", _decodes(events, ids), 20 * len(some)
        yield f"one vector, {ids}", _vectors(live, some), 10 * len(some)
        yield f"nearest, {ids}", _nearest(live, some[:20]), 20


def _single(live: Any, some: list[Any]) -> Callable[[], object]:
    def run() -> None:
        for pair in some:
            live.update(add=[pair])
            live.update(remove=[pair])

    return run


def _batches(live: Any, some: list[Any]) -> Callable[[], object]:
    def run() -> None:
        for begin in range(0, len(some), 100):
            live.update(add=some[begin : begin + 100])
            live.update(remove=some[begin : begin + 100])

    return run


def _reads(some: list[Any]) -> Callable[[], object]:
    return lambda: [read_events(some) for _ in range(20)]


def _decodes(body: bytes, ids: str) -> Callable[[], object]:
    return lambda: [decode_events(body, "json", ids) for _ in range(20)]


def _vectors(live: Any, some: list[Any]) -> Callable[[], object]:
    return lambda: [live.vector(a) for _ in range(10) for a, _ in some if a in live]


def _nearest(live: Any, some: list[Any]) -> Callable[[], object]:
    return lambda: [live.nearest(a) for a, _ in some if a in live]


def stored_bytes() -> dict[str, int]:
    """Return the bytes of a saved folder and of a log, for both types of ids."""
    pairs = np.random.default_rng(0).integers(0, NODES, (EDGES, 2))
    found: dict[str, int] = {}
    for ids in ("int64", "string"):
        table = pairs if ids == "int64" else pairs.astype(str)
        columns = {"src": table[:, 0].tolist(), "dst": table[:, 1].tolist()}
        with tempfile.TemporaryDirectory() as folder:
            live = dygcn.fit(columns, dim=32, progress=False)
            with dygcn.open(f"{folder}/x", live) as durable:
                durable.update({name: values[:1000] for name, values in columns.items()})
            for file in sorted(Path(folder).rglob("*")):
                if file.suffix in (".safetensors", ".sqlite", ".db"):
                    name = f"bytes of {file.suffix[1:]} files, {ids}"
                    found[name] = found.get(name, 0) + file.stat().st_size
    return found


def measure() -> dict[str, float]:
    """Return microseconds of processor time and calls for each event or read, and bytes."""
    found: dict[str, float] = {}
    for name, run, count in tasks():
        run()
        begun = time.process_time()
        run()
        found[f"us: {name}"] = (time.process_time() - begun) / count * 1e6
        found[f"calls: {name}"] = _calls(run) / count
    return found | stored_bytes()


def _calls(run: Callable[[], object]) -> int:
    """Return how many functions are called, compiled ones included: no noise reaches this number."""
    seen = [0]

    def count(frame: object, event: str, argument: object) -> None:
        seen[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen[0]


def compare(other: str, turns: int = TURNS) -> None:
    """Print the median ratio of each task: this checkout over the other one."""
    here = str(Path(dygcn.__file__).parents[1])
    ratios: dict[str, list[float]] = {}
    for _ in range(turns):
        one, two = (in_process(Path(__file__), path) for path in (other, here))
        for name in one:
            ratios.setdefault(name, []).append(two[name] / one[name])
    for name, values in ratios.items():
        low, high = np.percentile(values, [25, 75])
        click.echo(f"{name:36} {statistics.median(values):6.3f}   ({low:.3f} to {high:.3f})")


def in_process(script: Path, source: str, *arguments: str) -> Any:
    """Run a script of this checkout with the package of another one; return the last line, read as JSON."""
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script.resolve()), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compare(sys.argv[1], *map(int, sys.argv[2:3]))
    else:
        click.echo(json.dumps(measure()))
