"""What an event is: anything tabular in, one validated `EventBatch` out."""

from dygcn.events.codec import read_events, read_pairs, read_update, removes_then_adds
from dygcn.events.columns import id_column, join_ids, python_ids, seconds, take
from dygcn.events.joining import join_events
from dygcn.events.windows import cut_steps, rows_of, sort_by_time
from dygcn.events.wire import BadEvent, Decoded, decode_events

__all__ = [
    "BadEvent",
    "Decoded",
    "cut_steps",
    "decode_events",
    "id_column",
    "join_events",
    "join_ids",
    "python_ids",
    "read_events",
    "read_pairs",
    "read_update",
    "removes_then_adds",
    "rows_of",
    "seconds",
    "sort_by_time",
    "take",
]
