"""Snapshots of a graph with the plans between them, and bases: the vectors Z that are rolled forward.

Snapshots and plans depend on no vector, so both are taken once while the events are played.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float32, IdColumn, Int64, Nodes, Progress
from dygcn.errors import OptionError
from dygcn.paper import equations
from dygcn.paper.equations import NumpyArrays
from dygcn.paper.options import Base, BaseRecipe
from dygcn.paper.plans import Mix, Plan, layer_mix
from dygcn.paper.rolling import RollingRule


@dataclass(frozen=True, slots=True)
class GraphSnapshot:
    """A graph as input of a static base. Positions are indices into `nodes`."""

    nodes: Nodes  # (n,) internal ids, in the order of the user's ids
    mix: Mix  # (n) A^ = A + I, or its mean, as sums over positions
    degree: Int64  # (n,) neighbours, in either direction
    pairs: Int64  # (e, 2) positions of the ends of every edge
    classes: Int64 | None = None  # (n,) label of each node, -1 where it has none

    @property
    def linked(self) -> Int64:
        """Positions of the nodes with an edge, from which negatives are drawn."""
        return np.flatnonzero(self.degree)


@dataclass(frozen=True, slots=True)
class PlayedHistory:
    """Snapshots at the end of each step, and for each but the first the plan that led to it."""

    snapshots: tuple[GraphSnapshot, ...]
    plans: tuple[Plan, ...]  # plans[i] leads from snapshots[i] to snapshots[i + 1]
    high: int  # internal ids are below this
    graph: Graph  # at the end


@dataclass(frozen=True, slots=True)
class Labels:
    """Classes of some nodes, for a task loss with or without the paper's."""

    ids: IdColumn  # (n,)
    classes: Int64  # (n,) from 0 on


def snapshot_of(graph: Graph, aggregation: str, labels: Labels | None = None) -> GraphSnapshot:
    """Return a snapshot of the current graph."""
    nodes = graph.nodes()
    place = np.full(graph.ids.high, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    a, b, weight = graph.edges()
    real = weight > 0
    pairs = np.stack((place[a[real]], place[b[real]]), axis=1)
    if not graph.directed:
        pairs.sort(axis=1)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]  # places of storage must not decide what is drawn
    degree = graph.pull.count[nodes].astype(np.int64)
    if graph.directed:
        degree += graph.push.count[nodes]
    classes = None
    if labels is not None:
        classes = np.full(len(nodes), -1, np.int64)
        found = graph.find(labels.ids)
        classes[place[found[found >= 0]]] = labels.classes[found >= 0]
    return GraphSnapshot(nodes, layer_mix(graph, nodes, aggregation), degree, pairs, classes)


def play(
    model: Model, steps: Sequence[EventBatch], base_aggregation: str, labels: Labels | None = None
) -> Iterator[tuple[Graph, GraphSnapshot, Plan | None]]:
    """Play the events; yield (graph, snapshot, plan that led to it), the first without a plan."""
    graph, rule = model.new_graph(), model.new_rule()
    assert isinstance(rule, RollingRule)
    for i, step in enumerate(steps):
        delta = apply_batch(graph, step)
        plan = rule.plan(graph, delta) if i else None
        yield graph, snapshot_of(graph, base_aggregation, labels), plan
        graph.release(delta.left)


def play_history(
    model: Model,
    steps: Sequence[EventBatch],
    base_aggregation: str,
    labels: Labels | None = None,
    progress: Progress | None = None,
) -> PlayedHistory:
    """Play the events through a graph, to the end."""
    snapshots, plans = [], []
    for i, (now, snapshot, plan) in enumerate(play(model, steps, base_aggregation, labels)):
        graph = now
        snapshots.append(snapshot)
        if plan is not None:
            plans.append(plan)
        if progress is not None:
            progress(i + 1, len(steps), "playing events")
    return PlayedHistory(tuple(snapshots), tuple(plans), graph.ids.high, graph)


# ---- bases -------------------------------------------------------------------------------------------------


def fit_base(
    snapshots: Sequence[GraphSnapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    last: Base | None = None,
    progress: Progress | None = None,
) -> Base:
    """Train the paper's GCN on snapshots; start from the last base's matrices if the recipe is warm."""
    training, wanted, start = importlib.import_module("dygcn.paper.training"), recipe, None  # it needs torch
    if last is not None and recipe.warm:
        wanted, start = dataclasses.replace(recipe, epochs=recipe.warm), last.tensors
    tensors = training.fit_gcn(snapshots, dim, wanted, seed, start, progress)
    return Base("gcn", recipe if last is None else last.recipe, tensors)


def base_vectors(base: Base, snapshot: GraphSnapshot) -> Float32:
    """Return the GCN's vectors of a snapshot's nodes, without torch: the same equation on NumPy."""
    recipe, weights = base.recipe, (base.tensors["in"], base.tensors["out"])
    degree = degree_features(snapshot, len(weights[0]))
    z = equations.gcn(NumpyArrays(), snapshot.mix, degree, weights, recipe.output)
    vectors: Float32 = NumpyArrays().bounded(z).astype(np.float32)
    if recipe.unit:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return vectors


def degree_features(snapshot: GraphSnapshot, degrees: int) -> Nodes:
    """Return the one-hot index of each node's degree; degrees above the greatest known count as it."""
    return np.minimum(snapshot.degree, degrees - 1).astype(np.int32)


def keep_last(snapshots: Sequence[GraphSnapshot], tables: list[Float32]) -> list[Float32]:
    """Keep the last vector of a node that lost its edges, since a base has no vector for it."""
    high = 1 + max((int(snapshot.nodes.max(initial=-1)) for snapshot in snapshots), default=0)
    by_node = np.zeros((high, tables[0].shape[1]), np.float32)
    for i, snapshot in enumerate(snapshots):
        linked = snapshot.linked
        by_node[snapshot.nodes[linked]] = tables[i][linked]
        tables[i] = by_node[snapshot.nodes]
    return tables


def fresh_vectors(state: State, base: Base) -> tuple[Base, IdColumn, Float32]:
    """Return a base of the current graph: ids of the nodes with an edge, and their vectors."""
    model, graph = state.model, state.graph
    if base.name == "embedding":
        raise OptionError("this model was given its vectors: bring fresh ones, restart(dygcn.Embedding(...))")
    snapshot = snapshot_of(graph, base.recipe.aggregation)
    if not base.recipe.once:
        base = fit_base([snapshot], model.dim, base.recipe, model.seed, base)
    linked = snapshot.linked
    return base, graph.ids.names(snapshot.nodes[linked]), base_vectors(base, snapshot)[linked]
