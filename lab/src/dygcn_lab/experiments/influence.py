"""How many nodes a step of a data set influences, order by order: the paper's table of changing nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.propagation import influence
from dygcn.engine.records import Float64, Int64
from dygcn.paper.plans import influenced

if TYPE_CHECKING:  # the paper's rules need torch, and the names of orders do not
    from dygcn_lab.experiments.paper_rules import Frames

ORDER_NAMES = ("1st", "2nd", "3rd", "4th")  # of the paper's table


def influenced_nodes(frames: Frames, orders: int = 4) -> Int64:
    """Return |V_1|..|V_K| of every step but the first, (steps - 1, K)."""
    graph = Graph("int64", stay=True)
    counts = []
    for step, batch in enumerate(frames.batches):
        delta = apply_batch(graph, batch)
        if step:
            counts.append([len(ring) for ring in influenced(graph, delta, orders).orders])
    return np.array(counts, np.int64)


def influenced_by_one_edge(frames: Frames, orders: int = 4, sample: int = 200, seed: int = 0) -> Float64:
    """Return |V_1|..|V_K| when a single edge of the last graph is taken away, on average over a sample."""
    graph = Graph("int64", stay=True)
    for batch in frames.batches:
        apply_batch(graph, batch)
    a, b, _ = graph.edges()
    counts = []
    for edge in np.random.default_rng(seed).integers(len(a), size=sample):
        ends = np.array([a[edge], b[edge]], np.int32)
        counts.append([len(ring) for ring in influence(graph, ends, orders).orders])
    means: Float64 = np.mean(counts, axis=0)
    return means
