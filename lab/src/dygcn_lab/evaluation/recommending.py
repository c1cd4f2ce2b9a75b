"""Which items does a user take next that it never took before? Events, questions, ranked lists, and figures.

A method sees the events before a question. It lists k items for each user, never one that the user took or
that nobody took. Recall is the share of hits among min(k, new items of the user), as in Liang et al. (2018);
on the splits of LightGCN, by its authors' protocol, among all new items. NDCG has binary gains, and its ideal
is cut at min(k, new items). Both are kept for every user, so that methods can be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dygcn.engine.records import Bool, Float32, Float64, Int64

DAY = 86_400.0
_AT_ONCE = 500  # users whose scores of all items are in memory


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Who took what, in the order of the times, if there are any; users and items are numbers from 0."""

    user: Int64
    item: Int64
    t: Float64 | None  # seconds
    users: int
    items: int

    def __len__(self) -> int:
        return len(self.user)

    def part(self, which: Bool | slice) -> Events:
        """Return some of the events."""
        t = None if self.t is None else self.t[which]
        return Events(self.user[which], self.item[which], t, self.users, self.items)

    def before(self, end: float) -> Events:
        """Return the events before a time."""
        return self.part(slice(0, int(np.searchsorted(self.times, end))))

    @property
    def times(self) -> Float64:
        """The times of events that have times."""
        if self.t is None:
            raise ValueError("these events have no times; ask for a split that needs none")
        return self.t

    @property
    def keys(self) -> Int64:
        """One number for each pair of a user and an item."""
        return self.user * self.items + self.item


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Items that some users took, and when last."""

    pairs: Any  # csr of ones, users x items
    times: Any  # csr of the same places, or None

    def aged(self, half_life: float | None) -> Any:
        """Return what each pair weighs: half as much for each half-life in days behind the user's newest."""
        if half_life is None or self.times is None:
            return self.pairs
        sizes = np.diff(self.pairs.indptr)
        newest = np.full(len(sizes), -np.inf)
        np.maximum.at(newest, np.repeat(np.arange(len(sizes)), sizes), self.times.data)
        return _with(self.pairs, np.exp2((self.times.data - np.repeat(newest, sizes)) / DAY / half_life))


class Past:
    """Events as a matrix of users and items, with the newest time of each pair."""

    def __init__(self, events: Events) -> None:
        self.events = events
        order = np.argsort(events.keys, kind="stable")  # equal pairs stay in the order of their times
        keys = events.keys[order]
        newest = order[np.flatnonzero(np.diff(keys, append=-1))]
        user, item = events.user[newest], events.item[newest]
        begins = np.searchsorted(user, np.arange(events.users + 1))
        shape = events.users, events.items
        self.pairs = sparse.csr_matrix((np.ones(len(user), np.float32), item, begins), shape)
        times = None if events.t is None else events.t[newest]
        self.times = None if times is None else sparse.csr_matrix((times, item, begins), shape)
        self.degree = np.bincount(item, minlength=events.items)  # users of each item

    def profiles(self, users: Int64) -> Profiles:
        """Return what some users took."""
        return Profiles(self.pairs[users], None if self.times is None else self.times[users])

    def aged(self, half_life: float | None) -> Any:
        """Return what each pair weighs: half as much for each half-life in days behind the newest event."""
        if half_life is None or self.times is None:
            return self.pairs
        return _with(self.pairs, np.exp2((self.times.data - self.events.times[-1]) / DAY / half_life))

    def recent(self, half_life: float) -> Float64:
        """Return how many events each item has; one counts half after each half-life in days."""
        t = self.events.times
        left = np.exp2((t - t[-1]) / DAY / half_life)
        return np.bincount(self.events.item, left, self.events.items).astype(np.float64)


def _with(pairs: Any, data: Float64) -> Any:
    return sparse.csr_matrix((data.astype(np.float32), pairs.indices, pairs.indptr), pairs.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Users, and the new items that each of them took after what a method may see."""

    name: str
    fitted: Events  # what a method is fitted on
    known: Events  # these, and what it follows before it is asked
    users: Int64
    truth: tuple[Int64, ...]
    k: int
    official: bool = False  # recall by LightGCN's protocol
    among: Bool | None = None  # only these items are candidates


def ask(
    name: str,
    fitted: Events,
    known: Events,
    later: Events,
    k: int,
    items: Bool | None = None,
    official: bool = False,
) -> Question:
    """Return a question about the pairs of later events that are new, of some items.

    Only users with events are asked about, except by the official protocol, which averages over all.
    """
    new = np.setdiff1d(later.keys, known.keys)
    user, item = new // later.items, new % later.items
    wanted = np.ones(len(new), np.bool_) if official else np.isin(user, known.user)
    if items is not None:
        wanted &= items[item]
    users, begins = np.unique(user[wanted], return_index=True)
    truth = tuple(np.split(item[wanted], begins[1:]))[: len(users)]  # nothing is split into one part
    return Question(name, fitted, known, users, truth, k, official)


Scorer = Callable[[Profiles], "Float32"]  # (users, items)


def rank(score: Scorer, past: Past, users: Int64, k: int, among: Bool | None = None) -> Int64:
    """Return the k items with the greatest scores of each user, (users, k); -1 where there are fewer."""
    out = past.degree == 0 if among is None else (past.degree == 0) | ~among
    lists = [_top(score, past, users[at : at + _AT_ONCE], k, out) for at in range(0, len(users), _AT_ONCE)]
    return np.concatenate(lists) if lists else np.zeros((0, k), np.int64)


def _top(score: Scorer, past: Past, users: Int64, k: int, out: Bool) -> Int64:
    profiles = past.profiles(users)
    scores = np.array(score(profiles), np.float32)
    scores[profiles.pairs.nonzero()] = -np.inf
    scores[:, out] = -np.inf
    best = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
    value = np.take_along_axis(scores, best, axis=1)
    order = np.lexsort((best, -value), axis=1)
    found = np.where(np.isfinite(value), best, -1)
    listed = np.full((len(users), k), -1, np.int64)
    listed[:, : found.shape[1]] = np.take_along_axis(found, order, axis=1)
    return listed


@dataclass(frozen=True, slots=True, eq=False)
class Quality:
    """Recall and NDCG of each user."""

    recall: Float64
    ndcg: Float64

    @property
    def sum(self) -> float:
        """What settings are chosen by: the mean of NDCG plus the mean of recall."""
        return float(self.recall.mean() + self.ndcg.mean())


def quality(lists: Int64, truth: tuple[Int64, ...], official: bool = False) -> Quality:
    """Return how well lists of items foretell what was taken."""
    k = lists.shape[1]
    gains = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gains)
    recall, ndcg = np.zeros(len(truth)), np.zeros(len(truth))
    for at, (listed, taken) in enumerate(zip(lists, truth, strict=True)):
        hit, most = np.isin(listed, taken), min(k, len(taken))
        recall[at] = hit.sum() / (len(taken) if official else most)
        ndcg[at] = gains[hit].sum() / ideal[most - 1]
    return Quality(recall, ndcg)
