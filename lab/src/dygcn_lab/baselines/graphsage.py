"""GraphSAGE: trained once, then every graph, old or new, is one forward pass.

Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs", NeurIPS 2017: Algorithm 1
with the mean aggregator and the unsupervised loss (eq. 1), layers are torch_geometric's `SAGEConv`. Positive
pairs are links instead of co-occurrences on short random walks, noise is uniform, one noise node a link (the
paper's eq. neg). Left out: sampling of neighbours, since whole graphs fit here, and the scaling of
each layer's output to length one (line 7), since cosines are what is judged.
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
    from torch_geometric.nn import SAGEConv


class GraphSage(VectorMethod):
    """Two mean layers on degrees.

    `seed`, `dim`: of everything that is drawn; size of hidden and of final vectors; `steps`, `rate`: steps of
    Adam, each on one of the fitted moments in turn, and how long they are; `batch`: links (and as many noise
    pairs) that one step looks at; `graphs`: fitted moments that are trained on at most, evenly chosen.
    """

    def __init__(
        self,
        seed: int = 0,
        dim: int = 100,
        steps: int = 300,
        rate: float = 0.01,
        batch: int = 1 << 13,
        graphs: int = 10,
    ) -> None:
        self.seed, self.dim, self.steps, self.rate, self.batch = seed, dim, steps, rate, batch
        self.graphs = graphs

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Train on the moments, then look at the last of them."""
        self._nodes = nodes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            first, second = (SAGEConv(size, self.dim, aggr="sum") for size in (BINS, self.dim))
            self._layers = TwoLayers(first, second)  # a sum of D^-1 A is the mean
        chosen = np.linspace(0, len(moments) - 1, min(self.graphs, len(moments))).round().astype(int)
        graphs = [DegreeGraph(moments[index].edges, symmetric=False) for index in chosen]
        train_layers(self._layers, graphs, self.steps, self.rate, self.batch, [self.seed])
        self.follow(moments[-1])

    def follow(self, moment: Moment) -> None:
        """Compute the vectors of this graph."""
        graph = DegreeGraph(moment.edges, symmetric=False)
        rows = (
            layer_vectors(self._layers, graph) if len(graph.active) else np.zeros((0, self.dim), np.float32)
        )
        self._vectors = spread(rows, graph.active, self._nodes, self.dim)

    def vectors(self) -> Float32:
        """Return the vectors; nodes that have no edge now have none."""
        return self._vectors
