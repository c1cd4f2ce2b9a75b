"""Fits the score of a link: a few dozen numbers, on training steps that the vectors have not seen.

Vectors fitted on the same steps would know their links by heart, and would be trusted too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dygcn.engine.features.inputs import RowTable
from dygcn.engine.graph import Graph
from dygcn.engine.measures import PairSet, auc, draw_negatives, one_end
from dygcn.engine.models.links import (
    AGE,
    EDGE,
    HEADS,
    KNOWN,
    TRAITS,
    LinkHead,
    node_traits,
    pair_columns,
    pair_pasts,
)
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import read_units, read_vectors
from dygcn.engine.models.state import State
from dygcn.engine.records import Bool, Float32, Float64, Int64, Nodes
from dygcn.engine.training.logits import logistic
from dygcn.engine.training.matrices import LARGEST_SAMPLE, Recipe
from dygcn.engine.training.samples import NextEdges, first_held_out

Read = Callable[[Nodes], tuple[Float32 | None, Float32]]
PAIRS = 30_000  # of each kind, over all steps, and as many negatives
ROWS_A_PAIR = 6  # at most: a link and its negative have three ends, of two kinds of links
FEWEST = 64  # linked pairs of a kind, below which nothing is learned


@dataclass(frozen=True, slots=True)
class MarkedPairs:
    """Pairs as rows of a `LinkSample`, with their past and whether they are linked next."""

    first: Int64  # (m,)
    second: Int64  # (m,)
    pasts: Float64  # (m, 4), see `pair_pasts`
    marked: Bool  # (m,) which pairs are linked at the next step


@dataclass(frozen=True, slots=True)
class LinkSample:
    """Pairs of one held-out step and their nodes; the last row stands for an unknown node."""

    vectors: Float32 | None  # (n, dim); None: they follow from the units, by matrices that are learned later
    units: Float32  # (K + 1, n, width)
    traits: Float64  # (n, 4)
    pairs: dict[str, MarkedPairs]  # "new" and "all"


def sample_links(
    graph: Graph, unit: float | None, edges: NextEdges, count: int, random: np.random.Generator, read: Read
) -> LinkSample:
    """Draw linked pairs of each kind from this graph and the next one; `read` returns vectors and units."""
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

    def described(pairs: Int64, marked: Bool) -> MarkedPairs:
        ends = pairs.astype(np.int32)
        pasts = pair_pasts(graph, ends[:, 0], ends[:, 1], unit)
        return MarkedPairs(place[pairs[:, 0]], place[pairs[:, 1]], pasts, marked)

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
    """Draw new links between present nodes, and pairs that stay unlinked."""
    before, warm = PairSet(now, high), np.zeros(high + 1, np.bool_)
    warm[now.ravel()] = True
    fresh = coming[(coming >= 0).all(axis=1)]
    after = PairSet(fresh, high)
    fresh = fresh[warm[fresh].all(axis=1) & ~before.has(fresh[:, 0], fresh[:, 1])]
    return _draw(fresh, np.flatnonzero(warm), (before, after), count, random)


def _draw_all(
    coming: Int64, active: Int64, count: int, high: int, random: np.random.Generator
) -> tuple[Int64, Bool]:
    """Draw links of the next graph, and pairs of its nodes without a link.

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
    # A new end has no links yet: every drawn node is a negative.
    cold = kept < 0
    negatives = np.stack(draw_negatives(kept[~cold], pool, apart_from, random), axis=1)
    colder = np.stack((kept[cold], random.choice(pool, int(cold.sum()))), axis=1)
    pairs = np.concatenate((chosen, negatives, colder))
    return pairs, np.arange(len(pairs)) < len(chosen)


