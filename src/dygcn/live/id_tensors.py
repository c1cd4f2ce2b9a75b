"""Columns of ids in the files of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events.kinds import kinds_of
from dygcn.engine.models.folder import take_tensor
from dygcn.engine.records import IdColumn

if TYPE_CHECKING:
    from dygcn.engine.models.folder import Tensors


def id_tensors(name: str, ids: IdColumn) -> Tensors:
    """Return the tensors of a column of ids."""
    return {name: ids.values} if ids.data is None else {name: ids.values, f"{name}_utf8": ids.data}


def take_ids(tensors: Tensors, name: str, kind: str) -> IdColumn:
    """Take a column of ids out of the tensors of a file; a ValueError if it is none of its type."""
    values = take_tensor(tensors, name, np.int64)
    if kind == "int64":
        return IdColumn(values)
    data = take_tensor(tensors, f"{name}_utf8", np.uint8)
    lengths = np.diff(values)
    if (
        len(values) == 0
        or values[0] != 0
        or values[-1] != len(data)
        or ((lengths < 0) | (lengths > 256)).any()
    ):
        raise ValueError("ids whose offsets do not fit")
    text = data.tobytes()
    text.decode("utf-8")
    if any(text[i] & 0xC0 == 0x80 for i in values[:-1].tolist() if i < len(text)):
        raise ValueError("an id that is not UTF-8")
    ids, kinds = IdColumn(values, data), kinds_of(kind)
    if kinds is not None and not kinds.fit(ids):
        raise ValueError("an id of another kind, or of another type than its kind has")
    return ids
