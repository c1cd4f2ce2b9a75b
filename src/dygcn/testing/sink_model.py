"""What a sink should hold, spelled out on a dict, and rows to write to it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from dygcn.records import Float32, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NodeId: TypeAlias = int | str
Held: TypeAlias = dict[NodeId, tuple[int, Float32]]
"""What is in a sink: the version and the vector of each node."""


@dataclass
class SinkModel:
    """A sink as a dict, with the rules for versions written as plain sentences of code.

    Examples
    --------
    >>> model = SinkModel()
    >>> model.write(make_rows({7: 3}, left={8: 3}, dim=2))
    >>> model.write(make_rows({7: 2, 8: 2}, dim=2))  # late: node 7 has version 3, node 8 left at 3
    >>> {id_: version for id_, (version, _) in model.held().items()}
    {7: 3}
    """

    known: dict[NodeId, tuple[int, Float32 | None]] = field(default_factory=dict)

    def write(self, rows: Rows) -> None:
        """Take each row whose version is later than what is known of its node."""
        for id_, version, vector in zip(rows.ids.tolist(), rows.versions.tolist(), rows.vectors, strict=True):
            self._take(id_, version, vector.copy())
        for id_, version in zip(rows.left.tolist(), rows.left_versions.tolist(), strict=True):
            self._take(id_, version, None)

    def settle(self, floor: int) -> None:
        """End every row below a version, as if its node had left just before."""
        for id_, (version, vector) in self.known.items():
            if version < floor and vector is not None:
                self.known[id_] = (floor - 1, None)

    def held(self) -> Held:
        """Return the nodes that are there."""
        return {id_: (version, vector) for id_, (version, vector) in self.known.items() if vector is not None}

    def _take(self, id_: NodeId, version: int, vector: Float32 | None) -> None:
        if version > self.known.get(id_, (-1, None))[0]:
            self.known[id_] = (version, vector)


def make_rows(moved: Mapping[Any, int], left: Mapping[Any, int] | None = None, *, dim: int) -> Rows:
    """Return rows of ids at versions; the vector follows from id and version.

    Examples
    --------
    >>> rows = make_rows({"ann": 4}, left={"bob": 5}, dim=3)
    >>> rows.ids, rows.vectors.shape, rows.left_versions
    (array(['ann'], dtype=object), (1, 3), array([5]))
    """
    left = left or {}
    strings = any(isinstance(id_, str) for id_ in (*moved, *left))
    vectors = np.zeros((len(moved), dim), np.float32)
    for row, (id_, version) in enumerate(moved.items()):
        vectors[row] = made_up_vector(id_, version, dim)
    return Rows(
        _ids(list(moved), strings),
        vectors,
        np.array(list(moved.values()), np.int64),
        _ids(list(left), strings),
        np.array(list(left.values()), np.int64),
    )


def made_up_vector(id_: NodeId, version: int, dim: int) -> Float32:
    """Return the vector that `make_rows` gives a node: any finite bits, the same each time."""
    bits = np.frombuffer(hashlib.shake_128(f"{version}:{id_}".encode()).digest(4 * dim), np.uint32)
    vector: Float32 = bits.view(np.float32)
    return np.where(np.isfinite(vector), vector, np.float32(1.5))


def replayed(bodies: Iterable[bytes]) -> Held:
    """Return what the messages of a broker amount to: the newest of each node, repeats dropped.

    Messages are those of `dygcn.sinks.json_rows`, in any order.

    Examples
    --------
    >>> first, again = b'{"id":7,"version":1,"vector":[0.5]}', b'{"id":7,"version":2,"vector":[1]}'
    >>> replayed([again, first, again])
    {7: (2, array([1.], dtype=float32))}
    >>> replayed([first, b'{"settled":2}'])
    {}
    """
    known: dict[NodeId, tuple[int, Float32 | None]] = {}
    floor = 0
    for body in bodies:
        message = msgspec.json.decode(body)
        if "settled" in message:
            floor = max(floor, message["settled"])
        elif message["version"] > known.get(message["id"], (-1, None))[0]:
            left = message.get("left", False)
            vector = None if left else np.array(message["vector"], np.float64).astype(np.float32)
            known[message["id"]] = (message["version"], vector)
    return {
        id_: (version, vector)
        for id_, (version, vector) in known.items()
        if vector is not None and version >= floor
    }


def _ids(ids: Sequence[NodeId], strings: bool) -> Any:
    if not strings:
        return np.array(ids, np.int64)
    column = np.empty(len(ids), object)
    column[:] = ids
    return column
