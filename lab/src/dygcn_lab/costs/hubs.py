"""What events and reads cost on graphs with hubs: this engine, the same without tiers, another checkout.

``python -m dygcn_lab.costs.hubs GRAPH... [--other CHECKOUT] [--write]`` runs each engine in a process of its
own, with the default kind of model, and lets them take turns: the same events, then the same reads. The other
checkout needs its kernels compiled. ``--counts`` counts rows alone, in one process, with narrow vectors: for
graphs that fit the memory once, and not three times.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

import dygcn
from dygcn.engine.events import id_column
from dygcn.engine.models.readout import Readout
from dygcn_lab.costs.graphs import _pairs_by_chance, distinct_edges, graph_events
from dygcn_lab.costs.kinds import random_walks
from dygcn_lab.report.blocks import with_blocks
from dygcn_lab.report.tables import rows_table
from dygcn_lab.testbed.seeding import own_state

RESULT, PAGE = Path("results/hubs/hubs.json"), Path("docs/scale.md")
HUBS = "hubs"  # the name of a random graph with greater hubs than a power law of `graphs` has
_STEEP = 0.75  # chance of a node ~ rank^-0.75: of 1 M nodes and 8 M edges the first has about 100,000
_TURNS, _SINGLES, _BATCH, _BATCHES = 10, 200, 10_000, 5
_READS, _GREATEST = 2_000, 50
_NARROW = 16
COUNTS = Path("results/hubs/counts.json")
READS = "uniform", "by degree", "greatest"


def events_of(name: str) -> Any:
    """Return the events of a graph: ``hubs-1000000-8000000``, or a name that `graph_events` knows."""
    if not name.startswith(HUBS):
        return graph_events(name)
    nodes, edges = map(int, name.split("-")[1:])
    return distinct_edges(
        *_pairs_by_chance(np.arange(1.0, nodes + 1) ** -_STEEP, int(1.6 * edges), 0, 0), edges
    )


def _there_and_back(edge: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"add": [edge]}, {"remove": [edge]}]


class Worker:
    """One engine at work on one graph, asked over standard input."""

    def __init__(self, name: str, dim: int = 128) -> None:
        events = events_of(name)
        self.live = dygcn.start(random_walks(events, dim))
        self.live.update(dataclasses.replace(events, t=None))
        graph = self.live._state.graph
        self.degree = np.maximum(graph.pull.count, graph.push.count)[: graph.ids.high].astype(np.int64)
        self.names = graph.ids.shown(graph.ids.names(np.arange(graph.ids.high, dtype=np.int32))).tolist()
        random = np.random.default_rng(1)
        self.pairs = self._pairs(random)
        nodes = np.flatnonzero(self.degree).astype(np.int32)
        self.reads = {
            "uniform": random.choice(nodes, _READS),
            "by degree": random.choice(nodes, _READS, p=self.degree[nodes] / self.degree.sum()),
            "greatest": np.resize(np.argsort(-self.degree)[:_GREATEST], _READS).astype(np.int32),
        }

    def _pairs(self, random: np.random.Generator) -> list[tuple[Any, Any]]:
        """Draw pairs that are no edges, both ends by degree."""
        count = _TURNS * _SINGLES + _BATCHES * _BATCH
        ends = random.choice(len(self.degree), (4 * count, 2), p=self.degree / self.degree.sum())
        ends = ends[ends[:, 0] != ends[:, 1]].astype(np.int32)
        ends = ends[self.live._state.graph.pull.look_up(ends[:, 0], ends[:, 1]) == 0]
        ends = ends[np.unique(np.sort(ends, axis=1), axis=0, return_index=True)[1]]
        ends = random.permutation(ends)[:count]
        return [(self.names[a], self.names[b]) for a, b in ends.tolist()]

    def singles(self, turn: int) -> dict[str, Any]:
        """Add edges one by one, and take them away again."""
        microseconds, rows = [], []
        for pair in self.pairs[turn * _SINGLES : (turn + 1) * _SINGLES]:
            for change in _there_and_back(pair):
                begun = time.perf_counter()
                done = self.live.update(**change)
                microseconds.append(1e6 * (time.perf_counter() - begun))
                rows.append(done.rows)
                del done
        return {"us": microseconds, "rows": rows}

    def expected_rows(self) -> float:
        """Return how many rows the same events would add to if every message was pushed to all neighbours."""
        ends = self.live._state.graph.find(
            id_column([end for pair in self.pairs[: _TURNS * _SINGLES] for end in pair])
        )
        return 2.0 + 2.0 * float(self.degree[ends].mean())

    def batch(self, turn: int) -> dict[str, Any]:
        """Add a batch of edges, and take it away again."""
        start = (_TURNS * _SINGLES + turn * _BATCH) % max(len(self.pairs) - _BATCH, 1)
        some = self.pairs[start : start + _BATCH]
        columns = {"src": [a for a, _ in some], "dst": [b for _, b in some]}
        begun = time.process_time()
        for op in (1, -1):
            self.live.update({**columns, "op": [op] * len(some)})
        return {"us": 1e6 * (time.process_time() - begun) / 2 / len(some)}

    def read(self, which: str) -> dict[str, Any]:
        """Read vectors, without a cache."""
        state, nodes = own_state(self.live), self.reads[which]
        reading = Readout(state.model, state.exact, state.graph)
        begun = time.perf_counter()
        vectors = reading.vectors(nodes)
        took = time.perf_counter() - begun
        return {"us": 1e6 * took / len(nodes), "sum": float(np.abs(vectors).sum(dtype=np.float64))}

    def read_each(self) -> dict[str, Any]:
        """Read vectors one by one, as a dict is read."""
        names = [self.names[node] for node in self.reads["uniform"].tolist()]
        self.live._cached().forget()
        begun = time.perf_counter()
        for name in names:
            self.live[name]
        return {"us": 1e6 * (time.perf_counter() - begun) / len(names)}

    def toggles(self) -> dict[str, Any]:
        """Toggle one edge at each boundary of the tiers up to the greatest hub, and away from it."""
        live, found, bound = self.live, [], 128
        while bound <= self.degree.max():
            hub = int(np.argmin(np.abs(self.degree - bound * 1.0)))
            there = set(live._state.graph.pull.arcs(np.array([hub], np.int32))[1].tolist()) | {hub}
            light = [node for node in np.flatnonzero(self.degree == 2).tolist() if node not in there]
            if abs(self.degree[hub] - bound) <= min(bound // 4, len(light) - 2):
                missing = int(bound - 1 - self.degree[hub])
                ends = light[:missing] if missing > 0 else list(there - {hub})[:-missing]
                edges = [(self.names[hub], self.names[node]) for node in ends]
                ways = ("add", "remove") if missing > 0 else ("remove", "add")
                edge = self.names[hub], self.names[light[-1]]
                took = []
                for way in ways:
                    live.update(**{way: edges})  # type: ignore[arg-type]
                    took.append(self._toggled(edge))
                at, usual = took
                found.append({"bound": bound, "mean": np.mean(at), "most": max(at), "usual": np.mean(usual)})
            bound *= 2
        return {"found": found}

    def _toggled(self, edge: tuple[Any, Any]) -> list[float]:
        """Return the microseconds of an edge that comes and goes a hundred times."""
        took = []
        for change in 100 * _there_and_back(edge):
            begun = time.perf_counter()
            self.live.update(**change)
            took.append(1e6 * (time.perf_counter() - begun))
        return took

    def about(self) -> dict[str, Any]:
        """Return sizes, and a digest."""
        graph, rule = self.live._state.graph, own_state(self.live).exact
        arcs = [graph.pull, graph.push][: 2 if graph.directed else 1]
        names = ("start", "count", "_room", "others", "weights", "_hub", "upper")
        held = [getattr(each, name).nbytes for each in arcs for name in names if hasattr(each, name)]
        heavy = getattr(rule, "_heavy", None)
        held += [each.nbytes for each in rule.sums] + [0 if heavy is None else heavy.nbytes]
        tiers = getattr(graph, "tiers", np.zeros(0, np.int8))
        return {
            "nodes": len(graph),
            "edges": graph.edge_count,
            "greatest": int(self.degree.max()),
            "heavy": int((tiers > 0).sum()),
            "bytes_per_node": (sum(held) + tiers.nbytes) / len(graph),
            "digest": self.live.digest(),
        }


def serve(name: str) -> None:
    """Answer requests, one a line, until there are no more."""
    worker = Worker(name)
    print(json.dumps("ready"), flush=True)  # noqa: T201
    for line in sys.stdin:
        call, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, call)(*arguments), default=float), flush=True)  # noqa: T201


class _Engine:
    def __init__(self, name: str, heavy_from: str, checkout: Path | None) -> None:
        environment = {**os.environ, "DYGCN_HEAVY_FROM": heavy_from, "DYGCN_THREADS": "1"}
        if checkout is not None:
            environment["PYTHONPATH"] = f"{checkout}/src:{checkout}/lab/src"
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            cwd="/",
        )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, *request: object) -> Any:
        """Have the engine do something, and return what it says."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def measure(name: str, other: Path | None) -> dict[str, Any]:
    """Measure one graph with each engine, by turns."""
    engines = {"tiers": _Engine(name, "128", None), "pushed": _Engine(name, "inf", None)}
    if other is not None:
        engines["before"] = _Engine(name, "inf", other)
    found: dict[str, dict[str, Any]] = {key: engine.ask("about") for key, engine in engines.items()}

    def by_turns(count: int, call: str, *arguments: object, numbered: bool = False) -> dict[str, list[Any]]:
        answers: dict[str, list[Any]] = {key: [] for key in engines}
        for turn in range(count):
            for key, engine in engines.items():
                answers[key].append(engine.ask(call, *arguments, *([turn] if numbered else [])))
        return answers

    singles = by_turns(_TURNS, "singles", numbered=True)
    batches = by_turns(_BATCHES, "batch", numbered=True)
    for key in engines:
        us, rows = (np.concatenate([one[what] for one in singles[key]]) for what in ("us", "rows"))
        of_batches = [one["us"] for one in batches[key]]
        found[key] |= {
            "event_us": float(np.mean(us)),
            "event_median_us": float(np.median(us)),
            "event_p99_us": float(np.quantile(us, 0.99)),
            "rows": float(np.mean(rows)),
            "rows_p99": float(np.quantile(rows, 0.99)),
            "rows_most": int(rows.max()),
            "batch_event_us": float(np.median(of_batches)),
            "batches": of_batches,
        }
    for which in READS:
        reads = by_turns(_TURNS, "read", which)
        if len({one["sum"] for answers in reads.values() for one in answers}) > 1:
            raise SystemExit(f"{name}: engines read other vectors")
        for key, answers in reads.items():
            found[key][f"read_{which.replace(' ', '_')}_us"] = _median_us(answers)
    for key, answers in by_turns(_TURNS, "read_each").items():
        found[key]["read_each_us"] = _median_us(answers)
    if len({each["digest"] for each in found.values()}) > 1:
        raise SystemExit(f"{name}: engines have other digests")
    found["tiers"]["toggles"] = engines["tiers"].ask("toggles")["found"]
    for engine in engines.values():
        engine.end()
    return {"name": name, **found}


