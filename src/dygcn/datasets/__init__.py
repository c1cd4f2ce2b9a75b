"""Real dynamic graphs: where they lie, what they hold, how they are cut into steps.

The names below are imported when first used, so that importing this room alone loads no reader of files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dygcn.datasets.loading import Dataset, load
    from dygcn.datasets.registry import DatasetInfo, info, names
    from dygcn.datasets.steps import Steps

__all__ = ["Dataset", "DatasetInfo", "Steps", "info", "load", "names"]

_HOMES = {
    "Dataset": "dygcn.datasets.loading",
    "DatasetInfo": "dygcn.datasets.registry",
    "Steps": "dygcn.datasets.steps",
    "info": "dygcn.datasets.registry",
    "load": "dygcn.datasets.loading",
    "names": "dygcn.datasets.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
