"""GCN, trained anew at every step: the static counterpart that the paper calls the upper bound.

Kipf and Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017, with the
unsupervised loss that the paper uses for it (eq. neg): Z = A^ relu(A^ X W_1) W_2, A^ = D^-1/2 (A + I)
D^-1/2, X the degrees. The second layer is torch_geometric's `GCNConv`; the first is the same with A^ X,
which training does not change, computed once a graph. Left out: dropout and weight decay, which the paper
does not mention, and early stopping (there is nothing to stop on: all edges are trained on).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32
from dygcn_lab.baselines.degree_layers import BINS, DegreeGraph, TwoLayers, layer_vectors, train_layers
from dygcn_lab.baselines.snapshot import spread
from dygcn_lab.evaluation.method import VectorMethod
from dygcn_lab.evaluation.steps import Moment

with extra("evidence", of="dygcn-lab"):
    import torch
    from torch_geometric.nn import GCNConv


class FirstLayer(torch.nn.Linear):
    """A `GCNConv` whose input was already multiplied by A^."""

    def __init__(self, dim: int) -> None:
        super().__init__(BINS, dim)
        torch.nn.init.xavier_uniform_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, features: torch.Tensor, matrix: torch.Tensor | None = None) -> torch.Tensor:
        """Return A^ X W + b from A^ X."""
        return super().forward(features)


class GcnRetrained(VectorMethod):
    """Two GCN layers that begin from nothing at every step.

    `seed`, `dim`: of everything that is drawn; size of hidden and of final vectors; `epochs`, `rate`: steps
    of Adam on the whole graph, and how long they are; `batch`: links (and as many noise pairs) that one step
    looks at.
    """

    def __init__(
        self, seed: int = 0, dim: int = 100, epochs: int = 200, rate: float = 0.01, batch: int = 1 << 13
    ) -> None:
        self.seed, self.dim, self.epochs, self.rate, self.batch = seed, dim, epochs, rate, batch

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Train on the last of the moments."""
        self._nodes, self._step = nodes, 0
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Train on this graph, from nothing."""
        graph = DegreeGraph(moment.edges, symmetric=True)
        graph.features = graph.matrix @ graph.features
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            layers = TwoLayers(FirstLayer(self.dim), GCNConv(self.dim, self.dim, normalize=False))
        train_layers(layers, [graph], self.epochs, self.rate, self.batch, [self.seed, self._step])
        rows = layer_vectors(layers, graph) if len(graph.active) else np.zeros((0, self.dim), np.float32)
        self._vectors = spread(rows, graph.active, self._nodes, self.dim)
        self._step += 1

    def vectors(self) -> Float32:
        """Return the vectors; nodes that have no edge now have none."""
        return self._vectors
