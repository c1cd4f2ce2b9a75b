"""Fitting matrices for the exact rule: play the events, learn one matrix for each order. Numpy alone."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.features import Embedding, Given, Hashed, column_scales, read_features
from dygcn.engine.models import Baseline, Model, State, read_inputs
from dygcn.engine.models.choices import Choices, check_time_unit, weighed, weight_grid
from dygcn.engine.training import (
    HeldOut,
    Recipe,
    collect_samples,
    fit_matrices,
    starting_matrices,
    time_unit,
)
from dygcn.engine.training.next_sample import NextSample
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import EventBatch, Float32, IdColumn
    from dygcn.engine.training.samples import Progress


def fit_exact(
    batch: EventBatch,
    parts: Sequence[EventBatch],
    choices: Choices,
    features: object,
    recipe: Recipe,
    progress: Progress | None = None,
) -> State:
    """Return the fitted state, all events played."""
    model, given = new_model(batch, parts, choices, features)
    if isinstance(features, Embedding):
        model = _with_baseline(model, features, batch)
    state = State(model)
    if given is not None:
        state.set_features(*given)
    held_out = HeldOut(model, len(parts), recipe)
    samples = collect_samples(state, parts, choices.seed, progress, partial(held_out.visit, state))
    start = np.concatenate(model.weights)
    heads = held_out.fit_heads(samples, start, progress)
    trained = fit_matrices(samples, start, recipe, choices.seed, progress)
    weights = tuple(np.split(trained, choices.orders + 1))
    if model.baseline is not None:
        weights = (model.weights[0], *weights[1:])
    coming = NextSample(model, parts, recipe)
    following = coming.fit()
    state.model = dataclasses.replace(model, weights=weights, links=heads, following=following)
    state.history = None if following is None else coming.history
    return state


def new_model(
    batch: EventBatch, parts: Sequence[EventBatch], choices: Choices, features: object
) -> tuple[Model, tuple[IdColumn, Float32] | None]:
    """Return the model before anything is learned, and the features that were given."""
    width, dim, orders, seed = choices.width, choices.dim, choices.orders, choices.seed
    settings: dict[str, Any] = {
        "ids": choices.ids or batch.src.kind,
        "seed": int(seed),
        "directed": bool(choices.directed),
        "half_life": choices.half_life,
        "unit": check_time_unit(time_unit(parts) or choices.expire),
        "expire": choices.expire,
        "whole": choices.whole_weights,
        "relations": choices.relations,
    }
    if isinstance(features, str) and features == "hashed":
        weights = starting_matrices(width, dim, orders, seed)
        settings["grid"] = weight_grid(
            weighed(batch, choices.relations), Hashed.message_bits, choices.whole_weights
        )
        return Model(weights, features="hashed", scales=np.ones(width), **settings), None
    ids, values = read_features(features, choices.ids)
    settings["grid"] = weight_grid(
        weighed(batch, choices.relations), Given.message_bits, choices.whole_weights
    )
    if len(ids) and ids.kind != batch.src.kind:
        raise FeatureError(
            f"features have {ids.kind} ids, the events {batch.src.kind} ones; one type a graph"
        )
    columns = values.shape[1]
    if isinstance(features, Embedding):
        eye = np.eye(columns, dtype=np.float32)
        weights = (eye, *(np.zeros_like(eye) for _ in range(orders)))
        kind = "embedding"
    else:
        weights = starting_matrices(columns, dim, orders, seed)
        kind = "given"
    return Model(weights, features=kind, scales=column_scales(values), **settings), (ids, values)


def _with_baseline(model: Model, embedding: Embedding, batch: EventBatch) -> Model:
    """Play all events once for the messages at t0, the moment at which the user's vectors are right."""
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
