"""The slow twin of a filter, in Python's integers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dygcn.engine.filter.head import GREATEST_MESSAGE, MESSAGE_SCALE, MOST_EDGES, MOST_OCTAVES, WINDOW

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from dygcn.engine.filter.filter import Filter
    from dygcn.engine.graph import Graph


def sums_of(kept: Filter, graph: Graph) -> dict[str, Any]:
    """Return all sums of a filter as of the clock, in the order of the user's ids."""
    kept._sync(graph)
    nodes = graph.nodes()
    asking, answering = nodes[kept._asks[nodes] >= 0], nodes[kept._answers[nodes] >= 0]
    one, other = kept._asks[asking], kept._answers[answering]
    return {
        "taste": kept._taste[one],
        "said": kept._said[one],
        "out": kept._out[asking],
        "total": kept._total[other],
        "recent": kept._recent[other],
        "into": kept._into[answering],
        "base": kept._base.copy(),
    }


def dense_sums(
    edges: Mapping[tuple[Hashable, Hashable], float | None],
    rows: Mapping[Hashable, Sequence[int]],
    width: int,
    half_lives: tuple[float, float],
    clock: float | None,
) -> dict[str, Any]:
    """Return the sums of a filter, by node.

    Edges are (user, item) -> time; of a graph without kinds every edge both ways. Half-lives are of edges in
    sums and in counts; 0: they do not age.
    """
    taste: dict[Hashable, list[int]] = {}
    said: dict[Hashable, list[int]] = {}
    total: dict[Hashable, list[int]] = {}
    recent: dict[Hashable, int] = {}
    for one in dict.fromkeys(one for one, _ in edges):
        own = [answer for who, answer in edges if who == one]
        taste[one] = _added([0] * width, ((1, rows[answer]) for answer in own if answer in rows))
        factor = MESSAGE_SCALE / math.sqrt(len(own)) if len(own) <= MOST_EDGES else 0.0
        whole = (round(number * factor) for number in taste[one])
        said[one] = [max(-GREATEST_MESSAGE, min(GREATEST_MESSAGE, number)) for number in whole]
    for answer in dict.fromkeys(answer for _, answer in edges):
        who = [(one, t) for (one, other), t in edges.items() if other == answer]
        total[answer] = _added([0] * width, ((weight(t, half_lives[0], clock), said[one]) for one, t in who))
        recent[answer] = sum(weight(t, half_lives[1], clock) for _, t in who)
    return {"taste": taste, "said": said, "total": total, "recent": recent}


def weight(t: float | None, half_life: float, clock: float | None) -> int:
    """Return the weight of an edge, in units of the lowest octave that counts at the clock."""
    if not half_life or t is None or clock is None:
        return 1
    age, newest = (max(-MOST_OCTAVES, min(MOST_OCTAVES, one / half_life)) for one in (t, clock))
    octave, base = math.floor(age), math.floor(newest) - WINDOW + 1
    if octave < base:
        return 0
    return int(128.0 * math.exp2(age - octave)) << (octave - base)


def _added(start: list[int], parts: Iterable[tuple[int, Sequence[int]]]) -> list[int]:
    for factor, row in parts:
        start = [total + factor * number for total, number in zip(start, row, strict=True)]
    return start
