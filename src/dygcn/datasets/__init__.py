"""Real dynamic graphs by name: facts about each, its events, its classes."""

from dygcn.datasets.loading import Dataset, events_by_name, load
from dygcn.datasets.registry import DatasetInfo, info, names

__all__ = ["Dataset", "DatasetInfo", "events_by_name", "info", "load", "names"]
