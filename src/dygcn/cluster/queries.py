"""Queries to shards and their replies, and how queries about any nodes reach their owners.

A query names the batch that its reply must reflect at least; the reply names the batch that it reflects. A
shard that did not apply that batch yet, or still recovers, has no reply yet. Nodes are always named by their
ids, and a shard is asked about its own nodes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from dygcn.cluster.messages import Entries, Record, ShardSnapshot
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import join_ids, take
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.records import Float32, Float64, IdColumn, Int8, Int16, Int32, Int64


class Query(Record, frozen=True):
    """Base of all queries."""

    at: int


class Reply(Record, frozen=True):
    """Base of all replies."""

    position: int


class OutcomeQuery(Query, frozen=True):
    """Asks what a batch did to own nodes."""


class OutcomeReply(Reply, frozen=True):
    """What a batch did to the own nodes of a shard."""

    known: bool  # False: a successor replayed the batch; `moved` is every own node, and who left is not known
    moved: IdColumn
    orders: Int8
    rows: int
    left: IdColumn
    kept: int  # the oldest snapshot of the shard: a successor needs the log from there on
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)  # as in `Applied`


class ShardQuery(Query, frozen=True):
    """Asks for all own nodes."""


class ShardReply(Reply, frozen=True):
    """The nodes of a shard."""

    owner: Int16  # (SLOTS,) the owner of each slot
    shards: int
    ids: IdColumn
    strength: Int64  # of each: the sum of weights that it aggregates
    clock: float | None
    bits: int  # low bits that no weight uses


class SizeQuery(Query, frozen=True):
    """Asks for the number of edges."""


class SizeReply(Reply, frozen=True):
    """Edges whose lower end by id (directed: source) is an own node, without ghosts."""

    edges: int


class VectorQuery(Query, frozen=True):
    """Asks for the vectors of own nodes."""

    ids: IdColumn


class VectorReply(Reply, frozen=True):
    """The vectors of nodes, zero for those that are not in the graph."""

    here: Int8  # for each id: 1, 0 if it is not in the graph, -1 if another shard owns it as of `position`
    vectors: Float32  # (n, dim)


class RowQuery(Query, frozen=True):
    """Asks for messages (`order` 0 to K) of own nodes or, with `sums`, for their sums (1 to K)."""

    ids: IdColumn
    order: int
    sums: bool = False


class RowReply(Reply, frozen=True):
    """Messages and 1 where there is one, or sums and degrees; zero for nodes that are not in the graph."""

    rows: Int64  # (n, width)
    degree: Int64  # (n,)


class NodeQuery(Query, frozen=True):
    """Asks for degrees and contacts of own nodes."""

    ids: IdColumn


class NodeReply(Reply, frozen=True):
    """Zero, and minus infinity as a time, for nodes that are not in the graph."""

    aggregates: Int32  # how many nodes
    aggregated: Int32  # by how many nodes
    strength: Int64
    contact: Float64  # time of the last contact
    activity: Float32  # count of contacts, as of then


class PairQuery(Query, frozen=True):
    """Asks about pairs whose first node (in an undirected graph: one of both) is an own one."""

    ids: IdColumn
    other: IdColumn


class PairReply(Reply, frozen=True):
    """Zero, and minus infinity as a time, where there is nothing."""

    weight: Int64  # stored: below zero a ghost
    ghost: Int64  # its full weight
    ghost_t: Float64
    last: Float64  # contact
    count: Float32


class ArcQuery(Query, frozen=True):
    """Asks which nodes own nodes aggregate (`push`: which nodes aggregate them)."""

    ids: IdColumn
    push: bool


class ArcReply(Reply, frozen=True):
    """Arcs in the order of the nodes of the query."""

    counts: Int64  # for each node
    other: IdColumn
    weight: Int64  # stored


class EdgeQuery(Query, frozen=True):
    """Asks for edges and ghosts whose lower end by id (directed: source) is an own node."""


class EdgeReply(Reply, frozen=True):
    """Edges of a shard, with all own nodes; `own` of the image marks these."""

    image: GraphImage


class NearestQuery(Query, frozen=True):
    """Asks for the own nodes with the greatest cosines."""

    queries: Float32  # (q, dim)
    k: int


class NearestReply(Reply, frozen=True):
    """For each query the k best, best first, ties by id; fewer where there are fewer."""

    counts: Int64  # for each query
    ids: IdColumn
    scores: Float64


class ShardProcesses(Protocol):
    """Where shards run: in this process, or on the machines of a Ray cluster."""

    def announce(self, entries: Entries) -> None:
        """Send all shards entries that are in the log; a shard that misses them fetches them."""

    def query(self, queries: Mapping[int, Query]) -> dict[int, Any]:
        """Send queries to several shards at once, and wait for all replies, through restarts.

        Raises `ClusterError` if a shard did not reply for a long time.
        """

    def add(self, number: int, snapshot: ShardSnapshot) -> None:
        """Begin a shard with a snapshot, and start a process for it."""

    def retire(self, number: int) -> None:
        """End the process of a shard that owns nothing any more."""

    def close(self) -> None:
        """End all processes."""


class ShardQueries:
    """Sends queries as of one batch to the owners of nodes; one about no node goes to the first shard.

    `at` is the batch that replies must reflect, `slots` and `shards` are as of it.
    """

    def __init__(self, processes: ShardProcesses, slots: SlotMap, shards: int, at: int) -> None:
        self.processes, self.slots, self.shards, self.at = processes, slots, shards, at

    def all(self, query: Query) -> list[Any]:
        """Send all shards the same query; return the replies by number."""
        replies = self.processes.query(dict.fromkeys(range(self.shards), query))
        return [replies[number] for number in range(self.shards)]

    def owners(self, query: Any) -> Any:
        """Send each owner the query about its nodes; return one reply, in the order of the nodes."""
        parts = self._by_owner(query)
        order = np.argsort(np.concatenate([rows for _, rows in parts]))
        first: Reply = parts[0][0]
        _, *names = first.__struct_fields__
        columns = {
            name: np.concatenate([getattr(reply, name) for reply, _ in parts])[order] for name in names
        }
        return msgspec.structs.replace(first, **columns)

    def arcs(self, ids: IdColumn, *, push: bool) -> tuple[Int64, IdColumn, Int64]:
        """Return how many arcs each node has, and all of them in the order of the nodes."""
        parts = self._by_owner(ArcQuery(self.at, ids, push))
        counts = np.zeros(len(ids), np.int64)
        for reply, rows in parts:
            counts[rows] = reply.counts
        owner_of_arc = np.concatenate([np.repeat(rows, one.counts) for one, rows in parts])
        order = np.argsort(owner_of_arc, kind="stable")
        weight = np.concatenate([one.weight for one, _ in parts])
        return counts, take(join_ids([one.other for one, _ in parts]), order), weight[order]

    def _by_owner(self, query: Any) -> list[tuple[Any, Int64]]:
        """Return the reply of each owner, and which rows of the query it is about."""
        names = [one for one in query.__struct_fields__ if isinstance(getattr(query, one), IdColumn)]
        owner = self.slots.owners(query.ids)
        rows = {number: np.flatnonzero(owner == number) for number in np.unique(owner).tolist() or [0]}
        parts = {
            number: msgspec.structs.replace(query, **{one: take(getattr(query, one), some) for one in names})
            for number, some in rows.items()
        }
        replies = self.processes.query(parts)
        return [(replies[number], some) for number, some in rows.items()]


def filled(count: int, rows: Int64, values: Any, absent: Any = 0) -> Any:
    """Return a column of so many rows, with values at some of them and `absent` at the others."""
    column = np.full((count, *values.shape[1:]), absent, values.dtype)
    column[rows] = values
    return column
