"""Storage of one order's sums, as narrow as exactness allows, and of the messages of heavy nodes.

The logical value is an int64, a sum of weights times messages. What all of these have in common is not
stored: a power of two that divides every weight (an unweighted graph has one weight) and one that divides
every message (hashed features are +-1). What is left fits a narrow row while the degree of the node is small:
an int8 for sums of +-1, an int32 for sums of messages. The rows of larger nodes are kept in a pool of int64
rows. Which row lies where follows from the degree and changes no value.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np

from dygcn.engine.graph.ids import Allocator, copied, grown, replace_together
from dygcn.engine.graph.store import GREATEST_SHIFT
from dygcn.engine.graph.ticks import NO_TICKS, Ticks, grown_ticks, new_ticks
from dygcn.engine.graph.tiers import NOBODY_IS_HEAVY
from dygcn.engine.propagation.outcomes import NARROW
from dygcn.engine.propagation.pulling import NO_ROW, Earlier, HeavyRows, keep_all
from dygcn.engine.propagation.sum_rows import SumRows, count_moves, drop_rows, place_rows
from dygcn.engine.records import Bool, Int32, Int64, Nodes, Stored
from dygcn.errors import OptionError

_SPARE_BITS = 6  # 64 neighbours of the usual weight should fit a narrow row
_BLOCK = 1 << 14
_NO_ROWS = np.empty(0, np.int32)


class Sums:
    """Sums and degrees of one order for every node."""

    # width: Columns.
    # message_bits: Messages are at most ``2**message_bits``.
    # message_shift: Messages are multiples of ``2**message_shift``.
    # pooled: Nodes have a row once one was written, and not before: most nodes of a shard only
    #   mirror others.
    # partial: Sums are of pushed messages alone (see `graph.tiers`).

    def __init__(
        self, width: int, message_bits: int, message_shift: int, pooled: bool = False, partial: bool = False
    ) -> None:
        self.width, self._pooled, self._partial = width, pooled, partial
        self._zeros: Allocator | None = None  # where other processes read rows, allocates them
        self.ticks = NO_TICKS
        self._value_bits = message_bits - message_shift
        self.message_shift = message_shift
        self.narrow: Stored = np.zeros((0, width), np.int32)
        self.wide: Int64 = np.zeros((0, width), np.int64)
        self.slot: Int32 = np.empty(0, np.int32)
        self.degree: Int64 = np.zeros(0, np.int64)
        self._free = np.empty(0, np.int32)
        self._holes = np.empty(0, np.int32)
        self._counts = np.zeros(4, np.int64)  # wide rows ever used, free ones; narrow ones of a pool
        self.weight_shift = 0
        self.scale = 1.0  # what a stored value is to be multiplied by
        self.limit = 0  # rows of nodes whose degree is below this are narrow
        self.arrays: SumRows  # the arrays of now, for loops
        self.layout(GREATEST_SHIFT, 1 << GREATEST_SHIFT)

    def layout(self, weight_shift: int, one: int) -> None:
        """Choose the width of narrow rows, and move all rows.

        Weights are multiples of 2 to `weight_shift`; narrow rows hold some neighbours of weight `one` (of the
        grid).
        """
        other = copy.copy(self)  # until all rows have changed, this one stays as it is
        other.weight_shift = weight_shift
        other.scale = float(2.0 ** (self.message_shift + weight_shift))
        kind, other.limit = _narrow_kind(self._value_bits, weight_shift, one)
        other.narrow = np.zeros((0, self.width if other.limit else 0), kind)
        other._refill(self)
        replace_together(self, **vars(other))

    def _refill(self, old: Sums) -> None:
        """Copy rows from another layout, in blocks, into units that are at least as fine."""
        nodes, shift = len(old.slot), old.weight_shift - self.weight_shift
        self._counts, self._free, self._holes = np.zeros(4, np.int64), _NO_ROWS, _NO_ROWS
        self.slot, self.wide = np.empty(0, np.int32), np.zeros((0, self.width), np.int64)
        self._replace()
        self.reserve(nodes)
        for start in range(0, nodes, _BLOCK):
            block = np.arange(start, min(start + _BLOCK, nodes), dtype=np.int32)
            if self._pooled:
                block = block[old.slot[block] != NARROW]
            stored = old._stored(block) << shift
            self.place(block, self.degree[block])
            self._store(block, stored)

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        known = len(self.slot)
        if nodes <= known:
            return
        slot = grown(self.slot, nodes, self._zeros)
        slot[known:] = NARROW
        in_place = self.limit and not self._pooled
        narrow = grown(self.narrow, nodes, self._zeros) if in_place else self.narrow
        degree, ticks = grown(self.degree, nodes, self._zeros), grown_ticks(self.ticks, nodes, self._zeros)
        self._replace(slot=slot, degree=degree, narrow=narrow, ticks=ticks)

    def share(self, zeros: Allocator, now: Int64) -> None:
        """Keep rows where other processes can read them, and stamp each with `now` before it is written."""
        self._zeros = zeros
        names = "degree", "slot", "narrow", "wide"
        fresh = {name: copied(getattr(self, name), zeros) for name in names}
        self._replace(**fresh, ticks=new_ticks(len(self.slot), zeros, now))

    def _replace(self, **fresh: Any) -> None:
        now = vars(self) | fresh
        names = "degree", "slot", "narrow", "wide", "_free", "_counts", "scale", "limit", "ticks"
        pool = "_pooled", "_holes", "_partial"
        replace_together(self, **fresh, arrays=SumRows(*(now[name] for name in names + pool)))

    def place(self, nodes: Nodes, degree: Int64) -> None:
        """Move the rows of nodes to the width that these degrees need."""
        more, narrow = count_moves(self.arrays, nodes, degree)
        size = int(self._counts[2]) + narrow
        if narrow and size > len(self._holes):
            size += size // 16  # unwritten pages take no memory
            self._replace(narrow=grown(self.narrow, size), _holes=grown(self._holes, size))
        if more:
            size = int(self._counts[0]) + more
            wide, slot = grown(self.wide, size, self._zeros), self.slot
            if self._zeros is not None and wide is not self.wide:
                slot = copied(slot, self._zeros)  # readers of the old rows must not see new ones
            self._replace(wide=wide, slot=slot, _free=grown(self._free, size))
        elif self._counts[0] == self._counts[1] and not narrow:
            return
        place_rows(self.arrays, nodes, degree)

    def rows(self, nodes: Nodes) -> Int64:
        """Return the stored rows, on the grid, (n, width) int64."""
        return self._stored(nodes) << (self.message_shift + self.weight_shift)

    def _stored(self, nodes: Nodes) -> Int64:
        at, out = self.slot[nodes], np.zeros((len(nodes), self.width), np.int64)
        is_wide = at >= 0
        out[is_wide] = self.wide[at[is_wide]]
        if self.limit:
            is_narrow, rows = self._narrow_rows(nodes, at)
            out[is_narrow] = self.narrow[rows]
        return out

    def _store(self, nodes: Nodes, stored: Int64) -> None:
        at = self.slot[nodes]
        is_wide = at >= 0
        self.wide[at[is_wide]] = stored[is_wide]
        if self.limit:
            is_narrow, rows = self._narrow_rows(nodes, at)
            self.narrow[rows] = stored[is_narrow]

    def _narrow_rows(self, nodes: Nodes, at: Int32) -> tuple[Bool, Nodes]:
        is_narrow = at < NARROW if self._pooled else at < 0
        return is_narrow, -2 - at[is_narrow] if self._pooled else nodes[is_narrow]

    def put(self, nodes: Nodes, degree: Int64, rows: Int64) -> None:
        """Replace degrees and logical values of nodes."""
        self.place(nodes, degree)
        self.degree[nodes] = degree
        self._store(nodes, rows >> (self.message_shift + self.weight_shift))

    def clear(self, nodes: Nodes) -> None:
        """Clear degrees and values of nodes; pooled rows are released."""
        if self._pooled:
            drop_rows(self.arrays, nodes)
            return
        self.put(nodes, np.zeros(len(nodes), np.int64), np.zeros((len(nodes), self.width), np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(
            a.nbytes for a in (self.narrow, self.wide, self.slot, self.degree, self._free, self._holes)
        )


def _narrow_kind(value_bits: int, weight_shift: int, one: int) -> tuple[type[np.signedinteger[Any]], int]:
    """Return the type of narrow rows, and the degree from which a row is wide; 0: all rows are wide."""
    usual = max(one >> weight_shift, 1).bit_length() - 1  # bits of a usual weight
    for kind, bits in ((np.int8, 7), (np.int16, 15), (np.int32, 31)):
        spare = bits - value_bits
        if spare >= usual + _SPARE_BITS:
            return kind, 1 << (spare + weight_shift)
    # Less than one neighbour of the usual weight: then the table of narrow rows is not worth its memory.
    spare = 31 - value_bits
    return np.int32, 1 << (spare + weight_shift) if spare > usual else 0


HEAVY_FROM = 128
_NOBODY = np.empty(0, np.int32)


def heavy_from() -> int:
    """Return the number of arcs from which a node is heavy; DYGCN_HEAVY_FROM overrides it, ``inf``: none."""
    wanted = os.environ.get("DYGCN_HEAVY_FROM", "")
    if wanted == "inf":
        return NOBODY_IS_HEAVY
    if wanted and not (wanted.isdigit() and int(wanted) > 1):
        raise OptionError(f"DYGCN_HEAVY_FROM is {wanted!r}; allowed is a whole number, 2 or more, or inf")
    return int(wanted) if wanted else HEAVY_FROM


class HeavyMessages:
    """The messages of order 1 of heavy nodes, ready to be added."""

    # width: Columns of a message.

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
        """Keep messages and their previous versions where other processes read them; see `Sums.share`."""
        self._zeros, self._now = zeros, now
        slot, rows, has, free, _, moved, _ = self.rows.arrays
        shared = copied(slot, zeros), copied(rows, zeros), copied(has, zeros)
        self._replace(*shared, free, moved, self._earlier(len(rows)))

    def _earlier(self, size: int, made: Earlier | None = None) -> Earlier | None:
        """Return space for so many previous messages, with the present ones; None: no other process reads."""
        zeros, none = self._zeros, np.empty(0, np.int64)
        if zeros is None:
            return None
        rows, has, since, ticks = made.arrays if made else (self._no_rows, none, none, Ticks(none, self._now))
        words = [grown(array, size, zeros) for array in (has, since, ticks.arrays[0])]
        return Earlier(grown(rows, size, zeros), words[0], words[1], Ticks(words[2], self._now))

    @property
    def nbytes(self) -> int:
        """Bytes in use, without what is kept for readers in other processes."""
        return sum(array.nbytes for array in self.rows.arrays[:-1])

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        now = self.rows.arrays
        slot = grown(now.slot, nodes, self._zeros)
        slot[len(now.slot) :] = NO_ROW
        self._replace(slot, now.rows, now.has, now.free, now.moved, now.earlier)

    def put(self, nodes: Nodes, messages: Int32, has: Int64) -> None:
        """Store the messages of nodes that became heavy."""
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
        """Replace the messages of those nodes that are heavy."""
        now = self.rows.arrays
        if len(now.slot):
            some = np.flatnonzero(now.slot[nodes] >= 0)
            at = now.slot[nodes[some]]
            now.rows[at], now.has[at] = messages[some], has[some]

    def drop(self, nodes: Nodes) -> None:
        """Remove the messages of nodes that are no longer heavy."""
        now, counts = self.rows.arrays, self.rows.arrays.counts
        free = int(counts[1])
        now.free[free : free + len(nodes)] = now.slot[nodes]
        counts[1] = free + len(nodes)
        now.slot[nodes] = NO_ROW

    def clear(self, nodes: int) -> None:
        """Remove all messages, and reserve space for so many nodes; 0: no node is heavy from now on."""
        zeros = self._zeros or np.zeros
        slot = zeros(nodes, np.int32)
        slot[:] = NO_ROW
        self._counts[:] = 0
        self._replace(slot, self._no_rows, np.empty(0, np.int64), _NOBODY, _NOBODY, self._earlier(0))

    def moved(self) -> Nodes:
        """Return the nodes whose messages the last update changed."""
        count = self._counts[2]
        return self.rows.arrays.moved[:count].copy() if count else _NOBODY
