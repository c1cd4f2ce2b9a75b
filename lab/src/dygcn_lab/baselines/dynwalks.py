"""DynWalks: DeepWalk, then walks from the nodes that matter, added to the same skip-gram model.

Hou, Zhang, Tang and He, "DynWalks: global topology and recent changes awareness dynamic network embedding",
arXiv:1907.11968, 2019. At each step the walks begin at (scheme 3 of the authors' code, "the one presented
and tested")

- every node that was not in the graph before,
- the beta alpha n nodes most affected: changed edges, summed over the steps since the node was last chosen
  (the reservoir), over its former degree; only nodes that this step changed stand for election,
- random other nodes, up to alpha n in all.

gensim's `Word2Vec` (skip-gram, 5 noise words, subsampling at 0.001 as theirs) then takes up new words and is
trained on those walks. The authors walk 20 times 80 nodes with a window of 10 in 4 epochs on 20 threads; 10
x 20, 5 and 1 is what fits one core here, see `DynWalks`. Left out: their schemes 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Bool, Float32, Int64
from dygcn_lab.baselines.snapshot import adjacency
from dygcn_lab.evaluation.method import VectorMethod
from dygcn_lab.evaluation.steps import Moment

with extra("evidence", of="dygcn-lab"):
    from gensim.models import Word2Vec


class DynWalks(VectorMethod):
    """Vectors are the words of one skip-gram model that is trained on and on; they stay when a node leaves.

    `seed`, `dim`: of everything that is drawn; size of the vectors; `walks`, `length`, `window`, `epochs`: of
    DeepWalk: walks a node, nodes a walk, nodes on each side, passes; `alpha`: share of the nodes that walks
    begin at in each step; `beta`: share of these that is given to the most affected nodes; `words`: nodes
    that the walks on the first graph visit at most; where `walks` would visit more, there are fewer walks (at
    least one), in the steps as well.
    """

    def __init__(
        self,
        seed: int = 0,
        dim: int = 100,
        walks: int = 10,
        length: int = 20,
        window: int = 5,
        epochs: int = 1,
        alpha: float = 0.1,
        beta: float = 0.5,
        words: int = 4_000_000,
    ) -> None:
        self.seed, self.dim, self.walks, self.length = seed, dim, walks, length
        self.window, self.epochs, self.alpha, self.beta, self.words = window, epochs, alpha, beta, words

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Run DeepWalk on the last of the moments."""
        self._random = np.random.default_rng(self.seed)
        self._nodes = nodes
        self._names = np.array([str(node) for node in range(nodes)], dtype=object)
        self._reservoir = np.zeros(nodes, np.int64)
        self._model: Any = Word2Vec(
            vector_size=self.dim,
            window=self.window,
            sg=1,
            negative=5,
            min_count=1,
            sample=1e-3,
            workers=1,
            seed=self.seed,
        )
        self._edges = moments[-1].edges
        active = np.unique(self._edges)
        fit = self.words // max(len(active) * self.length, 1)
        self._turns = max(min(self.walks, fit), 1)
        self._learn(active)

    def follow(self, moment: Moment) -> None:
        """Choose nodes, walk from them, train on."""
        before, self._edges = self._edges, moment.edges
        self._learn(self._choose(before, moment.edges))

    def vectors(self) -> Float32:
        """Return the vectors; nodes that no walk ever visited have none."""
        table = np.zeros((self._nodes, self.dim), np.float32)
        words = self._model.wv.index_to_key
        if words:
            table[np.array(words).astype(np.int64)] = self._model.wv.vectors
        return table

    def _choose(self, before: Int64, now: Int64) -> Int64:
        """Return the nodes that walks begin at."""
        was, degrees = (np.bincount(edges.ravel(), minlength=self._nodes) for edges in (before, now))
        stayed = (was > 0) & (degrees > 0)
        affected = _changes(before, now, self._nodes)
        self._reservoir[degrees == 0] = 0
        self._reservoir += np.where(stayed, affected, 0)
        limit = int(self.alpha * int((degrees > 0).sum()))
        candidates = np.flatnonzero(stayed & (affected > 0))
        ratio = self._reservoir[candidates] / was[candidates]
        most = candidates[np.argsort(-ratio, kind="stable")[: int(self.beta * limit)]]
        chosen: Bool = (degrees > 0) & (was == 0)
        chosen[most] = True
        others = np.flatnonzero((degrees > 0) & ~chosen)
        chosen[self._random.choice(others, min(limit - len(most), len(others)), replace=False)] = True
        self._reservoir[chosen] = 0
        return np.flatnonzero(chosen)

    def _learn(self, starts: Int64) -> None:
        if len(starts) == 0:
            return
        links = adjacency(self._edges, self._nodes)
        walks = random_walks(links, np.repeat(starts, self._turns), self.length, self._random)
        sentences = self._names[self._random.permutation(walks)].tolist()
        self._model.build_vocab(sentences, update=len(self._model.wv) > 0)
        self._model.train(sentences, total_examples=len(sentences), epochs=self.epochs)


def random_walks(links: Any, starts: Int64, length: int, random: np.random.Generator) -> Int64:
    """Return (len(starts), length) nodes; every start has a neighbour."""
    degrees = np.diff(links.indptr)
    walks = np.empty((len(starts), length), np.int64)
    walks[:, 0] = starts
    for step in range(1, length):
        here = walks[:, step - 1]
        turn = (random.random(len(here)) * degrees[here]).astype(np.int64)
        walks[:, step] = links.indices[links.indptr[here] + turn]
    return walks


def _changes(before: Int64, now: Int64, nodes: int) -> Int64:
    """Return how many edges each node gained or lost."""
    keys = np.setxor1d(before[:, 0] * nodes + before[:, 1], now[:, 0] * nodes + now[:, 1])
    return np.bincount(np.concatenate((keys // nodes, keys % nodes)), minlength=nodes)
