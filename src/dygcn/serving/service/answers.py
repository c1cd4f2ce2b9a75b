"""What requests and answers look like. The OpenAPI page is written from these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dygcn.engine.records import DEFAULT_K, Float32
from dygcn.live.scoring import ScoreKind
from dygcn.serving.service.surprises import SurprisingEvent

Id = int | str
_LARGEST = 3.4028234663852886e38  # that a float32 can hold
Sequence = Annotated[int, Meta(ge=0, description="The event sequence that the answer reflects.")]
if TYPE_CHECKING:  # arrays are written as they are, see `json_text`; who reads gets lists
    from dygcn.live.durable.storage.log import EventLog

    Vector: TypeAlias = list[float] | Float32
    Vectors: TypeAlias = list[list[float]] | Float32
else:
    Vector, Vectors = list[float], list[list[float]]
Links = Literal["new", "all", "next", "listed", "filter"]
Query = list[Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]]


class Problem(msgspec.Struct, omit_defaults=True):
    """Why something was not done, as RFC 9457 has it; some types have members of their own."""

    type: str  # /problems/NAME: what programs look at
    title: str
    status: int
    detail: str  # what was wrong, what is allowed, what to do
    instance: str | None = None  # the id of the request
    expected: int | None = None  # after a gap, or of a forgotten client: the sequence to go on with
    retry_after: int | None = None  # seconds to stay away
    node: Id | None = None  # the id that is not in the graph


class BadRow(msgspec.Struct):
    """An event that went to the dead letters."""

    row: int
    reason: str


class Accepted(msgspec.Struct):
    """Events were taken: they are on disk and can be read."""

    sequence: Sequence
    status: str  # applied, or repeated
    applied: int
    dead: int
    bad: list[BadRow] = []  # the first ten


class OneVector(msgspec.Struct, omit_defaults=True):
    """The vector of a node; with `as_of` as it was, and the digest and time of that moment."""

    sequence: Sequence
    id: Id
    vector: Vector
    digest: str | None = None
    logged: str | None = None


class WantedVectors(msgspec.Struct, forbid_unknown_fields=True):
    """Ids whose vectors are wanted."""

    ids: list[Id]


class ManyVectors(msgspec.Struct, omit_defaults=True):
    """Vectors of those that are in the graph, or were as of a moment, and the ids of those that are not."""

    sequence: Sequence
    ids: list[Id]
    vectors: Vectors
    missing: list[Id]
    digest: str | None = None
    logged: str | None = None


class ScoredNode(msgspec.Struct):
    """A node and its cosine."""

    id: Id
    score: float


class ScoredNodes(msgspec.Struct):
    """The nearest nodes, nearest first."""

    sequence: Sequence
    nodes: list[ScoredNode]


class NodesOf(msgspec.Struct):
    """The answer for one node, best first."""

    id: Id
    nodes: list[ScoredNode]


class NearestNodes(msgspec.Struct):
    """The nearest nodes of a vector, or, where ids were named, of each of them that is in the graph."""

    sequence: Sequence
    nodes: list[ScoredNode] | UnsetType = UNSET  # of a vector
    score_kind: ScoreKind | UnsetType = UNSET  # of ids, as the rest
    of: list[NodesOf] | UnsetType = UNSET
    missing: list[Id] | UnsetType = UNSET


class WantedNearest(msgspec.Struct, forbid_unknown_fields=True):
    """A vector, or ids, whose neighbours are wanted."""

    vector: Query | UnsetType = UNSET
    ids: list[Id] | UnsetType = UNSET
    k: Annotated[int, Meta(ge=1)] = DEFAULT_K
    by: Literal["cosine", "score"] = "cosine"  # the score of a link is for ids
    kind: str | None = None  # of the answers, where nodes have kinds; by default a node's own, "*": every


class WantedScores(msgspec.Struct, forbid_unknown_fields=True):
    """Pairs whose scores are wanted; of two pairs the one with the higher score is likelier linked next."""

    pairs: list[tuple[Id, Id]]
    links: Links = "new"
    probability: bool = False  # instead of log-odds


class Scores(msgspec.Struct):
    """A score for each pair; null where one of the two is not in the graph."""

    sequence: Sequence
    score_kind: ScoreKind | Literal["probability"]
    scores: list[float | None]


class WantedNodes(msgspec.Struct, forbid_unknown_fields=True):
    """A node, and whom it may be recommended; by default everybody that it is not linked with."""

    id: Id
    k: Annotated[int, Meta(ge=1)] = DEFAULT_K
    among: list[Id] | None = None
    exclude_linked: bool = True
    links: Links | None = None  # by default "filter" or "new", and "next" where linked nodes are not left out
    kind: str | None = None  # of the answers; by default of its neighbours, "*": every


class Recommended(msgspec.Struct):
    """The likeliest links of a node, best first, and which of `among` are not in the graph."""

    sequence: Sequence
    id: Id
    score_kind: ScoreKind
    nodes: list[ScoredNode]
    missing: list[Id]


class Linked(msgspec.Struct):
    """With whom a node has an edge now: how many there are, and the first of them by id."""

    sequence: Sequence
    id: Id
    degree: int
    neighbors: list[Id]


class Share(msgspec.Struct):
    """What a neighbour adds to a vector, projected onto it: of all orders, and of orders 1, 2, and so on."""

    id: Id
    share: float
    by_order: list[float]


class Explained(msgspec.Struct):
    """What a vector is made of: `own`, `rounding` and the shares of all neighbours sum to its squared length.

    Of the neighbours, those with the greatest shares come first, and `others` is the sum of the rest.
    """

    sequence: Sequence
    id: Id
    squared_length: float
    own: float
    rounding: float
    degree: int  # how many neighbours have a share, removed ones that a memory still weighs included
    neighbors: list[Share]
    others: float


class WantedChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A change that is only tried."""

    events: msgspec.Raw | UnsetType = UNSET  # as for POST /v1/events
    add: list[tuple[Id, Id]] | None = None  # edges instead of events
    remove: list[tuple[Id, Id]] | None = None
    now: float | None = None  # the time of events without one


