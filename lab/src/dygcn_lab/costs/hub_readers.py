"""What reader processes meet on graphs with hubs, beside a writer: how often they try again, or ask it.

``python -m dygcn_lab.costs.hub_readers GRAPH... [--write]``: the writer adds and removes edges
whose ends are drawn by degree, at a set rate, in batches of several sizes. One reader process reads single
vectors and batches of vectors meanwhile, of nodes drawn evenly and by degree.

``--http`` compares a service whose nodes pull the messages of hubs with one that pushes them to all: single
vectors of nodes drawn by degree, from a reader process, by turns.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np

from dygcn.live.fitting import fit
from dygcn.live.shared import RowReader, SharedRows
from dygcn_lab.costs.clients import beside
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.hubs import PAGE, READS, Worker, written
from dygcn_lab.costs.service_reads import ASKED, Wrk, reader_of
from dygcn_lab.report.blocks import with_blocks
from dygcn_lab.report.tables import rows_table
from dygcn_lab.testbed.seeding import own_state
from dygcn_lab.testbed.served import served_process

RESULT = Path("results/hubs/readers.json")
HTTP = Path("results/hubs/http.json")
RATE, SECONDS = 10_000, 5.0
_SIZES = 1, 10, 100  # events of a batch
_MANY = 100  # vectors of a read


class _CountedReader(RowReader):
    """A reader that counts its tries."""

    tries = 0

    def _view_of_now(self) -> Any:
        self.tries += 1
        return super()._view_of_now()

    def read(self, names: list[Any], many: bool, seconds: float) -> dict[str, float]:
        """Read for a while, one vector a read or many; count reads, tries, and what the writer was asked."""
        until, reads, again, asked, took = time.perf_counter() + seconds, 0, 0, 0, []
        while (begun := time.perf_counter()) < until:
            at, before = reads * (_MANY if many else 1) % len(names), self.tries
            found = self.vectors(names[at : at + _MANY]) if many else self.vector(names[at])
            took.append(1e6 * (time.perf_counter() - begun))
            reads += 1
            again += self.tries > before + 1
            asked += found is None
        shown = {"median_us": float(np.median(took)), "p99_us": float(np.quantile(took, 0.99))}
        return {"reads": reads, "again": again / reads, "asked": asked / reads, **shown}


def _serve(to: Connection, handle: bytes, names: dict[str, list[Any]]) -> None:
    reader = _CountedReader(handle)
    while True:
        which, many, seconds = to.recv()
        to.send(reader.read(names[which], many, seconds))


def measure(name: str) -> dict[str, Any]:
    """Measure one graph."""
    worker = Worker(name)
    live = worker.live
    rows = SharedRows(own_state(live), lambda: live.version)
    names = {which: [worker.names[node] for node in worker.reads[which].tolist()] for which in READS}
    lines = []
    with beside(_serve, rows.handle(), names) as (_, reader):
        for size, which, many in product((0, *_SIZES), READS, (False, True)):
            reader.send((which, many, SECONDS))
            events, spent = _write_beside(worker, size, reader)
            line = {"batch": size, "nodes": which, "many": many}
            line |= {"events_a_second": events, "writer_busy": spent}
            lines.append(line | reader.recv())
            click.echo(json.dumps(lines[-1]))
    rows.close()
    return {"name": name, "greatest": int(worker.degree.max()), "lines": lines}


def _write_beside(worker: Worker, size: int, until: Connection) -> tuple[float, float]:
    """Write at the set rate while a reader reads; return events a second, and the part of the time spent."""
    begun, events, at, busy = time.perf_counter(), 0, 0, 0.0
    pairs = worker.pairs
    while not until.poll():
        if size == 0:
            time.sleep(0.05)
            continue
        ahead = events / RATE - (time.perf_counter() - begun)
        if ahead > 0:
            time.sleep(ahead)
        some = [pairs[(at + i) % len(pairs)] for i in range(size)]
        before = time.perf_counter()
        worker.live.update(add=some)
        worker.live.update(remove=some)
        busy += time.perf_counter() - before
        events, at = events + 2 * size, at + size
    took = time.perf_counter() - begun
    return events / took, busy / took


def measure_http(name: str, seconds: int = 5, repeats: int = 7) -> dict[str, Any]:
    """Read one vector a request from two services, by turns; return medians, and those of ratios."""
    live = fit(graph_events(name), progress=False)
    ids, degree = live.ids(), np.array([len(live.neighbors(one)) for one in live.ids().tolist()])
    drawn = np.random.default_rng(0).choice(ids, ASKED, p=degree / degree.sum()).tolist()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        wrk, services = Wrk(drawn, folder), {}
        for kind, heavy_from in (("pulled", "128"), ("pushed", "inf")):
            live.save(f"{folder}/{kind}")
            os.environ["DYGCN_HEAVY_FROM"] = heavy_from
            one = stack.enter_context(served_process(Path(folder, kind), readers=1))
            services[kind] = one.address, reader_of(one.pid)
        del os.environ["DYGCN_HEAVY_FROM"]
        rounds = [
            {kind: wrk.run(where[0], seconds, where[1]) for kind, where in services.items()}
            for _ in range(repeats)
        ]
    found: dict[str, Any] = {"name": name, "rounds": rounds}
    for key in ("a_second", "cpu_us", "p99_ms"):
        pairs = [(one["pulled"][key], one["pushed"][key]) for one in rounds]
        found[key] = [statistics.median(side) for side in zip(*pairs, strict=True)]
        found[f"{key}_ratio"] = statistics.median(a / b for a, b in pairs)
    return found


def over_http_line(found: dict[str, Any]) -> str:
    """Return a sentence on reads over HTTP."""
    (pulled, pushed), ratio = found["a_second"], found["a_second_ratio"]
    return (
        f"Over HTTP, from one reader process, vectors of {found['name']}, one a request and drawn by degree: "
        f"{pulled:,.0f} a second, and {pushed:,.0f} where messages are pushed to all (ratio {ratio:.2f}, "
        f"{len(found['rounds'])} turns)."
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table in Markdown."""
    columns = (
        "graph",
        "batches of",
        "events a second",
        "nodes",
        "vectors a read",
        "us, median",
        "p99",
        "again",
    )
    cells = [
        (
            *(row["name"], str(one["batch"] or "no events"), f"{one['events_a_second']:,.0f}", one["nodes"]),
            *(str(_MANY if one["many"] else 1), f"{one['median_us']:,.0f}", f"{one['p99_us']:,.0f}"),
            *(f"{one['again']:.3%}", f"{one['asked']:.3%}"),
        )
        for row in rows
        for one in row["lines"]
    ]
    return rows_table((*columns, "asked"), cells)


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--http", "over_http", is_flag=True, help="Compare services instead.")
@click.option("--write", is_flag=True, help="Replace the rows of these graphs in the committed result.")
def main(names: tuple[str, ...], over_http: bool, write: bool) -> None:
    """Measure graphs, and print what was found."""
    for name in names:
        if over_http:
            compared = measure_http(name)
            click.echo(json.dumps(compared))
            if write:
                HTTP.write_text(json.dumps(compared, indent=1) + "\n")
                PAGE.write_text(with_blocks(PAGE, {"hub http": over_http_line(compared)}))
            continue
        found = measure(name)
        if write:
            rows = written(RESULT, found)
            PAGE.write_text(with_blocks(PAGE, {"hub readers": table(rows)}))


if __name__ == "__main__":
    main()
