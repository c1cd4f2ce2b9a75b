"""What shards cost: messages, bytes and additions an event.

``python -m dygcn_lab.costs.shards [PART ...]`` measures all parts, or those that are named, and writes each
to ``results/shards/PART.json``. Parts are the cases below, and ``flat``: the same counts on graphs of growing
size and of one distribution of degrees. All shards run in this process, one after the other. The capacity
model knows pushed messages alone: what is written for it is measured with DYGCN_HEAVY_FROM=inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from dygcn.cluster.messages import MirrorUpdate
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.wire import pack
from dygcn.engine.events import rows_of, sort_by_time
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch
from dygcn.live.files import digest_of
from dygcn.live.fitting import fit
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.report.blocks import write_json
from dygcn_lab.testbed.shard_digest import digest_of_parts, part_of

WIDTH = 64
SHARDS = (1, 2, 4, 8)
RESULTS = Path("results/shards")
WARM = 10_000  # events in a batch that is not counted
_EACH = "messages", "changes", "first_rows", "bytes"


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, and how its events are cut."""

    dataset: str
    batch: int | None = 1_000  # events; None: a batch is a time step
    counted: float = 1.0  # share of the events, at the end
    half_life: float | None = None
    fitted: bool = False  # rows of walks, fitted on the first half; else features are hashed
    compared: int = 1  # batches between two comparisons with one process


CASES = {
    "as-733": Case("as-733", batch=None),
    "as-733-100": Case("as-733", batch=100, compared=500),
    "as-caida-half-life": Case("as-caida", half_life=4.0, compared=100),
    "as-caida-walks": Case("as-caida", fitted=True, compared=100),
    "arxiv-coauthor": Case("arxiv-coauthor", counted=0.1, compared=100),
    "arxiv-coauthor-100": Case("arxiv-coauthor", batch=100, counted=0.02, compared=1_000),
}


@dataclass
class Counts:
    """What was counted of one number of shards."""

    shards: int
    events: int = 0
    messages: int = 0  # with something in them
    changes: int = 0
    first_rows: int = 0
    bytes: int = 0
    mirrored: int = 0  # pairs of a node that a batch changes and a shard that mirrors it before and after
    rows: list[int] = field(default_factory=list)  # of sums that were added to, by shard

    def count(self, told: MirrorUpdate) -> None:
        """Count a message."""
        if len(told.node) + len(told.new):
            self.messages += 1
            self.changes += len(told.change)
            self.first_rows += len(told.degree)
            self.bytes += len(pack(told))


class Shards:
    """Shards of one graph in this process."""

    def __init__(self, model: Model, shards: int) -> None:
        self.all = [Shard(model, number, SlotMap.even(shards), shards) for number in range(shards)]
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        self.counts = Counts(len(self.all), rows=[0] * len(self.all))

    def apply(self, batch: EventBatch, counted: bool = True) -> None:
        """Apply a batch, and count."""
        told = [shard.plan(batch) for shard in self.all]
        if counted:
            for shard in self.all:
                nodes, after = shard.subscribers_after
                self.counts.mirrored += int(((shard.subscribers.counts(nodes) > 0) & (after > 0)).sum())
        for shard in self.all:
            here = {other: one[shard.number] for other, one in enumerate(told) if other != shard.number}
            rows = shard.apply(here).moved.rows
            self.counts.rows[shard.number] += rows if counted else 0
        if counted:
            for one in told:
                for message in one.values():
                    self.counts.count(message)
            self.counts.events += len(batch)

    def line(self, rows: int) -> dict[str, Any]:
        """Return what was counted beside what one process adds to, in rows.

        The prediction is of messages that are pushed: a node that is heavy in one process may be light on a
        shard, where it has fewer arcs.
        """
        counts, n = self.counts, max(self.counts.events, 1)
        own = sum(len(shard.own_nodes()) for shard in self.all)
        mirrors = sum(len(ids) for shard in self.all for ids in shard.mirrors().values())
        return {
            "shards": counts.shards,
            "events": counts.events,
            **{f"{name}_an_event": getattr(counts, name) / n for name in _EACH},
            "mirrors_a_node": mirrors / max(own, 1),
            "rows_a_shard": sum(counts.rows) / counts.shards,
            "rows_of_the_busiest": max(counts.rows),
            "predicted_rows_a_shard": (rows + counts.mirrored) / counts.shards,
            "rows_of_one_process": rows,
        }

    def digest(self) -> str:
        """Return the digest of all of them."""
        return digest_of_parts(self.all[0].model, [part_of(shard) for shard in self.all])


