"""Lists on which the score of what comes next is learned: an event, and others that it might have been.

Candidates of a list are drawn from everybody that can be an answer, newcomers included: candidates drawn only
from those that were seen already would teach the score who was drawn. Each has the inverse of the probability
with which it was drawn, so that a softmax over the list estimates the softmax over all candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import take
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.history.columns import RAW

if TYPE_CHECKING:
    from dygcn.engine.history import History
    from dygcn.engine.records import Bool, EventBatch, Float64, IdColumn, Int32, Int64, Nodes

LISTS = 2_000
# Candidates of a list, at most: whom the asker had before, whom others just had, and the rest.
FORMER, RECENT, OTHERS = 20, 15, 25
_LATELY = 400  # events whose answers are recent
_LOOKED_AT = 4096  # partners that an asker had last; of a hub, those before them are among the rest
_ABSENT = -np.inf


@dataclass(frozen=True, slots=True)
class NextLists:
    """Candidates of events, the answer of each list first."""

    event: Int64  # (l,) which of the events
    raw: Float64  # (l, e, 20) see `history.columns.RAW`
    log_weight: Float64  # (l, e) of the inverse probabilities; minus infinity where a list is shorter
    candidates: Int32  # (l, e) places in the pool; -1 where a list is shorter
    brought: Bool  # (l, e) the answer, former partners and others: all but those that only others had lately


class Pool:
    """Everybody that can be a candidate: the ends of all events that a model is fitted on."""

    def __init__(self, ids: str, batch: EventBatch) -> None:
        self._map = IdMap(ids)
        rows = np.flatnonzero(batch.op > 0)
        for end in (batch.dst, batch.src):
            self._map.intern(take(end, rows))
        self.names: IdColumn = self._map.names(np.arange(len(self._map), dtype=np.int32))

    def __len__(self) -> int:
        return len(self._map)

    def places(self, ids: IdColumn) -> Int32:
        """Return where ids stand."""
        return self._map.find(ids)


def draw_lists(
    history: History,
    pool: Pool,
    batch: EventBatch,
    begin: int,
    count: int,
    random: np.random.Generator,
) -> NextLists:
    """Play events through an empty history, and draw a list for some of them before it is counted.

    Parameters
    ----------
    begin
        The first event that may have a list.
    count
        How many lists, at most.
    """
    asks, in_pool = pool.places(batch.src), pool.places(batch.dst)  # of events
    counts = (batch.op > 0) & (asks != in_pool)  # a loop is nobody's answer
    chosen = _events(counts, begin, count, random)
    width = 1 + FORMER + RECENT + OTHERS
    raw = np.zeros((len(chosen), width, len(RAW)))
    weights = np.full((len(chosen), width), _ABSENT)
    found = np.full((len(chosen), width), -1, np.int32)
    brought = np.zeros((len(chosen), width), np.bool_)
    number, place = np.full((2, len(pool)), -1, np.int32)  # of a place in the pool, and the other way round
    taken = np.zeros(len(pool), np.bool_)
    played, known = 0, 0
    for row, event in enumerate(chosen.tolist()):
        history.apply(_part(batch, played, event))
        fresh = np.arange(known, len(history), dtype=np.int32)
        place[fresh] = pool.places(history.ids.names(fresh))
        number[place[fresh]] = fresh
        played, known = event, len(history)
        asker = int(number[asks[event]])
        former = place[history.answers_of(asker, _LOOKED_AT)]
        lately = np.unique(in_pool[max(event - _LATELY, 0) : event])
        lately = lately[lately >= 0]
        ends = np.array([in_pool[event], asks[event]], np.int32)
        places, log_weight, kept = _candidates(ends, former, lately, taken, random)
        now = float(batch.t[event]) if batch.t is not None else None
        raw[row, : len(places)] = history.columns(asker, number[places], now)
        weights[row, : len(places)] = log_weight
        found[row, : len(places)] = places
        brought[row, : len(places)] = kept
    history.apply(_part(batch, played, len(batch)))
    return NextLists(chosen, raw, weights, found, brought)


def _events(counts: Bool, begin: int, count: int, random: np.random.Generator) -> Int64:
    usable = np.flatnonzero(counts[begin:]) + begin
    if len(usable) > count:
        usable = np.sort(random.choice(usable, count, replace=False))
    return usable


def _part(batch: EventBatch, begin: int, end: int) -> EventBatch:
    rows = np.arange(begin, end)
    t = None if batch.t is None else batch.t[rows]
    return type(batch)(take(batch.src, rows), take(batch.dst, rows), batch.op[rows], None, t)


def _candidates(
    ends: Int32, former: Int32, lately: Int32, taken: Bool, random: np.random.Generator
) -> tuple[Nodes, Float64, Bool]:
    """Return candidates, the answer first, the logarithms of their weights, and who is `brought`.

    `ends` are the answer and the one who asks, who is no candidate. `taken` is scratch, False for everybody.
    """
    former = former[former != ends[0]]
    taken[ends] = taken[former] = True
    lately = lately[~taken[lately]]
    taken[lately] = True
    rest = len(taken) - len(ends) - len(former) - len(lately)
    others = _others(taken, len(taken) - rest, random)
    taken[ends] = taken[former] = taken[lately] = False
    strata = (former, FORMER, len(former)), (lately, RECENT, len(lately)), (others, OTHERS, rest)
    drawn, weights, kept = [ends[:1]], [np.zeros(1)], [np.ones(1, np.bool_)]
    for members, most, total in strata:
        some = members if len(members) <= most else random.choice(members, most, replace=False)
        drawn.append(some.astype(np.int32))
        weights.append(np.full(len(some), np.log(total / len(some)) if len(some) else 0.0))
        kept.append(np.full(len(some), members is not lately))
    return np.concatenate(drawn), np.concatenate(weights), np.concatenate(kept)


def _others(taken: Bool, count: int, random: np.random.Generator) -> Int32:
    """Draw from those that are in no other stratum, as so many are."""
    if len(taken) <= 4 * count + 4 * OTHERS:
        return np.flatnonzero(~taken).astype(np.int32)
    some = np.unique(random.integers(0, len(taken), 3 * OTHERS).astype(np.int32))
    return random.permutation(some[~taken[some]])[:OTHERS]
