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
    from dygcn.live import (
        Change,
        DurableEmbedding,
        EmbeddingView,
        Evaluation,
        Explanation,
        LiveEmbedding,
        PastEmbedding,
        Refit,
        evaluate,
        fit,
        load,
        open,
        restore,
        start,
    )
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
_ERRORS = ("DygcnError", "EventError", "FolderError", "StaleChange", "UnknownNode")
_HOMES = dict.fromkeys((name for name in __all__ if name != "errors"), "dygcn.live")
_HOMES |= dict.fromkeys(_ERRORS, "dygcn.errors")
_HOMES |= {
    "Embedding": "dygcn.engine.features.tables",
    "Model": "dygcn.engine.models.model",
    "RollingRecipe": "dygcn.paper",
    "set_threads": "dygcn.engine.propagation",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dygcn.{name}")
    if name not in _HOMES:
        guesses = importlib.import_module("dygcn.live.other_names")
        raise guesses.no_attribute("module 'dygcn'", name, guesses.NAMES)
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