def new_model(events: EventBatch, half_life: float | None = None) -> Model:
    """Return a hashed model for events."""
    weights = (np.eye(WIDTH, dtype=np.float32),) * 3
    return Model(weights, events.src.kind, "hashed", np.ones(WIDTH), half_life=half_life)


def batches_of(events: EventBatch, size: int | None) -> Iterator[EventBatch]:
    """Cut events into batches of a size, or into time steps."""
    starts = np.arange(0, len(events), size)
    if size is None:
        assert events.t is not None
        starts = np.flatnonzero(np.diff(events.t, prepend=-np.inf))
    for start, stop in pairwise([*starts, len(events)]):
        yield rows_of(events, np.arange(start, stop))


def measure_case(case: Case, shards: Sequence[int] = SHARDS) -> dict[str, Any]:
    """Apply a data set to one process and to shards."""
    events = sort_by_time(graph_events(case.dataset))
    model = new_model(events, case.half_life)
    if case.fitted:
        half = rows_of(events, np.arange(len(events) // 2))
        columns = {"src": half.src.values, "dst": half.dst.values, "op": half.op, "t": half.t}
        model = fit(columns, dim=WIDTH, features="walks", progress=False).model
    state, many = State(model), [Shards(model, count) for count in shards]
    first = len(events) - round(len(events) * case.counted)
    for batch in batches_of(rows_of(events, np.arange(first)), WARM):
        state.apply(batch)
        for one in many:
            one.apply(batch, counted=False)
    rows, compared, same, batches = 0, 0, [True] * len(many), 0
    counted = list(batches_of(rows_of(events, np.arange(first, len(events))), case.batch))
    for batches, batch in enumerate(counted, 1):
        rows += state.apply(batch).moved.rows
        for one in many:
            one.apply(batch)
        if batches % case.compared == 0 or batches == len(counted):
            digest, compared = digest_of(state), compared + 1
            same = [before and one.digest() == digest for before, one in zip(same, many, strict=True)]
    lines = [
        {**one.line(rows), "digest_of_one_process": equal} for one, equal in zip(many, same, strict=True)
    ]
    about = {"batches": batches, "digests_compared": compared, "nodes": len(state.graph)}
    return {**msgspec.to_builtins(case), **about, "edges": state.graph.edge_count, "rows": lines}


def measure_flat(
    nodes: Iterable[int] = (10_000, 40_000, 160_000, 640_000), shards: int = 4
) -> dict[str, Any]:
    """Count the same events on graphs of growing size, ten edges a node, and of one law of degrees."""
    lines, degree, churn = [], 10, 20_000
    for size in nodes:
        events = graph_events(f"steady-{size}-{degree * size}")
        random, first = np.random.default_rng(1), len(events) - churn // 2
        state, many = State(new_model(events)), Shards(new_model(events), shards)
        for batch in batches_of(rows_of(events, np.arange(first)), WARM):
            state.apply(batch)
            many.apply(batch, counted=False)
        gone = rows_of(events, np.sort(random.choice(first, churn // 2, replace=False)))
        gone.op[:] = -1
        rows = 0
        for come, go in zip(
            batches_of(rows_of(events, np.arange(first, len(events))), 500),
            batches_of(gone, 500),
            strict=True,
        ):
            for batch in (come, go):
                rows += state.apply(batch).moved.rows
                many.apply(batch)
        same = many.digest() == digest_of(state)
        lines.append(
            {"nodes": size, "edges": degree * size, **many.line(rows), "digest_of_one_process": same}
        )
    return {"batch": 500, "rows": lines}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*CASES, "flat"]))
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
def main(parts: tuple[str, ...], out: Path) -> None:
    """Measure parts, and write them."""
    for name in parts or (*CASES, "flat"):
        write_json(measure_flat() if name == "flat" else measure_case(CASES[name]), out / f"{name}.json")


if __name__ == "__main__":
    main()
