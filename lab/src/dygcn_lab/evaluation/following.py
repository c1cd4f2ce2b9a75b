"""What comes next: events of a stream, each ranked among others that it might have been.

A question is an event (u, v, t): u asks, v is the answer. Where events have at most 1,000 destinations, the
answer is ranked among all of these. Elsewhere among 100 ``random`` nodes, or 100 ``historical`` ones: up
to 50 of these had an event with u before, in either direction. Then both ends and all rivals had an event
before. What u also has at the very same time is no rival. Equal scores share their mean rank.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dygcn.engine.records import Bool, Float64, Int64

Score = Callable[[int, Int64, float], Float64]

FITTED = 0.7  # of all events
EVERYBODY = 1000  # destinations up to which all of them are candidates
RIVALS, FORMER = 100, 50
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Stream:
    """Events in the order of their times; nodes are numbers from 0."""

    name: str
    src: Int64
    dst: Int64
    t: Float64
    op: Int64  # +1 or -1; questions are about events that add something

    def __len__(self) -> int:
        return len(self.t)

    @property
    def nodes(self) -> int:
        """One more than the greatest number of a node."""
        return int(max(self.src.max(), self.dst.max())) + 1

    @property
    def fitted(self) -> int:
        """How many events a method is fitted on."""
        return int(FITTED * len(self))

    def part(self, begin: int, end: int) -> dict[str, Any]:
        """Return some of the events as a table."""
        rows = slice(begin, end)
        return {"src": self.src[rows], "dst": self.dst[rows], "t": self.t[rows], "op": self.op[rows]}

    def by_position(self) -> Stream:
        """Return the stream with the number of each event as its time."""
        return Stream(self.name, self.src, self.dst, np.arange(len(self), dtype=np.float64), self.op)


@dataclass(frozen=True, slots=True)
class Question:
    """One event, and the candidates of each kind, the answer first."""

    event: int
    candidates: dict[str, Int64]
    new: bool  # whether the two never had an event before


def ask(stream: Stream, begin: float, end: float, count: int, seed: int = 0) -> list[Question]:
    """Return questions about events between two shares of the stream, at most so many."""
    random = np.random.default_rng([seed, 31])
    first, last = int(begin * len(stream)), int(end * len(stream))
    chosen = np.flatnonzero(stream.op[first:last] > 0) + first
    if len(chosen) > count:
        chosen = np.sort(random.choice(chosen, count, replace=False))
    answers = np.unique(stream.dst)
    partners: dict[int, set[int]] = defaultdict(set)
    played, found = 0, []
    for event in chosen.tolist():
        for a, b in zip(stream.src[played:event].tolist(), stream.dst[played:event].tolist(), strict=True):
            partners[a].add(b)
            partners[b].add(a)
        played = event
        u, v = int(stream.src[event]), int(stream.dst[event])
        also = _same_moment(stream, event)
        new = v not in partners[u] if u in partners else True
        if len(answers) <= EVERYBODY:
            found.append(Question(event, {"all": _after(v, answers, also)}, new))
        elif u in partners and v in partners:
            former = np.array(sorted(partners[u]), np.int64)
            seen = np.fromiter(partners, np.int64, len(partners))
            also.append(u)
            rivals = random.choice(seen, RIVALS)
            historical = rivals.copy()
            some = random.permutation(np.setdiff1d(former, [v, *also]))[:FORMER]
            historical[: len(some)] = some
            both = {"random": _after(v, rivals, also), "historical": _after(v, historical, also)}
            found.append(Question(event, both, new))
    return found


def _same_moment(stream: Stream, event: int) -> list[int]:
    """Return what else the asker has at the time of an event."""
    low, high = (int(np.searchsorted(stream.t, stream.t[event], side)) for side in ("left", "right"))
    rows = np.arange(low, high)[stream.src[low:high] == stream.src[event]]
    others: list[int] = stream.dst[rows[rows != event]].tolist()
    return others


def _after(answer: int, rivals: Int64, also: list[int]) -> Int64:
    kept = rivals[~np.isin(rivals, [answer, *also])]
    return np.concatenate(([answer], kept)).astype(np.int64)


def known_before(stream: Stream, event: int, age: int | str) -> int:
    """Return how many events a state of some age has seen when an event is asked about.

    `age`: 0: all before it; n: states are renewed after every n events, counted from the fitted part;
    ``"day"``: at midnight.
    """
    if age == "day":
        midnight = np.floor(stream.t[event] / DAY) * DAY
        return max(int(np.searchsorted(stream.t, midnight, "left")), stream.fitted)
    if not age:
        return event
    assert isinstance(age, int)
    return event - (event - stream.fitted) % age


@dataclass
class Cost:
    """Seconds, and for how much of something."""

    seconds: float = 0.0
    count: int = 0

    @property
    def us(self) -> float:
        """Microseconds each."""
        return 1e6 * self.seconds / max(self.count, 1)

    def of(self, count: int, work: Callable[[], Any]) -> Any:
        """Do some work, and count it."""
        begun = time.perf_counter()
        found = work()
        self.seconds += time.perf_counter() - begun
        self.count += count
        return found


@dataclass
class Answers:
    """What methods answered, and what that cost."""

    ranks: dict[str, dict[str, Float64]]  # 1 / rank of every answer, by method and kind of candidates
    event: Cost = field(default_factory=Cost)  # of following events, all methods together
    pair: dict[str, Cost] = field(default_factory=dict)  # of scoring a candidate, by method


def reciprocal_ranks(
    stream: Stream,
    questions: list[Question],
    follow: Callable[[int, int], None],
    score: dict[str, Score],
    age: int | str = 0,
) -> Answers:
    """Ask methods all questions, in the order of the stream.

    `follow`: lets the methods see the events from one number to another; they have seen the fitted part;
    `score`: by name, scores of candidates for one who asks, at a time.
    """
    seen, event, pair = stream.fitted, Cost(), {name: Cost() for name in score}
    found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in score}
    for one in questions:
        upto = known_before(stream, one.event, age)
        if upto > seen:
            event.of(upto - seen, partial(follow, seen, upto))
            seen = upto
        asker, now = int(stream.src[one.event]), float(stream.t[one.event])
        for kind, candidates in one.candidates.items():
            for name, rate in score.items():
                scores = pair[name].of(len(candidates), partial(rate, asker, candidates, now))
                none = np.zeros((1, len(scores) - 1), np.bool_)
                rank = mean_ranks(scores[:1], scores[None, 1:], none)[0]
                found[name][kind].append(1.0 / rank)
    ranks = {
        name: {kind: np.array(values) for kind, values in kinds.items()} for name, kinds in found.items()
    }
    return Answers(ranks, event, pair)


def mean_ranks(answers: Float64, others: Float64, masked: Bool) -> Float64:
    """Return the rank of each answer among its rivals, 1 the best; equal scores share their mean rank."""
    above = (others > answers[:, None]) & ~masked
    equal = (others == answers[:, None]) & ~masked
    ranks: Float64 = 1.0 + above.sum(axis=1) + 0.5 * equal.sum(axis=1)
    return ranks
