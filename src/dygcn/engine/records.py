"""READ FIRST: the records that packages pass to each other; ARCHITECTURE.md draws who makes which.

Users name nodes by their own *ids* (int64 or strings). `engine.graph` maps each id to a *node*, a dense int32
number that is reused after the node left; `live` maps nodes back to ids, and turns a `Changed` into the
`Change` that users see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Int8: TypeAlias = NDArray[np.int8]
Int16: TypeAlias = NDArray[np.int16]
Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]
Float32: TypeAlias = NDArray[np.float32]
Float64: TypeAlias = NDArray[np.float64]
Float: TypeAlias = NDArray[np.floating[Any]]
Times: TypeAlias = NDArray[np.float64 | np.int64]
Bool: TypeAlias = NDArray[np.bool_]
Stored: TypeAlias = NDArray[np.signedinteger[Any]]
"""Rows of sums or messages, in the narrowest integer type that holds their values."""
Progress: TypeAlias = "Callable[[int, int, str], None]"
"""Called with how much is done, of how much, and of what."""
Integer: TypeAlias = int | np.integer[Any]
"""A scalar inside a kernel."""
Nodes: TypeAlias = NDArray[np.int32]
"""Nodes: dense internal numbers."""

ScoreKind: TypeAlias = Literal["log-odds", "rank", "cosine", "filter"]
"""What the numbers of a score are."""

DEFAULT_K = 10
"""How many nodes an answer names unless another k is asked for: in Python, over HTTP and in commands."""


_NOBODY: Nodes = np.empty(0, np.int32)


@dataclass(slots=True)  # not frozen: faster to create, and every update creates one
class IdColumn:
    """User ids, all int64 or all UTF-8 strings, without a Python object for each."""

    values: Int64  # (n,) the ids themselves, or (n + 1,) offsets into `data` for strings
    data: Bytes | None = None  # UTF-8 bytes of all strings, one after the other

    @property
    def kind(self) -> str:
        """The type of the ids, ``"int64"`` or ``"string"``."""
        return "int64" if self.data is None else "string"

    def __len__(self) -> int:
        return len(self.values) - (self.data is not None)


@dataclass(slots=True)
class RelationColumn:
    """The relation of each event, as an index into the names of this batch."""

    codes: Int16  # (n,)
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(slots=True)  # not frozen: faster to create, and every update creates one
class EventBatch:
    """Edge events in arrival order, with valid ids, positive weights and finite times."""

    src: IdColumn  # (n,)
    dst: IdColumn  # (n,)
    op: Int8  # (n,) +1 add or replace, -1 remove
    weight: Float64 | None = None  # (n,) None: 1 everywhere
    t: Times | None = None  # (n,) None: events without times
    relation: RelationColumn | None = None  # (n,) None: without relations

    def __len__(self) -> int:
        return len(self.op)


@dataclass(slots=True)  # not frozen: faster to create, and every update creates one
class Written:
    """The effect of one batch on the graph, without its arcs."""

    left: Nodes  # nodes that left the graph
    unchanged: int  # adds of an edge that had the same weight already
    missing: int  # removes of an edge that did not exist
    loops: int  # self loops, dropped


@dataclass(slots=True)
class GraphDelta(Written):
    """The net effect of one batch on the graph, already written to it.

    In an arc, `receiver` aggregates `sender` with a weight; an undirected edge is two arcs.
    Weights are integers on the grid of the model; 0 is no arc.
    """

    receiver: Nodes  # (a,)
    sender: Nodes  # (a,)
    old: Int64  # (a,) weight before the batch
    new: Int64  # (a,) weight after it, never equal to old
    touched: Nodes  # (m,) ends of all events, also of events without effect
    arrived: Nodes  # nodes that entered the graph


@dataclass(frozen=True, slots=True)
class Parts:
    """The weights of relations in pairs; those of an edge add up to its weight."""

    pair: Int64  # (p,) which of the pairs that stand beside this
    relation: Int16  # (p,) its index among the relations of the model, which are sorted by name
    weight: Int64  # (p,) on the grid, above 0

    def placed(self, place: Int64) -> Parts:
        """Return the parts of renumbered pairs (-1: dropped), sorted by pair and relation."""
        pair = place[self.pair]
        order = np.lexsort((self.relation, pair))
        order = order[pair[order] >= 0]
        return Parts(pair[order], self.relation[order], self.weight[order])

    def tobytes(self) -> bytes:
        """Return all of it, for a digest."""
        return self.pair.tobytes() + self.relation.tobytes() + self.weight.tobytes()

    @staticmethod
    def joined(parts: Sequence[Parts | None], pairs: Sequence[int]) -> Parts | None:
        """Return several parts as one, for runs of `pairs` pairs each; None if one of them is missing."""
        some = [one for one in parts if one is not None]
        if len(some) < len(parts) or not parts:
            return None
        first = np.cumsum([0, *pairs[:-1]])
        return Parts(
            np.concatenate([one.pair + begin for one, begin in zip(some, first, strict=True)]),
            np.concatenate([one.relation for one in some]),
            np.concatenate([one.weight for one in some]),
        )


@dataclass(frozen=True, slots=True)
class FeatureDelta:
    """Rows of the input features x = h_0 that changed, on the integer grid of the model."""

    nodes: Nodes  # (n,)
    old: Int32  # (n, width) zero if the node had no row
    new: Int32  # (n, width) zero if it has none now
    had: Bool  # (n,) whether the node had a row
    has: Bool  # (n,) whether it has one now


@dataclass(frozen=True, slots=True)
class Influence:
    """The paper's V_1..V_K: each node in the lowest order at which the change can reach it."""

    orders: tuple[Nodes, ...]  # orders[k - 1] is V_k


