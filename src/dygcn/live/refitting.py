"""Refit: new rows of a walk model from the current graph, and whether they predict links better.

New rows are turned onto the old ones (orthogonal Procrustes), so that what reads vectors may go on reading
them. Whether they are better is asked of links that neither side may look at: the newest ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from dygcn.engine._blas import one_blas_thread
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.image import GraphImage, build_graph
from dygcn.engine.history import EventHistory
from dygcn.engine.measures import PairSet, auc, draw_negatives, one_end, pair_cosines, unit_rows
from dygcn.engine.models.folder import Tensors
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import Float32, Float64, IdColumn, Int64, Nodes, Progress
from dygcn.engine.training.filtering import with_filter_rows
from dygcn.engine.training.fitting import walk_rows, with_table
from dygcn.engine.training.walks import turn_rows
from dygcn.errors import FeatureError
from dygcn.live.vector_view import VectorView

T = TypeVar("T")
SHARE = 0.05  # of the linked pairs that are held out
FEWEST, MOST = 64, 5_000  # held-out links: with fewer nothing is compared
ONCE = 1.05  # contacts of a pair that count as one: what is left of earlier ones is less than the rest
SURE = 2.0  # standard errors by which the AUC has to be greater
LOOKED_AT = 100_000  # nodes whose old and new vectors are compared, at most
_ROWS = 1 << 14  # that are multiplied at once


@dataclass(frozen=True, eq=False, repr=False)
class Refit(Generic[T]):
    """The new embedding that `LiveEmbedding.refit` made, and a comparison. Nothing is swapped in: you decide.

    Attributes
    ----------
    embedding
        The same graph, settings and scores with new rows, at version 0. The old embedding is as it was.
    cosine
        Mean cosine of the old and the new vector of a node; 1 is unmoved. Over 100,000 nodes at most.
    cosine_p10
        A tenth of the nodes has a cosine below this.
    auc_before, auc_after
        How well the cosine tells held-out links from negatives, with old rows and with rows that were made
        without those links; NaN where there are too few.
    auc_error
        Standard error of the difference of the two, over links and negatives.
    held_out
        How many links were held out: a twentieth, the newest as far as times tell, 64 to 5,000.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "ann")], dim=8)
    >>> _ = live.update(add=[("dan", "eve"), ("eve", "fay"), ("fay", "dan")])
    >>> found = live.refit()
    >>> found
    Refit(gains=False, 2 held-out links, or their negatives, are too few to compare, mean cosine 0...)
    >>> live.unreached, found.embedding.unreached
    (3, 0)
    """

    embedding: T
    cosine: float
    cosine_p10: float
    auc_before: float
    auc_after: float
    auc_error: float
    held_out: int

    @property
    def gains(self) -> bool:
        """Whether new rows surely separate held-out links better; False with too few links or negatives."""
        return self.auc_after > 0.5 and self.auc_after - self.auc_before > SURE * self.auc_error

    def __repr__(self) -> str:
        compared = (
            f"auc {self.auc_before:.3f} -> {self.auc_after:.3f} (±{self.auc_error:.3f}) "
            f"on {self.held_out:,} held-out links"
            if not np.isnan(self.auc_after)
            else f"{self.held_out} held-out links, or their negatives, are too few to compare"
        )
        return f"Refit(gains={self.gains}, {compared}, mean cosine {self.cosine:.2f})"


PHASES = ("factorising walks", 1), ("factorising walks", 1)


def refit(live: VectorView, make: Callable[[State, float], T], progress: Progress | None = None) -> Refit[T]:
    """Make new rows; the embedding is locked only while its graph is copied.

    `make` returns an embedding of a state and a tolerance.
    """
    model = live.model
    _check(model)
    with live._guard.held():  # a copy of everything that is read of the old embedding, at one moment
        live._guard.check()
        taken, tolerance = live._state.loose_image()[0], live._tolerance
        some = live._state.graph.some_nodes(model.seed, LOOKED_AT)
        names, vectors = live._names(some), live._vectors_of(some)
    image = taken.graph.arranged()
    if not (image.weight > 0).any():
        raise FeatureError("the graph has no edge now, so there is nothing to make rows of; update it first")
    graph = model.new_graph()
    nodes = build_graph(image, graph)
    held, own = _held_out(model, graph, nodes), taken.tensors
    state = _state(_with_new_rows(model, graph, progress), graph, nodes, own)
    if model.following is not None and taken.history is not None:
        state.history = EventHistory.from_image(model.ids, model.following.span, taken.history)
    now = state.reading().vectors(graph.find(names))
    cosines = np.einsum("ij,ij->i", unit_rows(vectors), unit_rows(now))
    return Refit(
        make(state, tolerance),
        float(cosines.mean()),
        float(np.quantile(cosines, 0.1)),
        *_compare(model, image, held, own, progress),
    )


def _check(model: Model) -> None:
    if not model.spec.from_graph:
        raise FeatureError(
            f'refit makes the rows of features="walks" anew, and the {model.rule} rule has none; '
            "restart() puts a fresh base in place of its vectors"
        )
    if model.table is None:
        raise FeatureError(
            f'refit makes the rows of features="walks" anew, and this model has features={model.features!r}; '
            "fit again on the events: dygcn.fit(events, ...)"
        )


def _with_new_rows(model: Model, graph: Graph, progress: Progress | None) -> Model:
    ids, rows, window = walk_rows(model, graph, progress)
    assert model.table is not None
    with one_blas_thread():
        turn_rows(rows, alignment(ids, rows, model.table))
        if model.filter is not None:
            model = dataclasses.replace(model, filter=with_filter_rows(model.filter, graph, model.seed))
    return with_table(model, ids, rows, window)


def alignment(ids: IdColumn, rows: Float32, old: RowTable) -> Float64:
    """Return the orthogonal matrix that brings rows closest to the old rows of the same ids."""
    known = IdMap(old.ids.kind)
    known.intern(old.ids)
    place = known.find(ids)
    product = np.zeros((rows.shape[1], rows.shape[1]))
    common = np.flatnonzero(place >= 0)
    for begin in range(0, len(common), _ROWS):
        both = common[begin : begin + _ROWS]
        product += rows[both].T.astype(np.float64) @ old.rows[place[both]].astype(np.float64)
    left, _, right = np.linalg.svd(product)
    turned: Float64 = left @ right
    return turned


def _state(model: Model, graph: Graph, nodes: Nodes, own: Tensors) -> State:
    state = State(model, graph)
    state.rule.restore(graph, nodes, own)
    state.rebuild()
    return state


def _compare(
    model: Model, image: GraphImage, held: Int64, own: Tensors, progress: Progress | None
) -> tuple[float, float, float, int]:
    """Return the AUC of old and new rows on a graph without the held-out links, its error, their number."""
    others = _negatives(image, held, np.random.default_rng([model.seed, 10]))
    if min(len(held), len(others)) < FEWEST:
        return float("nan"), float("nan"), float("nan"), len(held)
    graph = model.new_graph()
    nodes = build_graph(_without(image, held), graph)
    pairs = nodes[held], nodes[others]
    before = _cosines(_state(model, graph, nodes, own), *pairs)
    after = _cosines(_state(_with_new_rows(model, graph, progress), graph, nodes, own), *pairs)
    return auc(*before), auc(*after), error_of_gain(before, after), len(held)


def error_of_gain(before: tuple[Float64, Float64], after: tuple[Float64, Float64]) -> float:
    """Return the standard error of the difference of two AUCs of the same links and the same negatives.

    After DeLong, DeLong and Clarke-Pearson (Biometrics 1988): an AUC is a mean over links of the share of
    negatives below, and a mean over negatives of the share of links above; the two parts vary on their own.
    """
    found = 0.0
    for side in (0, 1):
        apart = _placements(after[side], after[1 - side]) - _placements(before[side], before[1 - side])
        found += float(apart.var(ddof=1)) / len(apart)
    return float(np.sqrt(found))


def _placements(scores: Float64, others: Float64) -> Float64:
    """Return for each score the share of `others` below it; ties count half."""
    ranked = np.sort(others)
    below, not_above = (np.searchsorted(ranked, scores, side) for side in ("left", "right"))
    return (below + not_above) / (2 * len(others))


def _held_out(model: Model, graph: Graph, nodes: Nodes) -> Int64:
    """Return the held-out links, as pairs of indices of nodes, (m, 2)."""
    count = int(np.clip(SHARE * graph.edge_count, FEWEST, MOST))
    place = np.empty(graph.ids.high, np.int64)
    place[nodes] = np.arange(len(nodes))
    return place[newest_edges(graph, count, np.random.default_rng([model.seed, 9]))]


def newest_edges(graph: Graph, count: int, random: np.random.Generator) -> Nodes:
    """Return so many linked pairs, (m, 2), newest first, or fewer: each node keeps another link.

    First pairs that were in contact once, then pairs whose contacts were repeated, which may be old: each by
    their last contact. Among equals, and without times, chance decides.
    """
    pairs = linked_pairs(graph)
    _, since, worth = graph.pair_contacts(pairs[:, 0], pairs[:, 1])
    repeated = np.zeros(len(pairs), np.bool_)
    if graph.contacts is not None:
        repeated = worth > ONCE * np.exp2(-since / graph.contacts.half_life)
    newest = np.lexsort((random.random(len(pairs)), since, repeated))
    return _spare(pairs[newest], count, graph.ids.high)


def linked_pairs(graph: Graph) -> Nodes:
    """Return the pairs that an edge joins, whatever its direction, each once, (m, 2), in the order of ids."""
    nodes = graph.nodes()
    rank = np.empty(graph.ids.high, np.int64)
    rank[nodes] = np.arange(len(nodes))
    a, b, weight = graph.edges()
    first, second = rank[a[weight > 0]], rank[b[weight > 0]]
    keys = np.unique(np.minimum(first, second) << 32 | np.maximum(first, second))
    return np.stack((nodes[keys >> 32], nodes[keys & 0xFFFFFFFF]), axis=1)


def _spare(pairs: Nodes, count: int, high: int) -> Nodes:
    """Return the first `count` pairs whose removal leaves each of their nodes in another pair."""
    degree = np.bincount(pairs.ravel(), minlength=high)
    pairs = pairs[(degree[pairs] > 1).all(axis=1)]
    left, chosen = dict[int, int](), list[int]()
    # A pair is passed over only if one taken before left its node one link: this ends after 3 * count.
    for at, (a, b) in enumerate(pairs[: 3 * count].tolist()):
        of_a, of_b = left.get(a, int(degree[a])), left.get(b, int(degree[b]))
        if of_a > 1 and of_b > 1 and len(chosen) < count:
            left[a], left[b] = of_a - 1, of_b - 1
            chosen.append(at)
    return pairs[chosen]


def _negatives(image: GraphImage, held: Int64, random: np.random.Generator) -> Int64:
    """Return distinct pairs without edge or ghost: one end of each link, and any node with an edge."""
    if len(held) == 0:
        return held
    ends = np.stack((image.a, image.b), axis=1).astype(np.int64)
    pool = np.unique(ends[image.weight > 0])
    known = PairSet(ends, len(image.ids))
    drawn = np.stack(draw_negatives(one_end(held, random), pool, (known,), random), axis=1)
    return np.unique(np.sort(drawn, axis=1), axis=0)


def _without(image: GraphImage, held: Int64) -> GraphImage:
    """Return the image without these edges, as if they had never existed: they leave no ghost."""
    gone = PairSet(held, len(image.ids)).has(image.a.astype(np.int64), image.b.astype(np.int64))
    keep = ~gone | (image.weight < 0)
    names = ("a", "b", "weight", *(("pair_t", "pair_count") if len(image.pair_t) else ()))
    parts = None if image.parts is None else image.parts.placed(np.where(keep, np.cumsum(keep) - 1, -1))
    return dataclasses.replace(image, **{name: getattr(image, name)[keep] for name in names}, parts=parts)


def _cosines(state: State, linked: Nodes, others: Nodes) -> tuple[Float64, Float64]:
    nodes, place = np.unique(np.concatenate((linked, others)), return_inverse=True)
    units = unit_rows(state.reading().vectors(nodes))
    cosines = pair_cosines(units, place.reshape(-1, 2))
    return cosines[: len(linked)], cosines[len(linked) :]
