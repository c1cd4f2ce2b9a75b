"""Changes too small to matter are withheld, and accounted for: what is withheld is known to the last bit.

A node's message of order k < K is *published* to those who aggregate it. With a tolerance, a change is added
to what was withheld before, and published only when the whole is longer than the tolerance allows. Sums
hold published messages: ``s_(k+1) = sum of w (M_k - withheld_k)``, exactly, so publishing the rest (`flush`)
leaves the very bits that no tolerance would have given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import kernel, prefetch
from dygcn.graph.ids import grown, replace_together

if TYPE_CHECKING:
    from dygcn.propagation.spreading import Wave
    from dygcn.records import Float64, Int32, Int64, Nodes

FAR = 8
NOTHING = -1


@kernel
def take_back(nodes: Nodes, slot: Int32, rows: Int32, table: Int32) -> None:
    """Turn the messages of nodes, the first rows of a table, into what was published of them."""
    for i in range(len(nodes)):
        at = slot[nodes[i]]
        if at >= 0:
            for j in range(rows.shape[1]):
                table[i, j] -= rows[at, j]


@kernel
def _length(rows: Int32, at: int) -> float:
    total = 0.0
    for j in range(rows.shape[1]):
        total += np.float64(rows[at, j]) * np.float64(rows[at, j])
    return float(np.sqrt(total))


@kernel
def withhold(
    senders: Nodes,
    sender_row: Int32,
    table: Int32,
    has: Int64,
    allowed: float,
    slot: Int32,
    rows: Int32,
    lengths: Float64,
    free: Int32,
    counts: Int64,
) -> int:
    """Add what was withheld to the changes of messages; return how many are to be published.

    These come first in `senders` and `sender_row` afterwards. A message that comes or goes is published.
    """
    n = 0
    for i in range(len(senders)):
        if i + FAR < len(senders):
            prefetch(slot, senders[i + FAR])
        v, row = senders[i], sender_row[i]
        at = slot[v]
        if at >= 0:
            for j in range(rows.shape[1]):
                table[row, j] += rows[at, j]
        length = _length(table, row)
        if has[row] == 0 and 0 < length <= allowed:
            if at < 0:
                if counts[1] > 0:
                    counts[1] -= 1
                    at = free[counts[1]]
                else:
                    at = np.int32(counts[0])
                    counts[0] += 1
                slot[v] = at
            for j in range(rows.shape[1]):
                rows[at, j] = table[row, j]
            lengths[at] = length
            continue
        if at >= 0:
            slot[v] = NOTHING
            free[counts[1]] = at
            counts[1] += 1
        if length > 0 or has[row] != 0:
            senders[n] = v
            sender_row[n] = row
            n += 1
    return n


class Withheld:
    """What is withheld of the messages of one order.

    Parameters
    ----------
    width
        Columns of a message.
    """

    def __init__(self, width: int) -> None:
        self._slot: Int32 = np.empty(0, np.int32)
        self._rows: Int32 = np.zeros((0, width), np.int32)
        self._lengths: Float64 = np.empty(0)
        self._free: Int32 = np.empty(0, np.int32)
        self._counts: Int64 = np.zeros(2, np.int64)  # rows ever used, free ones

    def __len__(self) -> int:
        return int(self._counts[0] - self._counts[1])

    def make_room(self, nodes: int, more: int) -> None:
        """Grow to so many nodes, of which so many more may withhold something."""
        known = len(self._slot)
        if nodes > known:
            slot = grown(self._slot, nodes)
            slot[known:] = NOTHING
            self._slot = slot
        size = int(self._counts[0]) + more
        if size > len(self._free):
            names = "_rows", "_lengths", "_free"
            replace_together(self, **{name: grown(getattr(self, name), size) for name in names})

    def pass_on(self, structural: Nodes, wave: Wave, allowed: float) -> Wave:
        """Keep back what is short enough of a wave; the rest goes on."""
        take_back(structural, self._slot, self._rows, wave.table)
        self.make_room(len(self._slot), len(wave.senders))
        pool = self._slot, self._rows, self._lengths, self._free, self._counts
        n = withhold(wave.senders, wave.sender_row, wave.table, wave.has, allowed, *pool)
        wave.senders, wave.sender_row = wave.senders[:n], wave.sender_row[:n]
        return wave

    def release(self, wave: Wave) -> Wave:
        """Add everything that is withheld to a wave, and withhold nothing more."""
        held = np.flatnonzero(self._slot >= 0).astype(np.int32)
        rows = self._rows[self._slot[held]]
        change = np.concatenate((wave.table[wave.sender_row], rows))
        has = np.concatenate((wave.has[wave.sender_row], np.zeros(len(held), np.int64)))
        senders, first, group = np.unique(
            np.concatenate((wave.senders, held)), return_index=True, return_inverse=True
        )
        table, together = np.zeros((len(senders), change.shape[1]), np.int32), has[first]
        np.add.at(table, group, change)
        self.clear()
        row = np.arange(len(senders), dtype=np.int32)
        wave.senders, wave.sender_row, wave.table, wave.has = senders, row, table, together
        return wave

    def clear(self) -> None:
        """Withhold nothing more; what was is lost."""
        self._slot.fill(NOTHING)
        self._counts[:] = 0

    def lengths(self, nodes: Nodes) -> Float64:
        """Return the length of what each node withholds, on the grid."""
        at = self._slot[nodes]
        return (
            np.where(at >= 0, self._lengths[np.maximum(at, 0)], 0.0)
            if len(self._lengths)
            else np.zeros(len(at))
        )
