"""Fits the exact rule, for any kind of features, with NumPy alone.

A walk model needs no gradients, with or without given features beside its rows; any other has a matrix for
each order.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dygcn.engine.events import take
from dygcn.engine.events.kinds import stored_type
from dygcn.engine.features.inputs import Given, Hashed, RowTable, Walks, column_scales
from dygcn.engine.features.tables import Embedding, NodeColumns, NodeTable, read_features
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.image import take_image
from dygcn.engine.models.checks import check_recipe
from dygcn.engine.models.choices import Choices, FitTask
from dygcn.engine.models.model import RULES, Baseline, Model, order_weights
from dygcn.engine.models.projection import Projection, principal_directions
from dygcn.engine.models.readout import read_inputs
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float32, IdColumn, Int8, Progress
from dygcn.engine.training.filtering import fit_filter
from dygcn.engine.training.link_head import HeldOut, LinkSample, cosine_auc, fit_heads
from dygcn.engine.training.matrices import Recipe, fit_matrices, starting_matrices
from dygcn.engine.training.next_head import NextSample
from dygcn.engine.training.samples import NextGraph, collect_samples, play
from dygcn.engine.training.walks import PRODUCTS, walk_base
from dygcn.errors import FeatureError, OptionError


def check(choices: Choices) -> None:
    """Refuse options that belong to another rule."""
    for name in ("base", "labels"):
        if getattr(choices, name) is not None:
            others = " and ".join(repr(rule) for rule in RULES if rule != choices.rule)
            raise OptionError(f"{name}= is for the rules {others}; the rule is {choices.rule!r}")
    check_recipe(choices.rule, choices.recipe, Recipe)


def steady_recipe() -> None:
    """Return nothing: the rule never drifts."""


def fit(task: FitTask) -> State:
    """Return the fitted state after all events."""
    choices, features = task.choices, task.choices.features
    recipe = choices.recipe if isinstance(choices.recipe, Recipe) else Recipe()
    if isinstance(features, list):
        ids = choices.ids or task.batch.src.kind
        beside = read_beside(features, ids, int(choices.dim), int(choices.seed))
        return fit_walks(task, recipe, beside)
    if isinstance(features, str) and features == "walks":
        return fit_walks(task, recipe)
    if choices.recommend is True:
        raise OptionError(
            f"recommend=True stands beside features='walks', the default, or ['walks', x]; features are "
            f"{features if isinstance(features, str) else 'a table'!r}: leave one of them out"
        )
    return fit_exact(task, recipe)


def fit_exact(task: FitTask, recipe: Recipe) -> State:
    """Return the fitted state of a model with one matrix for each order."""
    parts, choices, progress = task.parts, task.choices, task.progress
    model, given = new_model(task)
    if isinstance(choices.features, Embedding):
        model = _with_baseline(model, choices.features, task.batch)
    state = State(model)
    if given is not None:
        state.set_features(*given)
    held_out = HeldOut(model, len(parts), recipe)
    samples = collect_samples(state, parts, choices.seed, progress, partial(held_out.visit, state))
    start = np.concatenate(model.weights)
    heads = {}
    if held_out.samples:  # judged with matrices that were fitted without their steps
        before = [sample for sample in samples if sample.step < held_out.first]
        heads = fit_heads(held_out.samples, fit_matrices(before, start, recipe, model.seed, progress))
    trained = fit_matrices(samples, start, recipe, choices.seed, progress)
    weights = tuple(np.split(trained, choices.orders + 1))
    if model.baseline is not None:
        weights = (model.weights[0], *weights[1:])
    coming = NextSample(model, parts, recipe)
    following = coming.fit()
    state.model = dataclasses.replace(model, weights=weights, links=heads, following=following)
    state.history = None if following is None else coming.history
    return state


def new_model(task: FitTask) -> tuple[Model, tuple[IdColumn, Float32] | None]:
    """Return the model before anything is learned, and the features that were given."""
    choices, features, events = task.choices, task.choices.features, task.batch.src.kind
    width, dim, orders, seed = choices.width, choices.dim, choices.orders, choices.seed
    if isinstance(features, str) and features == "hashed":
        weights = starting_matrices(width, dim, orders, seed)
        settings = task.settings(Hashed.message_bits)
        return Model(weights, features="hashed", scales=np.ones(width), **settings), None
    ids, values = read_features(features, choices.ids)
    settings = task.settings(Given.message_bits)
    if len(ids) and ids.kind != events:
        raise FeatureError(f"features have {ids.kind} ids, the events {events} ones; one type a graph")
    columns, kind = values.shape[1], "given"
    if isinstance(features, Embedding):
        eye = np.eye(columns, dtype=np.float32)
        weights, kind = (eye, *(np.zeros_like(eye) for _ in range(orders))), "embedding"
    else:
        weights = starting_matrices(columns, dim, orders, seed)
    return Model(weights, features=kind, scales=column_scales(values), **settings), (ids, values)


def _with_baseline(model: Model, embedding: Embedding, batch: EventBatch) -> Model:
    """Play all events for the messages at t0, the moment when the user's vectors are right."""
    state = State(model)
    state.set_features(embedding.ids, embedding.vectors)
    state.apply(batch)
    nodes = state.graph.find(embedding.ids)
    messages = []
    for k in range(model.orders + 1):
        h = read_inputs(model, state.exact, state.graph, nodes, k, unit=False)
        absent = state.exact.messages(state.graph, nodes, k)[1] == 0
        h[absent] = embedding.vectors[absent]
        messages.append(h)
    return dataclasses.replace(model, baseline=Baseline(embedding.ids, embedding.vectors, tuple(messages)))


