"""What is asked of a shard, and what it answers.

A question names the batch that its answer must reflect at least; the answer names the one that it reflects.
A shard that is not so far, or still recovers, has no answer yet. Nodes are always named by their ids, and a
shard is asked about its own nodes only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dygcn.engine.graph.image import GraphImage
from dygcn.engine.records import LATER, Float32, Float64, IdColumn, Int8, Int16, Int32, Int64


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """What a batch did to own nodes."""

    at: int


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch did to the own nodes of a shard."""

    position: int
    known: bool  # False: a successor replayed the batch; `moved` is every own node, and who left is not known
    moved: IdColumn
    orders: Int8
    rows: int
    left: IdColumn
    unchanged: int
    missing: int
    loops: int
    kept: int  # the oldest snapshot of the shard: a successor needs the log from there on
    expired: int | None = field(default=None, metadata=LATER)  # ends of edges that left by the clock


@dataclass(frozen=True, slots=True)
class AskShard:
    """All own nodes, and how much there is."""

    at: int


@dataclass(frozen=True, slots=True)
class AboutShard:
    """The nodes of a shard."""

    position: int
    owner: Int16  # (SLOTS,) who owns each slot
    shards: int
    ids: IdColumn
    strength: Int64  # of each: the sum of weights that it aggregates
    clock: float | None
    bits: int  # low bits that no weight uses


@dataclass(frozen=True, slots=True)
class AskSize:
    """How many edges there are."""

    at: int


@dataclass(frozen=True, slots=True)
class Size:
    """Edges whose lower end by id (directed: source) is an own node; ghosts are none."""

    position: int
    edges: int


@dataclass(frozen=True, slots=True)
class AskVectors:
    """The vectors of own nodes."""

    at: int
    ids: IdColumn


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of those that are in the graph, in the order asked."""

    position: int
    here: Int8  # for each id: 1, 0 if it is not in the graph, -1 if another shard owns it as of `position`
    vectors: Float32  # of those that are here


@dataclass(frozen=True, slots=True)
class AskRows:
    """Messages (`order` 0 to K) of own nodes or, with `sums`, sums (1 to K)."""

    at: int
    ids: IdColumn
    order: int
    sums: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of nodes: messages and 1 where there is one, or sums and degrees; zero for nodes that are not."""

    position: int
    rows: Int64  # (n, width)
    degree: Int64  # (n,)


@dataclass(frozen=True, slots=True)
class AskNodes:
    """What the graph knows of own nodes."""

    at: int
    ids: IdColumn


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Zero, and minus infinity as a time, for nodes that are not in the graph."""

    position: int
    aggregates: Int32  # how many nodes
    aggregated: Int32  # by how many nodes
    strength: Int64
    contact: Float64  # when it was last in contact
    activity: Float32  # how often, as of then


@dataclass(frozen=True, slots=True)
class AskPairs:
    """What pairs of nodes are, the first of which (either, in an undirected graph) is an own one."""

    at: int
    a: IdColumn
    b: IdColumn


@dataclass(frozen=True, slots=True)
class PairFacts:
    """Zero, and minus infinity as a time, where there is nothing."""

    position: int
    weight: Int64  # stored: below zero a ghost
    ghost: Int64  # its full weight
    ghost_t: Float64
    last: Float64  # contact
    count: Float32


@dataclass(frozen=True, slots=True)
class AskArcs:
    """Whom own nodes aggregate (`push`: who aggregates them)."""

    at: int
    ids: IdColumn
    push: bool


@dataclass(frozen=True, slots=True)
class ArcsOf:
    """Arcs in the order of the nodes asked for."""

    position: int
    counts: Int64  # for each node
    other: IdColumn
    weight: Int64  # stored


@dataclass(frozen=True, slots=True)
class AskEdges:
    """The edges and ghosts whose lower end by id (directed: source) is an own node."""

    at: int


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of a shard, with all own nodes; `own` of the image says which nodes are."""

    position: int
    image: GraphImage


@dataclass(frozen=True, slots=True)
class AskNearest:
    """Own nodes with the greatest cosines."""

    at: int
    queries: Float32  # (q, dim)
    k: int


@dataclass(frozen=True, slots=True)
class Nearest:
    """For each query the k best, best first, ties by id; fewer where there are fewer."""

    position: int
    counts: Int64  # for each query
    ids: IdColumn
    scores: Float64


Question: TypeAlias = (
    AskOutcome
    | AskShard
    | AskSize
    | AskVectors
    | AskRows
    | AskNodes
    | AskPairs
    | AskArcs
    | AskEdges
    | AskNearest
)
Answer: TypeAlias = (
    BatchOutcome | AboutShard | Size | Vectors | Rows | NodeFacts | PairFacts | ArcsOf | Edges | Nearest
)
