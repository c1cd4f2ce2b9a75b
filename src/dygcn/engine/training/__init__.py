"""Fitting the exact rule on the time steps of the events: rows, matrices and scores of links, with numpy."""

from dygcn.engine.training.link_head import HeldOut, cosine_auc, fit_heads, time_unit
from dygcn.engine.training.matrices import Recipe, fit_matrices, starting_matrices
from dygcn.engine.training.samples import StepSample, collect_samples
from dygcn.engine.training.walks import WalkBase, walk_base

__all__ = [
    "HeldOut",
    "Recipe",
    "StepSample",
    "WalkBase",
    "collect_samples",
    "cosine_auc",
    "fit_heads",
    "fit_matrices",
    "starting_matrices",
    "time_unit",
    "walk_base",
]
