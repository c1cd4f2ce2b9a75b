"""Snapshots of a graph with the plans between them, and bases: the vectors Z that are rolled forward.

Snapshots and plans depend on no vector, so both are taken once while the events are played. The rules take
any vectors as their base: ``"gcn"`` is the paper's, ``"hashed"`` the exact rule's vectors on hashed features,
``"embedding"`` what the user brings.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.graph.image import take_image
from dygcn.engine.models.contracts import StateImage
from dygcn.engine.models.model import ExactSpec, Model
from dygcn.engine.models.readout import read_vectors
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
    z = equations.gcn(NumpyArrays(), snapshot.mix, degree, weights, recipe.activation, recipe.output)
    vectors: Float32 = NumpyArrays().bounded(z).astype(np.float32)
    if recipe.unit:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return vectors


def degree_features(snapshot: GraphSnapshot, degrees: int) -> Nodes:
    """Return the one-hot index of each node's degree; degrees above the greatest known count as it."""
    return np.minimum(snapshot.degree, degrees - 1).astype(np.int32)


def hashed_model(model: Model, base: Base) -> Model:
    """Return the exact model that computes the base ``"hashed"``."""
    weights = tuple(base.tensors[f"W{k}"] for k in range(len(base.tensors)))
    scales = np.ones(len(weights[0]))
    return dataclasses.replace(model, weights=weights, features="hashed", scales=scales, spec=ExactSpec())


def exact_tables(model: Model, parts: Sequence[EventBatch], history: PlayedHistory) -> list[Float32]:
    """Play the events through the exact rule; return its vectors of every snapshot's nodes."""
    state, tables = State(model), []
    for part, snapshot in zip(parts, history.snapshots, strict=True):
        state.apply(part)
        nodes = state.graph.find(history.graph.ids.names(snapshot.nodes))  # nodes stay, and keep their places
        table = np.zeros((len(nodes), model.dim), np.float32)
        table[nodes >= 0] = read_vectors(model, state.rule, state.graph, nodes[nodes >= 0])
        tables.append(table)
    return keep_last(history.snapshots, tables)


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
    if base.name == "hashed":
        return base, *_exact_vectors(hashed_model(model, base), graph)
    snapshot = snapshot_of(graph, base.recipe.aggregation)
    if not base.recipe.once:
        base = fit_base([snapshot], model.dim, base.recipe, model.seed, base)
    linked = snapshot.linked
    return base, graph.ids.names(snapshot.nodes[linked]), base_vectors(base, snapshot)[linked]


def _exact_vectors(model: Model, graph: Graph) -> tuple[IdColumn, Float32]:
    """Build the exact rule's state on the same graph, with ghosts, without isolated nodes."""
    image, nodes = take_image(graph)
    linked = (graph.pull.count[nodes] + graph.push.count[nodes]) > 0
    place = np.cumsum(linked, dtype=np.int32) - 1
    ids = graph.ids.names(nodes[linked])
    own = np.zeros(int(linked.sum()), np.bool_)
    plain = dataclasses.replace(image, ids=ids, own=own, a=place[image.a], b=place[image.b])
    state = State.from_image(model, StateImage(plain, {"features": np.zeros((0, model.width), np.int32)}))
    nodes = state.graph.find(ids)
    return ids, read_vectors(model, state.rule, state.graph, nodes)
