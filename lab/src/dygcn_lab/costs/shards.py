"""What shards cost: messages, bytes and additions an event, and one shard beside one process.

``python -m dygcn_lab.costs.shards DATASET [--batch 1000] [--shards 1 2 4 8]`` prints a line for each number
of shards, and whether all of them together have the digest of one process. All shards run in this process,
one after the other: what is measured are counts, and for one shard the ratio of two times in one run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dygcn.cluster.digest import digest_of_parts, part_of
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.wire import pack
from dygcn.datasets import events_by_name
from dygcn.engine.events import read_events, rows_of, sort_by_time
from dygcn.engine.models import Model, State
from dygcn.live.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.cluster.messages import Forward
    from dygcn.engine.records import EventBatch

WIDTH = 64


@dataclass
class Counts:
    """What was counted of one number of shards."""

    shards: int
    events: int = 0
    messages: int = 0  # with something in them
    changes: int = 0
    first_rows: int = 0
    bytes: int = 0
    rows: list[int] = field(default_factory=list)  # of sums that were added to, by shard
    seconds: list[float] = field(default_factory=list)  # of batches, all shards one after the other

    def count(self, told: Forward) -> None:
        """Count a message."""
        if len(told):
            self.messages += 1
            self.changes += len(told.change)
            self.first_rows += len(told.degree)
            self.bytes += len(pack(told))


class Shards:
    """Shards of one graph in this process."""

    def __init__(self, model: Model, shards: int) -> None:
        self.all = [Shard(model, number, SlotMap.even(shards), shards) for number in range(shards)]
        self.counts = Counts(shards, rows=[0] * shards)

    def apply(self, batch: EventBatch) -> None:
        """Apply a batch, and count."""
        begun = time.perf_counter()
        told = [shard.settle(batch) for shard in self.all]
        for shard in self.all:
            here = {other: one[shard.number] for other, one in enumerate(told) if other != shard.number}
            self.counts.rows[shard.number] += shard.spread(here).moved.rows
        self.counts.seconds.append(time.perf_counter() - begun)
        for one in told:
            for message in one.values():
                self.counts.count(message)
        self.counts.events += len(batch)

    def footprint(self) -> dict[str, float]:
        """Return how many own nodes, mirrors and arcs there are, and bytes of sums and arcs."""
        own = sum(len(shard.own_nodes()) for shard in self.all)
        mirrors = sum(len(ids) for shard in self.all for ids in shard.mirrors().values())
        arcs = sum(int(shard.graph.pull.count.sum()) for shard in self.all)
        sums = sum(one.nbytes for shard in self.all for one in shard.rule.sums)
        lists = sum(shard.graph.pull.others.nbytes + shard.graph.pull.weights.nbytes for shard in self.all)
        return {"own": own, "mirrors": mirrors, "arcs": arcs, "bytes of sums": sums, "bytes of arcs": lists}

    def digest(self) -> str:
        """Return the digest of all of them."""
        return digest_of_parts(self.all[0].model, [part_of(shard) for shard in self.all])


def new_model(batch: EventBatch, half_life: float | None) -> Model:
    """Return a hashed model for events."""
    weights = (np.eye(WIDTH, dtype=np.float32),) * 3
    return Model(weights, batch.src.kind, "hashed", np.ones(WIDTH), half_life=half_life)


def batches_of(events: EventBatch, size: int) -> Iterator[EventBatch]:
    """Cut events."""
    for start in range(0, len(events), size):
        yield rows_of(events, np.arange(start, min(start + size, len(events))))


def measure(
    name: str, size: int, shards: list[int], half_life: float | None, share: float
) -> dict[str, object]:
    """Apply a data set to one process and to shards; the last share of the events is counted."""
    events = sort_by_time(read_events(events_by_name(name)))
    model = new_model(events, half_life)
    state, many = State(model), [Shards(model, count) for count in shards]
    warm = int(len(events) * (1 - share))
    for batch in batches_of(rows_of(events, np.arange(warm)), 10_000):
        state.apply(batch)
        for one in many:
            one.apply(batch)
    for one in many:
        one.counts = Counts(one.counts.shards, rows=[0] * one.counts.shards)
    alone, rows = [], 0
    for batch in batches_of(rows_of(events, np.arange(warm, len(events))), size):
        begun = time.perf_counter()
        rows += state.apply(batch).moved.rows
        alone.append(time.perf_counter() - begun)
        for one in many:
            one.apply(batch)
    digest = digest_of(state)
    return {
        "dataset": name,
        "batch": size,
        "rows of one process": rows,
        "shards": [_line(one, alone, one.digest() == digest) for one in many],
    }


def _line(one: Shards, alone: list[float], same: bool) -> dict[str, object]:
    counts = one.counts
    ratio = statistics.median(b / a for a, b in zip(alone, counts.seconds, strict=True))
    each = {
        name: getattr(counts, name) / counts.events for name in ("messages", "changes", "first_rows", "bytes")
    }
    return {
        "shards": counts.shards,
        "digest of one process": same,
        **{f"{name} an event": round(value, 3) for name, value in each.items()},
        "rows by shard": counts.rows,
        "time of one process": round(ratio, 3),
        **one.footprint(),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--half-life", type=float, default=None)
    parser.add_argument("--share", type=float, default=0.3)
    asked = parser.parse_args(arguments)
    found = measure(asked.dataset, asked.batch, asked.shards, asked.half_life, asked.share)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n")


if __name__ == "__main__":
    main()
