"""A change of the graph becomes a change of the state, order by order."""

from dygcn.propagation.exact import ExactRule
from dygcn.propagation.orders import influence
from dygcn.propagation.plans import RuleOptions
from dygcn.propagation.rolling import RollingRule, SpectralRule
from dygcn.propagation.rule import Rule
from dygcn.propagation.threads import set_threads

__all__ = [
    "ExactRule",
    "RollingRule",
    "Rule",
    "RuleOptions",
    "SpectralRule",
    "influence",
    "set_threads",
]
