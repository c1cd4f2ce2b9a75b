"""Simple methods that an evaluation puts beside the embedding; numpy, and no training but EASE's.

A rival is asked with a position in the history and reads nothing behind it, so it cannot see the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.engine.records import Bool, Float64, Int8, Int64, Nodes

MOST_ITEMS = 3_000  # destinations that EASE takes: it inverts a matrix of so many rows
LAMBDAS = 50.0, 250.0, 1_000.0  # of EASE
PARTS = 200.0, 50.0, 4.0  # half-lives of recent popularity are the fitted span divided by these
_USERS_AT_ONCE = 2_048


@dataclass(frozen=True, slots=True)
class Contacts:
    """Added edges in their order, without loops; nodes are numbered from 0.

    Attributes
    ----------
    src, dst, t
        Of each contact, (n,).
    nodes
        How many nodes there are.
    pair_src, pair_dst, pair_at
        Different (src, dst) in the order of their first contact, and which contact that was, (p,).
    items, item_at
        Different destinations in the order of their first contact, and which contact that was.
    """

    src: Int64
    dst: Int64
    t: Float64
    nodes: int
    pair_src: Int64
    pair_dst: Int64
    pair_at: Int64
    items: Int64
    item_at: Int64

    @staticmethod
    def of(src: Nodes, dst: Nodes, t: Float64, nodes: int) -> Contacts:
        """Return the contacts of events.

        Examples
        --------
        >>> ends = np.array([0, 1, 0]), np.array([2, 2, 2])
        >>> contacts = Contacts.of(*ends, np.arange(3.0), 3)
        >>> contacts.pair_at.tolist(), contacts.items.tolist()
        ([0, 1], [2])
        """
        a, b = src.astype(np.int64), dst.astype(np.int64)
        pair_at = _first(a * nodes + b)
        item_at = _first(b)
        return Contacts(a, b, t, nodes, a[pair_at], b[pair_at], pair_at, b[item_at], item_at)

    def __len__(self) -> int:
        return len(self.src)

    def items_before(self, at: int) -> Int64:
        """Return the destinations of contacts before a position."""
        return self.items[: np.searchsorted(self.item_at, at)]

    def pairs_before(self, at: int) -> tuple[Int64, Int64]:
        """Return the pairs of contacts before a position."""
        end = np.searchsorted(self.pair_at, at)
        return self.pair_src[:end], self.pair_dst[:end]

    def last_met(self, asker: int, at: int) -> Int64:
        """Return for each node the last contact with an asker in either direction, from 1; 0: none."""
        last = np.zeros(self.nodes, np.int64)
        for one, other in ((self.src, self.dst), (self.dst, self.src)):
            when = np.flatnonzero(one[:at] == asker)
            np.maximum.at(last, other[when], when + 1)
        return last


def _first(keys: Int64) -> Int64:
    """Return where each different key stands first, in this order."""
    return np.sort(np.unique(keys, return_index=True)[1]).astype(np.int64)


class Rival(Protocol):
    """A method that scores candidates for one who asks, from what happened before."""

    def scores(self, seen: Contacts, asker: int, candidates: Int64, at: int) -> Float64:
        """Return a score for each candidate, from the contacts before `at`, when it is `seen.t[at]`."""
        ...


class Popularity:
    """How often a candidate was a destination.

    Examples
    --------
    >>> seen = Contacts.of(np.array([0, 1, 0, 0]), np.array([2, 2, 3, 2]), np.arange(4.0), 4)
    >>> Popularity().scores(seen, 0, np.array([2, 3]), 3).tolist()
    [2.0, 1.0]
    """

    def scores(self, seen: Contacts, asker: int, candidates: Int64, at: int) -> Float64:
        """See `Rival`."""
        return np.bincount(seen.dst[:at], minlength=seen.nodes)[candidates].astype(np.float64)


@dataclass(frozen=True, slots=True)
class RecentPopularity:
    """How often a candidate was a destination; a contact counts half after each half-life."""

    half_life: float

    def scores(self, seen: Contacts, asker: int, candidates: Int64, at: int) -> Float64:
        """See `Rival`."""
        left = np.exp2((seen.t[:at] - seen.t[at]) / self.half_life)
        return np.bincount(seen.dst[:at], left, seen.nodes)[candidates].astype(np.float64)


class Recency:
    """Whom the asker met last comes first, in either direction; all others by their popularity.

    Examples
    --------
    >>> seen = Contacts.of(np.array([0, 3, 1, 1, 0]), np.array([2, 0, 4, 4, 2]), np.arange(5.0), 6)
    >>> np.argsort(-Recency().scores(seen, 0, np.array([2, 3, 4, 5]), 4)).tolist()
    [1, 0, 2, 3]
    """

    def scores(self, seen: Contacts, asker: int, candidates: Int64, at: int) -> Float64:
        """See `Rival`."""
        count = np.bincount(seen.dst[:at], minlength=seen.nodes)[candidates]
        return seen.last_met(asker, at)[candidates] + count / (at + 1.0)


class ItemItem:
    """The sum of cosines between a candidate and the asker's destinations, over who went to both.

    Examples
    --------
    >>> src, dst = np.array([0, 0, 1, 2]), np.array([3, 4, 3, 5])
    >>> ItemItem().scores(Contacts.of(src, dst, np.arange(4.0), 6), 1, np.array([4, 5]), 4).round(2).tolist()
    [0.71, 0.0]
    """

    def scores(self, seen: Contacts, asker: int, candidates: Int64, at: int) -> Float64:
        """See `Rival`."""
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

    def __init__(self, seen: Contacts, end: int, regularisation: float, gram: Float64 | None = None) -> None:
        items = seen.items_before(end)
        self._place = np.full(seen.nodes, -1)
        self._place[items] = np.arange(len(items))
        matrix = (self.gram(seen, end) if gram is None else gram).copy()
        matrix[np.diag_indices(len(items))] += regularisation
        inverse = np.linalg.inv(matrix)
        self._weights = -inverse / np.diag(inverse)
        np.fill_diagonal(self._weights, 0.0)

    @staticmethod
    def gram(seen: Contacts, end: int) -> Float64:
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

    def scores(self, seen: Contacts, asker: int, candidates: Int64, at: int) -> Float64:
        """See `Rival`."""
        src, dst = seen.pairs_before(at)
        own = self._place[dst[src == asker]]
        summed = np.append(self._weights[own[own >= 0]].sum(axis=0), 0.0)
        found: Float64 = summed[self._place[candidates]]
        return found


def rank_of(scores: Float64, answer: int) -> float:
    """Return the rank of the answer, the mean of possible ranks where others have the same score.

    Examples
    --------
    >>> rank_of(np.array([0.5, 2.0, 0.5, 0.1]), 0)
    2.5
    """
    own = scores[answer]
    return 1.0 + float((scores > own).sum()) + 0.5 * float((scores == own).sum() - 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: who comes next for `asker`, among `candidates`, before the contact `at`."""

    at: int
    asker: int
    candidates: Int64
    answer: int  # its place among the candidates; -1: it is not there, so nobody can name it
    cut: bool  # whether candidates were left out
    met: Bool  # (n,) candidates with whom the asker had a contact before
    new: bool  # whether asker and answer had none

    def ranks(self, scores: Float64) -> tuple[float, float]:
        """Return the rank of the answer among all candidates, and among those whom the asker never met.

        The second is infinite for an answer whom the asker met, and both for one that is not there.
        """
        if self.answer < 0:
            return np.inf, np.inf
        every = rank_of(scores, self.answer)
        if not self.new:
            return every, np.inf
        left = np.flatnonzero(~self.met)
        return every, rank_of(scores[left], int(np.searchsorted(left, self.answer)))


