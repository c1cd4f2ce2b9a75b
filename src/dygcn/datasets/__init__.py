"""Real dynamic graphs by name: facts about each, its events, and its steps for evaluation."""

from dygcn.datasets.loading import Dataset, events_by_name, load
from dygcn.datasets.registry import DatasetInfo, info, names
from dygcn.datasets.steps import Steps

__all__ = ["Dataset", "DatasetInfo", "Steps", "events_by_name", "info", "load", "names"]