class WantedMovement(WantedChange, forbid_unknown_fields=True, kw_only=True):
    """A node, and a change of at most 1,000 events that would move it; nothing is changed."""

    id: Id


class EventMoved(msgspec.Struct):
    """How far one event would move a node, and its share of the whole movement, projected onto it."""

    distance: float
    share: float


class Movement(msgspec.Struct):
    """How far each event would move a node, in their order, removes before adds.

    The shares of all events and that of `waiting`, the passing of time, sum to the square of `distance`.
    """

    sequence: Sequence
    id: Id
    distance: float
    waiting: EventMoved
    events: list[EventMoved]


class WantedTrial(WantedChange, forbid_unknown_fields=True, kw_only=True):
    """A change, and what is asked about the graph as it would be; nothing is changed."""

    remove_nodes: list[Id] | None = None  # with all of their edges, after the events
    moved: Annotated[int, Meta(ge=0)] = 100  # how many of those who would move are named
    vectors: list[Id] = []
    nearest: list[Id] = []
    recommend: list[Id] = []
    scores: list[tuple[Id, Id]] = []
    k: Annotated[int, Meta(ge=1)] = DEFAULT_K
    links: Links = "new"


class WouldMove(msgspec.Struct):
    """A node that would move, and how far; null for one that is not in the graph now."""

    id: Id
    distance: float | None


class Trial(msgspec.Struct):
    """What would be; null in place of a node that would not be in the graph."""

    sequence: Sequence
    rows: int  # of state that the change would touch: its cost
    nodes: int
    edges: int
    moved: int  # how many would move
    furthest: list[WouldMove]
    left: list[Id]  # ids that would be gone
    score_kind: ScoreKind
    vectors: list[Vector | None]
    nearest: list[list[ScoredNode] | None]
    recommend: list[list[ScoredNode] | None]
    scores: list[float | None]


class Changed(msgspec.Struct):
    """A node that moved, its vector now, and the sequence at which it moved last."""

    id: Id
    version: int
    vector: Vector


class Left(msgspec.Struct):
    """An id that is no longer in the graph, and since when."""

    id: Id
    version: int


class Changes(msgspec.Struct):
    """What moved behind a cursor, each node once. Ask again with `next`; `latest` skips the rest."""

    sequence: Sequence
    next: str
    latest: str  # the cursor behind all that there is
    reset: bool  # forget all that you have before you take this in
    more: bool  # another page is there already
    moved: list[Changed]
    left: list[Left]
    surprises: list[SurprisingEvent] | UnsetType = UNSET  # where they are tracked, oldest first
    surprises_missing_to: int | UnsetType | None = UNSET  # sequence up to which some are not listed, or null


