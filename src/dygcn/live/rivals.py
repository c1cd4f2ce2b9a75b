"""Baseline methods that an evaluation compares with the embedding; numpy, none trained except EASE.

A rival is called with a position in the history and reads nothing behind it, so it cannot see the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.engine.records import Bool, Float64, Int8, Int64, Nodes

MOST_ITEMS = 3_000  # destinations that EASE takes: it inverts a matrix of so many rows
LAMBDAS = 50.0, 250.0, 1_000.0  # of EASE
PARTS = 200.0, 50.0, 4.0  # half-lives of recent popularity are the fitted span divided by these
_USERS_AT_ONCE = 2_048


@dataclass(frozen=True, slots=True)
class PastContacts:
    """Added edges in their order, without loops; nodes are numbered from 0."""

    src: Int64  # of each contact, (n,), as dst and t
    dst: Int64
    t: Float64
    nodes: int
    pair_at: Int64  # the first contact of each different (src, dst), growing
    item_at: Int64  # the first contact of each different destination, growing

    @staticmethod
    def of(src: Nodes, dst: Nodes, t: Float64, nodes: int) -> PastContacts:
        """Return the contacts of events."""
        a, b = src.astype(np.int64), dst.astype(np.int64)
        return PastContacts(a, b, t, nodes, _first(a * nodes + b), _first(b))

    def items_before(self, at: int) -> Int64:
        """Return the destinations of contacts before a position, in the order of their first contact."""
        return self.dst[self.item_at[: np.searchsorted(self.item_at, at)]]

    def pairs_before(self, at: int) -> tuple[Int64, Int64]:
        """Return the pairs of contacts before a position, in the order of their first contact."""
        first = self.pair_at[: np.searchsorted(self.pair_at, at)]
        return self.src[first], self.dst[first]

    def last_met(self, asker: int, at: int) -> Int64:
        """Return each node's last contact with the asker, in either direction, counted from 1; 0: none."""
        last = np.zeros(self.nodes, np.int64)
        for one, other in ((self.src, self.dst), (self.dst, self.src)):
            when = np.flatnonzero(one[:at] == asker)
            np.maximum.at(last, other[when], when + 1)
        return last


def _first(keys: Int64) -> Int64:
    """Return the index of the first occurrence of each distinct key, ascending."""
    return np.sort(np.unique(keys, return_index=True)[1]).astype(np.int64)


Rival: TypeAlias = Callable[[PastContacts, int, "Int64", int], "Float64"]
"""Scores candidates for an asker from the contacts before `at`: (seen, asker, candidates, at), (n,)."""


