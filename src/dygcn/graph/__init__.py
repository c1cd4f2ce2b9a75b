"""The graph now: user ids, a dynamic adjacency, and the net effect of every batch."""

from dygcn.graph.memory import Memory
from dygcn.graph.store import Graph

__all__ = ["Graph", "Memory"]
