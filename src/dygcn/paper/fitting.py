"""Fits the paper's rules: snapshots and plans, then the base, then the matrices. Needs torch."""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from dygcn.engine.events import id_column, rows_of
from dygcn.engine.features.inputs import Hashed
from dygcn.engine.features.tables import Embedding
from dygcn.engine.models.checks import check_recipe
from dygcn.engine.models.choices import Choices, FitTask, ids_of, weight_grid
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float32
from dygcn.errors import FeatureError, OptionError, TrainingWarning
from dygcn.paper.bases import Labels, PlayedHistory, base_vectors, fit_base, keep_last, play_history
from dygcn.paper.equations import NumpyArrays
from dygcn.paper.options import Base, RollingRecipe
from dygcn.paper.spec import RollingSpec, SpectralSpec, adopt, take_anchor, with_base

LARGEST_HISTORY = 4 << 30  # bytes of snapshots, plans and bases that training may keep


def check(choices: Choices) -> None:
    """Refuse options that belong to another rule."""
    if not (isinstance(choices.features, str) and choices.features == "walks"):
        raise OptionError(f"features= is for the rule 'exact'; the {choices.rule} rule takes base= instead")
    check_recipe(choices.rule, choices.recipe, RollingRecipe)


def steady_recipe() -> RollingRecipe:
    """Return a recipe with our options on."""
    return RollingRecipe.steady()


def fit(task: FitTask) -> State:
    """Return the fitted state: all events played, with the base's vectors at the end."""
    batch, choices, progress = task.batch, task.choices, task.progress
    training = importlib.import_module("dygcn.paper.training")  # torch, or the line that installs it
    recipe = choices.recipe if isinstance(choices.recipe, RollingRecipe) else RollingRecipe()
    base = "gcn" if choices.base is None else choices.base
    model = new_model(batch, choices, base, recipe)
    task = dataclasses.replace(task, parts=_recent(batch, task.parts, model.dim))
    layers = "sum" if isinstance(base, Embedding) else recipe.base.aggregation
    history = play_history(model, task.parts, layers, _read_labels(choices.labels, batch), progress)
    fitted, tables = _fit_base(task, base, recipe, history)
    spectral = isinstance(model.spec, SpectralSpec)
    start = training.first_matrices(model.dim, model.orders, spectral, recipe.start, choices.seed)
    weights = training.fit_rolled(history, tables, start, recipe, spectral, choices.seed, progress)
    state = State(dataclasses.replace(with_base(model, fitted), weights=weights), history.graph)
    if isinstance(base, Embedding):
        adopt(state, base.ids, base.vectors)
    else:
        adopt(state, history.graph.ids.names(history.snapshots[-1].nodes), tables[-1], keep=False)
    take_anchor(state)
    return state


def _recent(batch: EventBatch, parts: Sequence[EventBatch], dim: int) -> Sequence[EventBatch]:
    """Join early steps into one, to fit the snapshots and plans of all steps into memory."""
    bytes_a_step = 8 * dim * ids_of(batch).high + 96 * len(batch)  # vectors, twice; sums, and torch's
    kept = max(LARGEST_HISTORY // bytes_a_step, 2)
    if len(parts) <= kept:
        return parts
    warnings.warn(
        f"the first {len(parts) - kept} of {len(parts)} steps are joined into one: training keeps vectors "
        f"and sums of every step, {bytes_a_step >> 20} MB each; pass fewer steps=, or a smaller dim=",
        TrainingWarning,
        stacklevel=4,
    )
    early = len(batch) - sum(len(part) for part in parts[-kept:])
    return [rows_of(batch, np.arange(early)), *parts[-kept:]]


def new_model(batch: EventBatch, choices: Choices, base: object, recipe: RollingRecipe) -> Model:
    """Return the model before anything is learned."""
    dim = choices.dim
    if isinstance(base, Embedding):
        if base.ids.kind != batch.src.kind:
            raise FeatureError(f"the embedding has {base.ids.kind} ids, the events {batch.src.kind} ones")
        dim = base.vectors.shape[1]
    elif not isinstance(base, str) or base != "gcn":
        raise OptionError(f"base is {base!r}; known: 'gcn', or a dygcn.Embedding")
    name = base if isinstance(base, str) else "embedding"
    spec = (SpectralSpec if choices.rule == "spectral" else RollingSpec)(
        recipe.options, Base(name, recipe.base), recipe.watch
    )
    count = 3 if choices.rule == "spectral" else choices.orders + 1
    return Model(
        (np.eye(dim, dtype=np.float32),) * count,
        choices.ids or batch.src.kind,
        "none",
        np.ones(dim),
        int(choices.seed),
        bool(choices.directed),
        weight_grid(batch, Hashed.message_bits, choices.whole_weights),
        choices.memory and float(choices.memory),
        spec,
        whole=choices.whole_weights,
    )


def _read_labels(labels: object, batch: EventBatch) -> Labels | None:
    if labels is None:
        return None
    if not isinstance(labels, Mapping) or not labels:
        raise OptionError("labels is a dict of id to class, with at least one")
    ids = id_column(list(labels))
    if ids.kind != batch.src.kind:
        raise OptionError(f"labels have {ids.kind} ids, the events {batch.src.kind} ones")
    numbers: dict[object, int] = {}
    try:
        classes = [numbers.setdefault(label, len(numbers)) for label in labels.values()]
    except TypeError:
        raise OptionError("a class in labels is a number or a string") from None
    if (ids_of(batch).find(ids) < 0).all():
        raise OptionError("none of the ids in labels is in the events")
    return Labels(ids, np.array(classes, np.int64))


def _fit_base(
    task: FitTask, base: object, recipe: RollingRecipe, history: PlayedHistory
) -> tuple[Base, list[Float32]]:
    """Return the base, and its vectors of every snapshot's nodes."""
    choices, progress = task.choices, task.progress
    if isinstance(base, Embedding):
        return Base("embedding", recipe.base), _given_tables(base, history, recipe.options.aggregation)
    dim, seed = choices.dim, choices.seed  # an Embedding alone has another dim
    if recipe.base.once:
        fitted = fit_base(history.snapshots, dim, recipe.base, seed, None, progress)
        tables = [base_vectors(fitted, snapshot) for snapshot in history.snapshots]
        return fitted, keep_last(history.snapshots, tables)
    last: Base | None = None
    tables = []
    for i, snapshot in enumerate(history.snapshots):
        last = fit_base([snapshot], dim, recipe.base, seed, last)
        tables.append(base_vectors(last, snapshot))
        if progress is not None:
            progress(i + 1, len(history.snapshots), "training the base")
    assert last is not None
    return last, keep_last(history.snapshots, tables)


def _given_tables(base: Embedding, history: PlayedHistory, aggregation: str) -> list[Float32]:
    """Return the user's vectors of every snapshot; a node without one starts as a new node does."""
    nodes = history.graph.find(base.ids)
    by_node = np.zeros((history.high, base.vectors.shape[1]), np.float32)
    has = np.zeros(history.high, np.bool_)
    by_node[nodes[nodes >= 0]], has[nodes[nodes >= 0]] = base.vectors[nodes >= 0], True
    tables = []
    for snapshot in history.snapshots:
        table, known = by_node[snapshot.nodes], has[snapshot.nodes]
        around = NumpyArrays().combine(snapshot.mix, table)
        if aggregation == "mean":
            around /= np.maximum(
                NumpyArrays().combine(snapshot.mix, known[:, None].astype(np.float64)), 1e-300
            )
        tables.append(np.where(known[:, None], table, around).astype(np.float32))
    return tables
