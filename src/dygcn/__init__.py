"""Live node embeddings for graphs that never stop changing.

>>> import dygcn
>>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "ann")], dim=16)
>>> change = live.update(add=[("cat", "dan")])
>>> sorted(change.ids)
['cat', 'dan']

The names below are imported when first used, so that ``import dygcn`` alone stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dygcn import errors
    from dygcn.engine.features.tables import Embedding
    from dygcn.engine.models.model import Model
    from dygcn.engine.propagation import set_threads
    from dygcn.errors import DygcnError, EventError, FolderError, StaleChange, UnknownNode
    from dygcn.live.change import Change
    from dygcn.live.durable.embedding import DurableEmbedding
    from dygcn.live.durable.opening import open, restore
    from dygcn.live.durable.past import PastEmbedding
    from dygcn.live.embedding import LiveEmbedding, load, start
    from dygcn.live.evaluated import Evaluation
    from dygcn.live.evaluating import evaluate
    from dygcn.live.explaining import Explanation
    from dygcn.live.fitting import fit
    from dygcn.live.refitting import Refit
    from dygcn.live.view import EmbeddingView
    from dygcn.paper import RollingRecipe

__version__ = "0.1.0"
__all__ = [
    "Change",
    "DurableEmbedding",
    "DygcnError",
    "Embedding",
    "EmbeddingView",
    "Evaluation",
    "EventError",
    "Explanation",
    "FolderError",
    "LiveEmbedding",
    "Model",
    "PastEmbedding",
    "Refit",
    "RollingRecipe",
    "StaleChange",
    "UnknownNode",
    "errors",
    "evaluate",
    "fit",
    "load",
    "open",
    "restore",
    "set_threads",
    "start",
]

_MODULES = ("datasets", "errors", "sklearn", "testing")
_NAMES = {
    "dygcn.engine.features.tables": ("Embedding",),
    "dygcn.engine.models.model": ("Model",),
    "dygcn.engine.propagation": ("set_threads",),
    "dygcn.errors": ("DygcnError", "EventError", "FolderError", "StaleChange", "UnknownNode"),
    "dygcn.live.change": ("Change",),
    "dygcn.live.durable.embedding": ("DurableEmbedding",),
    "dygcn.live.durable.opening": ("open", "restore"),
    "dygcn.live.durable.past": ("PastEmbedding",),
    "dygcn.live.embedding": ("LiveEmbedding", "load", "start"),
    "dygcn.live.evaluated": ("Evaluation",),
    "dygcn.live.evaluating": ("evaluate",),
    "dygcn.live.explaining": ("Explanation",),
    "dygcn.live.fitting": ("fit",),
    "dygcn.live.refitting": ("Refit",),
    "dygcn.live.view": ("EmbeddingView",),
    "dygcn.paper": ("RollingRecipe",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dygcn.{name}")
    if name not in _HOMES:
        guesses = importlib.import_module("dygcn.live.other_names")
        raise guesses.no_attribute("module 'dygcn'", name, guesses.NAMES)
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