# ---- walk models -------------------------------------------------------------------------------------------


SHARES = (0.1, 0.3, 0.5, 0.7)  # of a vector's squared length that the features may have
ENOUGH = 0.002  # the smallest share is taken whose AUC is at most so far below the best
# Products of the factorisation without held-out steps, and of the one that begins where it ended.
ROUGH, WARM = 4, 1
SMALL = 4096  # nodes up to which every factorisation begins with nothing: rows depend on the graph alone


@dataclass(frozen=True, eq=False)
class Beside:
    """Given features, and their projection to a block."""

    ids: IdColumn
    values: Float32  # (n, columns of x)
    projection: Projection


def read_beside(features: list[object], ids: str, dim: int, seed: int) -> Beside | None:
    """Read ``["walks", x]``, given the type of the events' ids; None: there are only walks.

    At most half of the `dim` columns of a vector are for the features, and as many as x has directions.
    """
    others = [one for one in features if not (isinstance(one, str) and one == "walks")]
    if len(others) == len(features) or len(others) > 1:
        raise FeatureError(
            f'a list of features is ["walks", x], one table x beside the rows of walks; this one has '
            f"{len(features) - len(others)} times walks and {len(others)} others: join tables into one"
        )
    if not others:
        return None
    columns, (column, values) = None, (None, None)
    if isinstance(others[0], NodeTable):
        columns = NodeColumns.of(others[0])
        column, values = others[0].ids, columns.encode(others[0])
    else:
        column, values = read_features(others[0], ids)
    if len(column) and column.kind != stored_type(ids):
        raise FeatureError(f"features have {column.kind} ids, the events {ids} ones; one type a graph")
    if dim < 2:
        raise OptionError(f"dim is {dim}; with features beside walks it is 2 or more: each needs a column")
    found = principal_directions(values, dim // 2, seed)
    return Beside(column, values, dataclasses.replace(found, columns=columns))


def choose_share(model: Model, samples: Sequence[LinkSample]) -> tuple[Model, Sequence[LinkSample]]:
    """Return the model whose share of features predicts enough held-out links best; and samples."""
    tried = {}
    for share in SHARES:
        assert model.projection is not None
        other = dataclasses.replace(model, projection=dataclasses.replace(model.projection, share=share))
        weighed = [_weighed(sample, model, other) for sample in samples]
        tried[share] = cosine_auc(weighed, None), other, weighed
    best = max(auc for auc, *_ in tried.values())
    if np.isnan(best):
        return model, samples
    _, chosen, weighed = next(one for one in tried.values() if one[0] >= best - ENOUGH)
    return chosen, weighed


def _weighed(sample: LinkSample, old: Model, new: Model) -> LinkSample:
    """Return a sample as if read with the new model, whose blocks have other lengths."""
    factors = np.ones(old.width, np.float32)
    for (columns, before), (_, after) in zip(old.blocks, new.blocks, strict=True):
        factors[columns] = after / before
    assert sample.vectors is not None
    return dataclasses.replace(sample, vectors=sample.vectors * factors, units=sample.units * factors)


def fit_walks(task: FitTask, recipe: Recipe, beside: Beside | None = None) -> State:
    """Return the fitted state after all events; `beside`: given features beside the rows."""
    blank, progress = walk_model(task, beside), task.progress
    coming = NextSample(blank, task.parts, recipe)
    found = held_out(blank, task, recipe, coming, beside)
    samples: Sequence[LinkSample] = found.samples
    if beside is not None:
        blank, samples = choose_share(blank, samples)
    heads, following = fit_heads(samples, None), coming.fit()
    graph = found.graph or _play(blank.new_graph(), task.parts, progress)
    choices = task.choices  # by default there is a filter where kinds separate nodes that ask from answers
    wanted = choices.recommend == "auto" and ":" in (choices.ids or "") and not choices.directed
    recommending = None
    if wanted or choices.recommend is True:
        recommending = fit_filter(task.batch, graph, blank.seed)
    model = with_rows(blank, graph, progress, WARM if found.table else PRODUCTS, found.table)
    model = dataclasses.replace(model, links=heads, following=following, filter=recommending)
    state = _state(model, graph, beside)
    if state.history is not None:
        state.history = coming.history
    return state


def _state(model: Model, graph: Graph, beside: Beside | None) -> State:
    state = State.from_graph(model, graph)
    if beside is not None:
        state.set_features(beside.ids, beside.values)
    return state


def walk_model(task: FitTask, beside: Beside | None = None) -> Model:
    """Return the model before any row is made."""
    choices, ids = task.choices, take(task.batch.src, np.empty(0, np.int64))
    projection = None if beside is None else beside.projection
    columns = choices.dim - (0 if projection is None else projection.matrix.shape[1])
    return Model(
        order_weights(choices.orders),
        features="walks" if projection is None else "walks+given",
        scales=np.ones(choices.dim),
        table=RowTable(ids, np.zeros((0, columns), np.int8), 1.0),
        projection=projection,
        **task.settings(Walks.message_bits),
    )


def with_rows(
    model: Model,
    graph: Graph,
    progress: Progress | None = None,
    products: int = PRODUCTS,
    near: RowTable | None = None,
) -> Model:
    """Return the model with a row for each node; ghosts count with their remaining weight.

    Nodes are numbered in the order of their ids, so equal graphs give equal rows, on one machine: BLAS
    may round otherwise on another. Rows that begin `near` others depend on these, too.
    """
    return with_table(model, *walk_rows(model, graph, progress, products, near))


def walk_rows(
    model: Model,
    graph: Graph,
    progress: Progress | None,
    products: int = PRODUCTS,
    near: RowTable | None = None,
) -> tuple[IdColumn, Float32, int]:
    """Return the ids that have a row, the rows, not rounded yet, and the steps of the walks."""
    image, _ = take_image(graph)
    first, second, weight = image.a, image.b, np.abs(image.weight) * graph.grid
    if graph.directed:  # each pair once: A + A^T
        low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
        pairs, place = np.unique(low << 32 | high, return_inverse=True)
        first, second = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
        single, weight = weight, np.zeros(len(pairs))
        np.add.at(weight, place, single)
    assert model.table is not None
    large = len(image.ids) > SMALL
    base = walk_base(
        *(first, second, weight, len(image.ids), model.table.rows.shape[1], model.seed),
        products=products if large else PRODUCTS,
        begin=_rows_of(near, image.ids) if large and near is not None else None,
        progress=progress,
    )
    known = np.flatnonzero(base.has)
    rows = base.rows if len(known) == len(base.rows) else base.rows[known]
    return take(image.ids, known), rows, base.window


def _rows_of(table: RowTable, ids: IdColumn) -> Int8:
    """Return the row of each id, zeros where it has none."""
    known = IdMap(ids.kind)
    known.intern(table.ids)
    return np.pad(table.rows, ((0, 1), (0, 0)))[known.find(ids)]


def with_table(model: Model, ids: IdColumn, rows: Float32, window: int) -> Model:
    """Return the model with other rows, rounded."""
    table = RowTable.of(ids, rows, window)
    scales = np.ones(model.dim)
    scales[: table.rows.shape[1]] = table.scale
    return dataclasses.replace(model, table=table, scales=scales)


def held_out(
    blank: Model, task: FitTask, recipe: Recipe, coming: NextSample, beside: Beside | None = None
) -> HeldOut:
    """Return pairs of the last training steps, read with rows made before those steps."""
    parts, progress = task.parts, task.progress
    found = HeldOut(blank, len(parts), recipe)
    if not found.steps:
        return found
    played = found.first + 1
    graph = _play(blank.new_graph(), parts[:played], progress)
    later = copy.deepcopy(graph)
    state = _state(with_rows(blank, graph, progress, ROUGH), graph, beside)
    ahead = NextGraph(later, parts, played)
    for step in found.steps:
        found.visit(state, step, ahead.move_to(step + 1))
        coming.follow(state, step + 1)
        if progress is not None:
            progress(step + 1 - found.first, len(found.steps), "looking at held-out steps")
    later.compact()
    found.graph, found.table = later, state.model.table
    return found


def _play(graph: Graph, parts: Sequence[EventBatch], progress: Progress | None) -> Graph:
    for i, part in enumerate(parts):
        play(graph, part)
        if progress is not None:
            progress(i + 1, len(parts), "playing events")
    graph.compact()
    return graph
