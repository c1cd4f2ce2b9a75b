"""Ranking: who has the next event with a node, among a hundred others.

A query is the source of an event of the next step, its answer the destination. The answer is ranked among a
hundred other nodes: ``random`` ones, or ``historical`` ones, half of which were linked with the query before
and are not linked with it by the next step. Repeated events count: most of what comes next has been there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures.negatives import PairSet
from dygcn.engine.measures.scores import mean_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import Bool, Float64, Int64, Moment

QUERIES = 500  # of a step, at most
RIVALS = 100  # of each answer
FORMER = 50  # of the historical rivals, at most
HITS = 10


@dataclass(frozen=True, slots=True)
class Ranking:
    """Queries with their answers, and rivals of each answer."""

    pairs: Int64  # (q, 2) query and answer
    never: Bool  # (q,) pairs that were never linked before
    rivals: dict[str, Int64]  # by kind, (q, RIVALS)
    masked: dict[str, Bool]  # by kind, (q, RIVALS): the query itself, or also linked with it by the next step


def ask_ranking(
    now: Int64, coming: Moment, seen: PairSet, nodes: int, random: np.random.Generator
) -> Ranking:
    """Return the queries that the next step asks of the present state.

    Parameters
    ----------
    now
        (m, 2) edges at t.
    coming
        The moment t + 1; its +1 events between nodes that have an edge at t are asked for, each pair of
        source and destination once.
    seen
        Every pair that was linked at any moment up to t.
    """
    active = np.zeros(nodes, np.bool_)
    active[now.ravel()] = True
    added = (coming.op > 0) & (coming.src != coming.dst)
    events = np.unique(np.stack((coming.src, coming.dst), axis=1)[added], axis=0)
    linked = PairSet(events, nodes)
    pairs = events[active[events].all(axis=1)]
    if len(pairs) > QUERIES:
        pairs = pairs[np.sort(random.choice(len(pairs), QUERIES, replace=False))]
    pool = np.flatnonzero(active)
    drawn = random.choice(pool, (len(pairs), RIVALS)) if len(pairs) else np.empty((0, RIVALS), np.int64)
    rivals = {"random": drawn, "historical": _with_former(pairs, drawn, active, linked, seen, random)}
    queries = np.repeat(pairs[:, 0], RIVALS)
    masked = {
        kind: ((queries == others.ravel()) | linked.has(queries, others.ravel())).reshape(others.shape)
        for kind, others in rivals.items()
    }
    return Ranking(pairs, ~seen.has(pairs[:, 0], pairs[:, 1]), rivals, masked)


def _with_former(
    pairs: Int64, drawn: Int64, active: Bool, linked: PairSet, seen: PairSet, random: np.random.Generator
) -> Int64:
    """Return the rivals with former neighbours of the query in the place of the first ones.

    A former neighbour that has no edge any more is no rival: answers have one, and that would tell.
    """
    rivals = drawn.copy()
    begins, others = seen.neighbours()
    for place, query in enumerate(pairs[:, 0].tolist()):
        former = others[begins[query] : begins[query + 1]]
        former = former[active[former] & ~linked.has(np.full(len(former), query), former)]
        former = random.permutation(former)[:FORMER]
        rivals[place, : len(former)] = former
    return rivals


def rank_figures(ask: Callable[[Int64], Float64], ranking: Ranking) -> dict[str, float]:
    """Return the mean reciprocal rank and the share of ranks up to ten; NaN where nothing was asked.

    Parameters
    ----------
    ask
        Scores pairs (m, 2) of one who asks and a candidate.
    """
    answers = ask(ranking.pairs)
    found = {}
    for kind, others in ranking.rivals.items():
        pairs = np.stack((np.repeat(ranking.pairs[:, 0], others.shape[1]), others.ravel()), axis=1)
        scores = ask(pairs).reshape(others.shape)
        ranks = mean_ranks(answers, scores, ranking.masked[kind])
        found[f"mrr.{kind}"] = _mean(1 / ranks)
        found[f"hits.{kind}"] = _mean((ranks <= HITS).astype(np.float64))
        found[f"mrr.never.{kind}"] = _mean(1 / ranks[ranking.never])
    return found


def _mean(values: Float64) -> float:
    return float(values.mean()) if len(values) else float("nan")
