"""The graph now: user ids, a dynamic adjacency, and the net effect of every batch."""

from dygcn.engine.graph.ageing import Memory
from dygcn.engine.graph.store import Graph
from dygcn.engine.graph.transaction import apply_batch

__all__ = ["Graph", "Memory", "apply_batch"]