def popularity(seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
    """Count how often a candidate was a destination."""
    return np.bincount(seen.dst[:at], minlength=seen.nodes)[candidates].astype(np.float64)


def recent_popularity(
    half_life: float, seen: PastContacts, asker: int, candidates: Int64, at: int
) -> Float64:
    """Count how often a candidate was a destination; a contact counts half after each half-life."""
    left = np.exp2((seen.t[:at] - seen.t[at]) / half_life)
    return np.bincount(seen.dst[:at], left, seen.nodes)[candidates].astype(np.float64)


def recency(seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
    """Rank by the last contact with the asker, in either direction; all others by their popularity."""
    return seen.last_met(asker, at)[candidates] + popularity(seen, asker, candidates, at) / (at + 1.0)


def item_item(seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
    """Sum the cosines between a candidate and the asker's destinations, by the askers they share."""
    src, dst = seen.pairs_before(at)
    root = np.sqrt(np.maximum(np.bincount(dst, minlength=seen.nodes), 1.0))
    own = np.zeros(seen.nodes)
    own[dst[src == asker]] = 1.0
    alike = np.bincount(src, (own / root)[dst], seen.nodes)
    return (np.bincount(dst, alike[src], seen.nodes) / root)[candidates]


class Ease:
    """EASE of Steck (2019): weights between destinations in closed form, from the contacts before `end`.

    The weights stay as they are; the row of the asker is that of the moment. A destination that came later
    has no weights, and the score 0.
    """

    def __init__(
        self, seen: PastContacts, end: int, regularisation: float, gram: Float64 | None = None
    ) -> None:
        items = seen.items_before(end)
        self._place = np.full(seen.nodes, -1)
        self._place[items] = np.arange(len(items))
        shared = self.gram(seen, end) if gram is None else gram
        inverse = np.linalg.inv(shared + regularisation * np.eye(len(items)))
        self._weights = -inverse / np.diag(inverse)
        np.fill_diagonal(self._weights, 0.0)

    @staticmethod
    def gram(seen: PastContacts, end: int) -> Float64:
        """Return how many askers went to both of two destinations."""
        items, (src, dst) = seen.items_before(end), seen.pairs_before(end)
        place = np.zeros(seen.nodes, np.int64)
        place[items] = np.arange(len(items))
        users, row = np.unique(src, return_inverse=True)
        order = np.argsort(row, kind="stable")
        row, column = row[order], place[dst[order]]
        total = np.zeros((len(items), len(items)))
        for begin in range(0, len(users), _USERS_AT_ONCE):
            some = slice(*np.searchsorted(row, (begin, begin + _USERS_AT_ONCE)))
            block = np.zeros((min(_USERS_AT_ONCE, len(users) - begin), len(items)), np.float32)
            block[row[some] - begin, column[some]] = 1.0
            total += block.T @ block
        return total

    def __call__(self, seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
        """Return the scores, see `Rival`."""
        src, dst = seen.pairs_before(at)
        own = self._place[dst[src == asker]]
        summed = np.append(self._weights[own[own >= 0]].sum(axis=0), 0.0)
        found: Float64 = summed[self._place[candidates]]
        return found


def rank_of(scores: Float64, answer: int) -> float:
    """Return the rank of the answer; tied scores share the mean of their ranks."""
    own = scores[answer]
    return 1.0 + float((scores > own).sum()) + 0.5 * float((scores == own).sum() - 1)


@dataclass(frozen=True, slots=True)
class LinkQuestion:
    """One question: which of `candidates` the asker meets in the contact `at`."""

    at: int
    asker: int
    candidates: Int64
    answer: int  # its index among the candidates; -1: it is none, so no method can name it
    cut: bool  # whether candidates were left out
    met: Bool  # (n,) candidates that the asker had a contact with before
    new: bool  # whether asker and answer had none

    def ranks(self, scores: Float64) -> tuple[float, float]:
        """Return the rank of the answer among all candidates, and among candidates that the asker never met.

        The second is infinite for an answer that the asker met before, both for an unknown one.
        """
        if self.answer < 0:
            return np.inf, np.inf
        every = rank_of(scores, self.answer)
        if not self.new:
            return every, np.inf
        left = np.flatnonzero(~self.met)
        return every, rank_of(scores[left], int(np.searchsorted(left, self.answer)))


def ask(seen: PastContacts, kind: Int8, at: int, most: int, seed: int) -> LinkQuestion:
    """Return the question whose answer is this contact, with at most `most` other candidates."""
    asker, answer = int(seen.src[at]), int(seen.dst[at])
    items = seen.items_before(at)
    items = items[(kind[items] == kind[answer]) & (items != asker)]
    others, known = items[items != answer], bool((items == answer).any())
    cut = len(others) > most
    if cut:
        chosen = np.random.default_rng((seed, at)).choice(len(others), most, replace=False)
        others = others[np.sort(chosen)]
    candidates = np.append(others, answer) if known else others
    last = seen.last_met(asker, at)
    place = len(others) if known else -1
    return LinkQuestion(at, asker, candidates, place, cut, last[candidates] > 0, bool(last[answer] == 0))


def choose_rivals(seen: PastContacts, end: int, asked: list[LinkQuestion], begin: int) -> dict[str, Rival]:
    """Return the baselines by name, with the settings that rank best on the fitted part."""
    span = (float(seen.t[end - 1] - seen.t[0]) if end else 0.0) or 1.0
    recent: list[Rival] = [partial(recent_popularity, span / part) for part in PARTS]
    found: dict[str, Rival] = {
        "popularity": popularity,
        "recent popularity": recent[_best(seen, recent, asked)],
        "recency": recency,
        "item-item": item_item,
    }
    if len(seen.items_before(end)) <= MOST_ITEMS:
        gram = Ease.gram(seen, begin)
        at = _best(seen, (Ease(seen, begin, one, gram) for one in LAMBDAS), asked) if asked else 1
        found["EASE"] = Ease(seen, end, LAMBDAS[at])
    return found


def _best(seen: PastContacts, rivals: Iterable[Rival], asked: list[LinkQuestion]) -> int:
    """Return the index of the method with the best mean reciprocal rank; the first if tied."""

    def total(rival: Rival) -> float:
        ranks = (one.ranks(rival(seen, one.asker, one.candidates, one.at))[0] for one in asked)
        return sum(1.0 / rank for rank in ranks)

    return int(np.argmax([total(rival) for rival in rivals]))
