"""Fit once, then feed it changes: the object that users hold."""

from dygcn.live.change import Change
from dygcn.live.durable import DurableEmbedding
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.fitting import fit
from dygcn.live.opening import load, open, restore, start
from dygcn.live.refitting import Refit

__all__ = ["Change", "DurableEmbedding", "LiveEmbedding", "Refit", "fit", "load", "open", "restore", "start"]
