"""The score of a link: similarity of two vectors, degree of each end, and time since their last contact.

A score is linear in three groups of columns, all of them symmetric:

- *products*: the cosine of z_u and z_v; then u_i . u_j + u_j . u_i for all orders i <= j, where u_k is
  unit(h_k) (an embedding without orders has the cosine alone);
- *traits* of the two ends, as sums and as minima: log(1 + d), 1 / sqrt(1 + d), log age, log activity, where
  d is what the node's edges weigh (ghosts included; of a directed graph, how many there are), age the time
  since its last contact, activity its decayed count of contacts;
- *the pair's past*: whether there is an edge or a ghost of one, log age, log decayed count, and whether there
  is an edge.

Times count in training steps. A model that was fitted without times has zeros in all columns about times.

What comes next is scored by a conditional logit: the logarithm of P(v | u, now), up to a constant of the one
who asks. It weighs columns of the history (see `history.columns`), and products of vectors where held-out
lists asked for these. There are two rows of weights, since there are two questions. Of all nodes, the
likeliest is wanted: that is the logarithm of P. Of a list that a user brings, far more are former partners
of the asker than of all nodes, and the others are there for a reason: a score that knows how lists are made
ranks former partners lower than P does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.engine.graph import Graph
from dygcn.engine.history.columns import KNOWN as PAIR_KNOWN
from dygcn.engine.history.columns import NAMES, expanded
from dygcn.engine.models.read_kernels import dots, squares
from dygcn.engine.records import Float32, Float64, Int64, Nodes


def norms(rows: Float32) -> Float64:
    """Return the length of each row."""
    return np.sqrt(squares(rows))


def cosines(rows: Float32, lengths: Float64, query: Float32) -> Float64:
    """Return the cosine of each row and the query, 0 where either is zero."""
    one, every = query.reshape(1, -1), np.arange(len(rows))
    return _quotients(dots(rows, every, one, np.zeros_like(every)), lengths * norms(one))


def pair_cosines(rows: Float32, first: Int64, second: Int64) -> Float64:
    """Return the cosine of each pair of rows; 0 where either is zero, or absent (below 0)."""
    out = np.zeros(len(first))
    there = np.flatnonzero((first >= 0) & (second >= 0))
    a, b = first[there], second[there]
    sizes = np.sqrt(dots(rows, a, rows, a)) * np.sqrt(dots(rows, b, rows, b))
    out[there] = _quotients(dots(rows, a, rows, b), sizes)
    return out


def _quotients(products: Float64, sizes: Float64) -> Float64:
    found = np.divide(products, sizes, out=np.zeros(len(products)), where=sizes > 0)
    return np.fmin(1.0, np.fmax(-1.0, found))


def pair_products(vectors: Float32, units: Float32, first: Int64, second: Int64) -> Float64:
    """Return the cosine of the vectors of each pair, then u_i . u_j + u_j . u_i of its units, i <= j.

    `first` and `second` are rows of `vectors`, (n, dim), and of `units`, (K + 1, n, width) u_0..u_K; with
    units of (0, n, 0), the cosine is the only product.
    """
    orders = len(units)
    columns = [pair_cosines(vectors, first, second)]
    for i in range(orders):
        columns.append(dots(units[i], first, units[i], second))
        columns += [
            dots(units[i], first, units[j], second) + dots(units[j], first, units[i], second)
            for j in range(i + 1, orders)
        ]
    return np.stack(columns, axis=1)


FILTER = "filter"  # of recommendations: what others have whose neighbours are the same
KINDS = ("new", "all", "next", "listed", FILTER)
"""Links not there yet; every link of the next graph; what comes next, of all nodes or of a list."""
HEADS = KINDS[:2]  # kinds that have a `LinkHead`; a `NextHead` has the others
SAVED = KINDS[:3]  # kinds that have one in a folder: before there were histories, what comes next had one
TRAITS = 4  # of a node
PAST = 3  # columns about a pair's past, beside whether there is any
KNOWN, AGE, COUNT, EDGE = range(4)  # columns of `pair_pasts`
OLDEST = 60.0  # training steps; what is longer ago is as long ago as this
FINENESS = 4.0  # how much a training step counts inside the logarithm of an age or of a pair's count
COUNT_HALF_LIFE = 3.0  # training steps after which a contact counts half


@dataclass(frozen=True, slots=True)
class LinkHead:
    """The score of one kind of link: two rows of coefficients, and a third for vector databases."""

    # negatives: For pairs without a past: bias, products, sums of traits, minima of traits.
    # known: For pairs that are linked, or whose ghost is remembered: the same, then log age, log
    #   count, and edge.
    # dot: What a dot product can say of the score: bias, cosine, sums of traits.
    # low, high: What products, sums, minima, log age and log count were in training, at least and
    #   at most: what is beyond counts as the bound, since a line says nothing of what it has not
    #   seen.

    negatives: tuple[float, ...]
    known: tuple[float, ...]
    dot: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def score(self, columns: Float64, pasts: Float64) -> Float64:
        """Return the scores of pairs from their columns (see `pair_columns`) and pasts, summed in order."""
        seen = np.concatenate((columns, pasts[:, AGE:EDGE]), axis=1).clip(self.low, self.high)
        plain = seen[:, : columns.shape[1]]
        known = _line(self.known, np.concatenate((seen, pasts[:, EDGE:]), axis=1))
        return np.where(pasts[:, KNOWN] > 0, known, _line(self.negatives, plain))

    def with_edges_first(self) -> LinkHead:
        """Return the head with a bonus for edges, so that every edge scores above all other pairs."""
        plain = list(zip(self.negatives[1:], self.low, self.high, strict=False))
        past = list(zip(self.known[1:-1], self.low, self.high, strict=True))
        most = self.negatives[0] + sum(max(weight * low, weight * high) for weight, low, high in plain)
        most = max(most, self.known[0] + sum(max(weight * low, weight * high) for weight, low, high in past))
        least = self.known[0] + sum(min(weight * low, weight * high) for weight, low, high in past)
        return dataclasses.replace(self, known=(*self.known[:-1], most - least + 1.0))

    def popularity(self, traits: Float64) -> Float64:
        """Return the share of the nodes' traits in `dot` scores."""
        return _line((0.0, *self.dot[2:]), traits)