def _median_us(answers: list[Any]) -> float:
    return float(np.median([one["us"] for one in answers]))


def count(name: str) -> dict[str, Any]:
    """Count the rows that single events add to, and the messages that a read pulls."""
    worker = Worker(name, _NARROW)
    rows = np.array([row for turn in range(_TURNS) for row in worker.singles(turn)["rows"]])
    graph = worker.live._state.graph
    pulled = {which: graph.pull.upper[nodes] for which, nodes in worker.reads.items()}
    found: dict[str, Any] = {"name": name, "nodes": len(graph), "edges": graph.edge_count}
    found |= {"greatest": int(worker.degree.max()), "dim": _NARROW, "rows": float(rows.mean())}
    found |= {"rows_p99": float(np.quantile(rows, 0.99)), "rows_most": int(rows.max())}
    found |= {"pushed_to_all": float(worker.expected_rows())}
    return found | {"pulled": {which: [float(one.mean()), int(one.max())] for which, one in pulled.items()}}


def counts_table(lines: list[dict[str, Any]]) -> str:
    """Return a table in Markdown: rows an event, and messages that a read pulls."""
    columns = (
        *(
            "graph, greatest hub",
            "rows an event, if pushed to all",
            "rows an event",
            "99th percentile",
            "most",
        ),
        *("messages pulled by a read: nodes drawn evenly, most", "by degree, most"),
    )
    rows = []
    for one in lines:
        cells = f"{one['name']}, {one['greatest']:,}", f"{one['pushed_to_all']:,.0f}", f"{one['rows']:,.0f}"
        most = f"{one['rows_p99']:,.0f}", f"{one['rows_most']:,}"
        pulled = (f"{mean:,.1f}, {top:,}" for mean, top in map(one["pulled"].get, READS[:2]))
        rows.append([*cells, *most, *pulled])
    return rows_table(columns, rows)


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table in Markdown: this engine, the same pushing to all, the one before."""
    lines = []
    for row in rows:
        name, hub = row["name"], f"{row['tiers']['greatest']:,}"
        for key, what in _SHOWN.items():
            found = [row.get(engine, {}).get(key) for engine in ("tiers", "pushed", "before")]
            lines.append([name, hub, what, *("" if one is None else f"{one:,.1f}" for one in found)])
            name = hub = ""
        toggles = row["tiers"].get("toggles", [])
        for key, what in (("mean", "mean"), ("most", "greatest")) if toggles else ():
            ratios = "; ".join(f"{one['bound']:,}: {one[key] / one['usual']:.1f}" for one in toggles)
            says = f"one edge comes and goes at a bound of a tier, {what} us over the usual mean"
            lines.append(["", "", says, ratios, "", ""])
    columns = "graph", "greatest hub", "what", "with tiers", "pushed to all", "engine before tiers"
    return rows_table(columns, lines)


_SHOWN = {
    "rows": "rows added to, an event",
    "rows_most": "the most rows added to by one event",
    "event_us": "us an event, mean",
    "event_median_us": "us an event, median",
    "event_p99_us": "us an event, 99th percentile",
    "batch_event_us": "us an event, batches of 10,000",
    "read_uniform_us": "us a vector, nodes drawn evenly",
    "read_by_degree_us": "us a vector, nodes drawn by degree",
    "read_greatest_us": "us a vector, the 50 greatest hubs",
    "read_each_us": "us a vector, `live[id]` one by one",
    "bytes_per_node": "bytes a node, arcs and sums",
}


def written(path: Path, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Replace the rows of one graph in a committed result; return all."""
    rows = json.loads(path.read_text()) if path.exists() else []
    rows = [row for row in rows if row["name"] != found["name"]] + [found]
    path.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--other", type=click.Path(path_type=Path), help="Another checkout, compiled.")
@click.option("--serve", "served", is_flag=True, hidden=True)
@click.option("--counts", is_flag=True, help="Count rows alone.")
@click.option("--write", is_flag=True, help="Replace the rows of these graphs in the committed result.")
def main(names: tuple[str, ...], other: Path | None, served: bool, counts: bool, write: bool) -> None:
    """Measure graphs, and print what was found."""
    if served:
        serve(names[0])
        return
    for name in names:
        found = count(name) if counts else measure(name, other)
        click.echo(json.dumps(found, indent=1))
        if write:
            block, file, make = ("hub counts", COUNTS, counts_table) if counts else ("hubs", RESULT, table)
            PAGE.write_text(with_blocks(PAGE, {block: make(written(file, found))}))


if __name__ == "__main__":
    main()
