"""Lists on which the score of what comes next is learned: an event, and others that it might have been.

Candidates of a list are drawn from everybody that can be an answer, newcomers included: candidates drawn only
from those that were seen already would teach the score who was drawn. Each has the inverse of the probability
with which it was drawn, so that a softmax over the list estimates the softmax over all candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.history.columns import RAW

if TYPE_CHECKING:
    from dygcn.engine.history import History
    from dygcn.engine.records import Bool, EventBatch, Float64, Int32, Int64, Nodes

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
    candidates: Int32  # (l, e) numbers in the history; -1 where a list is shorter
    brought: Bool  # (l, e) the answer, former partners and others: all but those that only others had lately


def draw_lists(
    history: History, batch: EventBatch, begin: int, count: int, random: np.random.Generator
) -> NextLists:
    """Play events with times through an empty history, and draw a list for some before they are counted.

    Everybody that can be a candidate, the ends of all events, has a number in the history from the start.

    Parameters
    ----------
    begin
        The first event that may have a list.
    count
        How many lists, at most.
    """
    assert batch.t is not None
    asks, answers = history.numbered(batch)
    op, t = batch.op, batch.t.astype(np.float64) + 0.0
    counts = (op > 0) & (asks != answers)  # a loop is nobody's answer
    chosen = _events(counts, begin, count, random)
    width = 1 + FORMER + RECENT + OTHERS
    raw = np.zeros((len(chosen), width, len(RAW)))
    weights = np.full((len(chosen), width), _ABSENT)
    found = np.full((len(chosen), width), -1, np.int32)
    brought = np.zeros((len(chosen), width), np.bool_)
    taken = np.zeros(len(history), np.bool_)
    played = 0

    def play(begin: int, end: int) -> None:
        history.count(asks[begin:end], answers[begin:end], op[begin:end], t[begin:end])

    for row, event in enumerate(chosen.tolist()):
        play(played, event)
        played, asker = event, int(asks[event])
        former = history.answers_of(asker, _LOOKED_AT)
        lately = answers[max(event - _LATELY, 0) : event]
        ends = np.array([answers[event], asker], np.int32)
        places, log_weight, kept = _candidates(ends, former, lately[lately >= 0], taken, random)
        raw[row, : len(places)] = history.columns(asker, places, float(t[event]))
        weights[row, : len(places)] = log_weight
        found[row, : len(places)] = places
        brought[row, : len(places)] = kept
    play(played, len(batch))
    return NextLists(chosen, raw, weights, found, brought)


def _events(counts: Bool, begin: int, count: int, random: np.random.Generator) -> Int64:
    usable = np.flatnonzero(counts[begin:]) + begin
    if len(usable) > count:
        usable = np.sort(random.choice(usable, count, replace=False))
    return usable


def _candidates(
    ends: Int32, former: Int32, lately: Int32, taken: Bool, random: np.random.Generator
) -> tuple[Nodes, Float64, Bool]:
    """Return candidates, the answer first, the logarithms of their weights, and who is `brought`.

    `ends` are the answer and the one who asks, who is no candidate. `taken` is scratch, False for everybody.
    """
    former = former[former != ends[0]]
    taken[ends] = taken[former] = True
    lately = _distinct(lately[~taken[lately]])
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
    some = _distinct(random.integers(0, len(taken), 3 * OTHERS, np.int32))
    return random.permutation(some[~taken[some]])[:OTHERS]


def _distinct(nodes: Nodes) -> Nodes:
    """Return nodes in their order, each once: of a few, faster than `numpy.unique`."""
    nodes = np.sort(nodes)
    return nodes[np.append(True, nodes[1:] != nodes[:-1])] if len(nodes) else nodes