class HeldOut:
    """The last training steps, held out for the score of links."""

    def __init__(self, model: Model, steps: int, recipe: Recipe) -> None:
        usable = steps - 1 if model.baseline is None else 0
        self.first = first_held_out(usable, recipe)
        self.steps = range(self.first, usable) if self.first > 0 else range(0)  # with earlier ones to fit on
        set_aside = max(usable - self.first, 1)
        row = 4 * (model.orders + 1) * model.width
        affordable = LARGEST_SAMPLE // (4 * ROWS_A_PAIR * row)  # a quarter of what the other samples may take
        self._count = max(min(PAIRS, affordable) // set_aside, FEWEST)
        self._random = np.random.default_rng([model.seed, 4])
        self.samples: list[LinkSample] = []
        # Where steps were set aside: the graph after the last step, and the rows that were made without them.
        self.graph: Graph | None = None
        self.table: RowTable | None = None

    def visit(self, state: State, step: int, edges: NextEdges) -> None:
        """Draw pairs from a step, if it is held out."""
        if step in self.steps:
            drawn = self._count, self._random, partial(_read, state)
            self.samples.append(sample_links(state.graph, state.model.unit, edges, *drawn))


def _read(state: State, nodes: Nodes) -> tuple[Float32 | None, Float32]:
    """Return the vectors of nodes, where no matrix is to be learned, and their units."""
    where = state.model, state.exact, state.graph
    vectors = None if state.model.table is None else read_vectors(*where, nodes)
    return vectors, read_units(*where, nodes)


@dataclass(frozen=True)
class PairColumns:
    """The columns of the score for many pairs, of all samples one after the other."""

    plain: Float64  # (m, products + 8), see `pair_columns`
    pasts: Float64  # (m, 4), see `pair_pasts`
    marked: Bool  # (m,) see `MarkedPairs`

    @property
    def enough(self) -> bool:
        """Whether there are enough linked and unlinked pairs to fit."""
        return bool(min(self.marked.sum(), (~self.marked).sum()) >= FEWEST)


def read_columns(samples: Sequence[LinkSample], matrices: Float32 | None, kind: str) -> PairColumns:
    """Return the columns of one kind of links."""
    plain, pasts, marked = [], [], []
    for sample in samples:
        pairs = sample.pairs[kind]
        ends = pairs.first, pairs.second
        vectors = sample.vectors
        if vectors is None:
            assert matrices is not None
            vectors = np.concatenate(list(sample.units), axis=1) @ matrices
        plain.append(pair_columns(vectors, sample.units, sample.traits, *ends))
        pasts.append(pairs.pasts)
        marked.append(pairs.marked)
    return PairColumns(np.concatenate(plain), np.concatenate(pasts), np.concatenate(marked))


def fit_heads(samples: Sequence[LinkSample], matrices: Float32 | None) -> dict[str, LinkHead]:
    """Fit one head for each kind of link that has enough pairs; matrices None: samples have vectors."""
    return heads_of(*(read_columns(samples, matrices, kind) for kind in HEADS)) if samples else {}


def heads_of(new: PairColumns, everything: PairColumns) -> dict[str, LinkHead]:
    """Fit the heads of new links and of all links."""
    found = {}
    if new.enough:
        found["new"] = _fit_pairs(new)
    rows = everything.pasts[:, EDGE] == 0
    apart = PairColumns(everything.plain[rows], everything.pasts[rows], everything.marked[rows])
    if everything.enough:
        if not apart.enough:
            apart = new if new.enough else everything
        found["all"] = _fit_pairs(apart).with_edges_first()
    return found


def cosine_auc(samples: Sequence[LinkSample], matrices: Float32 | None) -> float:
    """Return the AUC of the cosine on held-out links: new ones, or all if those are few; NaN if too few."""
    if not samples:
        return float("nan")
    for kind in ("new", "all"):
        pairs = read_columns(samples, matrices, kind)
        if pairs.enough:
            cosine = pairs.plain[:, 0]
            return auc(cosine[pairs.marked], cosine[~pairs.marked])
    return float("nan")


def _fit_pairs(pairs: PairColumns) -> LinkHead:
    columns, pasts, truth = pairs.plain, pairs.pasts, pairs.marked.astype(np.float64)
    width = columns.shape[1]
    bias, *found = logistic(np.concatenate((columns, pasts[:, :EDGE]), axis=1), truth).tolist()
    plain, (known, age, count) = found[:width], found[width:]
    rows = (bias, *plain), (bias + known, *plain, age, count, 0.0)
    sums = columns[:, width - 2 * TRAITS : width - TRAITS]
    dot = logistic(np.concatenate((columns[:, :1], sums), axis=1), truth)
    past = pasts[pasts[:, KNOWN] > 0, AGE:EDGE]
    past = past if len(past) else np.zeros((1, EDGE - AGE))
    bounds = (np.append(end(columns, axis=0), end(past, axis=0)).tolist() for end in (np.min, np.max))
    return LinkHead(*rows, tuple(dot.tolist()), *map(tuple, bounds))
