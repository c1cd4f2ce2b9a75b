"""What an event is: anything tabular in, one validated `EventBatch` out.

The names below are imported on first use: only services decode messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn._late import late_names

if TYPE_CHECKING:
    from dygcn.engine.events.codec import (
        read_events,
        read_graph,
        read_pairs,
        read_update,
        removes_then_adds,
        single_pair,
    )
    from dygcn.engine.events.column_names import ColumnNames
    from dygcn.engine.events.columns import duration, id_column, join_ids, moment, python_ids, seconds, take
    from dygcn.engine.events.joining import join_events
    from dygcn.engine.events.one_by_one import as_dicts
    from dygcn.engine.events.windows import cut_steps, rows_of, sort_by_time
    from dygcn.engine.events.wire import BadEvent, Decoded, decode_events, without_forgets
else:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "BadEvent": "dygcn.engine.events.wire",
            "ColumnNames": "dygcn.engine.events.column_names",
            "Decoded": "dygcn.engine.events.wire",
            "as_dicts": "dygcn.engine.events.one_by_one",
            "cut_steps": "dygcn.engine.events.windows",
            "decode_events": "dygcn.engine.events.wire",
            "id_column": "dygcn.engine.events.columns",
            "join_events": "dygcn.engine.events.joining",
            "join_ids": "dygcn.engine.events.columns",
            "moment": "dygcn.engine.events.columns",
            "python_ids": "dygcn.engine.events.columns",
            "read_events": "dygcn.engine.events.codec",
            "read_graph": "dygcn.engine.events.codec",
            "read_pairs": "dygcn.engine.events.codec",
            "read_update": "dygcn.engine.events.codec",
            "removes_then_adds": "dygcn.engine.events.codec",
            "rows_of": "dygcn.engine.events.windows",
            "duration": "dygcn.engine.events.columns",
            "seconds": "dygcn.engine.events.columns",
            "single_pair": "dygcn.engine.events.codec",
            "sort_by_time": "dygcn.engine.events.windows",
            "take": "dygcn.engine.events.columns",
            "without_forgets": "dygcn.engine.events.wire",
        },
    )

__all__ = [
    "BadEvent",
    "ColumnNames",
    "Decoded",
    "as_dicts",
    "cut_steps",
    "decode_events",
    "duration",
    "id_column",
    "join_events",
    "join_ids",
    "moment",
    "python_ids",
    "read_events",
    "read_graph",
    "read_pairs",
    "read_update",
    "removes_then_adds",
    "rows_of",
    "seconds",
    "single_pair",
    "sort_by_time",
    "take",
    "without_forgets",
]
