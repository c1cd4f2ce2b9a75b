"""Fit once, then feed it changes: the object that users hold."""

from dygcn.live.change import Change
from dygcn.live.embedding import LiveEmbedding, load, start
from dygcn.live.fitting import fit

__all__ = ["Change", "LiveEmbedding", "fit", "load", "start"]
