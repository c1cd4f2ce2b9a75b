"""Batches one after the other become one batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.events.columns import join_ids
from dygcn.engine.records import EventBatch, RelationColumn
from dygcn.errors import EventError


def join_events(batches: Sequence[EventBatch]) -> EventBatch:
    """Return the events of several batches, in order; at least one batch, all of them dated or none.

    Examples
    --------
    >>> from dygcn.engine.events import read_events
    >>> batch = join_events([read_events([(1, 2)]), read_events([(3, 4), (5, 6)])])
    >>> batch.src.values.tolist()
    [1, 3, 5]
    """
    filled = [batch for batch in batches if len(batch)] or list(batches[:1])
    if len(filled) == 1:
        return filled[0]
    if len({batch.src.kind for batch in filled}) > 1:
        raise EventError("batches hold ids of different types; one type a graph")
    if len({batch.t is None for batch in filled}) > 1:
        raise EventError("some batches are dated and some are not; date all of them or none")
    weighted = any(batch.weight is not None for batch in filled)
    return EventBatch(
        join_ids([batch.src for batch in filled]),
        join_ids([batch.dst for batch in filled]),
        np.concatenate([batch.op for batch in filled]),
        np.concatenate([np.ones(len(b)) if b.weight is None else b.weight for b in filled])
        if weighted
        else None,
        None if filled[0].t is None else np.concatenate([b.t for b in filled if b.t is not None]),
        join_relations([batch.relation for batch in filled]),
    )


def join_relations(columns: Sequence[RelationColumn | None]) -> RelationColumn | None:
    """Return the relations of batches that stand behind each other; all of them have some, or none."""
    some = [column for column in columns if column is not None]
    if not some:
        return None
    if len(some) < len(columns):
        raise EventError("some events have a relation and some have none; give all of them one, or none")
    names = tuple(dict.fromkeys(name for column in some for name in column.names))
    place = {name: code for code, name in enumerate(names)}
    codes = [np.array([place[name] for name in one.names], np.int16)[one.codes] for one in some]
    return RelationColumn(np.concatenate(codes), names)
