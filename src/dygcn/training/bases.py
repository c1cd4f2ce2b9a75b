"""The base of the paper's rules: where Z comes from before it is rolled forward.

The rules take any vectors. ``"gcn"`` is the paper's; ``"hashed"`` the exact rule's vectors on hashed
features; ``"graphsage"`` and ``"gin"`` layers of torch_geometric; ``"embedding"`` what the user brings.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import OptionError
from dygcn.models import Base, Model, State, read_vectors
from dygcn.records import EventBatch
from dygcn.training.history import snapshot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.graph import Graph
    from dygcn.models import BaseRecipe
    from dygcn.records import Float32, IdColumn
    from dygcn.training.history import History, Snapshot
    from dygcn.training.samples import Progress


def fit_base(
    name: str,
    snapshots: Sequence[Snapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    last: Base | None = None,
    progress: Progress | None = None,
) -> Base:
    """Train a network on snapshots, in turn; from the matrices of the last one, if the recipe says so."""
    start = None
    if last is not None and recipe.warm:
        recipe, start = dataclasses.replace(recipe, epochs=recipe.warm), last.tensors
    if name == "gcn":
        tensors = _room("gcn").fit_gcn(snapshots, dim, recipe, seed, start, progress)
    else:
        tensors = _room("geometric").fit_geometric(name, snapshots, dim, recipe, seed, start, progress)
    return Base(name, recipe if last is None else last.recipe, tensors)


def base_vectors(base: Base, snapshot: Snapshot) -> Float32:
    """Return what a trained network says of a snapshot's nodes."""
    vectors: Float32
    if base.name == "gcn":
        vectors = _room("gcn").gcn_vectors(base.tensors, base.recipe, snapshot)
    else:
        vectors = _room("geometric").geometric_vectors(base.name, base.tensors, base.recipe, snapshot)
    if base.recipe.unit:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return vectors


def hashed_model(model: Model, base: Base) -> Model:
    """Return the exact model whose vectors are the base ``"hashed"``."""
    weights = tuple(base.tensors[f"W{k}"] for k in range(len(base.tensors)))
    scales = np.ones(len(weights[0]))
    return dataclasses.replace(
        model, weights=weights, features="hashed", scales=scales, rule="exact", paper=None
    )


def exact_tables(model: Model, parts: Sequence[EventBatch], history: History) -> list[Float32]:
    """Play the events through the exact rule, too, and return its vectors of every snapshot's nodes."""
    state, tables = State(model), []
    for part, snapshot in zip(parts, history.snapshots, strict=True):
        state.apply(part)
        nodes = state.graph.find(history.graph.ids.names(snapshot.nodes))  # nodes stay, and keep their places
        table = np.zeros((len(nodes), model.dim), np.float32)
        table[nodes >= 0] = read_vectors(model, state.rule, state.graph, nodes[nodes >= 0])
        tables.append(table)
    return keep_last(history.snapshots, tables)


def keep_last(snapshots: Sequence[Snapshot], tables: Sequence[Float32]) -> list[Float32]:
    """Let a node without an edge keep the vector that it last had with one: a base says nothing of it."""
    high = 1 + max((int(snapshot.nodes.max(initial=-1)) for snapshot in snapshots), default=0)
    by_node = np.zeros((high, tables[0].shape[1]), np.float32)
    kept = []
    for snapshot, table in zip(snapshots, tables, strict=True):
        linked = snapshot.linked
        by_node[snapshot.nodes[linked]] = table[linked]
        kept.append(by_node[snapshot.nodes])
    return kept


def fresh_vectors(state: State) -> tuple[IdColumn, Float32]:
    """Return a fresh base of a graph as it is now: ids of the nodes that have an edge, and their vectors."""
    model, graph = state.model, state.graph
    assert model.paper is not None
    base = model.paper.base
    if base.name == "embedding":
        raise OptionError("this model was given its vectors: bring fresh ones, restart(dygcn.Embedding(...))")
    if base.name == "hashed":
        return _exact_vectors(hashed_model(model, base), graph)
    snapshot = snapshot_of(graph, base.recipe.aggregation)
    if not base.recipe.once:
        base = fit_base(base.name, [snapshot], model.dim, base.recipe, model.seed, base)
    linked = snapshot.linked
    return graph.ids.names(snapshot.nodes[linked]), base_vectors(base, snapshot)[linked]


def _exact_vectors(model: Model, graph: Graph) -> tuple[IdColumn, Float32]:
    a, b, weight = graph.edges()
    edge = weight > 0
    weights = (weight[edge] * graph.grid).astype(np.float64)
    src, dst = (graph.ids.names(end[edge]) for end in (a, b))
    state = State(dataclasses.replace(model, half_life=None))
    state.apply(EventBatch(src, dst, np.ones(int(edge.sum()), np.int8), weights))
    nodes = state.graph.nodes()
    return state.graph.ids.names(nodes), read_vectors(model, state.rule, state.graph, nodes)


def _room(name: str) -> Any:
    """Import a module that needs an optional package only when it is asked for."""
    return importlib.import_module(f"dygcn.training.{name}")
