"""Pairs on which the score of links is learned: drawn from the graph at t and from what happens at t + 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures.negatives import PairSet, draw_negatives, one_end
from dygcn.engine.models import node_traits, pair_pasts

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.graph import Graph
    from dygcn.engine.records import Bool, Float32, Float64, Int64, Nodes
    from dygcn.engine.training.samples import NextEdges

    Read = Callable[[Nodes], tuple["Float32 | None", "Float32"]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs with what is known of their past, as rows of a `LinkSample`."""

    first: Int64  # (m,)
    second: Int64  # (m,)
    pasts: Float64  # (m, 4), see `pair_pasts`
    marked: Bool  # (m,) who is linked at the next step


@dataclass(frozen=True, slots=True)
class LinkSample:
    """Pairs of one held-out step, and the nodes that stand in them; the last row is a node not yet there."""

    vectors: Float32 | None  # (n, dim); None: they follow from the units, by matrices that are learned later
    units: Float32  # (K + 1, n, width)
    traits: Float64  # (n, 4)
    pairs: dict[str, Pairs]  # "new" and "all"


def sample_links(
    graph: Graph,
    unit: float | None,
    edges: NextEdges,
    count: int,
    random: np.random.Generator,
    read: Read,
) -> LinkSample:
    """Draw pairs from the graph now, and from the edges of the next one.

    Parameters
    ----------
    count
        How many linked pairs of each kind.
    read
        Returns vectors (or None) and units of nodes.
    """
    first, second, active = (nodes.astype(np.int64) for nodes in edges.nodes_in(graph))
    coming = np.stack((first, second), axis=1)
    a, b, weight = graph.edges()
    now = np.stack((a, b), axis=1)[weight > 0].astype(np.int64)
    drawn = {
        "new": _draw_new(now, coming, count, graph.ids.high, random),
        "all": _draw_all(coming, active, count, graph.ids.high, random),
    }
    ends = np.concatenate([pairs for pairs, _ in drawn.values()])
    nodes = np.unique(ends[ends >= 0]).astype(np.int32)
    place = np.full(graph.ids.high + 1, len(nodes), np.int64)  # -1, the last place, is a node not yet there
    place[nodes] = np.arange(len(nodes))

    def described(pairs: Int64, marked: Bool) -> Pairs:
        ends = pairs.astype(np.int32)
        pasts = pair_pasts(graph, ends[:, 0], ends[:, 1], unit)
        return Pairs(place[pairs[:, 0]], place[pairs[:, 1]], pasts, marked)

    vectors, units = read(nodes)
    return LinkSample(
        None if vectors is None else np.pad(vectors, ((0, 1), (0, 0))),
        np.pad(units, ((0, 0), (0, 1), (0, 0))),
        node_traits(graph, np.append(nodes, np.int32(-1)), unit),
        {kind: described(*pairs) for kind, pairs in drawn.items()},
    )


def _draw_new(
    now: Int64, coming: Int64, count: int, high: int, random: np.random.Generator
) -> tuple[Int64, Bool]:
    """Draw links that are not there yet between nodes that are, and pairs that stay apart."""
    before, warm = PairSet(now, high), np.zeros(high + 1, np.bool_)
    warm[now.ravel()] = True
    fresh = coming[(coming >= 0).all(axis=1)]
    after = PairSet(fresh, high)
    fresh = fresh[warm[fresh].all(axis=1) & ~before.has(fresh[:, 0], fresh[:, 1])]
    return _draw(fresh, np.flatnonzero(warm), (before, after), count, random)


def _draw_all(
    coming: Int64, active: Int64, count: int, high: int, random: np.random.Generator
) -> tuple[Int64, Bool]:
    """Draw links of the next graph, and pairs of its nodes that are not linked there.

    Nodes that are not there yet are numbered behind all others while negatives are drawn.
    """
    late = active < 0
    active = np.where(late, high + np.cumsum(late) - 1, active)
    known = coming[(coming >= 0).all(axis=1)]
    chosen, truth = _draw(coming, active, (PairSet(known, high + len(active)),), count, random)
    return np.where(chosen < high, chosen, -1), truth


def _draw(
    linked: Int64, pool: Int64, apart_from: tuple[PairSet, ...], count: int, random: np.random.Generator
) -> tuple[Int64, Bool]:
    """Return linked pairs and as many negatives of one of their ends, and which are linked."""
    if len(linked) == 0:
        return linked, np.zeros(0, np.bool_)
    chosen = linked[random.choice(len(linked), min(count, len(linked)), replace=False)]
    kept = one_end(chosen, random)
    # An end that is not there yet has met nobody: whoever is drawn is a negative.
    cold = kept < 0
    negatives = np.stack(draw_negatives(kept[~cold], pool, apart_from, random), axis=1)
    colder = np.stack((kept[cold], random.choice(pool, int(cold.sum()))), axis=1)
    pairs = np.concatenate((chosen, negatives, colder))
    return pairs, np.arange(len(pairs)) < len(chosen)