class Letter(msgspec.Struct):
    """An event that could not be applied."""

    number: int
    received: float
    stream: str
    position: int
    row: int
    reason: str
    event: str


class Letters(msgspec.Struct):
    """Dead letters, newest first; ask with `before` the last number for more."""

    total: int
    letters: list[Letter]

    @classmethod
    def of(
        cls, log: EventLog, limit: int, before: int | None, stream: str | None, reason: str | None
    ) -> Letters:
        """Return letters of a log, chosen as `EventLog.dead_letters` does."""
        found = log.dead_letters(limit, before, stream=stream, reason=reason)
        letters = [
            Letter(number, one.received, one.stream, one.offset, one.row, one.reason, one.event)
            for number, one in found
        ]
        return cls(log.count_dead_letters(), letters)


class Mended(msgspec.Struct, forbid_unknown_fields=True):
    """A dead letter, and the event to apply in its place."""

    number: Annotated[int, Meta(ge=0)]
    event: msgspec.Raw


class WantedReplay(msgspec.Struct, forbid_unknown_fields=True):
    """Dead letters to apply again: by number, mended, or all of a stream and of a reason (1,000 at most)."""

    numbers: list[Annotated[int, Meta(ge=0)]] = []
    stream: str | None = None
    reason: str | None = None  # words of it
    mended: list[Mended] = []


class Replayed(msgspec.Struct):
    """What became of dead letters: how many were applied, and how many are dead still, for a new reason."""

    sequence: Sequence
    applied: int
    dead: int
    missing: list[int]  # numbers of no letter: discarded, or replayed before


class Discarded(msgspec.Struct):
    """How many dead letters were discarded."""

    sequence: Sequence
    discarded: int
    missing: list[int]


class Alarm(msgspec.Struct):
    """Something that an operator should look at."""

    name: str
    detail: str


class Forgotten(msgspec.Struct):
    """A client is followed no longer: its next request is refused, with the number to go on with."""

    sequence: Sequence
    client: str
    known: bool  # whether there was such a client
    expected: int | None  # the number that it would have gone on with


class NodeForgotten(msgspec.Struct):
    """An id is forgotten; digests noted at an earlier sequence are void."""

    sequence: Sequence
    digest_before: str
    digest_after: str
    found: int  # 1 if it was in the graph
    entries: int  # of the log that were redacted
    dead_letters: int  # that were dropped


class QueueStatus(msgspec.Struct):
    """What waits to be applied."""

    events: int
    rows: int
    most_events: int
    most_rows: int
    shed: int  # requests that were refused
    lag_ms: float  # of the last transaction: from arrival to being readable


class TrafficStatus(msgspec.Struct):
    """How much comes in and goes out."""

    events: int
    requests: int
    reads: int
    dead_letters: int
    events_a_second: float
    reads_a_second: float


class Percentiles(msgspec.Struct):
    """Of times in milliseconds; null where nothing was counted."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


class LatencyStatus(msgspec.Struct):
    """How long answers took in the last minute, reader processes included."""

    seconds: float  # that were looked at
    reads: Percentiles
    writes: Percentiles
    lag: Percentiles  # of events, those of sources included: from arrival to being readable
    routes: dict[str, Percentiles]


class LoadSample(msgspec.Struct):
    """The load of a few seconds; null where nothing was counted."""

    time: float  # when they ended, in seconds since 1970
    events_a_second: float
    reads_a_second: float
    lag_p99_ms: float | None
    read_p99_ms: float | None
    write_p99_ms: float | None
    queued_events: int


class LoadHistory(msgspec.Struct):
    """The load of the last hour, oldest first."""

    sequence: Sequence
    now: float  # seconds since 1970, by the clock of the samples
    interval: float  # seconds of a sample
    samples: list[LoadSample]


class SnapshotStatus(msgspec.Struct):
    """How fast a restart would be."""

    sequence: int  # the last one that is on disk
    time: float  # when it was written, in seconds since 1970
    seconds: float  # that the last one took to write
    damage: list[str]
    failure: str | None = None  # of the last one that was tried; events are taken all the same


class Status(msgspec.Struct):
    """Everything worth knowing at a glance."""

    sequence: Sequence
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


class Alive(msgspec.Struct):
    """The process answers."""

    alive: bool


class Ready(msgspec.Struct):
    """Requests should come, and whether events are taken, too (not after a write failed: see /status)."""

    ready: bool
    accepting: bool
