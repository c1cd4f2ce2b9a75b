"""Graph reconstruction: how many of the pairs that score highest are edges of the graph now."""

from __future__ import annotations

import numpy as np

from dygcn.engine.measures import PairSet, unit_rows
from dygcn.engine.records import Float32, Int64

SAMPLE = 1000


def precision_at(
    vectors: Float32, edges: Int64, random: np.random.Generator, k: int | None = None, sample: int = SAMPLE
) -> float:
    """Return the precision at k among all pairs of a sample of nodes, by cosine.

    `edges`: (m, 2) of the present graph; `k`: how many pairs are looked at; None: as many as there are edges
    in the sample; `sample`: so many nodes are drawn as ends of random edges (uniform nodes of a sparse graph
    hardly have an edge).
    """
    nodes = np.unique(random.permutation(edges.ravel())[:sample])
    units = unit_rows(vectors[nodes]).astype(np.float32)
    first, second = np.triu_indices(len(nodes), 1)
    scores = (units @ units.T)[first, second]
    linked = PairSet(edges, len(vectors)).has(nodes[first], nodes[second])
    wanted = min(k or int(linked.sum()), len(scores))
    best = np.argpartition(-scores, wanted - 1)[:wanted]
    return float(linked[best].mean())
