"""Operations on batches: join, sort, cut into training steps, list event by event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from dygcn.engine.events.columns import join_ids, moment, python_ids, take
from dygcn.engine.records import EventBatch, Int64, RelationColumn
from dygcn.errors import EventError, OptionError, shown

MANY_TIMES = 200
DEFAULT_PARTS = 40
MANY_EVENTS, FEWER_PARTS = 1_000_000, 12  # playing a large history in many parts costs more than it teaches


def rows_of(batch: EventBatch, rows: Int64 | slice) -> EventBatch:
    """Return the given rows of a batch, as a batch; those of a slice are views."""
    return EventBatch(
        take(batch.src, rows),
        take(batch.dst, rows),
        batch.op[rows],
        None if batch.weight is None else batch.weight[rows],
        None if batch.t is None else batch.t[rows],
        None if batch.relation is None else replace(batch.relation, codes=batch.relation.codes[rows]),
    )


def sort_by_time(batch: EventBatch) -> EventBatch:
    """Sort stably by `t`; without `t` the batch keeps its order."""
    if batch.t is None or bool(np.all(batch.t[1:] >= batch.t[:-1])):
        return batch
    return rows_of(batch, np.argsort(batch.t, kind="stable"))


def cut_steps(batch: EventBatch, steps: int | Sequence[float] | None = None) -> list[EventBatch]:
    """Cut events that are sorted by time into training steps.

    `steps` is a number of parts with equally many events, or the values of `t` at which a step ends (later
    events belong to one more step). None: every value of `t` is a step, or 40 equal parts where there are
    over 200 values, or no `t` at all (12 parts for more than a million events).
    """
    allowed = f"allowed is 1 to {len(batch):,}, the number of events, or the values of t where a step ends"
    count, changes = len(batch), None if batch.t is None else np.flatnonzero(np.diff(batch.t)) + 1
    if steps is None and (changes is None or not 0 < len(changes) <= MANY_TIMES):
        steps = min(DEFAULT_PARTS if count <= MANY_EVENTS else FEWER_PARTS, max(count // 4, 1))
    if steps is None:
        bounds = changes
    elif isinstance(steps, int | np.integer):
        if not 1 <= steps <= max(count, 1):
            raise OptionError(f"steps is {shown(steps)}; {allowed}")
        bounds = np.linspace(0, count, int(steps) + 1).round().astype(np.int64)
    elif batch.t is None:
        raise OptionError("steps names values of t, but the events have no t; pass a number of equal parts")
    else:
        try:
            ends = np.array(sorted(map(moment, steps)))
        except (EventError, TypeError):
            raise OptionError(f"steps is {shown(steps)}; {allowed}") from None
        bounds = np.searchsorted(batch.t, ends, side="right")
    cuts = np.unique(np.r_[0, bounds, count])
    return [rows_of(batch, np.arange(a, b)) for a, b in pairwise(cuts) if b > a]


def join_events(batches: Sequence[EventBatch]) -> EventBatch:
    """Return the events of several batches, in order; either all have times or none. At least one batch."""
    filled = [batch for batch in batches if len(batch)] or list(batches[:1])
    if len(filled) == 1:
        return filled[0]
    if len({batch.src.kind for batch in filled}) > 1:
        raise EventError("batches hold ids of different types; one type a graph")
    if len({batch.t is None for batch in filled}) > 1:
        raise EventError("some batches are dated and some are not; date all of them or none")
    weighted = any(batch.weight is not None for batch in filled)
    weights = [np.ones(len(batch)) if batch.weight is None else batch.weight for batch in filled]
    return EventBatch(
        join_ids([batch.src for batch in filled]),
        join_ids([batch.dst for batch in filled]),
        np.concatenate([batch.op for batch in filled]),
        np.concatenate(weights) if weighted else None,
        None if filled[0].t is None else np.concatenate([b.t for b in filled if b.t is not None]),
        join_relations([batch.relation for batch in filled]),
    )


def join_relations(columns: Sequence[RelationColumn | None]) -> RelationColumn | None:
    """Return the relations of consecutive batches; either all have relations or none."""
    some = [column for column in columns if column is not None]
    if not some:
        return None
    if len(some) < len(columns):
        raise EventError("some events have a relation and some have none; give all of them one, or none")
    names = tuple(dict.fromkeys(name for column in some for name in column.names))
    place = {name: code for code, name in enumerate(names)}
    codes = [np.array([place[name] for name in one.names], np.int16)[one.codes] for one in some]
    return RelationColumn(np.concatenate(codes), names)


def as_dicts(batch: EventBatch) -> list[dict[str, Any]]:
    """Return the events of a batch, each as a dict; weights and times only where the batch has them."""
    columns = {"src": python_ids(batch.src), "dst": python_ids(batch.dst), "op": batch.op}
    if batch.weight is not None:
        columns["weight"] = batch.weight
    if batch.t is not None:
        columns["t"] = batch.t
    if batch.relation is not None:
        columns["relation"] = np.array(batch.relation.names, object)[batch.relation.codes]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]
