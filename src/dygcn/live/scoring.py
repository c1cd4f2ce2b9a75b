"""Scores of pairs of nodes, from vectors that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.models.checks import one_of
from dygcn.engine.models.links import (
    FILTER,
    KINDS,
    LinkHead,
    count_products,
    node_traits,
    pair_columns,
    pair_cosines,
    pair_pasts,
    pair_products,
)
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import read_units
from dygcn.errors import FeatureError, OptionError

if TYPE_CHECKING:
    from dygcn.engine.filter.filter import Filter
    from dygcn.engine.graph.ids import IdMap
    from dygcn.engine.history import EventHistory
    from dygcn.engine.models.contracts import StateReader
    from dygcn.engine.records import Float64, Int64, Nodes
    from dygcn.live.search.nearest import VectorCache


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
        return pair_cosines(vectors, _places(here, first, -1), _places(here, second, -1))
    graph, unit = state.graph, state.model.unit
    units = read_units(state.model, state.exact, graph, here)
    if len(named) > len(here):  # a last row of zeros for missing nodes
        vectors, units = np.pad(vectors, ((0, 1), (0, 0))), np.pad(units, ((0, 0), (0, 1), (0, 0)))
        traits = node_traits(graph, np.append(here, np.int32(-1)), unit)
    else:
        traits = node_traits(graph, here, unit)
    ends = _places(here, first, len(here)), _places(here, second, len(here))
    columns = pair_columns(vectors, units, traits, *ends)
    return head.score(columns, pair_pasts(graph, first, second, unit))


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
    found = np.zeros((len(candidates), count_products(state.model.orders)))
    rows = np.flatnonzero((askers >= 0) & (candidates >= 0))
    nodes = np.unique(np.concatenate((askers[rows], candidates[rows])))
    if len(nodes):
        vectors, _ = cache.refresh(nodes)
        units = read_units(state.model, state.exact, state.graph, nodes)
        ends = np.searchsorted(nodes, askers[rows]), np.searchsorted(nodes, candidates[rows])
        found[rows] = pair_products(vectors, units, *ends)
    return found


def _places(nodes: Nodes, wanted: Nodes, absent: int) -> Int64:
    """Return the indices of wanted nodes in a sorted array; `absent` where a node is missing."""
    if len(nodes) == 0:
        return np.full(len(wanted), absent, np.int64)
    at = np.searchsorted(nodes, wanted).clip(max=len(nodes) - 1)
    return np.where(nodes[at] == wanted, at, absent).astype(np.int64)
