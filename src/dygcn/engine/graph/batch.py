"""Holders of the arrays that loops use to write a batch: of the batch, of nodes, of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class EventArrays:
    """Checked events by nodes: source and target, operation, weight on the grid, time (or no times)."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.src, self.dst, self.op, self.weight, self.t = arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return EventArrays, self.arrays


class BatchArrays:
    """Arrays of one batch, reused by the next. They never grow or move (see `PairBuffers`).

    Pairs are numbered in the order of their first mention, undirected ones as (lower, higher).
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # Of each pair: ends, stored weight before and after, last contact and count.
        self.a, self.b, self.old, self.new, self.last, self.count = arrays[:6]
        # Of each pair: full weight and time of removal of its ghost, where removed edges leave one.
        self.ghosts, self.ghost_t = arrays[6:8]
        # Of each event: its pair, or `UNKNOWN` or `LOOP`; what it was (see `constants`).
        self.pair_of, self.mark = arrays[8:10]
        # Of each pair: its seat in the table; the table, a power of two long, empty (-1) between batches.
        self.seat, self.table = arrays[10:12]
        # The pairs that are written.
        self.end_a, self.end_b, self.weight = arrays[12:15]
        # Pool and table entries that pull takes, then those that push takes; counts (see `constants`).
        self.needed, self.sizes = arrays[15:17]
        # Secret of the table.
        self.secret = arrays[17]
        # The arcs whose weight changed: receivers, then senders; old weights, then new ones.
        self.arcs, self.arc_weights = arrays[18:20]
        # A row each for the nodes that were touched, that came, that went, that never were there.
        self.nodes = arrays[20]
        # Of each pair: its last contact before the batch, where contacts are kept.
        self.before = arrays[21]

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchArrays, self.arrays


class NodeArrays:
    """One value for each node, of a `Graph`. The arrays never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # The sum of the weights that a node aggregates; counters of a batch, zero between batches.
        self.strength, self.change = arrays[:2]
        # Stays without an edge, too; is in the graph; marks of a batch, zero between batches.
        self.own, self.active, self.seen = arrays[2:5]
        # Last contact and count of contacts; empty where they are not kept.
        self.last, self.count = arrays[5:7]
        # Stamps of nodes that came and went, and of those whose arcs in `pull` were written.
        self.ticks = arrays[7]

    def __reduce__(self) -> tuple[Any, ...]:
        return NodeArrays, self.arrays


class GraphArrays:
    """All arrays that writing a batch needs, and the options of the graph."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.batch, self.pull, self.push, self.nodes, self.ghosts = arrays[:5]
        # Edges have a direction; nodes stay without edges; the limit of a node's strength.
        self.directed, self.stay, self.limit = arrays[5:8]
        # Of the weight of ghosts, 0: removed edges leave none; of contacts, 0: they are not kept.
        self.half_life, self.count_half_life = arrays[8:]

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphArrays, self.arrays
