"""The static GCN of the paper: two layers, A + I, degrees as features, trained without labels (eq. neg)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._extras import extra
from dygcn.paper import equations
from dygcn.paper.bases import degree_features, degrees_in, grown_table
from dygcn.paper.tensors import Tensors, glorot, train_on_snapshots

with extra("torch"):
    import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dygcn.engine.records import Float32, Progress
    from dygcn.paper.history import Snapshot
    from dygcn.paper.options import BaseRecipe


def fit_gcn(
    snapshots: Sequence[Snapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    start: Mapping[str, Float32] | None = None,
    progress: Progress | None = None,
) -> dict[str, Float32]:
    """Return the matrices ``in`` (degrees, dim) and ``out`` (dim, dim), trained on snapshots in turn."""
    random = np.random.default_rng([seed, 4])
    degrees = degrees_in(snapshots)
    if start is None:
        start = {"in": glorot(degrees, dim, random), "out": glorot(dim, dim, random)}
    degrees = max(degrees, len(start["in"]))
    start = {**start, "in": grown_table(start["in"], degrees)}
    weights = [torch.tensor(start[name], requires_grad=True) for name in ("in", "out")]
    arrays = Tensors()

    def vectors_of(snapshot: Snapshot) -> torch.Tensor:
        degree = degree_features(snapshot, degrees)
        return equations.gcn(arrays, snapshot.mix, degree, weights, recipe.activation, recipe.output)

    train_on_snapshots(vectors_of, weights, snapshots, recipe, random, progress)
    return {name: w.detach().numpy() for name, w in zip(("in", "out"), weights, strict=True)}
