"""When each node was last in touch: the greatest t of an edge added to it, or taken from it.

Greatest, not latest, so batches do not matter while events come in the order of `t`. (A node that leaves
between two batches is forgotten; what came late is then all there is.) Only the score of a link looks at it;
messages and vectors do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.graph.ids import grown

if TYPE_CHECKING:
    from dygcn.records import Float64, Nodes

NEVER = -np.inf


class Contacts:
    """Times of nodes' last contacts, and the greatest time of all: the clock.

    Examples
    --------
    >>> contacts = Contacts()
    >>> contacts.make_room(2)
    >>> contacts.note(np.array([0, 1, 0]), np.array([3.0, 5.0, 2.0]), clock=5.0)
    >>> contacts.since(np.array([0, 1])).tolist()
    [2.0, 0.0]
    """

    def __init__(self) -> None:
        self.clock = NEVER
        self.times: Float64 = np.empty(0)

    def make_room(self, nodes: int) -> None:
        """Have a place for nodes 0..nodes - 1."""
        have = len(self.times)
        if nodes > have:
            times = grown(self.times, nodes)
            times[have:] = NEVER
            self.times = times

    def note(self, nodes: Nodes, t: Float64, clock: float) -> None:
        """Take contacts; the clock is never turned back."""
        np.maximum.at(self.times, nodes, t)
        self.clock = max(self.clock, clock)

    def last(self, nodes: Nodes) -> Float64:
        """Return the time of each node's last contact, minus infinity where there was none."""
        return self.times[nodes]

    def since(self, nodes: Nodes) -> Float64:
        """Return how long ago each node's last contact was, infinity where there was none."""
        if np.isinf(self.clock):
            return np.full(len(nodes), np.inf)
        return self.clock - self.times[nodes]
