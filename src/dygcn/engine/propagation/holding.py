"""Loops over what is withheld of messages; see `withholding`."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import prefetch_32
    from dygcn.engine._rows import RowBlock, add_row, copy_row, length_of
    from dygcn.engine.propagation.work import Handoff

if TYPE_CHECKING:
    from dygcn.engine.records import Float64, Int32, Int64, Nodes

FAR = 8  # rounds ahead
NOTHING = -1


HeldArrays = namedtuple("HeldArrays", "slot rows lengths free counts")


class HeldRows:
    """What is withheld of the messages of one order.

    Parameters
    ----------
    slot
        For each node, which row is its own, or -1.
    rows, lengths
        What is withheld, and its length.
    free, counts
        Rows that nobody has; how many rows were ever used, and how many of them are free.
    """

    def __init__(self, slot: Int32, rows: Int32, lengths: Float64, free: Int32, counts: Int64) -> None:
        self.arrays = HeldArrays(slot, rows, lengths, free, counts)
        self.slot, self.rows, self.lengths, self.free, self.counts = (
            slot,
            RowBlock(rows),
            lengths,
            free,
            counts,
        )

    def __reduce__(self) -> tuple[type[HeldRows], HeldArrays]:
        return HeldRows, self.arrays


def take_back(held: HeldRows, nodes: Nodes, wave: Handoff) -> None:
    """Turn the messages of nodes, the first rows of a table, into what was published of them."""
    with cython.nogil:
        for i in range(len(nodes)):
            at = held.slot[nodes[i]]
            if at >= 0:
                add_row(wave.table, i, held.rows, at, -1)


def withhold(held: HeldRows, wave: Handoff, senders: int, allowed: float) -> int:
    """Add what was withheld to the changes of messages; return how many are to be published.

    These come first in the nodes and rows of the wave afterwards. A message that comes or goes is published.
    """
    with cython.nogil:
        n = 0
        for i in range(senders):
            if i + FAR < senders:
                prefetch_32(held.slot, wave.nodes[i + FAR])
            v, row = wave.nodes[i], wave.row[i]
            at = held.slot[v]
            if at >= 0:
                add_row(wave.table, row, held.rows, at, 1)
            length = length_of(wave.table, row)
            if wave.has[row] == 0 and 0.0 < length <= allowed:
                _keep(held, v, wave, row, length)
                continue
            if at >= 0:
                _forget(held, v)
            if length > 0.0 or wave.has[row] != 0:
                wave.nodes[n] = v
                wave.row[n] = row
                n += 1
    return n


def _keep(held: HeldRows, node: int, wave: Handoff, row: int, length: float) -> None:
    at = held.slot[node]
    if at < 0:
        if held.counts[1] > 0:
            held.counts[1] -= 1
            at = held.free[held.counts[1]]
        else:
            at = held.counts[0]
            held.counts[0] += 1
        held.slot[node] = at
    copy_row(wave.table, row, held.rows, at)
    held.lengths[at] = length


def _forget(held: HeldRows, node: int) -> None:
    held.free[held.counts[1]] = held.slot[node]
    held.counts[1] += 1
    held.slot[node] = NOTHING
