"""What each kind of features costs, side by side on one graph: bytes, an update, a read; and a whole fit.

Updates and reads are measured with random rows and untrained matrices: they cost the same. A fit runs in a
process of its own.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.events import join_ids, take
from dygcn.engine.features.inputs import RowTable, Walks
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.choices import weight_grid
from dygcn.engine.models.model import Model, order_weights
from dygcn.engine.models.readout import Readout
from dygcn.engine.propagation import ExactRule
from dygcn.engine.records import EventBatch, Nodes
from dygcn.live.embedding import LiveEmbedding, start
from dygcn.live.fitting import fit
from dygcn_lab.costs.footprint import peak_bytes
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import in_a_process, load_average, parts_of, undisturbed
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of
from dygcn_lab.testbed.seeding import own_state

GRAPHS = ("arxiv-coauthor", "as-caida", "power-law-170k-1m")
FITS = (("arxiv-coauthor", "walks"), ("as-733", "walks"), ("as-733", "hashed"), ("power-law-3m-30m", "walks"))
KINDS = ("hashed", "walks")
DIM = 128
_READS, _SINGLES, _BATCHES, _BATCH, _BLOCKS = 2000, 600, 12, 1000, 5


def walks_of(events: EventBatch, dim: int = DIM, orders: int = 2, seed: int = 0) -> LiveEmbedding:
    """Return an embedding at work on a graph, with a random row for every node."""
    live = start(random_walks(events, dim, orders, seed))
    live.update(dataclasses.replace(events, t=None))
    return live


def random_walks(events: EventBatch, dim: int = DIM, orders: int = 2, seed: int = 0) -> Model:
    """Return a walk model with a random row for every node of a graph."""
    ids = IdMap(events.src.kind)
    nodes = ids.intern(join_ids([events.src, events.dst]))
    names = take(join_ids([events.src, events.dst]), np.unique(nodes, return_index=True)[1])
    rows = np.random.default_rng(seed).integers(-30, 31, (len(names), dim)).astype(np.int8)
    grid = weight_grid(events, Walks.message_bits)
    table = RowTable(names, rows, 1.0)
    return Model(order_weights(orders), names.kind, "walks", np.ones(dim), seed, grid=grid, table=table)


def state_bytes(live: LiveEmbedding) -> dict[str, int]:
    """Return bytes a node: sums and degrees, and the rows of the model with their hash table."""
    rule = live._state.exact
    assert isinstance(rule, ExactRule)
    features = rule.features
    rows = 0
    if isinstance(features, Walks):
        rows = sum(array.nbytes for array in features.unit_table(live._state.graph.ids).arrays)
    sums = sum(sums.nbytes for sums in rule.sums)
    return {"sums_bytes": round(sums / len(live)), "table_bytes": round(rows / len(live))}


def measure_kinds(graphs: Sequence[str] = (), *, notify: Notify | None = None) -> dict[str, Any]:
    """Measure updates and reads of both kinds on each graph, by turns; without graphs, fits as well."""
    rows: list[dict[str, Any]] = []
    for name, tell in parts_of(list(graphs or GRAPHS), notify):
        tell(0, 2, "loading the graph")
        events = graph_events(name, 0)
        lives = {"hashed": live_of(events), "walks": walks_of(events)}
        tell(1, 2, "updating and reading")
        rows += _compare(name, lives, events)
    found = [] if graphs else [in_a_process(_fit, *each) for each in FITS]
    return {"kind": "kinds", "load_average": load_average(), "rows": rows, "fits": found}


def _compare(name: str, lives: dict[str, LiveEmbedding], events: EventBatch) -> list[dict[str, Any]]:
    """Take turns, so that a busy minute hits both."""
    times: dict[str, dict[str, list[float]]] = {kind: {} for kind in lives}
    counts: dict[str, float] = {}
    for _ in range(_BLOCKS):
        for kind, live in lives.items():
            for what, values in _block(live, events, counts, kind).items():
                times[kind].setdefault(what, []).extend(values)
    return [
        {
            "graph": name,
            "features": kind,
            "nodes": len(live),
            **state_bytes(live),
            "rows_a_single_edge": counts[kind],
            **{what: 1e6 * float(np.median(values)) for what, values in times[kind].items()},
        }
        for kind, live in lives.items()
    ]


def _block(
    live: LiveEmbedding, events: EventBatch, counts: dict[str, float], kind: str
) -> dict[str, list[float]]:
    traffic = Traffic(live._state.graph, events, 0)
    random = np.random.default_rng(1)
    single, batch, rows = [], [], []
    with undisturbed():
        for there, back in (map(as_users_do, traffic.round(1)) for _ in range(_SINGLES // _BLOCKS)):
            begun = time.perf_counter()
            rows.append(live.update(**there).rows)
            single.append(time.perf_counter() - begun)
            live.update(**back)
        for there, back in (map(as_users_do, traffic.round(_BATCH)) for _ in range(-(-_BATCHES // _BLOCKS))):
            begun = time.perf_counter()
            live.update(**there)
            batch.append((time.perf_counter() - begun) / _BATCH)
            live.update(**back)
        nodes = random.choice(live._state.graph.nodes(), _READS // _BLOCKS)
        readout = Readout(live.model, own_state(live).exact, live._state.graph)
        reads = [_seconds_of_a_read(readout, nodes[i : i + 1]) for i in range(len(nodes))]
        begun = time.perf_counter()
        live._vectors_of(nodes)
        many = [(time.perf_counter() - begun) / len(nodes)]
    counts[kind] = float(np.mean(rows))
    return {"single_us": single, "batch_us_an_event": batch, "read_us": reads, "read_many_us": many}


def _seconds_of_a_read(readout: Readout, node: Nodes) -> float:
    begun = time.perf_counter()
    readout.vectors(node)
    return time.perf_counter() - begun


def _fit(graph: str, features: str) -> dict[str, Any]:
    """Fit in this process, after a small fit."""
    pairs = np.random.default_rng(0).integers(0, 300, (2000, 2))
    fit({"src": pairs[:, 0], "dst": pairs[:, 1], "t": np.arange(2000)}, dim=DIM, steps=8, features=features)
    events = graph_events(graph, 0)
    before = peak_bytes()
    begun, begun_cpu = time.perf_counter(), time.process_time()
    live = fit(events, dim=DIM, features=features)
    table = live.model.table
    return {
        "graph": graph,
        "features": features,
        "nodes": len(live),
        "edges": live.edge_count,
        "window": None if table is None else table.window,
        "rows": 0 if table is None else len(table),
        "heads": sorted(live.model.links),
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - begun_cpu,
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
        "load_average": load_average(),
    }
