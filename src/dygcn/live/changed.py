"""Who moved since: one ordered record, each node once, and whoever reads it keeps a position of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown, replace_together

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import Bool, IdColumn, Int64, Nodes

_LEAST = 16  # capacity, in entries
_LAST_NODE = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Moves:
    """Nodes in the order in which they moved last."""

    positions: Int64  # (n,) growing
    sequences: Int64  # (n,) growing
    nodes: Nodes  # (n,) growing where the sequence is the same


@dataclass(frozen=True, slots=True)
class FeedImage:
    """Who moved and who left when, without internal ids: what a snapshot holds of it."""

    moved: Int64  # (n,) the sequence of its last move, for each node in the order of the image's ids
    left: IdColumn  # (m,) ids that left, in that order
    left_at: Int64  # (m,) at which sequence, growing


class ChangeRecord:
    """Which nodes moved, ordered by the sequence at which each moved last, then by their numbers.

    An entry has a position, a number that is given once. A reader that has seen all entries up to a position
    finds what moved since behind it. An entry whose node moved again is void; when the arrays are full, void
    entries are taken out. So appending costs the rows appended, reading the rows read, both amortised, and
    the memory is that of the nodes.

    Parameters
    ----------
    nodes
        How many nodes there are, present or not: they moved before the record began.
    sequence
        At which they did: one for all of them, or one for each.

    Attributes
    ----------
    last
        The position of the last entry: a reader there has seen everything.
    moved_at
        By node, the position of its entry; 0 for a node that has none.

    Examples
    --------
    >>> changes = ChangeRecord(4, sequence=7)
    >>> position = changes.last
    >>> changes.append(np.array([3, 1], np.int32), sequence=8)
    >>> changes.append(np.array([1], np.int32), sequence=9)
    >>> changes.behind(position).nodes.tolist(), changes.behind(0).nodes.tolist()
    ([3, 1], [0, 2, 3, 1])
    """

    def __init__(self, nodes: int, sequence: int | Int64 = 0) -> None:
        self.last = self._count = nodes
        sequences: Int64 = np.full(nodes, sequence, np.int64)
        order = np.argsort(sequences, kind="stable")
        self._nodes: Nodes = order.astype(np.int32)
        self._sequences: Int64 = sequences[order]
        self._positions: Int64 = np.arange(1, nodes + 1)
        self.moved_at: Int64 = np.empty(nodes, np.int64)
        self.moved_at[order] = self._positions

    def reserve(self, high: int) -> None:
        """Grow `moved_at` to nodes below `high`."""
        self.moved_at = grown(self.moved_at, high)

    def append(self, nodes: Nodes, sequence: int) -> None:
        """Say that nodes moved at a sequence, which is not lower than any before it."""
        if len(nodes) == 0:
            return
        start = self._count
        if start and self._sequences[start - 1] == sequence:  # numbers shall grow inside it
            start = int(np.searchsorted(self._sequences[:start], sequence))
            nodes = np.concatenate((self._nodes[self._current(start, self._count)], nodes))
        nodes = np.sort(nodes)
        if nodes[-1] >= len(self.moved_at):
            self.reserve(int(nodes[-1]) + 1)
        if start + len(nodes) > len(self._nodes):
            start = self._make_capacity(start, len(nodes))
        end, last = start + len(nodes), self.last + len(nodes)
        positions = np.arange(self.last + 1, last + 1)
        self._nodes[start:end], self._sequences[start:end] = nodes, sequence
        self._positions[start:end] = positions
        self.moved_at[nodes] = positions
        self._count, self.last = end, last

    def _current(self, start: int, end: int) -> Int64:
        """Return which entries from a row to another are not void."""
        current = self.moved_at[self._nodes[start:end]] == self._positions[start:end]
        return np.flatnonzero(current) + start

    def _make_capacity(self, start: int, rows: int) -> int:
        """Take void entries out of the first ones, reserve so many rows behind them; return where."""
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
        """Return at which sequence each of some nodes moved last; 0 for one that is not known to have."""
        current = self._current(0, self._count)
        found = np.zeros(max(len(self.moved_at), int(nodes.max(initial=-1)) + 1), np.int64)
        found[self._nodes[current]] = self._sequences[current]
        return found[nodes]

    def position_at(self, sequence: int, node: int) -> int:
        """Return the position behind all entries before a sequence and, at it, up to a node."""
        before = self._sequences[: self._count]
        low, high = np.searchsorted(before, sequence), np.searchsorted(before, sequence, "right")
        # As int32, or the array would be copied as int64.
        row = low + np.searchsorted(self._nodes[low:high], np.int32(min(node, _LAST_NODE)), "right")
        return int(self._positions[row - 1]) if row else 0

    def behind(
        self, position: int, most: int | None = None, wanted: Callable[[Nodes], Bool] | None = None
    ) -> Moves:
        """Return who moved behind a position, whoever moved longest ago first.

        Parameters
        ----------
        position
            How far the reader came; 0: nothing was read.
        most
            How many entries; None: all.
        wanted
            Says which nodes are looked for; None: all of them.
        """
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
