"""EdgeBank: a pair that was in contact before will be again. Nothing is learned, pairs are remembered.

Poursafaei, Huang, Pelrine and Rabbany, "Towards Better Evaluation for Dynamic Link Prediction", NeurIPS 2022
(datasets and benchmarks). Any event of a pair is a contact, also one that takes its edge away: the edge was
there until then. Pairs are undirected here, the authors' are directed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.records import Bool, Float32, Float64, Int64
from dygcn_lab.baselines.activity import Popularity
from dygcn_lab.evaluation.steps import Moment

NEVER = -1.0
SHARE = 0.15  # of the history that the authors hold out for the test; their window is as long


class EdgeBank:
    """Scores 1 for every pair that was ever in contact, 0 for others; has no vectors."""

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Remember the pairs of all moments."""
        self._nodes, self._begins = nodes, [0]  # how many events there were before each step
        self._keys = np.empty(0, np.int64)  # of pairs, sorted
        self._last = np.empty(0, np.float64)  # the number of the last event of each
        for moment in moments:
            self.follow(moment)

    def follow(self, moment: Moment) -> None:
        """Remember the pairs of one more moment."""
        backwards = self._key(moment.src, moment.dst)[::-1]
        touched, first = np.unique(backwards, return_index=True)
        self._begins.append(self._begins[-1] + len(backwards))
        last = (self._begins[-1] - 1 - first).astype(np.float64)
        at, there = self._find(touched)
        self._last[at[there]] = last[there]
        places = np.searchsorted(self._keys, touched[~there])
        self._keys = np.insert(self._keys, places, touched[~there])
        self._last = np.insert(self._last, places, last[~there])

    def _key(self, a: Int64, b: Int64) -> Int64:
        keys: Int64 = np.minimum(a, b) * self._nodes + np.maximum(a, b)
        return keys

    def _find(self, keys: Int64) -> tuple[Int64, Bool]:
        """Return where keys are, and whether they are there."""
        if len(self._keys) == 0:
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        at = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return at, self._keys[at] == keys

    def _last_contacts(self, pairs: Int64) -> Float64:
        """Return the number of the last event of each pair, -1 for a pair that had none."""
        at, there = self._find(self._key(pairs[:, 0], pairs[:, 1]))
        last = np.full(len(pairs), NEVER)
        last[there] = self._last[at[there]]
        return last

    def vectors(self) -> Float32 | None:
        """Return None: there are none."""
        return None

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return whether each pair was ever in contact, whatever the task."""
        return (self._last_contacts(pairs) > NEVER).astype(np.float64)


class EdgeBankWindow(EdgeBank):
    """Scores 1 for every pair that was in contact in the last steps, 0 for others.

    The authors' window is as long as their test, 15 % of the history. Here it is 15 % of the steps that
    fitting sees, rounded up. In a graph that loses edges, an edge that is there is in contact now: its
    events say when it came and went, not that it was used.
    """

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Remember the pairs of all moments."""
        self._window, self._loses = int(np.ceil(SHARE * len(moments))), False
        super().begin(moments, nodes)

    def follow(self, moment: Moment) -> None:
        """Remember the pairs of one more moment."""
        super().follow(moment)
        self._loses |= bool((moment.op < 0).any())
        self._edges = np.sort(self._key(moment.edges[:, 0], moment.edges[:, 1]))

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return whether each pair was in contact in the last steps, whatever the task."""
        last = self._last_contacts(pairs)
        recent = last >= self._begins[-1 - min(self._window, len(self._begins) - 1)]
        if self._loses:
            recent |= np.isin(self._key(pairs[:, 0], pairs[:, 1]), self._edges)
        return recent.astype(np.float64)


class EdgeBankRecency(EdgeBank):
    """Scores how late the last contact of each pair was; where that is equal, popularity decides.

    It is equal for all pairs that were never in contact: they stand behind those that were. Contacts are in
    the order of events; the order of steps alone did worse on fitted halves of messages and e-mails.
    """

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Remember the pairs of all moments, and count events."""
        self._popularity = Popularity()
        self._popularity.start(nodes)
        super().begin(moments, nodes)

    def follow(self, moment: Moment) -> None:
        """Remember the pairs of one more moment."""
        super().follow(moment)
        self._popularity.follow(moment)

    def score(self, pairs: Int64, task: str = "all") -> Float64:
        """Return the number of the last event plus less than one for popularity, whatever the task."""
        popular = self._popularity.score(pairs)
        return self._last_contacts(pairs) + popular / (1 + popular)
