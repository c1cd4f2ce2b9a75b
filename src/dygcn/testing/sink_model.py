"""The expected content of a sink, on a dict, and rows to write to it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from dygcn.engine.records import Float32, History, Rows
from dygcn.serving.sinks.histories import admit, newest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NodeId: TypeAlias = int | str | tuple[str, str]
"""An id or, where rows say the kind of their node, the kind and the id."""
Held: TypeAlias = dict[NodeId, tuple[History, Float32]]
"""The content of a sink: the vector of each node, and the position of its row."""


@dataclass
class SinkModel:
    """A sink as a dict, with the rules for versions and histories written as plain sentences of code.

    Examples
    --------
    >>> model = SinkModel()
    >>> model.write(make_rows({7: 3}, left={8: 3}, dim=2))
    >>> model.write(make_rows({7: 2, 8: 2}, dim=2))  # late: node 7 has version 3, node 8 left at 3
    >>> {id_: history.sequence for id_, (history, _) in model.held().items()}
    {7: 3}
    >>> refit = make_rows({9: 1}, dim=2, generation=2)
    >>> model.write(refit)
    >>> model.delete_below(0, refit.history)
    >>> {id_: history.sequence for id_, (history, _) in model.held().items()}
    {9: 1}
    """

    known: dict[NodeId, tuple[History, Float32 | None]] = field(default_factory=dict)
    newest: History | None = None

    def write(self, rows: Rows) -> None:
        """Take each row that is newer than that of its node; raise OtherHistory for a stale writer."""
        if len(rows) == 0:
            return
        self._reach(rows.history)
        for id_, vector in zip(rows.ids.tolist(), rows.vectors, strict=True):
            self._take(id_, rows.history, vector.copy())
        for id_ in rows.left.tolist():
            self._take(id_, rows.history, None)

    def delete_below(self, floor: int, history: History) -> None:
        """Forget all other epochs; end every row below a version, as if its node had left just before."""
        self._reach(history)
        ours = {id_: row for id_, row in self.known.items() if row[0].epoch == history.epoch}
        for id_, (at, vector) in ours.items():
            if at.sequence < floor and vector is not None:
                ours[id_] = (History(at.generation, at.epoch, floor - 1, ""), None)
        self.known = ours

    def held(self) -> Held:
        """Return the nodes that are there."""
        return {id_: (history, vector) for id_, (history, vector) in self.known.items() if vector is not None}

    def empty(self) -> None:
        """Delete everything, as in a new target."""
        self.known, self.newest = {}, None

    def _reach(self, history: History) -> None:
        admit(self.newest, history, "the model")
        self.newest = newest([self.newest, history])

    def _take(self, id_: NodeId, history: History, vector: Float32 | None) -> None:
        known = self.known.get(id_)
        if known is None or _rank(history) > _rank(known[0]):
            self.known[id_] = (history, vector)


def _rank(history: History) -> tuple[int, int]:
    return history.generation, history.sequence


def made_up_history(sequence: int, generation: int = 1, epoch: str = "", branch: str = "") -> History:
    """Return a position; epoch and chain follow from the rest, the same each time.

    Parameters
    ----------
    sequence, generation
        Of the position.
    epoch
        Any text; two of them are two epochs of one generation.
    branch
        Any text; two of them are two copies of one epoch that went different ways.

    Examples
    --------
    >>> made_up_history(3) == made_up_history(3)
    True
    >>> made_up_history(3).epoch == made_up_history(3, branch="copy").epoch
    True
    >>> made_up_history(3).chain == made_up_history(3, branch="copy").chain
    False
    """
    name = hashlib.sha256(f"{generation}:{epoch}".encode()).hexdigest()[:16]
    chain = hashlib.sha256(f"{name}:{branch}:{sequence}".encode()).hexdigest()[:32]
    return History(generation, name, sequence, chain)


def make_rows(
    moved: Mapping[Any, int],
    left: Mapping[Any, int] | None = None,
    *,
    dim: int,
    generation: int = 1,
    epoch: str = "",
    branch: str = "",
) -> Rows:
    """Return rows of ids at a version, the same for all of them; vectors follow from ids and the position.

    Parameters
    ----------
    moved, left
        The version of each id, which is the sequence of the position: all are equal.
    dim
        Size of the vectors.
    generation, epoch, branch
        Which history, as in `made_up_history`.

    Examples
    --------
    >>> rows = make_rows({"ann": 4}, left={"bob": 4}, dim=3)
    >>> rows.ids, rows.vectors.shape, rows.left_versions, rows.history.sequence
    (array(['ann'], dtype=object), (1, 3), array([4]), 4)
    """
    left = left or {}
    versions = {*moved.values(), *left.values()}
    if len(versions) > 1:
        raise ValueError(f"rows of one write have one version; got {sorted(versions)}")
    history = made_up_history(versions.pop() if versions else 0, generation, epoch, branch)
    strings = any(isinstance(id_, str) for id_ in (*moved, *left))
    vectors = np.zeros((len(moved), dim), np.float32)
    for row, id_ in enumerate(moved):
        vectors[row] = made_up_vector(id_, history, dim)
    return Rows(
        _ids(list(moved), strings),
        vectors,
        np.array(list(moved.values()), np.int64),
        _ids(list(left), strings),
        np.array(list(left.values()), np.int64),
        history,
    )


def made_up_vector(id_: NodeId, history: History, dim: int) -> Float32:
    """Return the vector that `make_rows` gives a node: any finite bits, the same each time."""
    text = f"{history.chain}:{history.sequence}:{id_}"
    bits = np.frombuffer(hashlib.shake_128(text.encode()).digest(4 * dim), np.uint32)
    vector: Float32 = bits.view(np.float32)
    return np.where(np.isfinite(vector), vector, np.float32(1.5))


def replayed(bodies: Iterable[bytes]) -> Held:
    """Return the newest row of each node from the messages of a broker.

    A reader of an append-only sink does the same. Messages are those of
    `dygcn.serving.sinks.json_rows`, in any order. Versions are compared behind generations: a later epoch
    begins with small versions again.

    Examples
    --------
    >>> def message(text, generation, version):
    ...     return b'{%b,"generation":%d,"epoch":"e%d","version":%d,"chain":"c"}' % (
    ...         text, generation, generation, version)
    >>> first, again = message(b'"id":7,"vector":[0.5]', 1, 1), message(b'"id":7,"vector":[1]', 1, 2)
    >>> {id_: (at.sequence, vector) for id_, (at, vector) in replayed([again, first, again]).items()}
    {7: (2, array([1.], dtype=float32))}
    >>> replayed([again, message(b'"deleted_below":0', 2, 1)])  # generation 2 holds nothing
    {}
    """
    known: dict[NodeId, tuple[History, Float32 | None]] = {}
    floor = 0, 0
    for body in bodies:
        message = msgspec.json.decode(body)
        at = History(message["generation"], message["epoch"], message["version"], message["chain"])
        if "deleted_below" in message:
            floor = max(floor, (at.generation, message["deleted_below"]))
            continue
        id_ = named(message["id"], message.get("kind"))
        if id_ not in known or _rank(at) > _rank(known[id_][0]):
            left = message.get("left", False)
            vector = None if left else np.array(message["vector"], np.float64).astype(np.float32)
            known[id_] = (at, vector)
    return {
        id_: (at, vector) for id_, (at, vector) in known.items() if vector is not None and _rank(at) >= floor
    }


def named(id_: Any, kind: str | None) -> NodeId:
    """Return what `Held` calls the node of a row with an id and, if rows say it, a kind."""
    return id_ if kind is None else (kind, id_)


def _ids(ids: Sequence[NodeId], strings: bool) -> Any:
    if not strings:
        return np.array(ids, np.int64)
    column = np.empty(len(ids), object)
    column[:] = ids
    return column
