"""A change of the graph becomes a change of the state, order by order."""

from dygcn.engine.propagation.exact import ExactRule
from dygcn.engine.propagation.rule import Rule, influence
from dygcn.engine.propagation.spreading import set_threads

__all__ = ["ExactRule", "Rule", "influence", "set_threads"]
