"""History: the events in their order, who contacted whom, when and how often; it feeds scores of the next."""

from dygcn.engine.history.history import EventHistory, HistoryImage

__all__ = ["EventHistory", "HistoryImage"]
