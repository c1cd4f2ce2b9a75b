"""How well scores separate links from pairs that are not linked: negative samples, AUC, cosines."""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Bool, Float32, Float64, Int64

_TRIES = 1000
_SOON = 4  # tries, after which nodes without a negative are looked for
_FEW_PAIRS = 1 << 18


class PairSet:
    """A set of undirected pairs of nodes, for vectorised lookups."""

    def __init__(self, pairs: Int64, nodes: int) -> None:
        self._nodes = nodes
        self._keys = np.sort(self._key(pairs[:, 0], pairs[:, 1]))

    def _key(self, a: Int64, b: Int64) -> Int64:
        keys: Int64 = np.minimum(a, b) * self._nodes + np.maximum(a, b)
        return keys

    def add(self, a: Int64, b: Int64) -> None:
        """Add pairs; pairs that are already in the set change nothing."""
        new = ~self.has(a, b)
        keys = np.unique(self._key(a[new], b[new]))
        self._keys = np.insert(self._keys, np.searchsorted(self._keys, keys), keys)

    def has(self, a: Int64, b: Int64) -> Bool:
        """Return whether each pair is in the set."""
        if len(self._keys) == 0:
            return np.zeros(len(a), np.bool_)
        keys = self._key(a, b)
        at = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        found: Bool = self._keys[at] == keys
        return found


def draw_negatives(
    nodes: Int64, pool: Int64, linked: tuple[PairSet, ...], random: np.random.Generator
) -> tuple[Int64, Int64]:
    """Return nodes and, for each, a random node of the pool that no set pairs with it.

    A node that is linked to the whole pool has no negative and is left out. Each entry of the pool has the
    same chance; a node that is in it twice has twice the chance.
    """
    negatives = random.choice(pool, len(nodes))
    left = np.arange(len(nodes))
    stuck = np.zeros(len(nodes), np.bool_)
    for tried in range(_TRIES):
        left = left[_paired(nodes[left], negatives[left], linked)]
        if tried == _SOON and len(left) * len(pool) <= _FEW_PAIRS:
            pairs = np.repeat(nodes[left], len(pool)), np.tile(pool, len(left))
            stuck[left] = _paired(*pairs, linked).reshape(len(left), len(pool)).all(axis=1)
        if stuck[
            left
        ].all():  # what is drawn from now on decides nothing, but the next caller draws behind it
            random.choice(pool, len(left) * (_TRIES - tried))
            break
        negatives[left] = random.choice(pool, len(left))
    found = np.ones(len(nodes), np.bool_)
    found[left] = False
    return nodes[found], negatives[found]


def _paired(a: Int64, b: Int64, linked: tuple[PairSet, ...]) -> Bool:
    found: Bool = a == b
    for pairs in linked:
        found |= pairs.has(a, b)
    return found


def one_end(pairs: Int64, random: np.random.Generator) -> Int64:
    """Return a random end of each pair."""
    end: Int64 = pairs[np.arange(len(pairs)), random.integers(0, 2, len(pairs))]
    return end


def auc(linked: Float64, others: Float64) -> float:
    """Return the probability that a linked pair scores above another pair; ties count half."""
    ranked = np.sort(others)
    below = np.searchsorted(ranked, linked, side="left")
    not_above = np.searchsorted(ranked, linked, side="right")
    return float((below + not_above).sum() / (2 * len(linked) * len(others)))


def unit_rows(vectors: Float32) -> Float64:
    """Return the rows at length one, in float64: nearly parallel vectors differ in the last bits only."""
    rows = vectors.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Float64 = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return units


def pair_cosines(units: Float64, pairs: Int64) -> Float64:
    """Return the cosine of each pair of rows; a row of zeros scores 0."""
    found: Float64 = np.einsum("ij,ij->i", units[pairs[:, 0]], units[pairs[:, 1]])
    return found
