"""Rows as JSON, one text for each node, for sinks that send messages; docs/service.md says how to read them.

Numbers of a vector are as short as a float32 allows, and become the same float32 again, bit for bit,
whether they are read as float32 or as float64 first. Integers are whole: read ids and versions as int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dygcn._extras import late
from dygcn.serving.sinks.sink import as_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.engine.records import History, Rows
    from dygcn.serving import json_text
    from dygcn.serving.sinks.sink import Shape
else:  # reading settings needs no encoder
    json_text = late("dygcn.serving.json_text")

NOT_JSON = "JSON has no word for NaN or infinity: look for what made it (a rolled run may have exploded)"


def row_messages(rows: Rows, shape: Shape) -> Iterator[bytes]:
    """Yield a message for each vector, in the order of the rows."""
    history = _history_text(rows.history)
    for id_, vector in zip(rows.ids.tolist(), rows.vectors, strict=True):
        yield b'{%b,%b,"vector":%b}' % (_id_text(id_, shape), history, json_text.vector_text(vector))


def left_messages(rows: Rows, shape: Shape) -> list[bytes]:
    """Return a message for each id that left."""
    history = _history_text(rows.history)
    return [b'{%b,%b,"left":true}' % (_id_text(id_, shape), history) for id_ in rows.left.tolist()]


def deleted_below_message(floor: int, history: History) -> bytes:
    """Return the message that deletes rows of other histories, and every row below a version."""
    return b'{"deleted_below":%d,%b}' % (floor, _history_text(history))


def _id_text(id_: int | str, shape: Shape) -> bytes:
    return msgspec.json.encode(shape.id_fields(id_))[1:-1]


def _history_text(history: History) -> bytes:
    return msgspec.json.encode(as_values(history))[1:-1]
