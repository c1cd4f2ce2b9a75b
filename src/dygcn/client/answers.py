"""What the methods of a client return. Each answer has the `sequence` that it reflects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from dygcn.engine.events.row_errors import NOT_READ
from dygcn.engine.records import Float32, Float64
from dygcn.errors import ServiceError

Id = int | str


class Answer(msgspec.Struct, frozen=True):
    """An answer of the service."""

    sequence: int


class OneVector(Answer, frozen=True):
    """The vector of a node; of a moment of the past, with its digest and when it was logged."""

    id: Id
    vector: Float32
    digest: str | None = None
    logged: str | None = None


class Vectors(Answer, frozen=True):
    """The vectors of those ids that are in the graph, a row each, and the ids that are not."""

    ids: list[Id]
    vectors: Float32  # (len(ids), dim)
    missing: list[Id]
    digest: str | None = None
    logged: str | None = None


class ScoredNode(msgspec.Struct, frozen=True):
    """A node and its score."""

    id: Id
    score: float


class ScoredNodes(Answer, frozen=True):
    """Nodes, best first."""

    nodes: list[ScoredNode]


class NodesOf(msgspec.Struct, frozen=True):
    """The nodes of one node, best first."""

    id: Id
    nodes: list[ScoredNode]


class NearestOf(Answer, frozen=True):
    """The nearest nodes of each of many."""

    score_kind: str
    of: list[NodesOf]
    missing: list[Id]


class Recommended(Answer, frozen=True):
    """The likeliest links of a node, best first, and which of `among` are not in the graph."""

    id: Id
    score_kind: str
    nodes: list[ScoredNode]
    missing: list[Id]


class Scores(Answer, frozen=True):
    """A score for each pair; NaN where one of the two is not in the graph."""

    score_kind: str
    scores: Float64


class Linked(Answer, frozen=True):
    """With whom a node has an edge: how many there are, and the first of them by id."""

    id: Id
    degree: int
    neighbors: list[Id]


class Share(msgspec.Struct, frozen=True):
    """What a neighbour adds to a vector, projected onto it: of all orders, and of orders 1, 2, and so on."""

    id: Id
    share: float
    by_order: list[float]


class Explained(Answer, frozen=True):
    """What a vector is made of: `own`, `rounding`, the shares and `others` sum to its squared length."""

    id: Id
    squared_length: float
    own: float
    rounding: float
    degree: int
    neighbors: list[Share]
    others: float


class EventMoved(msgspec.Struct, frozen=True):
    """How far one event would move a node, and its share of the whole movement, projected onto it."""

    distance: float
    share: float


class Movement(Answer, frozen=True):
    """How far each event would move a node, in their order, removes before adds."""

    id: Id
    distance: float
    waiting: EventMoved
    events: list[EventMoved]


class WouldMove(msgspec.Struct, frozen=True):
    """A node that would move, and how far; None for one that is not in the graph now."""

    id: Id
    distance: float | None


class Trial(Answer, frozen=True):
    """What would be after a change; None in place of a node that would not be in the graph."""

    rows: int
    nodes: int
    edges: int
    moved: int
    furthest: list[WouldMove]
    left: list[Id]
    score_kind: str
    vectors: list[Float32 | None]
    nearest: list[list[ScoredNode] | None]
    recommend: list[list[ScoredNode] | None]
    scores: Float64


class BadRow(msgspec.Struct, frozen=True):
    """An event that went to the dead letters: its row in the call, and why."""

    row: int
    reason: str


class Accepted(Answer, frozen=True):
    """What became of one request of events."""

    status: str  # applied, or repeated
    applied: int
    dead: int
    bad: list[BadRow] = []


class Sent(Answer, frozen=True):
    """What became of events: they are on disk, and reads at or behind the sequence reflect them."""

    applied: int
    dead: int  # that went to the dead letters
    repeated: int  # that the service had already, from an earlier call that got no answer
    bad: list[BadRow]  # some of the dead ones: the first ten of each request


class Changed(msgspec.Struct, frozen=True):
    """A node that moved, its vector, and the sequence as of which it is right."""

    id: Id
    version: int
    vector: Float32


class Left(msgspec.Struct, frozen=True):
    """An id that is no longer in the graph, and since when."""

    id: Id
    version: int


class SurprisingEvent(msgspec.Struct, frozen=True):
    """An event, and how surprising it was before it happened."""

    sequence: int  # of its batch
    src: Id
    dst: Id
    surprise: float  # minus log P(dst | src), in nats
    rank: float | None  # share of the last hundred of `src` that surprised less; None of fewer than five
    reasons: list[str]  # what made it unlikely, the strongest first


class Changes(Answer, frozen=True):
    """A page of changes, each node once."""

    next: str  # the cursor behind this page
    latest: str  # the cursor behind all that there is
    reset: bool  # drop your copy before you take this in: all nodes follow
    more: bool  # another page is there already
    moved: list[Changed]
    left: list[Left]
    surprises: list[SurprisingEvent] = []  # where the service tracks them, oldest first
    surprises_missing_to: int | None = None  # sequence up to which some are not listed

    @property
    def news(self) -> bool:
        """Whether there is anything in the page."""
        return bool(self.moved or self.left or self.reset or self.surprises or self.surprises_missing_to)


class Letter(msgspec.Struct, frozen=True):
    """An event that could not be applied."""

    number: int
    received: float
    stream: str
    position: int
    row: int
    reason: str
    event: str  # as it came


class Letters(msgspec.Struct, frozen=True):
    """Dead letters, newest first, and how many there are in all."""

    total: int
    letters: list[Letter]


class NodeForgotten(Answer, frozen=True):
    """An id is forgotten; digests noted at an earlier sequence are void."""

    digest_before: str
    digest_after: str
    found: int  # 1 if it was in the graph
    entries: int  # of the log that were redacted
    dead_letters: int  # that were dropped


class Replayed(Answer, frozen=True):
    """What became of dead letters that were replayed.

    Numbers that are `missing` were replayed or discarded before, perhaps by a try of this very call whose
    answer was lost.
    """

    applied: int
    dead: int  # still, for a new reason
    missing: list[int]


class Discarded(Answer, frozen=True):
    """How many dead letters were discarded; for `missing` see `Replayed`."""

    discarded: int
    missing: list[int]


class Alarm(msgspec.Struct, frozen=True):
    """Something that an operator should look at."""

    name: str
    detail: str


class Status(Answer, frozen=True):
    """Everything worth knowing at a glance."""

    version: int
    nodes: int
    edges: int
    dim: int
    orders: int
    rule: str
    ids: str
    uptime: float
    accepting: bool
    failure: str | None
    alarms: list[Alarm]
    traffic: dict[str, Any]
    queue: dict[str, Any]
    snapshot: dict[str, Any]
    nearest: dict[str, Any]
    sources: list[dict[str, Any]]
    sinks: list[dict[str, Any]]


def read(body: bytes, shape: type[Any]) -> Any:
    """Read an answer; lists of numbers become arrays where the shape has them.

    Raises
    ------
    ServiceError
        If the body is anything else.

    Examples
    --------
    >>> read(b'{"sequence":3,"id":"ann","vector":[0.5,0.25]}', OneVector).vector
    array([0.5 , 0.25], dtype=float32)
    """
    try:
        return msgspec.json.decode(body, type=shape, dec_hook=_array)
    except NOT_READ as error:
        raise unreadable(error) from None


def unreadable(reason: object) -> ServiceError:
    """Return the error for an answer that is not one of this service."""
    return ServiceError(f"the answer cannot be used: {reason}; is this the address of dygcn?", status=200)


def check_about(found: Id, asked: Id) -> None:
    """Refuse an answer about another node; an id in an address is text, and "007" may be about 7."""
    same = str(found) == str(asked) or (isinstance(found, int) and _number(asked) == found)
    if not same:
        raise unreadable(f"it is about {str(found)[:80]!r}, and {str(asked)[:80]!r} was asked for")


def check_among(ids: Iterable[Id], asked: Iterable[Id]) -> None:
    """Refuse an answer that has other nodes."""
    others = set(ids).difference(asked)
    if others:
        raise unreadable(f"it has {str(others.pop())[:80]!r}, which was not asked for")


def _number(id: Id) -> int | None:
    try:
        return int(id)
    except (TypeError, ValueError):
        return None


def _array(kind: Any, values: Any) -> Any:
    found = np.array(values, np.float64 if kind == Float64 else np.float32)  # None becomes NaN
    if found.ndim != 1:
        raise ValueError("a vector is a list of numbers")
    return found
