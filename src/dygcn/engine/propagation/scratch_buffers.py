"""Scratch buffers: arrays that one update after the other fills, so that none is made for an event.

What a very large batch took is given back after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.ids import grown
from dygcn.engine.propagation.outcomes import SPANS
from dygcn.engine.propagation.work import ArcChanges, Handoff, Reach, Work

_WORK = [np.int32, np.int32, np.int64] + [np.int32] * 3 + [np.int64] * 3 + [np.int32] * 2
_FIRST = 1024  # rows to begin with
_KEPT = 64 << 20  # bytes that always stay
FEW_ARCS = 128  # of an update in one call


class ScratchBuffers:
    """The scratch buffers of one rule.

    `works` are what `gathering.gather` fills, one for each part of the nodes. `handoffs` are what an order
    hands to the next; the last order hands on no messages. `reach` is whom the update changed, and at
    which order. `few` and `start` are the changed arcs of an update in one call, and the features of their
    senders.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.works: list[Work]
        self.handoffs: list[Handoff]
        self.last: Handoff
        self.reach: Reach
        ends = (np.empty(FEW_ARCS, np.int32) for _ in range(3))
        self.few = ArcChanges(next(ends), next(ends), np.empty(FEW_ARCS, np.int64), next(ends))
        features, none = np.empty((FEW_ARCS, width), np.int8), np.empty(0, np.int32)
        self.start = Handoff(features, np.empty(FEW_ARCS, np.int64), none, none)
        self.wanted = np.empty(FEW_ARCS, np.uint64)
        self.clear()

    def clear(self) -> None:
        """Give everything back."""
        self.works = [_work(_FIRST)]
        self.handoffs = [_handoff(_FIRST, self._width), _handoff(_FIRST, self._width)]
        self.last = _handoff(_FIRST, self._width, last=True)
        self.reach = Reach(np.empty(_FIRST, np.int32), np.empty(_FIRST, np.int8))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        groups: tuple[Any, ...] = *self.works, *self.handoffs, self.last, self.reach
        return sum(array.nbytes for group in groups for array in group.arrays)

    def work_for(self, pushes: int, parts: int = 1) -> None:
        """Grow to so many pushes to each part of the nodes."""
        works = [*self.works, *(_work(_FIRST) for _ in range(parts - len(self.works)))]
        for part in range(parts):
            if len(works[part].arrays.node) <= pushes:
                works[part] = _work(pushes + pushes // 2 + 1)
        self.works = works

    def handoff_for(self, order: int, last: bool, rows: int) -> Handoff:
        """Return a place for so many rows of what an order hands on."""
        handoff = self.handoff(order, last)
        if len(handoff.arrays.has) >= rows:
            return handoff
        handoff = _handoff(rows + rows // 2, self._width, last)
        if last:
            self.last = handoff
        else:
            self.handoffs[order % 2] = handoff
        return handoff

    def handoff(self, order: int, last: bool) -> Handoff:
        """Return what an order hands on."""
        return self.last if last else self.handoffs[order % 2]

    def reach_for(self, nodes: int) -> None:
        """Grow to so many nodes that are reached."""
        reach = self.reach.arrays
        if len(reach.nodes) < nodes:
            self.reach = Reach(grown(reach.nodes, nodes), grown(reach.orders, nodes))

    def tidy(self, allowed: int) -> None:
        """Give back what only a very large batch needs."""
        if self.nbytes > max(_KEPT, allowed):
            self.clear()


def _work(size: int) -> Work:
    arrays: list[Any] = [np.empty(size, kind) for kind in _WORK]
    arrays.append(np.zeros(SPANS + 1, np.int64))
    return Work(*arrays)


def _handoff(rows: int, width: int, last: bool = False) -> Handoff:
    """Return a handoff for so many rows; the last order's has none for changes of messages."""
    table = np.empty((0 if last else rows, width), np.int32)
    return Handoff(table, np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32))
