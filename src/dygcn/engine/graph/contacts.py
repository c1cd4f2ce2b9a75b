"""When nodes and pairs were last in touch, and how often: a count that halves as time passes.

A contact is an event that adds an edge (again) or takes one away. What a node or a pair keeps is the greatest
t of its contacts, and their count as of then: a contact at t was worth one at t, and is worth half a
half-life later. Events are played one by one, so batches do not matter. (But with memory a node whose last
ghost is forgotten between two batches is forgotten, and inside one it is not.) Only the score of a link looks
at any of it; messages and vectors do not.

`last` and `count` are always the two numbers of nodes or of pairs. Minus infinity is the time of a contact of
which no time is known, and of none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.constants import NEVER
from dygcn.engine.graph.delta import touch_ends
from dygcn.engine.graph.ids import grown, replace_together

if TYPE_CHECKING:
    from dygcn.engine.records import EventBatch, Float32, Float64, Int8, Nodes


class Contacts:
    """Last contacts and counts of nodes, and the greatest time of all: the clock."""

    def __init__(self, half_life: float) -> None:
        self.half_life = float(half_life)
        self.clock = NEVER
        self.times: Float64 = np.empty(0)
        self.counts: Float32 = np.empty(0, np.float32)

    def reserve(self, nodes: int) -> None:
        """Grow to nodes 0..nodes - 1."""
        have = len(self.times)
        if nodes > have:
            times = grown(self.times, nodes)
            times[have:] = NEVER
            replace_together(self, times=times, counts=grown(self.counts, nodes))

    def put(self, nodes: Nodes, last: Float64, count: Float32) -> None:
        """Write last contacts and counts of nodes."""
        self.times[nodes] = last
        self.counts[nodes] = count

    def after(self, src: Nodes, dst: Nodes, t: Float64, mark: Int8) -> tuple[Nodes, Float64, Float32]:
        """Return the nodes that events touch, and their contacts after the events; nothing is written."""
        rows = np.flatnonzero(mark)
        nodes, places = np.unique(np.concatenate((src[rows], dst[rows])), return_inverse=True)
        last, count = self.times[nodes], self.counts[nodes]
        touch_ends(places[: len(rows)], places[len(rows) :], t[rows], self.half_life, last, count)
        return nodes, last, count

    def clock_after(self, batch: EventBatch, now: float | None) -> float:
        """Return the clock after a batch."""
        latest = float(batch.t.max()) if batch.t is not None and len(batch) else NEVER
        return max(latest, self.clock, self.clock if now is None else float(now))

    def of(self, nodes: Nodes) -> tuple[Float64, Float32]:
        """Return the time of each node's last contact (minus infinity: none), and its count as of then."""
        return self.times[nodes], self.counts[nodes]

    def since(self, nodes: Nodes) -> Float64:
        """Return the time since each node's last contact, infinity where there was none."""
        return self.time_since(self.of(nodes)[0])

    def activity(self, nodes: Nodes) -> Float64:
        """Return what the contacts of each node are worth now."""
        return self.worth(*self.of(nodes))

    def time_since(self, last: Float64) -> Float64:
        """Return the time since contacts, infinity where no time is known."""
        if np.isinf(self.clock):
            return np.full(len(last), np.inf)
        with np.errstate(over="ignore"):  # longer than a number can say is for ever
            return self.clock - last

    def worth(self, last: Float64, count: Float32) -> Float64:
        """Return what counts as of some time are worth now."""
        passed = np.zeros(len(last)) if np.isinf(self.clock) else np.maximum(self.time_since(last), 0.0)
        return count.astype(np.float64) * np.exp2(-passed / self.half_life)
