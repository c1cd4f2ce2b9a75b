"""The graph now: user ids, a dynamic adjacency, and the net effect of every batch."""

from dygcn.engine.graph.memory import Memory
from dygcn.engine.graph.store import Graph

__all__ = ["Graph", "Memory"]
