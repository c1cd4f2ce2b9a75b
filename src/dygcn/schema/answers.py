"""Answers of the service, which clients decode to the same classes; the OpenAPI page is written from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dygcn.engine.records import Float32, Float64, ScoreKind

Id = int | str
Sequence = Annotated[int, Meta(ge=0, description="The event sequence that the answer reflects.")]
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_OR_NULL = {"type": ["number", "null"]}
# JSON has lists where Python has arrays.
_Rows = Annotated[Float32, Meta(extra_json_schema={"items": _NUMBERS})]
_MaybeScores = Annotated[Float64, Meta(extra_json_schema={"items": _OR_NULL})]  # NaN is null


class Answer(msgspec.Struct, frozen=True):
    """An answer of the service, and the event sequence that it reflects."""

    sequence: Sequence


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why something was not done, as RFC 9457 has it; some types have members of their own."""

    type: str  # /problems/NAME: what programs look at
    title: str
    status: int
    detail: str  # what was wrong, what is allowed, what to do
    instance: str | None = None  # the id of the request
    expected: int | None = None  # after a gap, or of a forgotten client: the sequence to go on with
    retry_after: int | None = None  # seconds to stay away
    node: Id | None = None  # the id that is not in the graph


class BadRow(msgspec.Struct, frozen=True):
    """An event that went to the dead letters."""

    row: int
    reason: str


class Accepted(Answer, frozen=True):
    """Events were taken: they are on disk and can be read."""

    status: str  # applied, or repeated
    applied: int
    dead: int
    bad: list[BadRow] = []  # the first ten


class Sent(Answer, frozen=True):
    """What became of all events of a call of a client, which may have been several requests."""

    applied: int
    dead: int  # that went to the dead letters
    repeated: int  # that the service had already, from an earlier call that got no answer
    bad: list[BadRow]  # some of the dead ones: the first ten of each request


class OneVector(Answer, frozen=True, omit_defaults=True):
    """The vector of a node; with `as_of`, that of an earlier moment, with its digest and time."""

    id: Id
    vector: Float32
    digest: str | None = None
    logged: str | None = None


class ManyVectors(Answer, frozen=True, omit_defaults=True):
    """Vectors of the ids that are in the graph, now or as of a moment, and the ids that are not."""

    ids: list[Id]
    vectors: _Rows  # a row each
    missing: list[Id]
    digest: str | None = None
    logged: str | None = None


class ScoredNode(msgspec.Struct, frozen=True):
    """A node and its cosine."""

    id: Id
    score: float


class ScoredNodes(Answer, frozen=True):
    """The nearest nodes, nearest first."""

    nodes: list[ScoredNode]


class NodesOf(msgspec.Struct, frozen=True):
    """The answer for one node, best first."""

    id: Id
    nodes: list[ScoredNode]


class NearestOf(Answer, frozen=True):
    """The nearest nodes of each of many, and which ids are not in the graph."""

    of: list[NodesOf]
    missing: list[Id]


class Scores(Answer, frozen=True):
    """A score for each pair; null where one of the two is not in the graph."""

    score_kind: ScoreKind | Literal["probability"]
    scores: _MaybeScores


class Recommended(Answer, frozen=True):
    """The likeliest links of a node, best first, and which of `among` are not in the graph."""

    id: Id
    score_kind: ScoreKind
    nodes: list[ScoredNode]
    missing: list[Id]


class Neighbors(Answer, frozen=True):
    """The nodes that a node has an edge with: their number, and the first of them by id."""

    id: Id
    degree: int
    neighbors: list[Id]


class Share(msgspec.Struct, frozen=True):
    """What a neighbour adds to a vector, projected onto it: of all orders, and of orders 1, 2, and so on."""

    id: Id
    share: float
    by_order: list[float]


class ExplainedVector(Answer, frozen=True):
    """What a vector is made of: `own`, `rounding` and the shares of all neighbours sum to its squared length.

    Of the neighbours, those with the greatest shares come first, and `others` is the sum of the rest.
    """

    id: Id
    squared_length: float
    own: float
    rounding: float
    degree: int  # how many neighbours have a share, removed ones that a memory still weighs included
    neighbors: list[Share]
    others: float


class EventMovement(msgspec.Struct, frozen=True):
    """How far one event would move a node, and its share of the whole movement, projected onto it."""

    distance: float
    share: float


class ExplainedMove(Answer, frozen=True):
    """How far each event would move a node, in their order, removes before adds.

    The shares of all events and that of `waiting`, the passing of time, sum to the square of `distance`.
    """

    id: Id
    distance: float
    waiting: EventMovement
    events: list[EventMovement]


class WouldMove(msgspec.Struct, frozen=True):
    """A node that would move, and how far; null for one that is not in the graph now."""

    id: Id
    distance: float | None


class WhatIfAnswer(Answer, frozen=True):
    """The result of a trial; null in place of a node that would not be in the graph."""

    rows: int  # of state that the change would touch: its cost
    nodes: int
    edges: int
    moved: int  # how many would move
    furthest: list[WouldMove]
    left: list[Id]  # ids that would be gone
    score_kind: ScoreKind
    vectors: list[Float32 | None]
    nearest: list[list[ScoredNode] | None]
    recommend: list[list[ScoredNode] | None]
    scores: _MaybeScores


class MovedNode(msgspec.Struct, frozen=True):
    """A node that moved, its vector now, and the sequence at which it moved last."""

    id: Id
    version: int
    vector: Float32


class LeftNode(msgspec.Struct, frozen=True):
    """An id that left the graph, and the sequence at which it left."""

    id: Id
    version: int


