"""Fitting the matrices on the time steps of the events: numpy for the exact rule, torch for the paper's."""

from dygcn.models.paper import BaseRecipe, Watch
from dygcn.propagation import RuleOptions
from dygcn.training.bases import fresh_vectors
from dygcn.training.heads import HeldOut, fit_heads, time_unit
from dygcn.training.matrices import Recipe, fit_matrices, starting_matrices
from dygcn.training.recipes import RollingRecipe
from dygcn.training.samples import StepSample, collect_samples
from dygcn.training.walks import WalkBase, walk_base

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
    "fit_heads",
    "fit_matrices",
    "fresh_vectors",
    "starting_matrices",
    "time_unit",
    "walk_base",
]
