"""What an event is: anything tabular in, one validated `EventBatch` out.

The names below are imported when first used: what reads messages off the wire is for services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn._late import late_names

if TYPE_CHECKING:
    from dygcn.events.codec import read_events, read_pairs, read_update, removes_then_adds, single_pair
    from dygcn.events.columns import id_column, join_ids, python_ids, seconds, take
    from dygcn.events.joining import join_events
    from dygcn.events.windows import cut_steps, rows_of, sort_by_time
    from dygcn.events.wire import BadEvent, Decoded, decode_events
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "BadEvent": "dygcn.events.wire",
            "Decoded": "dygcn.events.wire",
            "cut_steps": "dygcn.events.windows",
            "decode_events": "dygcn.events.wire",
            "id_column": "dygcn.events.columns",
            "join_events": "dygcn.events.joining",
            "join_ids": "dygcn.events.columns",
            "python_ids": "dygcn.events.columns",
            "read_events": "dygcn.events.codec",
            "read_pairs": "dygcn.events.codec",
            "read_update": "dygcn.events.codec",
            "removes_then_adds": "dygcn.events.codec",
            "rows_of": "dygcn.events.windows",
            "seconds": "dygcn.events.columns",
            "single_pair": "dygcn.events.codec",
            "sort_by_time": "dygcn.events.windows",
            "take": "dygcn.events.columns",
        },
    )

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
    "single_pair",
    "sort_by_time",
    "take",
]
