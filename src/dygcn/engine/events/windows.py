"""Time: sorting events and cutting them into steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events.columns import seconds, take
from dygcn.engine.records import EventBatch, IdColumn, Int64
from dygcn.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

MANY_TIMES = 200
DEFAULT_PARTS = 40
MANY_EVENTS, FEWER_PARTS = 1_000_000, 12  # playing a large history in many parts costs more than it teaches


def rows_of(batch: EventBatch, rows: Int64) -> EventBatch:
    """Return the given rows of a batch, as a batch."""
    return EventBatch(
        take(batch.src, rows),
        take(batch.dst, rows),
        batch.op[rows],
        None if batch.weight is None else batch.weight[rows],
        None if batch.t is None else batch.t[rows],
        None if batch.relation is None else replace(batch.relation, codes=batch.relation.codes[rows]),
    )


def part_of(batch: EventBatch, begin: int, end: int) -> EventBatch:
    """Return the rows from `begin` to `end` of a batch, without a copy; `rows_of` of them is the same."""
    src, dst = (_slice_of(column, begin, end) for column in (batch.src, batch.dst))
    weight, t, relation = batch.weight, batch.t, batch.relation
    return EventBatch(
        src,
        dst,
        batch.op[begin:end],
        None if weight is None else weight[begin:end],
        None if t is None else t[begin:end],
        None if relation is None else replace(relation, codes=relation.codes[begin:end]),
    )


def _slice_of(column: IdColumn, begin: int, end: int) -> IdColumn:
    return IdColumn(column.values[begin : end + (column.data is not None)], column.data)


def sort_by_time(batch: EventBatch) -> EventBatch:
    """Sort stably by `t`; without `t` the order of the rows is the time."""
    if batch.t is None or bool(np.all(batch.t[1:] >= batch.t[:-1])):
        return batch
    return rows_of(batch, np.argsort(batch.t, kind="stable"))


def cut_steps(batch: EventBatch, steps: int | Sequence[float] | None = None) -> list[EventBatch]:
    """Cut sorted events into the time steps that training looks at.

    Parameters
    ----------
    batch
        Events sorted by time.
    steps
        An integer: so many parts with equally many events. A sequence: the values of `t` at which
        a step ends (later events belong to one more step). None: every value of
        `t` is a step, or 40 equal parts where there are over 200 values, or no `t` at all (12 parts for
        more than a million events).

    Examples
    --------
    >>> from dygcn.engine.events import read_events
    >>> batch = read_events({"src": [1, 2, 3, 4], "dst": [2, 3, 4, 5], "t": [0, 0, 1, 7]})
    >>> [len(part) for part in cut_steps(batch)]
    [2, 1, 1]
    >>> [len(part) for part in cut_steps(batch, 2)]
    [2, 2]
    >>> [len(part) for part in cut_steps(batch, [1])]
    [3, 1]
    """
    bounds = _bounds(batch, steps)
    return [
        rows_of(batch, np.arange(a, b)) for a, b in pairwise(np.unique(np.r_[0, bounds, len(batch)])) if b > a
    ]


def _bounds(batch: EventBatch, steps: int | Sequence[float] | None) -> Int64:
    count = len(batch)
    if steps is None:
        changes = None if batch.t is None else np.flatnonzero(np.diff(batch.t)) + 1
        if changes is not None and 0 < len(changes) <= MANY_TIMES:
            return changes.astype(np.int64)
        steps = min(DEFAULT_PARTS if count <= MANY_EVENTS else FEWER_PARTS, max(count // 4, 1))
    if isinstance(steps, int | np.integer):
        if steps < 1:
            raise OptionError(f"steps is {steps}; allowed is 1 or more, or the values of t where a step ends")
        return np.linspace(0, count, int(steps) + 1).round().astype(np.int64)
    if batch.t is None:
        raise OptionError("steps names values of t, but the events have no t; pass a number of equal parts")
    return np.searchsorted(batch.t, np.asarray(sorted(map(seconds, steps)), np.float64), side="right").astype(
        np.int64
    )
