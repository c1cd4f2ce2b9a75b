"""For tests, ours and yours: slow twins of everything fast, and small graphs with known traps."""

from dygcn.testing.dense import dense_messages, dense_vectors, twin_vectors
from dygcn.testing.graphs import GRAPHS, random_events
from dygcn.testing.oracle import GraphOracle

__all__ = ["GRAPHS", "GraphOracle", "dense_messages", "dense_vectors", "random_events", "twin_vectors"]
