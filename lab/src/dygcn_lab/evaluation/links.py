"""Link prediction: whether a state at t tells the edges at t + 1 from pairs that are not linked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dygcn.engine.measures import PairSet, draw_negatives, one_end
from dygcn.engine.records import Float64, Int64

TASKS = ("all", "new-warm", "never")
NEGATIVES = ("uniform", "degree")
MOST = 100_000  # links of a question; of more a uniform sample is asked


@dataclass(frozen=True, slots=True)
class LinkQuestion:
    """Pairs that are linked at the next step, and pairs that are not."""

    linked: Int64  # (m, 2)
    negatives: dict[str, Int64]  # by kind of negatives, (at most m, 2)


def ask_links(now: Int64, coming: Int64, nodes: int, random: np.random.Generator) -> dict[str, LinkQuestion]:
    """Return the questions that the next graph asks of the present state.

    ``all``: every edge of the next graph; negatives have an edge there and none between them. ``new-warm``:
    edges that are new and whose two ends had an edge before; negatives had one, too, and are linked
    neither before nor after. One negative stands against each edge, with one of its ends: ``uniform`` over
    all such nodes, or ``degree``: an end of another edge of the question, so that popular nodes are as
    frequent among negatives as among the linked.

    `now`, `coming`: (m, 2) edges at t and at t + 1.
    """
    before, after = PairSet(now, nodes), PairSet(coming, nodes)
    warm = np.zeros(nodes, np.bool_)
    warm[now.ravel()] = True
    fresh = coming[~before.has(coming[:, 0], coming[:, 1]) & warm[coming].all(axis=1)]
    return {
        "all": _ask(coming, np.unique(coming), (after,), random),
        "new-warm": _ask(fresh, np.flatnonzero(warm), (before, after), random),
    }


def ask_never(
    now: Int64, coming: Int64, seen: PairSet, nodes: int, random: np.random.Generator
) -> LinkQuestion:
    """Return the links of the next graph between nodes that have an edge now and were never linked before.

    A link that returns is no such link. Strangers have an edge now, were never linked either, and are not
    linked in the next graph: whoever remembers pairs has nothing to tell one from the other by.

    `now`, `coming`: (m, 2) edges at t and at t + 1; `seen`: every pair that was linked at any moment up to t.
    """
    warm = np.zeros(nodes, np.bool_)
    warm[now.ravel()] = True
    never = coming[~seen.has(coming[:, 0], coming[:, 1]) & warm[coming].all(axis=1)]
    return _ask(never, np.flatnonzero(warm), (seen, PairSet(coming, nodes)), random)


def mix_ends(pairs: Int64, random: np.random.Generator) -> Int64:
    """Return the pairs with the two ends of each in random order.

    The edges of a graph come with the lower end first, negatives do not: a score that is not symmetric could
    tell them apart by that.

    Examples
    --------
    >>> mixed = mix_ends(np.array([[0, 1]] * 100), np.random.default_rng(0))
    >>> np.unique(mixed, axis=0).tolist()
    [[0, 1], [1, 0]]
    """
    turned = random.integers(0, 2, len(pairs)).astype(np.bool_)
    mixed: Int64 = np.where(turned[:, None], pairs[:, ::-1], pairs)
    return mixed


def with_mixed_ends(question: LinkQuestion, random: np.random.Generator) -> LinkQuestion:
    """Return a question with the ends of its links and of its negatives in random order."""
    negatives = {kind: mix_ends(pairs, random) for kind, pairs in question.negatives.items()}
    return LinkQuestion(mix_ends(question.linked, random), negatives)


def _ask(
    linked: Int64, active: Int64, known: tuple[PairSet, ...], random: np.random.Generator
) -> LinkQuestion:
    pools = {"uniform": active, "degree": linked.ravel()}
    if len(linked) > MOST:
        linked = linked[np.sort(random.choice(len(linked), MOST, replace=False))]
    if len(linked) == 0:
        return LinkQuestion(linked, dict.fromkeys(pools, linked))
    negatives = {
        name: np.stack(draw_negatives(one_end(linked, random), pool, known, random), axis=1)
        for name, pool in pools.items()
    }
    return LinkQuestion(linked, negatives)


def f1_above(bar: float, linked: Float64, others: Float64) -> float:
    """Return the F1 score of "linked" above a threshold."""
    right, wrong = float((linked > bar).sum()), float((others > bar).sum())
    return 2 * right / (right + wrong + len(linked))


def median_bar(linked: Float64, others: Float64) -> float:
    """Return the median of all scores: the threshold of the paper's authors."""
    return float(np.median(np.concatenate((linked, others))))


def best_bar(linked: Float64, others: Float64) -> float:
    """Return the threshold with the greatest F1 score: chosen in training, used in the test."""
    scores = np.concatenate((linked, others))
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.cumsum(order < len(linked))
    f1 = 2 * right / (np.arange(1, len(ranked) + 1) + len(linked))
    f1[:-1][ranked[:-1] == ranked[1:]] = 0  # equal scores fall on one side
    at = int(np.argmax(f1))
    return float(ranked[at + 1]) if at + 1 < len(ranked) else float(np.nextafter(ranked[at], -np.inf))
