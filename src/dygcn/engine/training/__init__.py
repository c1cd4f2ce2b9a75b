"""Fitting the matrices on the time steps of the events: numpy for the exact rule, torch for the paper's."""

from dygcn.engine.models.paper import BaseRecipe, Watch
from dygcn.engine.propagation import RuleOptions
from dygcn.engine.training.bases import fresh_vectors
from dygcn.engine.training.link_head import HeldOut, cosine_auc, fit_heads, time_unit
from dygcn.engine.training.matrices import Recipe, fit_matrices, starting_matrices
from dygcn.engine.training.recipes import RollingRecipe
from dygcn.engine.training.samples import StepSample, collect_samples
from dygcn.engine.training.walks import WalkBase, walk_base

__all__ = [
    "BaseRecipe",
    "HeldOut",
    "Recipe",
    "RollingRecipe",
    "RuleOptions",
    "StepSample",
    "WalkBase",
    "Watch",
    "collect_samples",
    "cosine_auc",
    "fit_heads",
    "fit_matrices",
    "fresh_vectors",
    "starting_matrices",
    "time_unit",
    "walk_base",
]