COSINE = LinkHead(
    negatives=(0.0, 1.0, *(0.0,) * 2 * TRAITS),
    known=(0.0, 1.0, *(0.0,) * (2 * TRAITS + PAST)),
    dot=(0.0, 1.0, *(0.0,) * TRAITS),
    low=(-1.0,) * (2 * TRAITS + PAST),
    high=(1.0,) * (2 * TRAITS + PAST),
)
"""The cosine alone, for a model that learned no score."""


def _line(coefficients: Sequence[float], columns: Float64) -> Float64:
    """Return bias and weighted columns, added one after the other: bits depend on no other row."""
    total = np.full(len(columns), coefficients[0])
    for coefficient, column in zip(coefficients[1:], columns.T, strict=True):
        total += coefficient * column
    return total


def count_products(orders: int) -> int:
    """Return the number of products in a model of so many orders."""
    return 1 + (orders + 1) * (orders + 2) // 2


def pair_columns(vectors: Float32, units: Float32, traits: Float64, first: Int64, second: Int64) -> Float64:
    """Return the columns of pairs that do not depend on their past: products, sums and minima of traits."""
    products = pair_products(vectors, units, first, second)
    a, b = traits[first], traits[second]
    return np.concatenate((products, a + b, np.minimum(a, b)), axis=1)


