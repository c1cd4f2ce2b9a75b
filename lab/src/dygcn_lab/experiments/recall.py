"""What a vector database finds of the nodes that the whole score puts first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64, Int64
    from dygcn.live.embedding import LiveEmbedding

QUERIES = 200
BEST = 10
CANDIDATES = 100  # that are scored again


def recall_figures(live: LiveEmbedding, links: str, seed: int = 0) -> dict[str, list[float | None]]:
    """Return recall at 10 against scoring everyone: by dot products, and with the first 100 scored again.

    For new links, everyone is every node that the query is not linked with; for the other kinds its
    neighbours count, too. A third figure adds the query's neighbours, and ghosts of some, to the candidates.
    """
    ids, random = live.ids(), np.random.default_rng(seed)
    index = live.link_vectors(ids, links=links)
    found: dict[str, list[float]] = {
        "recall.dot": [],
        "recall.reranked": [],
        "recall.with-neighbours": [],
    }
    for place in random.choice(len(ids), min(QUERIES, len(ids)), replace=False).tolist():
        others = np.flatnonzero(np.arange(len(ids)) != place)
        near_by, linked = _neighbours(live, place)
        if links == "new":
            others = np.setdiff1d(others, near_by[linked])
        whole = live.score(np.repeat(ids[place], len(others)), ids[others], links)
        best = others[_first(whole, BEST)]
        dots = index[others] @ live.link_vectors(ids[[place]], query=True, links=links)[0]
        near = _first(dots.astype(np.float64), CANDIDATES)
        more = np.union1d(near, np.flatnonzero(np.isin(others, near_by)))
        found["recall.dot"].append(_share(best, others[near[:BEST]]))
        found["recall.reranked"].append(_share(best, others[near[_first(whole[near], BEST)]]))
        found["recall.with-neighbours"].append(_share(best, others[more[_first(whole[more], BEST)]]))
    return {name: [float(np.mean(shares))] for name, shares in found.items()}


def _neighbours(live: LiveEmbedding, place: int) -> tuple[Int64, Bool]:
    """Return where the nodes stand that a node has an edge with, or a ghost of one, and which an edge."""
    graph = live._state.graph
    nodes = graph.nodes()  # in the order of ids
    place_of = np.empty(graph.ids.high, np.int64)
    place_of[nodes] = np.arange(len(nodes))
    _, others, weights = graph.pull.arcs(nodes[[place]])
    return place_of[others], weights > 0


def _first(scores: Float64, count: int) -> Int64:
    return np.argsort(-scores, kind="stable")[:count]


def _share(best: Int64, found: Int64) -> float:
    return len(np.intersect1d(best, found)) / max(len(best), 1)
