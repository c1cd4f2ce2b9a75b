"""A power-law graph on shards, a process each, and what they need of memory.

``python -m dygcn_lab.costs.shards_large --nodes 10000000 --edges 100000000 --shards 4 --width 64`` starts
plain processes. Each draws the same pairs from one seed, a part at a time, and keeps those with an own end:
the whole graph is never in one process. Then they exchange the rows of mirrors over files, compute order 2,
and apply some batches. It writes bytes by part, counts, and the memory of the processes to
``results/shards/large.json``. Give ``--folder`` a disk with 250 bytes a node.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np

from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.wire import pack, unpack
from dygcn.engine.graph.constants import FEW
from dygcn.engine.models.model import Model
from dygcn.engine.records import EventBatch, IdColumn
from dygcn_lab.costs.clients import beside
from dygcn_lab.costs.footprint import peak_bytes, resident_bytes
from dygcn_lab.costs.shard_filling import fill
from dygcn_lab.costs.shards import RESULTS
from dygcn_lab.report.blocks import write_json

_PART = 400_000  # pairs that are drawn at once
_BLOCK = 20_000  # rows of mirrors in a message


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked."""

    nodes: int
    edges: int
    shards: int
    width: int
    batches: int
    batch: int
    folder: str
    seed: int = 0


def drawn(plan: Plan, part: int, pairs: int) -> EventBatch:
    """Return pairs whose ends are chosen with chance ~ rank^-0.6, without a table as long as the graph.

    Examples
    --------
    >>> plan = Plan(1000, 5000, 2, 8, 1, 10, "")
    >>> len(drawn(plan, 0, 500))
    500
    """
    random = np.random.default_rng([plan.seed, part])
    ends = (plan.nodes * random.random((2, pairs)) ** 2.5).astype(np.int64)
    return EventBatch(IdColumn(ends[0]), IdColumn(ends[1]), np.ones(pairs, np.int8))


def parts(plan: Plan) -> Iterator[EventBatch]:
    """Yield the pairs of the graph."""
    for part, start in enumerate(range(0, plan.edges, _PART)):
        yield drawn(plan, part, min(_PART, plan.edges - start))


# ---- in the process of a shard -----------------------------------------------------------------------------


def work(pipe: Connection, number: int, plan: Plan) -> None:
    """Be a shard; after each stage the parent says when to go on."""
    weights = (np.eye(plan.width, dtype=np.float32),) * 3
    model = Model(weights, "int64", "hashed", np.ones(plan.width))
    shard, begun = Shard(model, number, SlotMap.even(plan.shards), plan.shards), resident_bytes()
    seconds, peaks = {}, {}
    for name, stage in (("fill", _fill), ("ask", _ask), ("answer", _answer), ("take", _take)):
        since = time.perf_counter()
        stage(shard, plan)
        seconds[name], peaks[name] = time.perf_counter() - since, _peak()
        pipe.send(name)
        pipe.recv()
    since = time.perf_counter()
    for at in range(plan.batches):
        _apply(shard, drawn(plan, 1_000_000 + at, plan.batch), pipe)
    seconds["batches"], peaks["batches"] = time.perf_counter() - since, _peak()
    counted = _counted(shard)
    pipe.send(
        {
            "shard": number,
            "seconds": seconds,
            "bytes": bytes_of(shard),
            "counts": counted,
            "resident_before": begun,
            "resident": resident_bytes(),
            "pss": _pss(),
            "peaks": peaks,
            "peak": max(peaks.values()),
        }
    )


def _fill(shard: Shard, plan: Plan) -> None:
    fill(shard, partial(parts, plan))


def _ask(shard: Shard, plan: Plan) -> None:
    """Write whose rows are wanted, by owner."""
    for other, ids in shard.mirrors().items():
        np.save(_file(plan, "ask", shard.number, other), ids.values)


def _answer(shard: Shard, plan: Plan) -> None:
    """Write the rows that others want."""
    for other in range(plan.shards):
        if other == shard.number:
            continue
        wanted = np.load(_file(plan, "ask", other, shard.number))
        with _file(plan, "rows", shard.number, other).open("wb") as file:
            for start in range(0, len(wanted), _BLOCK):
                body = pack(shard.rows_for(IdColumn(wanted[start : start + _BLOCK])))
                file.write(len(body).to_bytes(8, "little") + body)


def _take(shard: Shard, plan: Plan) -> None:
    """Take the rows of mirrors, and compute order 2."""
    for other in range(plan.shards):
        if other == shard.number:
            continue
        file = _file(plan, "rows", other, shard.number)
        with file.open("rb") as bodies:
            while size := bodies.read(8):
                shard.take_rows(unpack(bodies.read(int.from_bytes(size, "little"))))
        file.unlink()
    shard.rebuild()


def _apply(shard: Shard, batch: EventBatch, pipe: Connection) -> None:
    pipe.send({other: pack(told) for other, told in shard.plan(batch).items()})
    shard.apply({other: unpack(body) for other, body in pipe.recv().items()})


def _file(plan: Plan, kind: str, sender: int, to: int) -> Path:
    return Path(plan.folder) / f"{kind}-{sender}-{to}.npy"