def node_traits(graph: Graph, nodes: Nodes, unit: float | None) -> Float64:
    """Return (n, 4): log(1 + d), 1 / sqrt(1 + d), log age, log activity.

    A node -1 is not in the graph: it has no edges, and the greatest age. `unit` is the time that counts
    as one; with None, times are not looked at, and the last two columns are 0.
    """
    weight, age, activity = np.zeros(len(nodes)), np.full(len(nodes), OLDEST), np.zeros(len(nodes))
    here = np.flatnonzero(nodes >= 0)
    if graph.directed:  # how many edges, in and out
        weight[here] = graph.pull.degrees(nodes[here]) + graph.push.degrees(nodes[here])
    else:
        weight[here] = graph.carried(nodes[here]) * graph.grid
    traits = np.zeros((len(nodes), TRAITS))
    traits[:, 0], traits[:, 1] = np.log1p(weight), 1 / np.sqrt(1 + weight)
    if unit is not None and graph.contacts is not None:
        age[here] = np.minimum(graph.contacts.since(nodes[here]) / unit, OLDEST)
        activity[here] = graph.contacts.activity(nodes[here])
        traits[:, 2], traits[:, 3] = np.log1p(FINENESS * age), np.log1p(activity)
    return traits


def pair_pasts(graph: Graph, first: Nodes, second: Nodes, unit: float | None) -> Float64:
    """Return (m, 4): whether a pair is linked or its ghost is remembered, log age, log count, and edge."""
    link, since, count = graph.pair_contacts(first, second)
    pasts = np.zeros((len(first), 1 + PAST))
    known = link != 0
    pasts[known, KNOWN], pasts[link > 0, EDGE] = 1.0, 1.0
    if unit is not None and graph.contacts is not None:
        age = np.minimum(since[known] / unit, OLDEST)
        pasts[known, AGE], pasts[known, COUNT] = np.log1p(FINENESS * age), np.log1p(FINENESS * count[known])
    return pasts


def link_vectors(vectors: Float32, popularity: Float64, head: LinkHead, query: bool) -> Float32:
    """Return vectors whose dot products are the `dot` scores: of the index, or of the query side."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    ones = np.ones((len(vectors), 1), np.float32)
    own = popularity[:, None].astype(np.float32)
    if query:
        bias, cosine = np.float32(head.dot[0]), np.float32(head.dot[1])
        return np.concatenate((units * cosine, ones, own + bias), axis=1)
    return np.concatenate((units, own, ones), axis=1)


@dataclass(frozen=True, slots=True)
class NextHead:
    """The score of the next event: weights of columns, and the bounds seen in training."""

    # span: Of the events that it was learned on, in the unit of their times: half-lives are parts
    #   of it.
    # weights: Of the columns of `next_columns`, where all nodes are candidates.
    # listed: The same, for candidates that the caller lists.
    # alone: The first row anew for the columns of the history alone, where products are among the
    #   columns; empty: it is the first row.
    # low, high: What is beyond counts as the bound: a line says nothing of what it has not seen.

    span: float
    weights: tuple[float, ...]
    listed: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    alone: tuple[float, ...] = ()

    @property
    def products(self) -> int:
        """The number of products of vectors it uses; 0: it needs no vectors."""
        return (len(self.weights) - len(NAMES)) // 2

    def score(self, raw: Float64, products: Float64 | None = None, *, listed: bool = False) -> Float64:
        """Return the scores of candidates, summed column by column: bits depend on no other candidate."""
        total = np.zeros(len(raw))
        seen = next_columns(raw, products).clip(self.low, self.high)
        for weight, column in zip(self.listed if listed else self.weights, seen.T, strict=True):
            total += weight * column
        return total

    def parts(self, raw: Float64) -> Float64:
        """Return each column's contribution to log P, without vectors."""
        size = len(NAMES)
        seen: Float64 = expanded(raw).clip(self.low[:size], self.high[:size])
        found: Float64 = seen * np.array(self.alone or self.weights)
        return found


def next_columns(raw: Float64, products: Float64 | None = None) -> Float64:
    """Return all columns of candidates: of the history, then products, apart for new pairs and known ones."""
    plain = expanded(raw)
    if products is None:
        return plain
    known = raw[..., PAIR_KNOWN : PAIR_KNOWN + 1]
    return np.concatenate((plain, products * (1 - known), products * known), axis=-1)
