"""The record of changes: which nodes moved, in order, each node once. Every reader has its own position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown, replace_together

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.graph import Graph
    from dygcn.engine.records import Bool, IdColumn, Int64, Nodes
    from dygcn.live.announcing import Unsaid

_LEAST = 16  # capacity, in entries
_LAST_NODE = (1 << 31) - 1
_MOST_WAITING = 1 << 16
_NOBODY = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Moves:
    """Nodes in the order in which they moved last."""

    positions: Int64  # (n,) growing
    sequences: Int64  # (n,) growing
    nodes: Nodes  # (n,) growing where the sequence is the same


@dataclass(frozen=True, slots=True)
class FeedImage:
    """When each node moved last and when each id left, without internal ids: the part of a snapshot."""

    moved: Int64  # (n,) the sequence of its last move, for each node in the order of the image's ids
    left: IdColumn  # (m,) ids that left, in that order
    left_at: Int64  # (m,) at which sequence, growing
    unsaid: Unsaid | None = None  # moves that a tolerance keeps back; None: none, or unknown


class ChangeRecord:
    """Which nodes moved, ordered by the sequence at which each moved last, then by their numbers.

    A writer only appends what an update did; a reader pays for sorting it, and for looking up the nodes that
    listen to a heavy node that moved. A listener that came or left since has an entry of its own, of a later
    sequence, so it does not matter when that is looked up.

    An entry has a position, a number that is given once. A reader that has seen all entries up to a position
    finds what moved since behind it. An entry whose node moved again is void; when the arrays are full, void
    entries are taken out. So appending costs the rows appended, reading the rows read, both amortised, and
    the memory is that of the nodes.
    """

    def __init__(self, nodes: int, sequence: int | Int64 = 0, graph: Graph | None = None) -> None:
        self._last = self._count = nodes
        self._graph = graph
        sequences: Int64 = np.full(nodes, sequence, np.int64)
        order = np.argsort(sequences, kind="stable")
        self._nodes: Nodes = order.astype(np.int32)
        self._sequences: Int64 = sequences[order]
        self._positions: Int64 = np.arange(1, nodes + 1)
        self._moved_at: Int64 = np.empty(nodes, np.int64)  # by node, the position of its entry; 0: none
        self._moved_at[order] = self._positions
        self._waiting: list[tuple[Nodes, Nodes, int]] = []  # who moved, heavy ones whose listeners did, when
        self._rows = 0  # that wait
        self.tick = self._pulled_tick = 0
        self._divided = 0 if graph is None else graph.divided
        self._ticks: Int64 = np.zeros(nodes, np.int64)  # by node, when its sums or its arcs changed last

    # ---- writing -----------------------------------------------------------------------------------

    def append(self, nodes: Nodes, sequence: int, heavy: Nodes = _NOBODY, turned: Nodes = _NOBODY) -> None:
        """Record that nodes and the listeners of heavy ones moved at a sequence; sequences never decrease.

        `turned` are nodes that pull a message no longer, or begin to.
        """
        self.note(nodes, heavy, turned)
        self.announce(nodes, sequence, heavy)

    def note(self, nodes: Nodes, heavy: Nodes, turned: Nodes) -> None:
        """Mark the vectors of these nodes as changed, for `is_fresh` alone."""
        self.tick += 1
        most = max((int(some.max()) for some in (nodes, turned) if len(some)), default=-1)
        if most >= len(self._ticks):
            self.reserve(most + 1)
        self._ticks[nodes] = self.tick
        if len(turned):
            self._ticks[turned] = self.tick
        if len(heavy):
            self._pulled_tick = self.tick

    def announce(self, nodes: Nodes, sequence: int, heavy: Nodes = _NOBODY) -> None:
        """Record that nodes and the listeners of heavy nodes moved, for `behind`."""
        if len(nodes) or len(heavy):
            self._waiting.append((nodes, heavy, sequence))
            self._rows += len(nodes) + len(heavy)
            if self._rows > max(_MOST_WAITING, len(self._moved_at)):
                self._settle()

    def reserve(self, high: int) -> None:
        """Grow to nodes below `high`."""
        moved_at, ticks = grown(self._moved_at, high), grown(self._ticks, high)
        replace_together(self, _moved_at=moved_at, _ticks=ticks)

    # ---- reading -----------------------------------------------------------------------------------

    def is_fresh(self, nodes: Nodes, read_at: Int64) -> Bool:
        """Return which vectors have not changed since they were read at these ticks; below 0: never read."""
        self._look_for_tiers()
        fresh: Bool = self._ticks[nodes] <= read_at
        if self._graph is not None and self._pulled_tick:
            fresh &= (self._graph.pull.upper[nodes] == 0) | (self._pulled_tick <= read_at)
        return fresh

    def one_is_fresh(self, node: int, read_at: int) -> bool:
        """Return the same for one node."""
        self._look_for_tiers()
        if self._ticks[node] > read_at:
            return False
        graph = self._graph
        return graph is None or self._pulled_tick <= read_at or not graph.pull.upper[node]

    def _look_for_tiers(self) -> None:
        """Mark every vector as stale if the graph's tiers were rebuilt: other nodes pull messages then."""
        if self._graph is not None and self._graph.divided != self._divided:
            self._divided = self._graph.divided
            self.tick += 1
            self._ticks[:] = self.tick

    @property
    def last(self) -> int:
        """The position of the last entry: a reader at this position has seen everything."""
        self._settle()
        return self._last

    def _settle(self) -> None:
        """Sort the waiting entries into the record."""
        if not self._waiting:
            return
        waiting = self._waiting
        sizes = [len(nodes) for nodes, _, _ in waiting]
        moved = np.concatenate([nodes for nodes, _, _ in waiting])
        when = np.repeat(np.array([at for _, _, at in waiting]), sizes)
        heavies = [(heavy, at) for _, heavy, at in waiting if len(heavy)]
        if heavies and self._graph is not None:
            heavy = np.concatenate([some for some, _ in heavies])
            at = np.repeat(np.array([at for _, at in heavies]), [len(some) for some, _ in heavies])
            heavy, at = _latest(heavy, at)
            owner, listener, _ = self._graph.push.arcs(heavy)
            by_node = np.argsort(heavy)
            moved = np.concatenate((moved, listener))
            when = np.concatenate((when, at[by_node][np.searchsorted(heavy[by_node], owner)]))
        if not len(moved):  # hubs that lost all of their neighbours
            replace_together(self, _waiting=[], _rows=0)
            return
        nodes, sequences = _latest(moved, when)
        start = self._count
        if start and self._sequences[start - 1] == sequences[0]:  # numbers shall grow inside it
            start = int(np.searchsorted(self._sequences[:start], sequences[0]))
            others = self._nodes[self._current(start, self._count)]
            again = [(others, _NOBODY, int(sequences[0])), *waiting]
            replace_together(self, _waiting=again, _count=start)  # an interrupt after it shall lose none
            first = np.full(len(others), sequences[0])
            nodes, sequences = _latest(np.concatenate((others, nodes)), np.concatenate((first, sequences)))
        self._put(start, nodes, sequences)

    def _put(self, start: int, nodes: Nodes, sequences: Int64) -> None:
        """Write entries from a row on, and empty the list of waiting ones."""
        most = int(nodes.max())
        if most >= len(self._moved_at):
            self.reserve(most + 1)
        if start + len(nodes) > len(self._nodes):
            start = self._make_capacity(start, len(nodes))
        end, last = start + len(nodes), self._last + len(nodes)
        positions = np.arange(self._last + 1, last + 1)
        self._nodes[start:end], self._sequences[start:end] = nodes, sequences
        self._positions[start:end] = positions
        self._moved_at[nodes] = positions
        replace_together(self, _count=end, _last=last, _waiting=[], _rows=0)

    def _current(self, start: int, end: int) -> Int64:
        """Return which entries from a row to another are not void."""
        current = self._moved_at[self._nodes[start:end]] == self._positions[start:end]
        return np.flatnonzero(current) + start

    def _make_capacity(self, start: int, rows: int) -> int:
        """Remove void entries and reserve rows at the end; return where these begin."""
        kept = self._current(0, start)
        size = max(len(kept) + rows + max(len(kept), rows), _LEAST)
        arrays = {name: getattr(self, name) for name in ("_nodes", "_sequences", "_positions")}
        fresh = {
            name: np.concatenate((array[kept], np.zeros(size - len(kept), array.dtype)))
            for name, array in arrays.items()
        }
        replace_together(self, **fresh, _count=len(kept))
        return len(kept)

    def sequences_of(self, nodes: Nodes) -> Int64:
        """Return the sequence of the last move of each node; 0 where none is recorded."""
        self._settle()
        current = self._current(0, self._count)
        found = np.zeros(max(len(self._moved_at), int(nodes.max(initial=-1)) + 1), np.int64)
        found[self._nodes[current]] = self._sequences[current]
        return found[nodes]

    def position_at(self, sequence: int, node: int) -> int:
        """Return the position after all entries below a sequence and, at that sequence, up to a node."""
        self._settle()
        before = self._sequences[: self._count]
        low, high = np.searchsorted(before, sequence), np.searchsorted(before, sequence, "right")
        # As int32, or the array would be copied as int64.
        row = low + np.searchsorted(self._nodes[low:high], np.int32(min(node, _LAST_NODE)), "right")
        return int(self._positions[row - 1]) if row else 0

    def behind(
        self, position: int, most: int | None = None, wanted: Callable[[Nodes], Bool] | None = None
    ) -> Moves:
        """Return the nodes that moved after a position, the earliest move first."""
        self._settle()
        start, count = int(np.searchsorted(self._positions[: self._count], position, "right")), self._count
        look, rows = count if most is None else most, np.empty(0, np.int64)
        while start < count and (most is None or len(rows) < most):
            end = min(start + look, count)
            found = self._current(start, end)
            if wanted is not None:
                found = found[wanted(self._nodes[found])]
            rows = np.concatenate((rows, found))
            start, look = end, 2 * look
        rows = rows[:most]
        return Moves(self._positions[rows], self._sequences[rows], self._nodes[rows])


def _latest(nodes: Nodes, sequences: Int64) -> tuple[Nodes, Int64]:
    """Return each node once, with its latest sequence, in the order of sequences, then of nodes."""
    order = np.lexsort((sequences, nodes))
    ranked = nodes[order]
    order = order[np.append(ranked[1:] != ranked[:-1], True)]
    nodes, sequences = nodes[order], sequences[order]
    order = np.argsort(sequences, kind="stable")
    return nodes[order], sequences[order]