class SurprisingEvent(msgspec.Struct, frozen=True):
    """An event, and how surprising it was before it happened."""

    sequence: int  # of its batch: events of one batch share it
    src: Id
    dst: Id
    surprise: float  # minus log P(dst | src), in nats
    rank: float | None  # share of the last hundred of `src` that surprised less; null of fewer than five
    reasons: list[str]  # what made it unlikely, the strongest first


class Changes(Answer, frozen=True):
    """The changes after a cursor, each node once. Continue with `next`; `latest` skips the rest."""

    next: str
    latest: str  # the cursor behind all that there is
    reset: bool  # forget all that you have before you take this in
    more: bool  # another page is there already
    moved: list[MovedNode]
    left: list[LeftNode]
    surprises: list[SurprisingEvent] = []  # where they are tracked, oldest first
    surprises_missing_to: int | None = None  # sequence up to which some are not listed

    @property
    def news(self) -> bool:
        """Whether the page holds anything; surprising or missing events count even if no node moved."""
        return bool(self.moved or self.left or self.reset or self.surprises or self.surprises_missing_to)


class ListedDeadLetter(msgspec.Struct, frozen=True):
    """An event that could not be applied."""

    number: int
    received: float
    stream: str
    offset: int
    row: int
    reason: str
    event: str  # as it came

    @classmethod
    def of(cls, number: int, letter: Any) -> ListedDeadLetter:
        """Return a dead letter of the log with its number."""
        about = letter.received, letter.stream, letter.offset, letter.row, letter.reason, letter.event
        return cls(number, *about)


class DeadLetters(msgspec.Struct, frozen=True):
    """Dead letters, newest first; for more, pass the last number as `before`."""

    total: int
    dead_letters: list[ListedDeadLetter]


class ReplayResult(Answer, frozen=True):
    """The result of a replay: events applied, and events that failed again with a new reason."""

    applied: int
    dead: int
    missing: list[int]  # numbers of no letter: discarded, or replayed before


class DiscardResult(Answer, frozen=True):
    """How many dead letters were discarded."""

    discarded: int
    missing: list[int]


class Alarm(msgspec.Struct, frozen=True):
    """Something that an operator should look at."""

    name: str
    detail: str


class ClientForgotten(Answer, frozen=True):
    """A client was forgotten: its next request is refused, with the offset to continue from."""

    client: str
    known: bool  # whether there was such a client
    expected: int | None  # the number that it would have gone on with


class NodeForgotten(Answer, frozen=True):
    """An id is forgotten; digests noted at an earlier sequence are void."""

    digest_before: str
    digest_after: str
    found: int  # 1 if it was in the graph
    entries: int  # of the log that were redacted
    dead_letters: int  # that were dropped


class QueueStatus(msgspec.Struct, frozen=True):
    """The work that waits in the queue."""

    events: int
    rows: int
    most_events: int
    most_rows: int
    shed: int  # requests that were refused
    lag_ms: float  # of the last transaction: from arrival to being readable


class TrafficStatus(msgspec.Struct, frozen=True):
    """Events, requests and reads: counts and rates."""

    events: int
    requests: int
    reads: int
    dead_letters: int
    events_a_second: float
    reads_a_second: float


class Percentiles(msgspec.Struct, frozen=True):
    """Of times in milliseconds; null where nothing was counted."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


class LatencyStatus(msgspec.Struct, frozen=True):
    """How long answers took in the last minute, reader processes included."""

    seconds: float  # that were looked at
    reads: Percentiles
    writes: Percentiles
    lag: Percentiles  # of events, those of sources included: from arrival to being readable
    routes: dict[str, Percentiles]


class LoadSample(msgspec.Struct, frozen=True):
    """The load of a few seconds; null where nothing was counted."""

    time: float  # when they ended, in seconds since 1970
    events_a_second: float
    reads_a_second: float
    lag_p99_ms: float | None
    read_p99_ms: float | None
    write_p99_ms: float | None
    queued_events: int


class LoadSamples(Answer, frozen=True):
    """The load of the last hour, oldest first."""

    now: float  # seconds since 1970, by the clock of the samples
    interval: float  # seconds of a sample
    samples: list[LoadSample]


class SnapshotStatus(msgspec.Struct, frozen=True):
    """How fast a restart would be."""

    sequence: int  # the last one that is on disk
    time: float  # when it was written, in seconds since 1970
    seconds: float  # that the last one took to write
    damage: list[str]
    failure: str | None = None  # of the last one that was tried; events are taken all the same


class ServiceStatus(Answer, frozen=True):
    """The status of the service at a glance."""

    version: int
    nodes: int
    edges: int
    unreached: int  # nodes that no row of a walk model reaches: they read as random signs
    dim: int
    orders: int
    rule: str
    ids: str
    uptime: float
    accepting: bool
    failure: str | None
    alarms: list[Alarm]
    traffic: TrafficStatus
    queue: QueueStatus
    latency: LatencyStatus
    snapshot: SnapshotStatus
    nearest: dict[str, Any]
    sources: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    moved_last: list[Id]


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    alive: bool


class Ready(msgspec.Struct, frozen=True):
    """Whether the service accepts requests, and whether it accepts events (not after a write failed)."""

    ready: bool
    accepting: bool


class MapPoint(msgspec.Struct, frozen=True):
    """A node on the map."""

    id: Id
    x: float
    y: float
    community: int


class ChosenNode(Answer, frozen=True):
    """A node on the map with its nearest nodes; a node that is not drawn lies beside its nearest."""

    id: Id
    points: list[MapPoint]  # the node is the first one
    near: list[Id]  # by cosine, nearest first
    linked: list[Id]  # the first of them by id


class Map(Answer, frozen=True):
    """Some nodes in two dimensions, those with near vectors together, in communities of near vectors."""

    nodes: int  # of the graph
    communities: int  # numbered from 0
    points: list[MapPoint]
    chosen: ChosenNode | None
