"""Arrays that the loops of a batch work in: for its pairs, for what it changes, and those of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from dygcn.engine.graph.ticks import Ticks
    from dygcn.engine.records import Float32, Float64, Int8, Int32, Int64


class BatchArrays:
    """Arrays of one batch, which the next one fills again. They never grow or move (see `PairBuffers`).

    Pairs are numbered in the order of their first mention, undirected ones as (lower, higher).

    Parameters
    ----------
    a, b, old, new, last, count
        Of every pair: ends, stored weight before and after, last contact and count.
    before
        Of every pair: its last contact before the batch, where contacts are kept.
    ghosts, ghost_t
        Of every pair: full weight and time of removal of its ghost, where removed edges are remembered.
    pair_of, mark
        Of every event: its pair, or `UNKNOWN` or `LOOP`; what it was (see `outcomes`).
    seat, table
        Of every pair: its seat in a table; the table, a power of two long, empty (-1) between batches.
    end_a, end_b, weight
        The pairs that are written.
    needed
        Pool and table entries that pull takes, then those that push takes.
    sizes
        How many of all that there are; see `outcomes`.
    secret
        Of the table.
    arcs, arc_weights
        The arcs that weigh another thing now: receivers, then senders; old weights, then new ones.
    nodes
        The touched nodes, those that came, that went, that never were there: a row for each.
    """

    def __init__(
        self,
        a: Int32,
        b: Int32,
        old: Int64,
        new: Int64,
        last: Float64,
        count: Float32,
        ghosts: Int64,
        ghost_t: Float64,
        pair_of: Int32,
        mark: Int8,
        seat: Int32,
        table: Int32,
        end_a: Int32,
        end_b: Int32,
        weight: Int64,
        needed: Int64,
        sizes: Int64,
        secret: Int64,
        arcs: Int32,
        arc_weights: Int64,
        nodes: Int32,
        before: Float64,
    ) -> None:
        pairs = a, b, old, new, last, count, ghosts, ghost_t
        numbers = pair_of, mark, seat, table, end_a, end_b, weight, needed, sizes, secret
        self.arrays = *pairs, *numbers, arcs, arc_weights, nodes, before
        self.a, self.b, self.old, self.new, self.last, self.count = a, b, old, new, last, count
        self.ghosts, self.ghost_t = ghosts, ghost_t
        self.pair_of, self.mark, self.seat, self.table = pair_of, mark, seat, table
        self.end_a, self.end_b, self.weight = end_a, end_b, weight
        self.needed, self.sizes, self.secret = needed, sizes, secret
        self.arcs, self.arc_weights, self.nodes, self.before = arcs, arc_weights, nodes, before

    def __reduce__(self) -> tuple[type[BatchArrays], tuple[Any, ...]]:
        return BatchArrays, self.arrays


class NodeArrays:
    """One value for each node, of a `Graph`. The arrays never grow or move.

    Parameters
    ----------
    strength, change
        The sum of the weights that a node aggregates; counters of a batch, zero between batches.
    own, active, seen
        Is there without an edge, too; is in the graph; marks of a batch, zero between batches.
    last, count
        Last contact and count of contacts; empty where they are not kept.
    ticks
        Stamps of nodes that came and went, and of those whose arcs in `pull` were written.
    """

    def __init__(
        self,
        strength: Int64,
        change: Int64,
        own: Int8,
        active: Int8,
        seen: Int8,
        last: Float64,
        count: Float32,
        ticks: Ticks,
    ) -> None:
        self.arrays = strength, change, own, active, seen, last, count, ticks
        self.strength, self.change = strength, change
        self.own, self.active, self.seen = own, active, seen
        self.last, self.count, self.ticks = last, count, ticks

    def __reduce__(self) -> tuple[type[NodeArrays], tuple[Any, ...]]:
        return NodeArrays, self.arrays
