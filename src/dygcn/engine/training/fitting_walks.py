"""Fitting a walk model: play the events, factorise the graph at the end. Nothing is trained by gradient."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import take
from dygcn.engine.features import RowTable, Walks
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.image import take_image
from dygcn.engine.models import Model, State
from dygcn.engine.models.choices import check_time_unit, weighed, weight_grid
from dygcn.engine.models.model import order_weights
from dygcn.engine.training import HeldOut, fit_heads, time_unit, walk_base
from dygcn.engine.training.beside import choose_share
from dygcn.engine.training.filtering import fit_filter
from dygcn.engine.training.next_sample import NextSample
from dygcn.engine.training.samples import Ahead
from dygcn.engine.training.subspace import PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.graph import Graph
    from dygcn.engine.models.choices import Choices
    from dygcn.engine.records import EventBatch, Float32, Float64, IdColumn, Int8, Int32
    from dygcn.engine.training import Recipe
    from dygcn.engine.training.beside import Beside
    from dygcn.engine.training.link_samples import LinkSample
    from dygcn.engine.training.samples import Progress

ROUGH, WARM = 4, 1
"""Products of the factorisation without held-out steps, and of the one that begins where it ended."""
SMALL = 4096
"""Nodes up to which every factorisation begins with nothing: rows depend on the graph alone."""


def fit_walks(
    batch: EventBatch,
    parts: Sequence[EventBatch],
    choices: Choices,
    recipe: Recipe,
    progress: Progress | None = None,
    beside: Beside | None = None,
) -> State:
    """Return the fitted state, all events played; `beside`: with features beside the rows."""
    blank = walk_model(batch, parts, choices, beside)
    coming = NextSample(blank, parts, recipe)
    found = held_out(blank, parts, recipe, coming, progress, beside)
    samples: Sequence[LinkSample] = found.samples
    if beside is not None:
        blank, samples = choose_share(blank, samples)
    heads, following = fit_heads(samples, None), coming.fit()
    graph = found.graph or _play(blank.new_graph(), parts, progress)
    recommending = fit_filter(batch, graph, blank.seed) if choices.recommends else None
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


def walk_model(
    batch: EventBatch, parts: Sequence[EventBatch], choices: Choices, beside: Beside | None = None
) -> Model:
    """Return the model before any row is made."""
    ids = take(batch.src, np.empty(0, np.int64))
    projection = None if beside is None else beside.projection
    columns = choices.dim - (0 if projection is None else projection.matrix.shape[1])
    return Model(
        order_weights(choices.orders),
        choices.ids or batch.src.kind,
        "walks" if projection is None else "walks+given",
        np.ones(choices.dim),
        seed=int(choices.seed),
        directed=bool(choices.directed),
        grid=weight_grid(weighed(batch, choices.relations), Walks.message_bits, choices.whole_weights),
        half_life=choices.half_life,
        unit=check_time_unit(time_unit(parts) or choices.expire),
        expire=choices.expire,
        table=RowTable(ids, np.zeros((0, columns), np.int8), 1.0),
        whole=choices.whole_weights,
        projection=projection,
        relations=choices.relations,
    )


def with_rows(
    model: Model,
    graph: Graph,
    progress: Progress | None = None,
    products: int = PRODUCTS,
    near: RowTable | None = None,
) -> Model:
    """Return the model with a row for each node of the graph, ghosts counted with what is left of them.

    Nodes are numbered in the order of their ids, so equal graphs give equal rows, on one machine: BLAS may
    round otherwise on another. Rows that begin `near` others depend on these, too.
    """
    ids, rows, window = walk_rows(model, graph, progress, products, near)
    return with_table(model, RowTable.of(ids, rows, window))


def walk_rows(
    model: Model,
    graph: Graph,
    progress: Progress | None,
    products: int = PRODUCTS,
    near: RowTable | None = None,
) -> tuple[IdColumn, Float32, int]:
    """Return who has a row, the rows, not rounded yet, and the steps of the walks."""
    image, _ = take_image(graph)
    first, second, weight = _undirected(image.a, image.b, np.abs(image.weight) * graph.grid, graph.directed)
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


def with_table(model: Model, table: RowTable) -> Model:
    """Return the model with other rows."""
    scales = np.ones(model.dim)
    scales[: table.rows.shape[1]] = table.scale
    return dataclasses.replace(model, table=table, scales=scales)


def held_out(
    blank: Model,
    parts: Sequence[EventBatch],
    recipe: Recipe,
    coming: NextSample,
    progress: Progress | None = None,
    beside: Beside | None = None,
) -> HeldOut:
    """Return pairs of the last training steps, read with rows that were made before those steps."""
    found = HeldOut(blank, len(parts), recipe)
    if not found.steps:
        return found
    played = found.first + 1
    graph = _play(blank.new_graph(), parts[:played], progress)
    later = copy.deepcopy(graph)
    state = _state(with_rows(blank, graph, progress, ROUGH), graph, beside)
    ahead = Ahead(later, parts, played)
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
        graph.release(graph.apply(part).left)
        if progress is not None:
            progress(i + 1, len(parts), "playing events")
    graph.compact()
    return graph


def _undirected(a: Int32, b: Int32, weight: Float64, directed: bool) -> tuple[Int32, Int32, Float64]:
    """Return each pair once: of a directed graph A + A^T."""
    if not directed:
        return a, b, weight
    low, high = np.minimum(a, b).astype(np.int64), np.maximum(a, b).astype(np.int64)
    pairs, place = np.unique(low << 32 | high, return_inverse=True)
    total = np.zeros(len(pairs))
    np.add.at(total, place, weight)
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32), total
