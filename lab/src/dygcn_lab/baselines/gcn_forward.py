"""What one forward pass of a GCN takes: two layers over the whole graph, everything else ready before."""

from __future__ import annotations

import time

from dygcn._extras import extra
from dygcn.engine.records import Int64
from dygcn_lab.baselines.degree_layers import DegreeGraph, TwoLayers, layer_vectors

with extra("evidence", of="dygcn-lab"):
    import torch
    from torch_geometric.nn import GCNConv


def forward_seconds(
    edges: Int64, widths: tuple[int, int, int] = (256, 256, 128), threads: int = 2, repeats: int = 3
) -> list[float]:
    """Return the seconds of single passes.

    The normalised matrix (CSR, the fastest form that torch_geometric takes) and the features lie in memory;
    the first pass is not counted.

    `edges`: (m, 2), each once; `widths`: of the features, of the hidden and of the final vectors.

    Examples
    --------
    >>> import numpy as np
    >>> len(forward_seconds(np.array([[0, 1], [1, 2]]), (4, 4, 2), repeats=2))
    2
    """
    graph = DegreeGraph(edges, symmetric=True)
    given, hidden, final = widths
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        graph.features = torch.randn(len(graph.active), given)
        first, second = GCNConv(given, hidden, normalize=False), GCNConv(hidden, final, normalize=False)
        layers = TwoLayers(first, second)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        layer_vectors(layers, graph)
        return [_seconds(layers, graph) for _ in range(repeats)]
    finally:
        torch.set_num_threads(before)


def _seconds(layers: TwoLayers, graph: DegreeGraph) -> float:
    begun = time.perf_counter()
    layer_vectors(layers, graph)
    return time.perf_counter() - begun
