"""Fitting the matrices W_0..W_K on the time steps of the events, in numpy."""

from dygcn.training.matrices import Recipe, fit_matrices, starting_matrices
from dygcn.training.samples import StepSample, collect_samples

__all__ = ["Recipe", "StepSample", "collect_samples", "fit_matrices", "starting_matrices"]
