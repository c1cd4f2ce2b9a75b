"""What GCN and GraphSAGE share: degrees as features, two layers, links against noise.

The paper that we rerun says "the node degrees are used as node features": here one-hot, exact up to 16 and
four bins an octave above, so that a hub of 1,458 and one of 1,460 are the same and a leaf is not a node of
degree 2. The loss is its eq. neg: -log s(z_v z_u) - log(1 - s(z_v z_u-)), u a neighbour of v and u- a random
node.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Int64
from dygcn_lab.baselines.snapshot import adjacency, compact

with extra("evidence", of="dygcn-lab"):
    import torch
    from scipy.sparse import csr_array, eye_array
    from torch.nn.functional import one_hot, softplus


EXACT, OCTAVE, BINS = 16, 4, 80  # the last bin begins at degree 2^20


def degree_bins(degrees: Int64) -> Int64:
    """Return the bin of each degree.

    Examples
    --------
    >>> degree_bins(np.array([0, 1, 2, 16, 17, 32, 1458, 10**9])).tolist()
    [0, 1, 2, 16, 16, 20, 42, 79]
    """
    octaves = np.log2(np.maximum(degrees, EXACT) / EXACT)
    bins = np.where(degrees < EXACT, degrees, EXACT + np.floor(OCTAVE * octaves))
    return np.minimum(bins, BINS - 1).astype(np.int64)


class DegreeGraph:
    """A snapshot as tensors: one-hot degrees, a weighted adjacency matrix, links; only nodes with edges.

    `edges`: (m, 2); `symmetric`: weights of the matrix: D^-1/2 (A + I) D^-1/2 as in GCN; else D^-1 A, the
    mean of the neighbours.
    """

    def __init__(self, edges: Int64, *, symmetric: bool) -> None:
        self.active, places = compact(edges)
        links = adjacency(places, len(self.active))
        self.features = one_hot(torch.from_numpy(degree_bins(np.diff(links.indptr))), BINS).float()
        self.places = torch.from_numpy(places)
        if symmetric:
            links = csr_array(links + eye_array(len(self.active), format="csr"))
            root = np.sqrt(links.sum(axis=1))
            rows = np.repeat(np.arange(len(root)), np.diff(links.indptr))
            links.data /= root[rows] * root[links.indices]
        else:
            links.data /= np.repeat(links.sum(axis=1), np.diff(links.indptr))
        self.matrix = _tensor(links)


def _tensor(matrix: Any) -> torch.Tensor:
    indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    data = torch.from_numpy(matrix.data.astype(np.float32))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, data, size=matrix.shape, check_invariants=True)


class TwoLayers(torch.nn.Module):
    """Two layers of torch_geometric with a ReLU between them."""

    def __init__(self, first: torch.nn.Module, second: torch.nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, graph: DegreeGraph) -> torch.Tensor:
        """Return the vectors of a snapshot's active nodes."""
        hidden = torch.relu(self.first(graph.features, graph.matrix))
        vectors: torch.Tensor = self.second(hidden, graph.matrix)
        return vectors


def link_loss(vectors: torch.Tensor, links: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return eq. neg, the mean over links (b, 2); noise (b,) are the random nodes."""
    node, linked, random = (
        torch.index_select(vectors, 0, ends) for ends in (links[:, 0], links[:, 1], noise)
    )
    near, far = (node * linked).sum(dim=1), (node * random).sum(dim=1)
    return (softplus(-near) + softplus(far)).mean()


def train_layers(
    layers: TwoLayers, graphs: Sequence[DegreeGraph], steps: int, rate: float, batch: int, seed: list[int]
) -> None:
    """Train with Adam, one graph a step in turn, at most `batch` of its links and as much noise."""
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
    adam = torch.optim.Adam(layers.parameters(), lr=rate)
    graphs = [graph for graph in graphs if len(graph.active)]
    for step in range(steps if graphs else 0):
        graph = graphs[step % len(graphs)]
        links = graph.places
        chosen = torch.randint(len(links), (min(batch, len(links)),), generator=generator)
        turned = torch.rand(len(chosen), generator=generator) < 0.5
        links = torch.where(turned[:, None], links[chosen].flip(1), links[chosen])
        noise = torch.randint(len(graph.active), (len(links),), generator=generator)
        adam.zero_grad()
        link_loss(layers(graph), links, noise).backward()  # type: ignore[no-untyped-call]
        adam.step()


def layer_vectors(layers: TwoLayers, graph: DegreeGraph) -> Float32:
    """Return the vectors of a snapshot's active nodes."""
    with torch.no_grad():
        vectors: Float32 = layers(graph).numpy()
    return vectors
