"""Scores of links, and the likeliest links of a node: candidates by a dot product, ranked by the score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from dygcn.engine.filter.filter import Filter
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.history import EventHistory
from dygcn.engine.models import links as scoring
from dygcn.engine.models.checks import one_of
from dygcn.engine.models.contracts import StateReader
from dygcn.engine.models.links import COSINE, FILTER, KINDS, LinkHead
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import read_units
from dygcn.engine.records import Bool, Float64, Int64, Nodes
from dygcn.errors import FeatureError, OptionError
from dygcn.live.finding import EVERY_KIND, check_kind, find_nodes, linked_nodes, of_kind
from dygcn.live.search.nearest import VectorCache

# Ids that may be an answer: a list of them, or a function that says so of an id; None: all.
Among: TypeAlias = Iterable[int | str] | Callable[[int | str], bool] | None

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
    own = scoring.link_vectors(
        cache.refresh(me)[0], head.popularity(scoring.node_traits(state.graph, me, unit)), head, query=True
    )
    cosines = np.divide(vectors @ own[0, :-2], lengths, out=np.zeros(len(candidates)), where=lengths > 0)
    dots = cosines + head.popularity(scoring.node_traits(state.graph, candidates, unit))
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


def head_of(model: Model, links: str) -> LinkHead | None:
    """Return the learned score of a kind of links; None: the score is the cosine."""
    one_of("links", links, KINDS)
    if links == FILTER:
        raise OptionError('links="filter" ranks recommendations, and has no vectors; ask for another score')
    return model.links.get(links, model.links.get("all"))


def filter_of(state: StateReader) -> Filter:
    """Return the filter of a state; raise FeatureError, with a way to get one, if there is none."""
    if state.filter is None:
        raise FeatureError(
            'links="filter" needs a model with a filter, fit(..., recommend=True), and one process to serve: '
            "shards do not keep its sums, 1.7 kB a node that is recommended; ask for another score"
        )
    return state.filter


def to_probabilities(model: Model, scores: Float64, links: str) -> Float64:
    """Return scores as probabilities; raise OptionError if they are not log-odds."""
    kind = model.score_kind(links)
    if kind != "log-odds":
        raise OptionError(f"scores of links={links!r} are of kind {kind!r}, which has no probabilities")
    found: Float64 = 1.0 / (1.0 + np.exp(-scores))
    return found


def pair_scores(
    state: StateReader,
    cache: VectorCache,
    first: Nodes,
    second: Nodes,
    links: str,
    numbers: tuple[Nodes, Nodes] | None = None,
) -> Float64:
    """Return the scores of pairs of nodes; below 0 stands for a node that is not in the graph.

    `numbers` are those of the same ids in the history: a node that left the graph still has a past.
    """
    if links == FILTER:
        return _filter_scores(state, first, second)
    if state.model.asks_history(links):
        return _next_scores(state, cache, first, second, numbers, listed=links == "listed")
    head, named = head_of(state.model, links), np.unique(np.concatenate((first, second)))
    here = named[named >= 0]
    vectors, _ = cache.refresh(here)
    if head is None:
        return scoring.pair_cosines(vectors, _places(here, first, -1), _places(here, second, -1))
    graph, unit = state.graph, state.model.unit
    units = read_units(state.model, state.exact, graph, here)
    if len(named) > len(here):  # a last row of zeros for missing nodes
        vectors, units = np.pad(vectors, ((0, 1), (0, 0))), np.pad(units, ((0, 0), (0, 1), (0, 0)))
        traits = scoring.node_traits(graph, np.append(here, np.int32(-1)), unit)
    else:
        traits = scoring.node_traits(graph, here, unit)
    ends = _places(here, first, len(here)), _places(here, second, len(here))
    columns = scoring.pair_columns(vectors, units, traits, *ends)
    return head.score(columns, scoring.pair_pasts(graph, first, second, unit))


def _filter_scores(state: StateReader, first: Nodes, second: Nodes) -> Float64:
    """Return the filter's scores of pairs; 0 where the second node is no possible answer or is the first."""
    filter_, found, graph = filter_of(state), np.zeros(len(first)), state.graph
    for node in np.unique(first[first >= 0]).tolist():
        nodes, scores = filter_.scores(graph, node)
        by_node = np.zeros(graph.ids.high + 1)
        by_node[nodes[nodes >= 0]] = scores[nodes >= 0]
        by_node[node] = 0.0
        rows = np.flatnonzero(first == node)
        found[rows] = by_node[second[rows]]  # -1, the last place, is a node that is not there
    return found


def _next_scores(
    state: StateReader,
    cache: VectorCache,
    first: Nodes,
    second: Nodes,
    numbers: tuple[Nodes, Nodes] | None,
    listed: bool,
) -> Float64:
    """Return the scores of candidates (`second`) for askers (`first`)."""
    history, head, ids = state.history, state.model.following, state.graph.ids
    assert head is not None
    if history is None:
        raise FeatureError(
            'links="next" and "listed" look at the history of events, 200 bytes a node and 60 to 150 a pair, '
            'which shards do not keep; ask for links="all", or serve the folder by one process'
        )
    askers, candidates = numbers or (_numbers(history, ids, first), _numbers(history, ids, second))
    order = np.argsort(askers, kind="stable")
    raw = history.columns(askers[order], candidates[order])
    products = _products(state, cache, first[order], second[order]) if head.products else None
    scores = np.empty(len(first))
    scores[order] = head.score(raw, products, listed=listed)
    return scores


def _numbers(history: EventHistory, ids: IdMap, nodes: Nodes) -> Nodes:
    """Return the numbers of nodes in a history, -1 for a node that is not there."""
    found = np.full(len(nodes), -1, np.int32)
    here = np.flatnonzero(nodes >= 0)
    found[here] = history.find(ids.names(nodes[here]))
    return found


def _products(state: StateReader, cache: VectorCache, askers: Nodes, candidates: Nodes) -> Float64:
    """Return the products of the vectors of pairs; zeros where either node has no vector."""
    found = np.zeros((len(candidates), scoring.count_products(state.model.orders)))
    rows = np.flatnonzero((askers >= 0) & (candidates >= 0))
    nodes = np.unique(np.concatenate((askers[rows], candidates[rows])))
    if len(nodes):
        vectors, _ = cache.refresh(nodes)
        units = read_units(state.model, state.exact, state.graph, nodes)
        ends = np.searchsorted(nodes, askers[rows]), np.searchsorted(nodes, candidates[rows])
        found[rows] = scoring.pair_products(vectors, units, *ends)
    return found


def _places(nodes: Nodes, wanted: Nodes, absent: int) -> Int64:
    """Return the indices of wanted nodes in a sorted array; `absent` where a node is missing."""
    if len(nodes) == 0:
        return np.full(len(wanted), absent, np.int64)
    at = np.searchsorted(nodes, wanted).clip(max=len(nodes) - 1)
    return np.where(nodes[at] == wanted, at, absent).astype(np.int64)
