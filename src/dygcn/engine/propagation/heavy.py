"""Messages of heavy nodes, and what a change of tier does to sums."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import Allocator, copied, grown, replace_together
from dygcn.engine.graph.ticks import Ticks
from dygcn.engine.graph.tiers import NOBODY_IS_HEAVY
from dygcn.engine.propagation.pulling import NO_ROW, Earlier, HeavyRows, keep_all
from dygcn.errors import OptionError

if TYPE_CHECKING:
    from dygcn.engine.records import Int32, Int64, Nodes

HEAVY_FROM = 128
_NOBODY = np.empty(0, np.int32)


def heavy_from() -> int:
    """Return from how many arcs on a node is heavy; DYGCN_HEAVY_FROM may name another number, or ``inf``."""
    wanted = os.environ.get("DYGCN_HEAVY_FROM", "")
    if wanted == "inf":
        return NOBODY_IS_HEAVY
    if wanted and not (wanted.isdigit() and int(wanted) > 1):
        raise OptionError(f"DYGCN_HEAVY_FROM is {wanted!r}; allowed is a whole number, 2 or more, or inf")
    return int(wanted) if wanted else HEAVY_FROM


class HeavyMessages:
    """The message of order 1 of each heavy node, ready to be added.

    Parameters
    ----------
    width
        Columns of a message.
    """

    def __init__(self, width: int) -> None:
        self.rows: HeavyRows
        self._no_rows, self._counts = np.zeros((0, width), np.int32), np.zeros(3, np.int64)
        self._zeros: Allocator | None = None  # where other processes read messages, allocates them
        self._now = np.zeros(1, np.int64)
        self.clear(0)

    def _replace(
        self, slot: Int32, rows: Int32, has: Int64, free: Int32, moved: Nodes, earlier: Earlier | None
    ) -> None:
        replace_together(self, rows=HeavyRows(slot, rows, has, free, self._counts, moved, earlier))

    def share(self, zeros: Allocator, now: Int64) -> None:
        """Keep messages where other processes can read them, and the ones before; see `Sums.share`."""
        self._zeros, self._now = zeros, now
        slot, rows, has, free, _, moved, _ = self.rows.arrays
        shared = copied(slot, zeros), copied(rows, zeros), copied(has, zeros)
        self._replace(*shared, free, moved, self._earlier(len(rows)))

    def _earlier(self, size: int, made: Earlier | None = None) -> Earlier | None:
        """Return places for so many earlier messages, with those that were made; None: nobody else reads."""
        zeros, none = self._zeros, np.empty(0, np.int64)
        if zeros is None:
            return None
        rows, has, since, ticks = made.arrays if made else (self._no_rows, none, none, Ticks(none, self._now))
        words = [grown(array, size, zeros) for array in (has, since, ticks.arrays[0])]
        return Earlier(grown(rows, size, zeros), words[0], words[1], Ticks(words[2], self._now))

    @property
    def nbytes(self) -> int:
        """Bytes held, without what is kept for readers in other processes."""
        return sum(array.nbytes for array in self.rows.arrays[:-1])

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        now = self.rows.arrays
        slot = grown(now.slot, nodes, self._zeros)
        slot[len(now.slot) :] = NO_ROW
        self._replace(slot, now.rows, now.has, now.free, now.moved, now.earlier)

    def put(self, nodes: Nodes, messages: Int32, has: Int64) -> None:
        """Keep the messages of nodes that became heavy."""
        now, counts = self.rows.arrays, self.rows.arrays.counts
        again = min(int(counts[1]), len(nodes))
        size = int(counts[0]) + len(nodes) - again
        if size > len(now.rows):
            read = grown(now.rows, size, self._zeros), grown(now.has, size, self._zeros)
            kept = grown(now.free, size), grown(now.moved, size)
            self._replace(now.slot, *read, *kept, self._earlier(size, now.earlier))
            now = self.rows.arrays
        free = int(counts[1])
        at = np.concatenate((now.free[free - again : free], np.arange(counts[0], size, dtype=np.int32)))
        counts[0], counts[1] = size, free - again
        keep_all(self.rows, at)
        now.slot[nodes], now.rows[at], now.has[at] = at, messages, has

    def renew(self, nodes: Nodes, messages: Int32, has: Int64) -> None:
        """Keep other messages of those of some nodes that are heavy."""
        now = self.rows.arrays
        if len(now.slot):
            some = np.flatnonzero(now.slot[nodes] >= 0)
            at = now.slot[nodes[some]]
            now.rows[at], now.has[at] = messages[some], has[some]

    def drop(self, nodes: Nodes) -> None:
        """Keep no message of nodes that are light now."""
        now, counts = self.rows.arrays, self.rows.arrays.counts
        free = int(counts[1])
        now.free[free : free + len(nodes)] = now.slot[nodes]
        counts[1] = free + len(nodes)
        now.slot[nodes] = NO_ROW

    def clear(self, nodes: int) -> None:
        """Keep no message, and have places for so many nodes; none: nobody is heavy from now on."""
        zeros = self._zeros or np.zeros
        slot = zeros(nodes, np.int32)
        slot[:] = NO_ROW
        self._counts[:] = 0
        self._replace(slot, self._no_rows, np.empty(0, np.int64), _NOBODY, _NOBODY, self._earlier(0))

    def moved(self) -> Nodes:
        """Return whose message the last update moved."""
        count = self._counts[2]
        return self.rows.arrays.moved[:count].copy() if count else _NOBODY
