"""Fits the exact rule, for any kind of features, with NumPy alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np

from dygcn.engine.features.inputs import Given, Hashed, column_scales
from dygcn.engine.features.tables import Embedding, read_features
from dygcn.engine.models.checks import check_recipe
from dygcn.engine.models.choices import Choices, FitTask
from dygcn.engine.models.model import RULES, Baseline, Model
from dygcn.engine.models.readout import read_inputs
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float32, IdColumn, Progress
from dygcn.engine.training.fitting_walks import fit_walks, read_beside
from dygcn.engine.training.link_head import HeldOut, fit_heads
from dygcn.engine.training.matrices import Recipe, fit_matrices, starting_matrices
from dygcn.engine.training.next_head import NextSample
from dygcn.engine.training.samples import collect_samples
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


def fit(
    batch: EventBatch, parts: Sequence[EventBatch], choices: Choices, progress: Progress | None = None
) -> State:
    """Return the fitted state after all events."""
    recipe = choices.recipe if isinstance(choices.recipe, Recipe) else Recipe()
    features, task = choices.features, FitTask(batch, parts, choices, progress)
    if isinstance(features, list):
        beside = read_beside(features, choices.ids or batch.src.kind, int(choices.dim), int(choices.seed))
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
