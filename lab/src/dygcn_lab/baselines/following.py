"""Rows for what comes next that learn nothing, or a few weights of textbook columns."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from dygcn.engine.records import Float64, Int64

HALF_LIVES = (1000.0, 200.0, 50.0, 4.0)  # parts of the fitted span
WINDOW = 0.15  # of the fitted span: EdgeBank's authors take the length of their test part
_KNOWN_FIRST = 1e15
_PENALTY, _ROUNDS = 1e-3, 30


class Past:
    """What happened so far, in dictionaries: pairs in either direction, partners, how often and when."""

    def __init__(self, nodes: int, span: float) -> None:
        self.span, self.last = span, np.full(nodes, -np.inf)
        self.count = np.zeros(nodes)
        self.faded = {part: np.zeros(nodes) for part in HALF_LIVES}
        self.pairs: dict[tuple[int, int], list[float]] = {}  # how often, last
        self.partners: dict[int, set[int]] = defaultdict(set)

    def follow(self, src: Int64, dst: Int64, t: Float64, op: Int64) -> None:
        """Take events; one that removes an edge is a contact, too, and makes nobody popular."""
        for u, v, now, added in zip(src.tolist(), dst.tolist(), t.tolist(), (op > 0).tolist(), strict=True):
            pair = self.pairs.setdefault((min(u, v), max(u, v)), [0, now])
            pair[0] += 1
            pair[1] = max(pair[1], now)
            if not added:
                continue
            self.count[v] += 1
            for part, counts in self.faded.items():
                passed = max(now - self.last[v], 0.0)
                counts[v] = counts[v] * 2.0 ** (-passed * part / self.span) + 1
            self.last[v] = max(self.last[v], now)
            self.partners[u].add(v)
            self.partners[v].add(u)

    def contacts(self, u: int, others: Int64) -> tuple[Float64, Float64]:
        """Return how often one met others, and when last: minus infinity for never."""
        found = [self.pairs.get((min(u, v), max(u, v)), (0, -np.inf)) for v in others.tolist()]
        table = np.array(found, np.float64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    # ---- scores of candidates ----------------------------------------------------------------------------

    def recency(self, u: int, others: Int64, now: float) -> Float64:
        """Whom one met last comes first; then the most popular."""
        count, last = self.contacts(u, others)
        return np.where(count > 0, _KNOWN_FIRST + last, self.count[others])

    def popularity(self, u: int, others: Int64, now: float, part: float) -> Float64:
        """Who was most often an answer, lately; half-life is a part of the span."""
        passed = np.maximum(now - self.last[others], 0.0)
        faded: Float64 = self.faded[part][others] * 2.0 ** (-passed * part / self.span)
        return np.where(self.count[others] > 0, faded, 0.0)

    def edgebank(self, u: int, others: Int64, now: float) -> Float64:
        """Whom one ever met."""
        return (self.contacts(u, others)[0] > 0).astype(np.float64)

    def edgebank_window(self, u: int, others: Int64, now: float) -> Float64:
        """Whom one met lately."""
        return (now - self.contacts(u, others)[1] <= WINDOW * self.span).astype(np.float64)

    def columns(self, u: int, others: Int64, now: float) -> Float64:
        """Return textbook columns: contacts, popularity, common neighbours and their two weighted forms."""
        count, last = self.contacts(u, others)
        age = np.log1p(np.where(count > 0, now - last, 0.0) * 1e5 / self.span)
        mine = self.partners.get(u, set())
        shared = np.array([self._shared(mine, self.partners.get(v, set())) for v in others.tolist()])
        popular = [np.log1p(self.popularity(u, others, now, part)) for part in HALF_LIVES]
        plain = np.log1p(self.count[others])
        return np.column_stack((count > 0, age, np.log1p(count), plain, *popular, np.log1p(shared)))

    def _shared(self, mine: set[int], theirs: set[int]) -> tuple[float, float, float]:
        common = mine & theirs if len(mine) < len(theirs) else theirs & mine
        sizes = [len(self.partners[one]) for one in common]
        adamic = sum(1 / np.log(size) for size in sizes if size > 1)
        return float(len(sizes)), float(adamic), float(sum(1 / size for size in sizes))


class Heuristics:
    """A conditional logit on textbook columns, learned on lists of the last fitted events."""

    def __init__(self, lists: list[Float64]) -> None:
        table = np.concatenate(lists)
        self._centre, self._scale = table.mean(axis=0), np.maximum(table.std(axis=0), 1e-9)
        self.weights = np.zeros(table.shape[1])
        inputs = [(rows - self._centre) / self._scale for rows in lists]
        loss = self._loss(inputs, self.weights)
        for _ in range(_ROUNDS):
            slope, bend = self._bent(inputs)
            step, size = np.linalg.solve(bend, slope), 1.0
            while (after := self._loss(inputs, self.weights - size * step)) > loss and size > 1e-4:
                size /= 2
            self.weights, gained, loss = self.weights - size * step, loss - after, after
            if gained < 1e-7:
                break

    def _loss(self, inputs: list[Float64], weights: Float64) -> float:
        scores = [rows @ weights for rows in inputs]
        chosen = [one.max() + np.log(np.exp(one - one.max()).sum()) - one[0] for one in scores]
        return float(np.mean(chosen) + _PENALTY * weights @ weights)

    def _bent(self, inputs: list[Float64]) -> tuple[Float64, Float64]:
        """Return slope and curvature of the loss."""
        slope = 2 * _PENALTY * self.weights
        bend = 2 * _PENALTY * np.eye(len(self.weights))
        for rows in inputs:
            shares = rows @ self.weights
            shares = np.exp(shares - shares.max())
            shares /= shares.sum()
            mean = shares @ rows
            slope = slope + (mean - rows[0]) / len(inputs)
            bend += ((rows * shares[:, None]).T @ rows - np.outer(mean, mean)) / len(inputs)
        return slope, bend

    def score(self, columns: Float64) -> Float64:
        """Return the scores of candidates from their columns."""
        found: Float64 = ((columns - self._centre) / self._scale) @ self.weights
        return found
