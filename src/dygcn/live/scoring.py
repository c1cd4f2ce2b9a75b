"""Scores of pairs of nodes, from vectors that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.models import KINDS, LinkHead, Model, State, node_traits, pair_cosines
from dygcn.models.checks import one_of

if TYPE_CHECKING:
    from dygcn.live.nearest import VectorCache
    from dygcn.records import Float64, Int64, Nodes


def head_of(model: Model, links: str) -> LinkHead | None:
    """Return the learned score for a kind of links; None: the cosine is the score."""
    one_of("links", links, KINDS)
    return model.links.get(links, model.links.get("all"))


def pair_scores(state: State, cache: VectorCache, first: Nodes, second: Nodes, links: str) -> Float64:
    """Return the scores of pairs of nodes; below 0 stands for a node that is not there yet."""
    head, here = head_of(state.model, links), np.unique(np.concatenate((first, second)))
    here = here[here >= 0]
    vectors, _ = cache.refresh(here)
    cosine = pair_cosines(vectors, _places(here, first), _places(here, second))
    if head is None:
        return cosine
    traits = (node_traits(state.graph, nodes, state.model.unit) for nodes in (first, second))
    return head.score(cosine, *traits)


def _places(nodes: Nodes, wanted: Nodes) -> Int64:
    """Return where wanted nodes stand among sorted ones, -1 where they do not."""
    if len(nodes) == 0:
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(nodes, wanted).clip(max=len(nodes) - 1)
    return np.where(nodes[at] == wanted, at, -1).astype(np.int64)
