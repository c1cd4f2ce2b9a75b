"""What requests and answers look like. The OpenAPI page is written from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Id = int | str
_LARGEST = 3.4028234663852886e38  # that a float32 can hold
Sequence = Annotated[int, Meta(ge=0, description="The event sequence that the answer reflects.")]
Vector = list[float]
Query = list[Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]]


class Problem(msgspec.Struct):
    """What was wrong, what is allowed, what to do."""

    kind: str
    message: str
    expected: int | None = None  # after a gap, or of a forgotten client: the sequence to go on with


class Refused(msgspec.Struct):
    """The answer when something is not done."""

    error: Problem


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


class OneVector(msgspec.Struct):
    """The vector of a node."""

    sequence: Sequence
    id: Id
    vector: Vector


class WantedVectors(msgspec.Struct, forbid_unknown_fields=True):
    """Ids whose vectors are wanted."""

    ids: list[Id]


class ManyVectors(msgspec.Struct):
    """Vectors of those that are in the graph, and the ids of those that are not."""

    sequence: Sequence
    ids: list[Id]
    vectors: list[Vector]
    missing: list[Id]


class Neighbour(msgspec.Struct):
    """A node and its cosine."""

    id: Id
    score: float


class Neighbours(msgspec.Struct):
    """The nearest nodes, nearest first."""

    sequence: Sequence
    neighbours: list[Neighbour]


class WantedNeighbours(msgspec.Struct, forbid_unknown_fields=True):
    """A vector whose neighbours are wanted."""

    vector: Query
    k: Annotated[int, Meta(ge=1)] = 10


class WantedScores(msgspec.Struct, forbid_unknown_fields=True):
    """Pairs whose scores are wanted; of two pairs the one with the higher score is likelier linked next."""

    pairs: list[tuple[Id, Id]]
    links: Literal["new", "all", "next"] = "new"


class Scores(msgspec.Struct):
    """A score for each pair; null where one of the two is not in the graph."""

    sequence: Sequence
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


class Forgotten(msgspec.Struct):
    """A client is followed no longer: its next request is refused, with the number to go on with."""

    sequence: Sequence
    client: str
    known: bool  # whether there was such a client
    expected: int | None  # the number that it would have gone on with


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


class SnapshotStatus(msgspec.Struct):
    """How fast a restart would be."""

    sequence: int
    seconds: float  # that the last one took to write
    damage: list[str]


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
    traffic: TrafficStatus
    queue: QueueStatus
    snapshot: SnapshotStatus
    nearest: dict[str, Any]
    sources: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    moved_last: list[Id]


class Point(msgspec.Struct):
    """A node on the map."""

    id: Id
    x: float
    y: float


class Map(msgspec.Struct):
    """Some nodes in two dimensions: the two directions in which their vectors differ most."""

    sequence: Sequence
    nodes: int
    points: list[Point]


class Health(msgspec.Struct):
    """Alive, and whether events are taken."""

    ok: bool
    accepting: bool
