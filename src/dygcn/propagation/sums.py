"""Where the sums of one order are kept: as narrow as exactness allows.

The logical value is an int64, a sum of weights times messages. What all of these have in common is not
stored: a power of two that divides every weight (an unweighted graph has one weight) and one that divides
every message (hashed features are +-1). What is left fits an int32 while the degree of the node is small;
the rows of larger nodes are kept in a pool of int64 rows. Which row lies where follows from the degree and
changes no value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import kernel
from dygcn.graph.ids import grown
from dygcn.graph.store import GREATEST_SHIFT

if TYPE_CHECKING:
    from dygcn.records import Int32, Int64, Nodes

NARROW = -1


@kernel
def _moves(nodes: Nodes, degree: Int64, slot: Int32, limit: int) -> int:
    """Count the rows that need a wide place."""
    count = 0
    for i in range(len(nodes)):
        if slot[nodes[i]] == NARROW and degree[i] >= limit:
            count += 1
    return count


@kernel
def _settle(
    nodes: Nodes,
    degree: Int64,
    limit: int,
    narrow: Int32,
    wide: Int64,
    slot: Int32,
    free: Int32,
    counts: Int64,
) -> None:
    """Move rows to where their degree wants them; back only well below the limit, lest they flap."""
    width = wide.shape[1]
    for i in range(len(nodes)):
        v = nodes[i]
        at = slot[v]
        if at == NARROW and degree[i] >= limit:
            if counts[1] > 0:
                counts[1] -= 1
                at = free[counts[1]]
            else:
                at = np.int32(counts[0])
                counts[0] += 1
            slot[v] = at
            if narrow.shape[1] > 0:
                for j in range(width):
                    wide[at, j] = narrow[v, j]
                    narrow[v, j] = 0
        elif at != NARROW and 2 * degree[i] < limit:
            for j in range(width):
                narrow[v, j] = np.int32(wide[at, j])
                wide[at, j] = 0
            free[counts[1]] = at
            counts[1] += 1
            slot[v] = NARROW


class Sums:
    """Sums of one order for every node.

    Parameters
    ----------
    width
        Columns.
    message_bits
        Messages are at most ``2**message_bits``.
    message_shift
        Messages are multiples of ``2**message_shift``.

    Examples
    --------
    >>> sums = Sums(4, message_bits=24, message_shift=0)
    >>> sums.layout(weight_shift=10)
    >>> sums.limit // 1024    # neighbours of weight one below which a row is narrow
    128
    """

    def __init__(self, width: int, message_bits: int, message_shift: int) -> None:
        self.width = width
        self._message_bits = message_bits
        self.message_shift = message_shift
        self.narrow: Int32 = np.zeros((0, width), np.int32)
        self.wide: Int64 = np.zeros((0, width), np.int64)
        self.slot: Int32 = np.empty(0, np.int32)
        self._free = np.empty(0, np.int32)
        self._counts = np.zeros(2, np.int64)  # wide rows ever used, free ones
        self.weight_shift = 0
        self.limit = 0
        self.layout(GREATEST_SHIFT)

    @property
    def scale(self) -> float:
        """What a stored value is to be multiplied by."""
        return float(2.0 ** (self.message_shift + self.weight_shift))

    def layout(self, weight_shift: int) -> None:
        """Say that every weight is a multiple of ``2**weight_shift``; fewer bits than before move rows."""
        rows = self.rows(np.arange(len(self.slot), dtype=np.int32)) if len(self.slot) else None
        self.weight_shift = weight_shift
        spare = 31 - (self._message_bits - self.message_shift)
        # Below one neighbour of the usual weight nothing is narrow: then the int32 table is not kept.
        self.limit = 1 << (spare + weight_shift) if weight_shift >= 4 else 0
        self.narrow = np.zeros((0, self.width if self.limit else 0), np.int32)
        if rows is not None:
            self._refill(rows)

    def _refill(self, rows: Int64) -> None:
        nodes = len(self.slot)
        stored = rows >> (self.message_shift + self.weight_shift)
        self._counts[:] = 0
        self.slot, self.wide = np.empty(0, np.int32), np.zeros((0, self.width), np.int64)
        self.make_room(nodes)
        # The greatest magnitude stands in for the degree: what fits now may be narrow, what does not may not.
        bulky = np.abs(stored).max(axis=1, initial=0) >= 1 << 30 if self.limit else np.ones(nodes, np.bool_)
        self._widen(np.flatnonzero(bulky).astype(np.int32))
        self.wide[self.slot[bulky]] = stored[bulky]
        if self.limit:
            self.narrow[~bulky] = stored[~bulky]

    def _widen(self, nodes: Nodes) -> None:
        self.settle(nodes, np.full(len(nodes), 1 << 62, np.int64))

    def make_room(self, nodes: int) -> None:
        """Grow to so many nodes."""
        known = len(self.slot)
        if nodes <= known:
            return
        if self.limit:
            self.narrow = grown(self.narrow, nodes)
        self.slot = grown(self.slot, nodes)
        self.slot[known:] = NARROW

    def settle(self, nodes: Nodes, degree: Int64) -> None:
        """Bring the rows of nodes to where these degrees want them."""
        more = _moves(nodes, degree, self.slot, self.limit)
        if more:
            size = int(self._counts[0]) + more
            self.wide, self._free = grown(self.wide, size), grown(self._free, size)
        elif self._counts[0] == self._counts[1]:
            return
        _settle(nodes, degree, self.limit, self.narrow, self.wide, self.slot, self._free, self._counts)

    def rows(self, nodes: Nodes) -> Int64:
        """Return the logical values, (n, width) int64."""
        slot = self.slot[nodes]
        narrow = slot == NARROW
        out = np.zeros((len(nodes), self.width), np.int64)
        if self.limit:
            out[narrow] = self.narrow[nodes[narrow]]
        out[~narrow] = self.wide[slot[~narrow]]
        return out << (self.message_shift + self.weight_shift)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.narrow.nbytes + self.wide.nbytes + self.slot.nbytes + self._free.nbytes
