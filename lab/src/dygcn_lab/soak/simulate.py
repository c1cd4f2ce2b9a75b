"""Run clusters on simulated machines, one for each seed.

``python -m dygcn_lab.soak.simulate FIRST END [--out FILE] [--every 1000]`` runs seeds FIRST to END - 1 in
this process, prints a line of JSON now and then and in the end, and with ``--out`` appends the last one to a
file. The exit code is 1 if a run ended wrong. Several processes can share a range between them.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dygcn_lab.testbed.simulated_cluster import SimulatedCluster


@dataclass
class Seeds:
    """What runs of a range of seeds came to."""

    first: int
    end: int
    runs: int = 0
    entries: int = 0
    messages: int = 0
    bytes: int = 0
    crashes: int = 0
    moves: int = 0
    reads: int = 0
    seconds: float = 0.0
    wrong: dict[int, list[str]] = field(default_factory=dict)

    def run(self, seed: int) -> None:
        """Run a seed."""
        run = SimulatedCluster(seed)
        try:
            run.run()
        except Exception as error:  # any, since the range has to be finished
            run.wrong.append(f"{type(error).__name__}: {error}")
        self.runs += 1
        self.entries += run.log.end
        self.messages += run.messages
        self.bytes += run.bytes
        self.crashes += run.crashes
        self.moves += run.moves
        self.reads += run.reads
        if run.wrong:
            self.wrong[seed] = run.wrong

    def line(self) -> str:
        """Return everything as a line of JSON."""
        return msgspec.json.encode(self).decode() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run seeds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--every", type=int, default=1_000)
    asked = parser.parse_args(arguments)
    seeds, begun = Seeds(asked.first, asked.end), time.perf_counter()
    for seed in range(asked.first, asked.end):
        seeds.run(seed)
        seeds.seconds = round(time.perf_counter() - begun, 1)
        if seed in seeds.wrong or seeds.runs % asked.every == 0:
            sys.stdout.write(f"seed {seed}: {seeds.line()}")
            sys.stdout.flush()
    sys.stdout.write(seeds.line())
    if asked.out is not None:
        with asked.out.open("a") as file:
            file.write(seeds.line())
    return 1 if seeds.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
