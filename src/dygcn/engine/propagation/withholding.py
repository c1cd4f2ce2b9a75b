"""Changes too small to matter are withheld, and accounted for: what is withheld is known to the last bit.

A node's message of order k < K is *published* to those who aggregate it. With a tolerance, a change is added
to what was withheld before, and published only when the whole is longer than the tolerance allows. Sums
hold published messages: ``s_(k+1) = sum of w (M_k - withheld_k)``, exactly, so publishing the rest (`flush`)
leaves the very bits that no tolerance would have given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.ids import grown
from dygcn.engine.propagation.holding import HeldRows, take_back, withhold
from dygcn.engine.propagation.work import Handoff

if TYPE_CHECKING:
    from dygcn.engine.propagation.spreading import Wave
    from dygcn.engine.records import Float64, Int32, Nodes

NOTHING = -1


class Withheld:
    """What is withheld of the messages of one order.

    Parameters
    ----------
    width
        Columns of a message.
    """

    def __init__(self, width: int) -> None:
        rows, counts = np.zeros((0, width), np.int32), np.zeros(2, np.int64)
        self._held = HeldRows(np.empty(0, np.int32), rows, np.empty(0), np.empty(0, np.int32), counts)

    def __len__(self) -> int:
        used, free = self._held.arrays.counts.tolist()
        return int(used - free)

    def reserve(self, nodes: int, more: int) -> None:
        """Grow to so many nodes, of which so many more may withhold something."""
        slot, rows, lengths, free, counts = self._held.arrays
        known, size = len(slot), int(counts[0]) + more
        if nodes <= known and size <= len(free):
            return
        slot = grown(slot, nodes)
        slot[known:] = NOTHING
        self._held = HeldRows(slot, grown(rows, size), grown(lengths, size), grown(free, size), counts)

    def pass_on(self, changed_senders: Nodes, wave: Wave, allowed: float) -> Wave:
        """Keep back the short changes of a wave, whose buffers are large enough; pass on the rest."""
        take_back(self._held, changed_senders, wave.handoff)
        wave.senders = withhold(self._held, wave.handoff, wave.senders, allowed)
        return wave

    def release(self, wave: Wave) -> Wave:
        """Add everything that is withheld to a wave, and withhold nothing more."""
        kept, given = self._held.arrays, wave.handoff.arrays
        held = np.flatnonzero(kept.slot >= 0).astype(np.int32)
        sent = given.row[: wave.senders]
        change = np.concatenate((given.table[sent], kept.rows[kept.slot[held]]))
        has = np.concatenate((given.has[sent], np.zeros(len(held), np.int64)))
        senders, first, group = np.unique(
            np.concatenate((given.nodes[: wave.senders], held)), return_index=True, return_inverse=True
        )
        together = np.zeros((len(senders), change.shape[1]), np.int32)
        np.add.at(together, group, change)
        self.clear()
        wave.handoff = Handoff(together, has[first], senders, np.arange(len(senders), dtype=np.int32))
        wave.senders = len(senders)
        return wave

    def clear(self) -> None:
        """Withhold nothing more; what was is lost."""
        self._held.arrays.slot.fill(NOTHING)
        self._held.arrays.counts[:] = 0

    def rows(self, nodes: Nodes) -> Int32:
        """Return what each node withholds, (n, width), zero where it withholds nothing."""
        kept = self._held.arrays
        out = np.zeros((len(nodes), kept.rows.shape[1]), np.int32)
        held = np.flatnonzero(nodes < len(kept.slot))
        held = held[kept.slot[nodes[held]] >= 0]
        out[held] = kept.rows[kept.slot[nodes[held]]]
        return out

    def lengths(self, nodes: Nodes) -> Float64:
        """Return the length of what each node withholds, on the grid."""
        at, lengths = self._held.arrays.slot[nodes], self._held.arrays.lengths
        return np.where(at >= 0, lengths[np.maximum(at, 0)], 0.0) if len(lengths) else np.zeros(len(at))
