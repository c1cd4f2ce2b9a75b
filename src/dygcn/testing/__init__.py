"""For tests, ours and yours: slow twins of everything fast, and small graphs with known traps."""

from dygcn.testing.dense import dense_messages, dense_vectors, twin_vectors
from dygcn.testing.graphs import GRAPHS, random_events
from dygcn.testing.oracle import GraphOracle
from dygcn.testing.rolled import DenseTwin, dense_rings, dense_rolling, dense_spectral

__all__ = [
    "GRAPHS",
    "DenseTwin",
    "GraphOracle",
    "dense_messages",
    "dense_rings",
    "dense_rolling",
    "dense_spectral",
    "dense_vectors",
    "random_events",
    "twin_vectors",
]
