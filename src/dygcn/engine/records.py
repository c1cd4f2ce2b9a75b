"""READ FIRST: the records that the rooms hand to each other.

events -> graph -> propagation -> readout -> live

========================  =======================================  =======================
record                    made by                                  taken by
========================  =======================================  =======================
`IdColumn`, `EventBatch`  `events` (validated once, there)         `graph`
`GraphDelta`              `graph` (net effect of a batch)          `propagation`
`FeatureDelta`            `features` (rows of x that changed)      `propagation`
`Influence`               `propagation.orders` (V_1..V_K)          every rule
`Additions`               `propagation.exact` (one order's work)   who watches (`costs`)
`Changed`                   `propagation` (what moved, which order)  `live`
`Moment`                  `datasets` (a step of a graph's past)     `evaluation`
`Message`                 `sources` (as it came, with its place)   `events.wire`, `live`
`History`                 `live` (which log, and how far in it)    `sinks`, the feed
`Rows`                    `live` (what moved, once for each node)  `sinks`, the feed
========================  =======================================  =======================

`live` turns a `Changed` into the `Change` that users see. Users speak in their own ids; everything
between `graph` and `live` speaks in *nodes*: dense internal ids, int32, recycled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Int8: TypeAlias = NDArray[np.int8]
Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]
Float32: TypeAlias = NDArray[np.float32]
Float64: TypeAlias = NDArray[np.float64]
Float: TypeAlias = NDArray[np.floating[Any]]
Bool: TypeAlias = NDArray[np.bool_]
Stored: TypeAlias = NDArray[np.signedinteger[Any]]
"""Rows of sums or messages, as narrow as their values allow."""
Integer: TypeAlias = int | np.integer[Any]
"""A scalar inside a kernel."""
Nodes: TypeAlias = NDArray[np.int32]
"""Dense internal ids."""


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
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


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
class EventBatch:
    """Edge events in arrival order, checked: ids readable, weights positive, times finite."""

    src: IdColumn  # (n,)
    dst: IdColumn  # (n,)
    op: Int8  # (n,) +1 add or replace, -1 remove
    weight: Float64 | None = None  # (n,) None: 1 everywhere
    t: Float64 | Int64 | None = None  # (n,) None: no time was given

    def __len__(self) -> int:
        return len(self.op)


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
class Written:
    """What one batch did to the graph, apart from its arcs."""

    left: Nodes  # nodes that were in the graph and are no more
    unchanged: int  # adds of an edge that had that weight
    missing: int  # removes of an edge that was not there
    loops: int  # self loops, dropped


@dataclass(slots=True)
class GraphDelta(Written):
    """The net effect of one batch on the graph, already written to it.

    An arc says "`receiver` aggregates `sender` with this weight"; an undirected edge is two arcs.
    Weights are integers on the grid of the model; 0 is no arc.
    """

    receiver: Nodes  # (a,)
    sender: Nodes  # (a,)
    old: Int64  # (a,) weight before
    new: Int64  # (a,) weight now, never equal to old
    touched: Nodes  # (m,) ends of every event, also where nothing changed in the end
    arrived: Nodes  # nodes that are in the graph now and were not before


@dataclass(frozen=True, slots=True)
class FeatureDelta:
    """Rows of the input features x = h_0 that changed, on the integer grid of the model."""

    nodes: Nodes  # (n,)
    old: Int32  # (n, width) zero where there was no row
    new: Int32  # (n, width) zero where there is none now
    had: Bool  # (n,)
    has: Bool  # (n,)


@dataclass(frozen=True, slots=True)
class Influence:
    """The paper's V_1..V_K: each node in the lowest order at which the change can reach it."""

    orders: tuple[Nodes, ...]  # orders[k - 1] is V_k


@dataclass(frozen=True, slots=True)
class Additions:
    """What one order adds to its sums, grouped so that each row is touched once."""

    order: int
    receivers: Nodes  # (n,) no node twice
    first: Int32  # (n + 1,) where the contributions to each begin
    row: Int32  # (m,) rows of the table
    factor: Int64  # (m,) what they are taken times
    table: Stored  # (r, width) messages and changes of messages

    def copied(self) -> Additions:
        """Return the same on arrays of its own."""
        return Additions(
            self.order,
            self.receivers.copy(),
            self.first.copy(),
            self.row.copy(),
            self.factor.copy(),
            self.table.copy(),
        )


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
class Changed:
    """What a rule moved: nodes whose state changed, and the lowest order at which it did."""

    nodes: Nodes  # (n,) no node twice
    orders: Int8  # (n,) 0 features, 1..K messages
    rows: int = 0  # rows of state that were added to (the cost)


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of a graph's history, kept without our engine. Nodes are numbered over the whole history."""

    src: Int64  # (n,) the events of the step, in order
    dst: Int64  # (n,)
    op: Int64  # (n,) +1 or -1
    edges: Int64  # (m, 2) undirected edges after them, each once, the lower end first
    t: Float64 | None = None  # (n,) when each event happened, in steps; None: no more is known than the step


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a source, as it came: one event or many."""

    stream: str  # which ordered stream it is of, the same after every restart: "kafka:clicks/3"
    position: int  # its place there, 0..2^63 - 1; grows from message to message, gaps are allowed
    body: bytes
    form: str = "json"  # json (an object, or a list of them), ndjson or arrow


@dataclass(frozen=True, slots=True)
class History:
    """A position in one log: the epoch of the log, a sequence in it, and the log's chain value there.

    The chain value covers every entry up to the sequence. Two logs that differ in any entry before a sequence
    have different chain values at it, also where one log is a copy of the other that went on by itself.
    """

    generation: int  # of the epoch: milliseconds since 1970 when it began; of two epochs the greater one wins
    epoch: str  # its random id, 16 hexadecimal digits
    sequence: int
    chain: str  # 32 hexadecimal digits


@dataclass(frozen=True, slots=True)
class Rows:
    """Vectors that moved and ids that left, each node once, as they are at one position of a history."""

    ids: NDArray[Any]  # (n,) int64, or Python strings
    vectors: Float32  # (n, dim)
    versions: Int64  # (n,) the sequence as of which each is right: that of `history`
    left: NDArray[Any]  # (m,) ids that are no longer in the graph; never one that is in `ids`
    left_versions: Int64  # (m,) the sequence as of which each is gone: that of `history`
    history: History  # the position whose vectors these are

    def __len__(self) -> int:
        return len(self.ids) + len(self.left)
