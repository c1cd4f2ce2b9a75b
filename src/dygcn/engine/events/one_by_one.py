"""A batch as single events, for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.events.columns import python_ids

if TYPE_CHECKING:
    from dygcn.engine.records import EventBatch


def as_dicts(batch: EventBatch) -> list[dict[str, Any]]:
    """Return the events of a batch, each as a dict; weights and times only where the batch has them.

    Examples
    --------
    >>> from dygcn.engine.events import read_events
    >>> as_dicts(read_events([("ann", "bob")]))
    [{'src': 'ann', 'dst': 'bob', 'op': 1}]
    """
    columns = {"src": python_ids(batch.src), "dst": python_ids(batch.dst), "op": batch.op}
    if batch.weight is not None:
        columns["weight"] = batch.weight
    if batch.t is not None:
        columns["t"] = batch.t
    if batch.relation is not None:
        columns["relation"] = np.array(batch.relation.names, object)[batch.relation.codes]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]
