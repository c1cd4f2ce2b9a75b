"""DNE: LINE, then stochastic gradient descent on new nodes and on the few that changed most.

Du, Wang, Song, Lu and Wang, "Dynamic network embedding: an extended approach for skip-gram based network
embedding", IJCAI 2018, on LINE (Tang et al., WWW 2015) of second order as in the authors' code: a vector e_u
and a context w_u a node, log s(e_u w_v) + K E[log s(-e_u w_n)] for every arc, noise n by degree.

The objective falls apart by nodes: its optimum is e_u w_v = log(|arcs| / (d_u d_v)) - log K for every arc.
So at each step a node's mean distance from it tells how much the change moved it (the authors' `cal_delta`
and `rank_nodes`). The m farthest are *modified*. Only rows of new and of modified nodes move, of both tables
(the authors' `loss_in` and `loss_out`), with lambda |e_u - e_u before|^2 on modified ones. Deviations: plain
SGD as in LINE instead of Adam; modified rows begin at their old value, where the authors' code draws them
anew; noise by degree^0.75 as in LINE, where theirs is by degree; m is a share of the nodes (their 10 of
558). A removed edge counts through degrees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn.engine.records import Bool, Float32, Float64, Int64
from dygcn_lab.baselines.skipgram import descend
from dygcn_lab.evaluation.method import VectorMethod
from dygcn_lab.evaluation.steps import Moment


class Dne(VectorMethod):
    """Vectors are LINE's e_u; they stay when a node leaves.

    `seed`, `dim`: of everything that is drawn; size of the vectors; `epochs`: passes over the arcs of the
    first graph, and over the arcs of the nodes that move at a step; `modified`: share of the nodes that are
    updated at a step, beside new ones; `noise`: K, noise nodes an arc; `rate`: of descent at the start; it
    falls to zero. Four times LINE's: a quarter of the epochs does then; `keep`: lambda, how strongly modified
    nodes hold on to what they were; `samples`: arcs that are looked at, at most: on large graphs there are
    fewer epochs, at least one.
    """

    def __init__(
        self,
        seed: int = 0,
        dim: int = 100,
        epochs: int = 100,
        modified: float = 0.02,
        noise: int = 5,
        rate: float = 0.1,
        keep: float = 0.001,
        samples: int = 10_000_000,
    ) -> None:
        self.seed, self.dim, self.epochs, self.modified = seed, dim, epochs, modified
        self.noise, self.rate, self.keep, self.samples = noise, rate, keep, samples

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Run LINE on the last of the moments."""
        self._random = np.random.default_rng(self.seed)
        self._nodes = nodes
        self._vectors, self._contexts = (np.zeros((nodes, self.dim), np.float32) for _ in range(2))
        self._known = np.zeros(nodes, np.bool_)
        arcs = _arcs(moments[-1].edges)
        everyone = self._welcome(arcs)
        self._descend(arcs, arcs, everyone, everyone & False, both=False)

    def follow(self, moment: Moment) -> None:
        """Give new nodes a vector and move the nodes that are farthest from their optimum."""
        if len(moment.src) == 0:
            return
        arcs = _arcs(moment.edges)
        old = self._farthest(arcs)
        moving = old | self._welcome(arcs)
        self._descend(arcs[moving[arcs[:, 0]]], arcs, moving, old, both=True)

    def vectors(self) -> Float32:
        """Return the vectors; nodes that never had an edge have none."""
        return self._vectors.copy()

    def score(self, pairs: Int64, task: str) -> Float64:
        """Return vector times context, both ways: the product that LINE is fitted for, not a cosine."""
        a, b = pairs[:, 0], pairs[:, 1]
        there = np.einsum("ij,ij->i", self._vectors[a], self._contexts[b])
        back = np.einsum("ij,ij->i", self._vectors[b], self._contexts[a])
        total: Float64 = (there + back).astype(np.float64)
        return total

    def _welcome(self, arcs: Int64) -> Bool:
        """Draw rows for new nodes as LINE does; return who is new."""
        new = np.zeros(self._nodes, np.bool_)
        new[arcs.ravel()] = True
        new &= ~self._known
        shape = (int(new.sum()), self.dim)
        self._vectors[new] = (self._random.random(shape) - 0.5) / self.dim
        self._contexts[new] = (self._random.random(shape) - 0.5) / self.dim
        self._known |= new
        return new

    def _farthest(self, arcs: Int64) -> Bool:
        """Return the known nodes whose arcs are farthest from the optimum of the objective, in the mean."""
        arcs = arcs[self._known[arcs].all(axis=1)]
        chosen = np.zeros(self._nodes, np.bool_)
        degrees = np.bincount(arcs[:, 0], minlength=self._nodes)
        active = np.flatnonzero(degrees)
        if len(active) == 0:
            return chosen
        u, v = arcs.T
        reached = np.einsum("ij,ij->i", self._vectors[u], self._contexts[v])
        wanted = np.log(len(arcs) / (degrees[u] * degrees[v])) - np.log(self.noise)
        distance = np.abs(reached - wanted)
        total = np.bincount(u, distance, self._nodes) + np.bincount(v, distance, self._nodes)
        mean = total[active] / (2 * degrees[active])
        count = int(np.ceil(self.modified * len(active)))
        chosen[active[np.argsort(-mean, kind="stable")[:count]]] = True
        return chosen

    def _descend(self, arcs: Int64, all_arcs: Int64, moving: Bool, old: Bool, *, both: bool) -> None:
        """Train on arcs from moving nodes: their vectors, and if `both` their contexts as well."""
        if len(arcs) == 0:
            return
        noise = np.cumsum(np.bincount(all_arcs[:, 0], minlength=self._nodes) ** 0.75)
        held = np.flatnonzero(old)
        place = np.full(self._nodes, -1, np.int64)
        place[held] = np.arange(len(held))
        tables = [(self._vectors, self._contexts)]
        if both:
            tables.append((self._contexts, self._vectors))
        before = [table[held].copy() for table, _ in tables]
        epochs = max(min(self.epochs, self.samples // len(arcs)), 1)
        for epoch in range(epochs):
            rate = self.rate * (1 - epoch / epochs)
            for (rows, others), past in zip(tables, before, strict=True):
                order = arcs[self._random.permutation(len(arcs))]
                drawn = _draw(noise, (len(order), self.noise), self._random)
                descend(rows, others, order, drawn, moving, place, past, rate, self.keep)


def _arcs(edges: Int64) -> Int64:
    return np.concatenate((edges, edges[:, ::-1]))


def _draw(sums: Float64, shape: tuple[int, int], random: np.random.Generator) -> Int64:
    """Return nodes by the running sums of their weights."""
    drawn: Int64 = np.searchsorted(sums, random.random(shape) * sums[-1], side="right").astype(np.int64)
    return drawn
