"""Grow and shrink a cluster while events flow, and measure what waits.

``python -m dygcn_lab.soak.shard_moves [--edges 200000] [--rate 1000] [--on ray]`` goes from 2 to 4 to 8
shards and back on a power-law graph. While slots move, nobody's events are applied: the pause of a slot is
the time that an entry which moves it takes. Writes ``results/shards/moves.json``; the exit code is 1 if the
digest is not that of one process in the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dygcn import cluster
from dygcn.engine.models.model import Model
from dygcn.live.embedding import LiveEmbedding, load, start
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.cluster import ClusterEmbedding
    from dygcn.cluster.messages import Entry

STEPS = 4, 8, 4, 2
_SIZE = 100  # events in a batch


class Moves:
    """A cluster that is used, and whose slots move meanwhile."""

    def __init__(self, live: ClusterEmbedding, nodes: int, rate: float) -> None:
        self.live, self._nodes, self._pause = live, nodes, _SIZE / rate
        self.batches: list[list[list[int]]] = []
        self.waits: list[float] = []  # of batches
        self.pauses: list[float] = []  # of entries that move slots
        self._ending = threading.Event()
        self._follow = live._follow_entry
        live._follow_entry = self._timed  # type: ignore[method-assign]

    def _timed(self, entry: Entry) -> Any:
        begun = time.perf_counter()
        try:
            return self._follow(entry)
        finally:
            self.pauses.append(time.perf_counter() - begun)

    def send(self) -> None:
        """Send events at a rate, until the end."""
        random = np.random.default_rng(7)
        while not self._ending.is_set():
            batch = random.integers(0, self._nodes, (_SIZE, 2)).tolist()
            begun = time.perf_counter()
            self.live.update(add=batch)
            self.batches.append(batch)
            self.waits.append(time.perf_counter() - begun)
            self._ending.wait(max(self._pause - self.waits[-1], 0.0))

    def run(self) -> list[dict[str, Any]]:
        """Go through the steps while events flow; return what each took."""
        sender = threading.Thread(target=self.send)
        sender.start()
        found = []
        for shards in STEPS:
            before, begun = (len(self.pauses), len(self.waits)), time.perf_counter()
            self.live.resize(shards)
            pauses, waits = self.pauses[before[0] :], self.waits[before[1] :]
            found.append(
                {
                    "shards": shards,
                    "seconds": time.perf_counter() - begun,
                    "moves": len(pauses),
                    "longest_pause": max(pauses),
                    "median_pause": float(np.median(pauses)),
                    "batches": len(waits),
                    "longest_wait_of_a_batch": max(waits, default=0.0),
                }
            )
        self._ending.set()
        sender.join()
        return found


def measure(edges: int, rate: float, on: Any, work: Path) -> dict[str, Any]:
    """Return what moving cost, and whether all was right."""
    nodes = edges // 5
    one = start(Model((np.eye(64, dtype=np.float32),) * 3, "int64", "hashed", np.ones(64)))
    one._apply(graph_events(f"power-law-{nodes}-{edges}"), None)
    for name in ("graph", "one"):
        one.save(work / name)
    live = cluster.launch(work / "graph", 2, on=on)
    moves = Moves(live, nodes, rate)
    found = moves.run()
    digest = live.digest()
    live.close()
    return {
        "edges": one.edge_count,
        "on": on,
        "load_average": load_average(),
        "steps": found,
        "batches": len(moves.batches),
        "digest_equal": digest == replayed(load(work / "one"), moves).digest(),
    }


def replayed(one: LiveEmbedding, moves: Moves) -> LiveEmbedding:
    """Apply the same events in one process."""
    for batch in moves.batches:
        one.update(add=batch)
    return one


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--on", choices=("ray", "here"), default="ray")
    parser.add_argument("--out", type=Path, default=Path("results/shards/moves.json"))
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as work:
        found = measure(asked.edges, asked.rate, asked.on, Path(work))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    sys.stdout.write(asked.out.read_text())
    return 0 if found["digest_equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
