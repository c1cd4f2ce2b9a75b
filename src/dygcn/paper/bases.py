"""Bases of the paper's rules: the vectors Z that are rolled forward.

The rules take any vectors. ``"gcn"`` is the paper's; ``"hashed"`` the exact rule's vectors on hashed
features; ``"graphsage"`` and ``"gin"`` layers of torch_geometric; ``"embedding"`` what the user brings.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dygcn.engine.graph import Graph
from dygcn.engine.graph.image import take_image
from dygcn.engine.models.contracts import StateImage
from dygcn.engine.models.model import ExactSpec, Model
from dygcn.engine.models.readout import read_vectors
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float32, IdColumn, Nodes, Progress
from dygcn.errors import OptionError
from dygcn.paper import equations
from dygcn.paper.equations import NumpyArrays
from dygcn.paper.history import GraphSnapshot, PlayedHistory, snapshot_of
from dygcn.paper.options import Base, BaseRecipe


def fit_base(
    name: str,
    snapshots: Sequence[GraphSnapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    last: Base | None = None,
    progress: Progress | None = None,
) -> Base:
    """Train a network on snapshots in turn; start from the last base's matrices if the recipe is warm."""
    start = None
    if last is not None and recipe.warm:
        recipe, start = dataclasses.replace(recipe, epochs=recipe.warm), last.tensors
    if name == "gcn":
        tensors = _room("training").fit_gcn(snapshots, dim, recipe, seed, start, progress)
    else:
        tensors = _room("geometric").fit_geometric(name, snapshots, dim, recipe, seed, start, progress)
    return Base(name, recipe if last is None else last.recipe, tensors)


def base_vectors(base: Base, snapshot: GraphSnapshot) -> Float32:
    """Return a trained network's vectors of a snapshot's nodes."""
    vectors: Float32
    if base.name == "gcn":
        vectors = gcn_vectors(base.tensors, base.recipe, snapshot)
    else:
        vectors = _room("geometric").geometric_vectors(base.name, base.tensors, base.recipe, snapshot)
    if base.recipe.unit:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return vectors


def gcn_vectors(tensors: Mapping[str, Float32], recipe: BaseRecipe, snapshot: GraphSnapshot) -> Float32:
    """Return the paper's GCN's vectors of a snapshot's nodes. No torch: the same equation on NumPy."""
    weights = tensors["in"], tensors["out"]
    degree = degree_features(snapshot, len(weights[0]))
    z = equations.gcn(NumpyArrays(), snapshot.mix, degree, weights, recipe.activation, recipe.output)
    return NumpyArrays().bounded(z).astype(np.float32)


def degree_features(snapshot: GraphSnapshot, degrees: int) -> Nodes:
    """Return the one-hot index of each node's degree; degrees above the greatest known count as it."""
    return np.minimum(snapshot.degree, degrees - 1).astype(np.int32)


def degrees_in(snapshots: Sequence[GraphSnapshot]) -> int:
    """Return the number of rows that a table of degrees needs: one for each degree up to the greatest."""
    return 1 + max((int(snapshot.degree.max(initial=1)) for snapshot in snapshots), default=1)


def grown_table(table: Float32, degrees: int) -> Float32:
    """Extend a table of degrees with copies of its last row, to be trained further."""
    return np.concatenate((table, np.repeat(table[-1:], max(degrees - len(table), 0), axis=0)))


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
        base = fit_base(base.name, [snapshot], model.dim, base.recipe, model.seed, base)
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


def _room(name: str) -> Any:
    """Import a module that needs an optional package, on first use."""
    return importlib.import_module(f"dygcn.paper.{name}")
