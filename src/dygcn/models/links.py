"""The score of a link: the cosine of two vectors, and how likely each end is to make a link at all.

``score(u, v) = c cos(z_u, z_v) + p(u) + p(v) + b``, with
``p(v) = w_1 log(1 + d) + w_2 / sqrt(1 + d) - w_3 log(1 + a)``, where d is what the node's edges weigh (ghosts
included; of a directed graph, how many there are) and a the time since its last contact, in training steps.
Five numbers, learned on steps that the matrices had not seen. A sum over the two ends is a dot product with
two more coordinates, so a vector database can serve it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.graph import Graph
    from dygcn.records import Float32, Float64, Nodes

KINDS = ("new", "all")  # links that are not there yet; every link of the next graph
TERMS = 3


@dataclass(frozen=True, slots=True)
class LinkHead:
    """The five numbers of one kind of link: c, w_1, w_2, w_3 and b; in log-odds against a random pair."""

    cosine: float
    terms: tuple[float, float, float]
    bias: float

    def popularity(self, traits: Float64) -> Float64:
        """Return p of nodes from their traits, summed in a fixed order."""
        total: Float64 = (
            traits[:, 0] * self.terms[0] + traits[:, 1] * self.terms[1] + traits[:, 2] * self.terms[2]
        )
        return total

    def score(self, cosine: Float64, first: Float64, second: Float64) -> Float64:
        """Return the log-odds of pairs from their cosines and the traits of their ends."""
        return self.cosine * cosine + (self.popularity(first) + self.popularity(second)) + self.bias


def node_traits(graph: Graph, nodes: Nodes, unit: float | None) -> Float64:
    """Return (n, 3): log(1 + d), 1 / sqrt(1 + d), -log(1 + a); zero for a node without an edge, or below 0.

    Parameters
    ----------
    nodes
        Nodes; -1 is one that is not in the graph.
    unit
        Time that counts as one; None: times are not looked at, and a is 0.
    """
    traits = np.zeros((len(nodes), TERMS))
    here = np.flatnonzero(nodes >= 0)
    weight = _carried(graph, nodes[here])
    here, weight = here[weight > 0], weight[weight > 0]
    traits[here, 0] = np.log1p(weight)
    traits[here, 1] = 1 / np.sqrt(1 + weight)
    if unit is not None and graph.contacts is not None:
        since = graph.contacts.since(nodes[here])
        traits[here, 2] = -np.log1p(np.where(np.isinf(since), 0.0, since) / unit)
    return traits


def _carried(graph: Graph, nodes: Nodes) -> Float64:
    """Return what the edges of nodes weigh; of a directed graph, how many there are, in and out."""
    if graph.directed:
        return (graph.pull.count[nodes] + graph.push.count[nodes]).astype(np.float64)
    return graph.strength[nodes].astype(np.float64) * graph.grid


def link_vectors(vectors: Float32, popularity: Float64, head: LinkHead, query: bool) -> Float32:
    """Return vectors whose dot products are scores: rows for an index, or for the query side.

    Examples
    --------
    >>> head = LinkHead(4.0, (1.0, 0.0, 0.0), -0.5)
    >>> z = np.array([[3.0, 4.0], [0.0, 2.0]], np.float32)
    >>> p = np.array([0.25, 1.0])
    >>> index, query = (link_vectors(z, p, head, side) for side in (False, True))
    >>> float(query[0] @ index[1]), 4.0 * 0.8 + 0.25 + 1.0 - 0.5
    (3.95..., 3.95)
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    ones = np.ones((len(vectors), 1), np.float32)
    own = popularity[:, None].astype(np.float32)
    if query:
        return np.concatenate((units * np.float32(head.cosine), ones, own + np.float32(head.bias)), axis=1)
    return np.concatenate((units, own, ones), axis=1)
