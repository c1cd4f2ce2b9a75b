"""Other bases: GraphSAGE and GIN layers of torch_geometric in place of the paper's GCN layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Progress
from dygcn.paper.bases import degrees_in, grown_table
from dygcn.paper.history import GraphSnapshot
from dygcn.paper.options import BaseRecipe
from dygcn.paper.training import train_on_snapshots

with extra("geometric"):
    import torch
    import torch_geometric.nn as layers


class TwoLayers(torch.nn.Module):
    """Degrees, looked up in a table, through two layers."""

    def __init__(self, name: str, degrees: int, dim: int) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(degrees, dim)
        self.first, self.second = (_layer(name, dim) for _ in range(2))

    def forward(self, snapshot: GraphSnapshot, recipe: BaseRecipe) -> torch.Tensor:
        """Return the vectors of a snapshot's nodes."""
        degree = np.minimum(snapshot.degree, self.table.num_embeddings - 1)
        ends = torch.from_numpy(np.concatenate((snapshot.pairs, snapshot.pairs[:, ::-1])).T.copy())
        hidden = torch.relu(self.first(self.table(torch.from_numpy(degree)), ends))
        result: torch.Tensor = self.second(hidden, ends)
        return result if recipe.output == "none" else getattr(torch, recipe.output)(result)


def _layer(name: str, dim: int) -> Any:
    if name == "graphsage":
        return layers.SAGEConv(dim, dim)
    inner = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.ReLU(), torch.nn.Linear(dim, dim))
    return layers.GINConv(inner)


def fit_geometric(
    name: str,
    snapshots: Sequence[GraphSnapshot],
    dim: int,
    recipe: BaseRecipe,
    seed: int,
    start: Mapping[str, Float32] | None = None,
    progress: Progress | None = None,
) -> dict[str, Float32]:
    """Return the trained parameters by name."""
    degrees, random = degrees_in(snapshots), np.random.default_rng([seed, 5])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if start is None:
            network = TwoLayers(name, degrees, dim)
        else:
            network = _restored(name, {**start, "table.weight": grown_table(start["table.weight"], degrees)})

    def vectors_of(snapshot: GraphSnapshot) -> torch.Tensor:
        z: torch.Tensor = network(snapshot, recipe)
        return z

    train_on_snapshots(vectors_of, list(network.parameters()), snapshots, recipe, random, progress)
    return {key: value.detach().numpy() for key, value in network.state_dict().items()}


def geometric_vectors(
    name: str, tensors: Mapping[str, Float32], recipe: BaseRecipe, snapshot: GraphSnapshot
) -> Float32:
    """Return the vectors of a snapshot's nodes."""
    with torch.no_grad():
        z: Float32 = _restored(name, tensors)(snapshot, recipe).numpy()
    return z


def _restored(name: str, tensors: Mapping[str, Float32]) -> TwoLayers:
    degrees, dim = tensors["table.weight"].shape
    network = TwoLayers(name, degrees, dim)
    network.load_state_dict({key: torch.tensor(value) for key, value in tensors.items()})
    return network
