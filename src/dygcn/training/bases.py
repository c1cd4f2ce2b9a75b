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
from dygcn.graph.image import take_image
from dygcn.models import Base, Model, State, StateImage, read_vectors
from dygcn.training.history import snapshot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.graph import Graph
    from dygcn.models import BaseRecipe
    from dygcn.records import Float32, IdColumn
    from dygcn.training.history import Snapshot
    from dygcn.training.samples import Progress


def fit_base(
    name: str,
    snapshots: Sequence[Snapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    progress: Progress | None = None,
) -> Base:
    """Train a network on snapshots, in turn."""
    if name == "gcn":
        tensors = _room("gcn").fit_gcn(snapshots, dim, recipe, seed, progress)
    else:
        tensors = _room("geometric").fit_geometric(name, snapshots, dim, recipe, seed, progress)
    return Base(name, recipe, tensors)


def base_vectors(base: Base, snapshot: Snapshot) -> Float32:
    """Return what a trained network says of a snapshot's nodes."""
    vectors: Float32
    if base.name == "gcn":
        vectors = _room("gcn").gcn_vectors(base.tensors, base.recipe, snapshot)
    else:
        vectors = _room("geometric").geometric_vectors(base.name, base.tensors, base.recipe, snapshot)
    return vectors


def hashed_model(model: Model, base: Base) -> Model:
    """Return the exact model whose vectors are the base ``"hashed"``."""
    weights = tuple(base.tensors[f"W{k}"] for k in range(len(base.tensors)))
    scales = np.ones(len(weights[0]))
    return dataclasses.replace(
        model, weights=weights, features="hashed", scales=scales, rule="exact", paper=None
    )


def fresh_vectors(state: State) -> tuple[IdColumn, Float32]:
    """Return a fresh base of a graph as it is now: its ids and their vectors."""
    model, graph = state.model, state.graph
    assert model.paper is not None
    base = model.paper.base
    if base.name == "embedding":
        raise OptionError("this model was given its vectors: bring fresh ones, restart(dygcn.Embedding(...))")
    if base.name == "hashed":
        return graph.ids.names(graph.nodes()), _exact_vectors(hashed_model(model, base), graph)
    snapshot = snapshot_of(graph, base.recipe.aggregation)
    if not base.recipe.once:
        base = fit_base(base.name, [snapshot], model.dim, base.recipe, model.seed)
    return graph.ids.names(snapshot.nodes), base_vectors(base, snapshot)


def _exact_vectors(model: Model, graph: Graph) -> Float32:
    image, _ = take_image(graph)
    plain = dataclasses.replace(image, own=np.zeros_like(image.own))
    state = State.from_image(model, StateImage(plain, {"features": np.zeros((0, model.width), np.int32)}))
    return read_vectors(model, state.rule, state.graph, state.graph.nodes())


def _room(name: str) -> Any:
    """Import a module that needs an optional package only when it is asked for."""
    return importlib.import_module(f"dygcn.training.{name}")
