"""Messages of heavy nodes, and what a change of tier does to sums."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.graph.tiers import NOBODY_IS_HEAVY
from dygcn.engine.propagation.pulling import NO_ROW, HeavyRows
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
        self._counts = np.zeros(3, np.int64)
        self._replace(_NOBODY, np.zeros((0, width), np.int32), np.empty(0, np.int64), _NOBODY, _NOBODY)

    def _replace(self, slot: Int32, rows: Int32, has: Int64, free: Int32, moved: Nodes) -> None:
        replace_together(self, rows=HeavyRows(slot, rows, has, free, self._counts, moved))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.rows.arrays)

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        now = self.rows.arrays
        slot = grown(now.slot, nodes)
        slot[len(now.slot) :] = NO_ROW
        self._replace(slot, now.rows, now.has, now.free, now.moved)

    def put(self, nodes: Nodes, messages: Int32, has: Int64) -> None:
        """Keep the messages of nodes that became heavy."""
        now, counts = self.rows.arrays, self.rows.arrays.counts
        again = min(int(counts[1]), len(nodes))
        size = int(counts[0]) + len(nodes) - again
        if size > len(now.rows):
            rows: Any = (grown(array, size) for array in (now.rows, now.has, now.free, now.moved))
            self._replace(now.slot, *rows)
            now = self.rows.arrays
        free = int(counts[1])
        at = np.concatenate((now.free[free - again : free], np.arange(counts[0], size, dtype=np.int32)))
        counts[0], counts[1] = size, free - again
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
        none = np.zeros((0, self.rows.arrays.rows.shape[1]), np.int32)
        self._counts[:] = 0
        self._replace(np.full(nodes, NO_ROW, np.int32), none, np.empty(0, np.int64), _NOBODY, _NOBODY)

    def moved(self) -> Nodes:
        """Return whose message the last update moved."""
        count = self._counts[2]
        return self.rows.arrays.moved[:count].copy() if count else _NOBODY