def _counted(shard: Shard) -> dict[str, int]:
    graph, high = shard.graph, shard.graph.ids.high
    count, own = graph.pull.count[:high].astype(np.int64), shard.rule.own[:high] > 0
    return {
        "own": int((own & (graph.here > 0)).sum()),
        "mirrors": int((~own & (graph.here > 0)).sum()),
        "arcs of own": int(count[own].sum()),
        "arcs of mirrors": int(count[~own].sum()),
        "arcs of hubs": int(count[count > FEW].sum()),
        "most": int(count.max()),
        "edges": graph.edge_count,
    }


def bytes_of(shard: Shard) -> dict[str, int]:
    """Return the bytes of a shard's arrays, by part; scratch buffers are left out.

    Examples
    --------
    >>> from dygcn.cluster.shard import Shard
    >>> from dygcn.cluster.slots import SlotMap
    >>> from dygcn.engine.models.model import Model
    >>> model = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
    >>> list(bytes_of(Shard(model, 0, SlotMap.even(2), 2)))
    ['arcs', 'hubs', 'lists', 'ids', 'marks', 'order 1', 'order 2', 'heavy', 'holders']
    """
    graph, rule = shard.graph, shard.rule
    sides = {id(side): side for side in (graph.pull, graph.push)}.values()
    pools = [getattr(side, name) for side in sides for name in ("others", "weights", "times", "counts")]
    parts = () if graph.relations is None else graph.relations._arrays.arrays
    arcs = sum(pool.nbytes for pool in pools) + sum(array.nbytes for array in parts[1:4])
    arcs += sum(array.nbytes for array in parts[0].arrays) if parts else 0
    scratch = rule.place.nbytes + len(rule.place)  # and a mark
    return {
        "arcs": arcs,
        "hubs": sum(array.nbytes for side in sides for array in side._table.arrays),
        "lists": sum(_held(side) for side in sides) - arcs,
        "ids": _held(graph.ids),
        "marks": _held(graph) + scratch + rule.own.nbytes + shard.owner.nbytes,
        "order 1": rule.sums[0].nbytes,
        "order 2": rule.sums[1].nbytes,
        "heavy": rule._heavy.nbytes,
        "holders": sum(
            one.nbytes for one in (shard.subscribers._row, shard.subscribers._counts, shard.subscribers._free)
        ),
    }


def _held(owner: object) -> int:
    """Return the bytes of the arrays that are attributes of an object."""
    return sum(value.nbytes for value in vars(owner).values() if isinstance(value, np.ndarray))


def _peak() -> int:
    """Return the most memory that the process had since the last call."""
    peak = peak_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    return peak


def _pss() -> int:
    """Return the memory of the process, with its share of what it has in common with others."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


# ---- in the parent -----------------------------------------------------------------------------------------


def measure(plan: Plan) -> dict[str, Any]:
    """Run the processes, and return what they found."""
    with ExitStack() as stack:
        pipes = [stack.enter_context(beside(work, number, plan))[1] for number in range(plan.shards)]
        return _joined(*_led(plan, pipes))


def _led(plan: Plan, pipes: list[Connection]) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Lead the processes through all stages, and carry their messages."""
    for _ in range(4):
        names = [pipe.recv() for pipe in pipes]
        sys.stderr.write(f"{names[0]} done\n")
        for pipe in pipes:
            pipe.send(None)
    sent = messages = 0
    for _ in range(plan.batches):
        told = [pipe.recv() for pipe in pipes]
        sent += sum(len(body) for one in told for body in one.values())
        messages += sum(map(len, told))
        for number, pipe in enumerate(pipes):
            pipe.send({other: one[number] for other, one in enumerate(told) if other != number})
    found = [pipe.recv() for pipe in pipes]
    return found, {"bytes an event": sent / (plan.batches * plan.batch), "messages": messages}


def _joined(found: list[dict[str, Any]], carried: dict[str, float]) -> dict[str, Any]:
    total = {name: sum(one[name] for one in found) for name in ("resident", "pss", "peak")}
    peaks = {stage: sum(one["peaks"][stage] for one in found) for stage in found[0]["peaks"]}
    counts = {name: sum(one["counts"][name] for one in found) for name in found[0]["counts"]}
    held = {part: sum(one["bytes"][part] for one in found) for part in found[0]["bytes"]}
    arcs = counts["arcs of own"] + counts["arcs of mirrors"]
    nodes = counts["own"] + counts["mirrors"]
    each = sum(held[part] for part in ("lists", "ids", "marks", "order 1")) / nodes
    return {
        "nodes": counts["own"],
        "mirrors a node": counts["mirrors"] / counts["own"],
        "bytes a node": each + (held["order 2"] + held["holders"]) / counts["own"],
        "bytes a mirror": each,
        "bytes an arc": (held["arcs"] + held["hubs"]) / arcs,
        "held": sum(held.values()),
        **{f"{name} of all": value for name, value in total.items()},
        "peaks of all": peaks,
        "parts": {"bytes": held},
        "counts": counts,
        "processes": found,
        **carried,
    }


@click.command()
@click.option("--nodes", default=1_000_000)
@click.option("--edges", default=10_000_000)
@click.option("--shards", default=4)
@click.option("--width", default=64)
@click.option("--batches", default=20)
@click.option("--batch", default=1_000)
@click.option("--folder", "parent", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "large.json")
def main(parent: Path | None, out: Path, **asked: int) -> None:
    """Measure, and write."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        write_json(asked | measure(Plan(**asked, folder=folder)), out)


if __name__ == "__main__":
    main()
