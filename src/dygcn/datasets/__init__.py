"""Real dynamic graphs by name: facts about each, its events, and its steps for evaluation.

The names below are imported on first use, so that importing this package loads no reader of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn._late import late_names

if TYPE_CHECKING:
    from dygcn.datasets.loading import Dataset, events_by_name, load
    from dygcn.datasets.registry import DatasetInfo, info, names
    from dygcn.datasets.steps import Steps
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "Dataset": "dygcn.datasets.loading",
            "DatasetInfo": "dygcn.datasets.registry",
            "Steps": "dygcn.datasets.steps",
            "events_by_name": "dygcn.datasets.loading",
            "info": "dygcn.datasets.registry",
            "load": "dygcn.datasets.loading",
            "names": "dygcn.datasets.registry",
        },
    )

__all__ = ["Dataset", "DatasetInfo", "Steps", "events_by_name", "info", "load", "names"]
