"""History: the events in the order of application: who contacted whom, when and how often.

The graph is what is; a history is what was. Its columns feed the score of what comes next.
"""

from dygcn.engine.history.history import EventHistory, HistoryImage

__all__ = ["EventHistory", "HistoryImage"]
