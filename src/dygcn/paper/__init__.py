"""DyGCN as published: the rules ``rolling`` and ``spectral``, and the bases that they start from.

Importing this registers both rules; torch is imported when one is fitted, or a trained base computed.
"""

from dygcn.paper.options import BASES, Base, BaseRecipe, RollingRecipe, Watch
from dygcn.paper.plans import RuleOptions
from dygcn.paper.rolling import RollingRule, SpectralRule
from dygcn.paper.spec import RollingSpec, SpectralSpec, adopt

__all__ = [
    "BASES",
    "Base",
    "BaseRecipe",
    "RollingRecipe",
    "RollingRule",
    "RollingSpec",
    "RuleOptions",
    "SpectralRule",
    "SpectralSpec",
    "Watch",
    "adopt",
]
