"""The paper's close-ups: influenced nodes, one new edge order by order, and the matrices themselves."""

from __future__ import annotations

import dataclasses

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.events import read_events
from dygcn.engine.measures import unit_rows
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.propagation import influence
from dygcn.engine.records import Float32, IdColumn, Int64
from dygcn.paper import RollingRecipe, adopt
from dygcn_lab.evaluation.method import by_number
from dygcn_lab.experiments.cells import Record
from dygcn_lab.experiments.influence import ORDER_NAMES, influenced_by_one_edge, influenced_nodes
from dygcn_lab.experiments.paper_rules import (
    Frames,
    Trained,
    fit_rule,
    graph_at,
    ids_and_vectors,
    train_bases,
)

ORDERS = len(ORDER_NAMES)
FAR_SAMPLE = 300  # nodes drawn of each ring


def influence_records(frames: Frames) -> dict[str, Record]:
    """Return |V_1|..|V_4| of every step, and of a single edge."""
    counts = influenced_nodes(frames, ORDERS)
    figures: dict[str, list[float | None]] = {
        name: [float(count) for count in counts[:, k]] for k, name in enumerate(ORDER_NAMES)
    }
    alone = influenced_by_one_edge(frames, ORDERS)
    notes = {"one_edge": dict(zip(ORDER_NAMES, alone.round(2).tolist(), strict=True)), "nodes": frames.nodes}
    return {"influence": Record(figures, notes=notes)}


def closeup_records(
    frames: Frames, recipe: RollingRecipe, seed: int, notify: Notify | None = None
) -> dict[str, Record]:
    """Fit the rolling rule with K = 4; return its matrices, and what one new edge does order by order."""
    fitted = dataclasses.replace(
        frames, batches=frames.batches[: frames.fitted + 1], moments=frames.moments[: frames.fitted + 1]
    )
    trained = train_bases(fitted, recipe, seed, notify=notify)
    model = fit_rule("rolling", trained, ORDERS, notify)
    kernels = {
        name: matrix.astype(np.float64).round(3).tolist()
        for name, matrix in zip(model.weight_names, model.weights, strict=True)
    }
    return {"kernels": Record({}, notes=kernels), "hops": one_edge(model, trained, frames, seed)}


def one_edge(model: Model, trained: Trained, frames: Frames, seed: int) -> Record:
    """Add one edge of the next step to the last fitted graph, and look after each order."""
    random = np.random.default_rng([seed, 11])
    ids, vectors = trained.at(frames.fitted)
    edge = _next_edge(frames, random)
    stages = [by_number(ids, vectors, frames.nodes)]
    for orders in range(1, ORDERS):
        # An order changes its own nodes only, so a model cut at k stops where the whole one passes.
        state = graph_at(
            dataclasses.replace(model, weights=model.weights[: orders + 1]), frames, frames.fitted
        )
        adopt(state, trained.ids[frames.fitted], trained.tables[frames.fitted], keep=False)
        state.apply(read_events({"src": [edge[0]], "dst": [edge[1]]}))
        stages.append(by_number(*ids_and_vectors(state), frames.nodes))
    rings = _rings(state, edge, random)
    return Record(_closeness(stages, rings, edge), notes=_plane(stages, rings))


def _next_edge(frames: Frames, random: np.random.Generator) -> Int64:
    """Return a new edge of the next step between two nodes of the present graph."""
    now, coming = frames.moments[frames.fitted].edges, frames.moments[frames.fitted + 1]
    here = np.zeros(frames.nodes, np.bool_)
    here[now.ravel()] = True
    known = set(map(tuple, now.tolist()))
    pairs = np.sort(np.stack((coming.src, coming.dst), axis=1)[coming.op > 0], axis=1)
    fresh = [
        pair
        for pair in pairs.tolist()
        if tuple(pair) not in known and here[pair].all() and pair[0] != pair[1]
    ]
    return np.array(fresh[int(random.integers(len(fresh)))], np.int64)


def _rings(state: State, edge: Int64, random: np.random.Generator) -> list[Int64]:
    """Return the ends, their neighbours, nodes two hops away, and some of the rest."""
    graph = state.graph
    ends = graph.find(IdColumn(edge))
    orders = influence(graph, ends, 3).orders
    rest = np.setdiff1d(graph.nodes(), np.concatenate(orders))
    names = [graph.ids.names(nodes.astype(np.int32)).values for nodes in (*orders, rest)]
    return [random.permutation(ring)[:FAR_SAMPLE] for ring in names]


def _closeness(stages: list[Float32], rings: list[Int64], edge: Int64) -> dict[str, list[float | None]]:
    """Return the mean cosine of each ring with the ends, before and after each order."""
    found: dict[str, list[float | None]] = {}
    for name, ring in zip(("ends", "neighbours", "two hops", "further"), rings, strict=True):
        means = []
        for table in stages:
            units = unit_rows(table)
            others = ring if name != "ends" else edge[:1]
            ends = edge if name != "ends" else edge[1:]
            means.append(round(float((units[others] @ units[ends].T).mean()), 5) if len(others) else None)
        found[name] = means
    return found


def _plane(stages: list[Float32], rings: list[Int64]) -> dict[str, list[list[list[float]]]]:
    """Return for each stage and ring the coordinates in the plane of the first stage's main directions."""
    everyone = np.concatenate(rings)
    first = stages[0][everyone].astype(np.float64)
    centre = first.mean(axis=0)
    axes = np.linalg.svd(first - centre, full_matrices=False)[2][:2].T
    return {
        str(order): [((table[ring] - centre) @ axes).round(4).tolist() for ring in rings]
        for order, table in enumerate(stages)
    }