@dataclass(slots=True)  # not frozen: faster to create, and every update creates one
class Changed:
    """Nodes whose state a rule changed, and the lowest order of the change."""

    nodes: Nodes  # (n,) no node twice
    orders: Int8  # (n,) 0 features, 1..K messages
    rows: int = 0  # rows of state that were added to (the cost)
    heavy: Nodes = field(default_factory=lambda: _NOBODY)  # (m,) heavy ones: their listeners moved, too
    turned: Nodes = field(default_factory=lambda: _NOBODY)  # pull other messages than before; did not move
    touched: Nodes | None = None  # ends of changed pairs; None: as the buffers of the graph have them


NO_CHANGE = Changed(_NOBODY, np.empty(0, np.int8))


@dataclass(frozen=True, slots=True)
class Message:
    """One undecoded message of a source: one event or many."""

    stream: str  # name of its ordered stream, the same after every restart: "kafka:clicks/3"
    offset: int  # in that stream, 0..2^63 - 1; grows from message to message, gaps are allowed
    body: bytes
    form: str = "json"  # json (an object, or a list of them), ndjson or arrow


@dataclass(frozen=True, slots=True)
class ForgetEvent:
    """An event of a message that asks for an id to be forgotten."""

    row: int  # its position in the message
    id: int | str
    t: int | float | None = None  # events of the id up to this time are old


@dataclass(frozen=True, slots=True)
class History:
    """A position in one log: the epoch of the log, a sequence in it, and the log's chain value there.

    The chain value covers every entry up to the sequence. Two logs that differ in any entry before a sequence
    have different chain values at it, also if one log is a copy of the other that diverged.
    """

    generation: int  # milliseconds since 1970 when the epoch began; of two epochs the greater one wins
    epoch: str  # random id, 16 hexadecimal digits
    sequence: int
    chain: str  # 32 hexadecimal digits


@dataclass(frozen=True, slots=True)
class Rows:
    """Changed vectors and ids that left, each node once, as of one position of a history."""

    ids: NDArray[Any]  # (n,) int64, or Python strings; ``kind:id`` where nodes have kinds
    vectors: Float32  # (n, dim)
    left: NDArray[Any]  # (m,) ids that are no longer in the graph; none of them is in `ids`
    history: History  # the position of these vectors: its sequence is the version of each row

    def __len__(self) -> int:
        return len(self.ids) + len(self.left)
