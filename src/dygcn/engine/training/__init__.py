"""Fitting the exact rule on the time steps of the events: rows, matrices and scores of links, with numpy."""

from dygcn.engine.training.matrices import Recipe

__all__ = ["Recipe"]
