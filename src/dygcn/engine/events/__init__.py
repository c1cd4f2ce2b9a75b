"""Events: reads anything tabular into one validated `EventBatch`. Messages are decoded by `wire`."""

from dygcn.engine.events.batches import as_dicts, cut_steps, join_events, rows_of, sort_by_time
from dygcn.engine.events.codec import read_events, read_graph, read_update, single_pair
from dygcn.engine.events.column_names import ColumnOptions
from dygcn.engine.events.columns import duration, id_column, join_ids, moment, python_ids, seconds, take

__all__ = [
    "ColumnOptions",
    "as_dicts",
    "cut_steps",
    "duration",
    "id_column",
    "join_events",
    "join_ids",
    "moment",
    "python_ids",
    "read_events",
    "read_graph",
    "read_update",
    "rows_of",
    "seconds",
    "single_pair",
    "sort_by_time",
    "take",
]
