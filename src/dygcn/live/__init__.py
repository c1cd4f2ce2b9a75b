"""Fit once, then feed it changes: the object that users hold.

The names below are imported when first used: to load a folder needs neither fitting nor durability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn._late import late_names

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "Change": "dygcn.live.change",
            "DurableEmbedding": "dygcn.live.durable.embedding",
            "EmbeddingView": "dygcn.live.view",
            "Evaluation": "dygcn.live.evaluated",
            "Explanation": "dygcn.live.explaining",
            "LiveEmbedding": "dygcn.live.embedding",
            "PastEmbedding": "dygcn.live.durable.past",
            "Refit": "dygcn.live.refitting",
            "evaluate": "dygcn.live.evaluating",
            "fit": "dygcn.live.fitting",
            "load": "dygcn.live.embedding",
            "open": "dygcn.live.durable.opening",
            "restore": "dygcn.live.durable.opening",
            "start": "dygcn.live.embedding",
        },
    )

__all__ = [
    "Change",
    "DurableEmbedding",
    "EmbeddingView",
    "Evaluation",
    "Explanation",
    "LiveEmbedding",
    "PastEmbedding",
    "Refit",
    "evaluate",
    "fit",
    "load",
    "open",
    "restore",
    "start",
]