def ask(seen: Contacts, kind: Int8, at: int, most: int, seed: int) -> Asked:
    """Return the question that a contact answers; it has so many candidates beside the answer at most."""
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
    return Asked(at, asker, candidates, place, cut, last[candidates] > 0, bool(last[answer] == 0))


def choose_rivals(seen: Contacts, end: int, asked: list[Asked], begin: int) -> dict[str, Rival]:
    """Return the rivals by name; settings are those that answer questions of the fitted part best.

    Parameters
    ----------
    end
        How many contacts are of the fitted part.
    asked
        Questions between the contacts `begin` and `end`, to choose by.
    """
    span = (float(seen.t[end - 1] - seen.t[0]) if end else 0.0) or 1.0
    recent: list[Rival] = [RecentPopularity(span / part) for part in PARTS]
    found: dict[str, Rival] = {
        "popularity": Popularity(),
        "recent popularity": recent[_best(seen, recent, asked)],
        "recency": Recency(),
        "item-item": ItemItem(),
    }
    if len(seen.items_before(end)) <= MOST_ITEMS:
        gram = Ease.gram(seen, begin)
        at = _best(seen, (Ease(seen, begin, one, gram) for one in LAMBDAS), asked) if asked else 1
        found["EASE"] = Ease(seen, end, LAMBDAS[at])
    return found


def _best(seen: Contacts, rivals: Iterable[Rival], asked: list[Asked]) -> int:
    """Return which of some rivals has the best mean reciprocal rank; the first of equal ones."""
    means = []
    for rival in rivals:
        ranks = [one.ranks(rival.scores(seen, one.asker, one.candidates, one.at))[0] for one in asked]
        means.append(sum(1.0 / rank for rank in ranks))
    return int(np.argmax(means))
