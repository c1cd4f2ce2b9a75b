"""The likeliest links of a node: candidates by a dot product, ranked by the score of a link."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dygcn.engine.models.links import COSINE, FILTER, link_vectors, node_traits
from dygcn.live.finding import EVERY_KIND, check_kind, find_nodes, linked_nodes, of_kind
from dygcn.live.scoring import filter_of, head_of, pair_scores

if TYPE_CHECKING:
    from dygcn.engine.graph import Graph
    from dygcn.engine.models.contracts import StateReader
    from dygcn.engine.records import Bool, Float64, Nodes
    from dygcn.live.search.nearest import VectorCache

Among: TypeAlias = Iterable[int | str] | Callable[[int | str], bool] | None
"""Ids that may be an answer: a list of them, or a function that says so of an id; None: all."""

EVERYONE = 4_000  # candidates; where there are more, a dot product chooses
_BY_DOT = 2_000, 20_000  # candidates with the greatest dot products: a fifth of all, within these bounds
_BY_PATH = 2_000  # candidates two edges away, those with most paths first


def allowed_nodes(state: StateReader, among: Among) -> Nodes:
    """Return the nodes that may be recommended, in the order of the user's ids."""
    graph = state.graph
    if among is None:
        return graph.nodes()
    if callable(among):
        nodes = graph.nodes()
        ids = graph.ids.shown(graph.ids.names(nodes)).tolist()
        return nodes[np.fromiter(map(bool, map(among, ids)), np.bool_, len(ids))]
    return graph.ids.sorted(np.unique(find_nodes(state, among)))


def asking_kind(state: StateReader) -> str | None:
    """Return the default kind of a query node's id in recommendations: the first kind."""
    kinds = state.graph.ids.kinds
    return None if kinds is None else kinds.names[0]


def links_of(
    state: StateReader,
    node: int,
    links: str | None,
    exclude_linked: bool,
    kind: str | None,
    allowed: Nodes | None = None,
) -> str:
    """Return the score to rank by: `links`, else "next", the filter's where it can answer, or "new".

    `allowed` are the nodes that may be an answer; None: all.
    """
    check_kind(state.graph.ids, kind)
    if links is not None:
        return links
    if not exclude_linked:
        return "next"
    known = state.filter is not None and state.filter.knows(state.graph, node, kind, allowed)
    return FILTER if known else "new"


def links_for(
    state: StateReader,
    one: object,
    links: str | None,
    exclude_linked: bool,
    kind: str | None,
    among: Among = None,
) -> str:
    """Return what `links_of` returns, for an id instead of a node."""
    node = int(find_nodes(state, [one], asking_kind(state))[0])
    allowed = None if among is None else allowed_nodes(state, among)
    return links_of(state, node, links, exclude_linked, kind, allowed)


def kind_of_links(state: StateReader, node: int, nodes: Nodes, kind: str | None) -> Nodes:
    """Return the nodes of a kind; without a kind, those of the kinds that the node's neighbours have."""
    ids = state.graph.ids
    if kind is not None or ids.kinds is None:
        return of_kind(ids, nodes, kind)
    linked = linked_nodes(state.graph, node)
    wanted = [one for one in ids.kinds.names if ids.of_kind(linked, one).any()]
    return nodes[np.logical_or.reduce([ids.of_kind(nodes, one) for one in wanted])] if wanted else nodes


def filtered_nodes(
    state: StateReader, node: int, k: int, among: Nodes | None, exclude_linked: bool, kind: str | None
) -> tuple[Nodes, Float64]:
    """Return the k nodes that the filter scores best, and their scores; ties in the order of the user's ids.

    `among` are the nodes that may be an answer; None: all.
    """
    graph, filter_ = state.graph, filter_of(state)
    some = kind not in (None, EVERY_KIND) and graph.ids.kinds is not None and filter_.head.answers != (kind,)
    count = graph.ids.high if some else k
    nodes, scores = filter_.scores(graph, node, linked=not exclude_linked, among=among, count=count)
    if some:
        here = np.flatnonzero(nodes >= 0)
        scores[here[~graph.ids.of_kind(nodes[here], str(kind))]] = -np.inf
    if len(nodes) > k:
        least = max(scores[np.argpartition(-scores, k - 1)[k - 1]], -np.finfo(np.float64).max)
        best = np.flatnonzero(scores >= least)
        nodes, scores = nodes[best], scores[best]
    best = np.flatnonzero(scores > -np.inf)
    if len(best) > 1 and len(np.unique(scores[best])) < len(best):
        by_id = graph.ids.sorted(nodes[best])
        order = np.argsort(nodes[best])
        best = best[order[np.searchsorted(nodes[best[order]], by_id)]]
    best = best[np.argsort(-scores[best], kind="stable")[:k]]
    return nodes[best], scores[best]


def recommend_nodes(
    state: StateReader,
    cache: VectorCache,
    node: int,
    k: int,
    allowed: Nodes,
    exclude_linked: bool,
    links: str,
) -> tuple[Nodes, Float64]:
    """Return the k allowed nodes with the greatest score, and their scores; ties in the order of `allowed`.

    Of more than `EVERYONE` candidates, only those are scored that have the greatest dot products of link
    vectors, that are two edges away, or that are linked; for what comes next, also who is an answer lately.
    """
    graph = state.graph
    linked = linked_nodes(graph, node)
    out = np.append(linked, np.int32(node)) if exclude_linked else np.array([node], np.int32)
    candidates = allowed[~np.isin(allowed, out)]
    if len(candidates) > EVERYONE:
        near = np.concatenate((_two_edges_away(graph, linked), linked, _often_lately(state, links)))
        likely = _greatest_dots(state, cache, node, candidates, links) | np.isin(candidates, near)
        candidates = candidates[likely]
    asker = np.full(len(candidates), node, np.int32)
    scores = pair_scores(state, cache, asker, candidates, links)
    best = np.argsort(-scores, kind="stable")[:k]
    return candidates[best], scores[best]


def _greatest_dots(state: StateReader, cache: VectorCache, node: int, candidates: Nodes, links: str) -> Bool:
    """Mark the candidates whose link vectors have the greatest dot products with the node's."""
    head, unit = head_of(state.model, links) or COSINE, state.model.unit
    (vectors, lengths), me = cache.refresh(candidates), np.array([node], np.int32)
    own = link_vectors(
        cache.refresh(me)[0], head.popularity(node_traits(state.graph, me, unit)), head, query=True
    )
    cosines = np.divide(vectors @ own[0, :-2], lengths, out=np.zeros(len(candidates)), where=lengths > 0)
    dots = cosines + head.popularity(node_traits(state.graph, candidates, unit))
    marked = np.zeros(len(candidates), np.bool_)
    count = min(max(len(dots) // 5, _BY_DOT[0]), _BY_DOT[1])
    marked[np.argpartition(-dots, count)[:count]] = True
    return marked


def _often_lately(state: StateReader, links: str) -> Nodes:
    """Return the most frequent destinations, if the score uses the history of events."""
    if state.history is None or not state.model.asks_history(links):
        return np.empty(0, np.int32)
    found = state.graph.find(state.history.ids.names(state.history.popular(_BY_PATH)))
    return found[found >= 0]


def _two_edges_away(graph: Graph, linked: Nodes) -> Nodes:
    """Return the nodes reached by paths of two edges, those with most paths first."""
    _, other, _ = graph.pull.arcs(linked)
    nodes, paths = np.unique(other, return_counts=True)
    return nodes[np.argsort(-paths, kind="stable")[:_BY_PATH]]
