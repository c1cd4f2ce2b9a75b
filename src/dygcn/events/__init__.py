"""What an event is: anything tabular in, one validated `EventBatch` out."""

from dygcn.events.codec import read_events, read_pairs, removes_then_adds
from dygcn.events.columns import id_column, join_ids, python_ids, seconds, take
from dygcn.events.windows import cut_steps, rows_of, sort_by_time

__all__ = [
    "cut_steps",
    "id_column",
    "join_ids",
    "python_ids",
    "read_events",
    "read_pairs",
    "removes_then_adds",
    "rows_of",
    "seconds",
    "sort_by_time",
    "take",
]
