"""Fit: play the events, learn one matrix for each order, hand over the live embedding."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import EventError, FeatureError, OptionError
from dygcn.events import cut_steps, read_events, sort_by_time
from dygcn.features import Embedding, column_scales, read_features
from dygcn.live.embedding import LiveEmbedding
from dygcn.models import Baseline, Model, State, read_inputs
from dygcn.models.model import RULES
from dygcn.training import Recipe, collect_samples, fit_matrices, starting_matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.records import EventBatch, Float32, IdColumn
    from dygcn.training.samples import Progress

GREATEST_ORDERS = 16


def fit(
    events: object,
    dim: int = 128,
    orders: int = 2,
    rule: str = "exact",
    features: object = "hashed",
    memory: float | None = None,
    seed: int = 0,
    *,
    width: int = 256,
    directed: bool = False,
    steps: int | Sequence[float] | None = None,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
) -> LiveEmbedding:
    """Fit an embedding on the history of a graph; what it returns follows the graph from there on.

    Parameters
    ----------
    events
        Anything tabular with `src`, `dst` and optionally `t`, `op` (+1 or -1) and `weight`: a path
        (Parquet, CSV, NDJSON), an Arrow table, a pandas or polars frame, a dict of arrays, an iterable of
        tuples. Without `t` the order of the rows is the time.
    dim
        Length of the vectors. With an `Embedding` it is the length of the vectors that you bring.
    orders
        K: how far a change is propagated.
    rule
        ``"exact"``: the state is a function of the graph and never drifts.
    features
        ``"hashed"``; or a table of ids and values; or `dygcn.Embedding` to keep your own vectors fresh.
    memory
        Half-life, in units of `t`, of the weight that a removed edge leaves; None: it leaves nothing.
    seed
        Of hashed features, starting matrices and training.
    width
        Columns of hashed features.
    directed
        If so, the source of an edge aggregates its target. The score stays symmetric.
    steps
        How training time is cut: so many equal parts, or the values of `t` at which a step ends. By
        default every value of `t` is a step (40 equal parts where there are more than 200, and 12 for
        more than a million events).
    recipe
        Settings of the training, see `dygcn.training.Recipe`.
    progress
        Called as ``progress(done, total, what)``.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 1]}, dim=8)
    >>> live.vectors([1, 2]).shape
    (2, 8)
    """
    _check_options(dim, orders, rule, memory, width)
    batch = sort_by_time(read_events(events))
    if len(batch) == 0:
        raise EventError("there are no events to fit on")
    if memory is not None and batch.t is None:
        raise EventError("memory= needs the column t: it is a half-life in units of t")
    model, given = _new_model(batch, dim, orders, rule, features, memory, seed, width, directed)
    parts = cut_steps(batch, steps)
    if isinstance(features, Embedding):
        model = _with_baseline(model, features, batch)
    state = State(model)
    if given is not None:
        state.set_features(*given)
    samples = collect_samples(state, parts, seed, progress)
    start = np.concatenate(model.weights)
    trained = fit_matrices(samples, start, recipe or Recipe(), seed, progress)
    weights = tuple(np.split(trained, orders + 1))
    if model.baseline is not None:
        weights = (model.weights[0], *weights[1:])
    state.model = dataclasses.replace(model, weights=weights)
    return LiveEmbedding(state)


def _check_options(dim: int, orders: int, rule: str, memory: float | None, width: int) -> None:
    if rule not in RULES:
        raise OptionError(f"rule is {rule!r}; known: {', '.join(RULES)}")
    for name, value, most in (
        ("dim", dim, 1 << 14),
        ("orders", orders, GREATEST_ORDERS),
        ("width", width, 1 << 14),
    ):
        if not isinstance(value, int | np.integer) or not 1 <= value <= most:
            raise OptionError(f"{name} is {value!r}; allowed is a whole number from 1 to {most}")
    if memory is not None and not (np.isfinite(memory) and memory > 0):
        raise OptionError(f"memory is {memory!r}; allowed is a half-life above 0 in units of t, or None")


def _new_model(
    batch: EventBatch,
    dim: int,
    orders: int,
    rule: str,
    features: object,
    memory: float | None,
    seed: int,
    width: int,
    directed: bool,
) -> tuple[Model, tuple[IdColumn, Float32] | None]:
    settings: dict[str, Any] = {
        "kind": batch.src.kind,
        "seed": seed,
        "directed": directed,
        "grid": weight_grid(batch),
        "half_life": None if memory is None else float(memory),
        "rule": rule,
    }
    if isinstance(features, str) and features == "hashed":
        weights = starting_matrices(width, dim, orders, seed)
        return Model(weights, features="hashed", scales=np.ones(width), **settings), None
    ids, values = read_features(features)
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


def weight_grid(batch: EventBatch) -> float:
    """Return the grid of the weights: 2^-10 of the power of two nearest to their median."""
    if batch.weight is None or not (batch.op > 0).any():
        return 2.0**-10
    return float(2.0 ** (np.rint(np.log2(np.median(batch.weight[batch.op > 0]))) - 10))


def _with_baseline(model: Model, embedding: Embedding, batch: EventBatch) -> Model:
    """Play all events once for the messages at t0, the moment at which the user's vectors are right."""
    state = State(model)
    state.set_features(embedding.ids, embedding.vectors)
    state.apply(batch)
    nodes = state.graph.find(embedding.ids)
    messages = tuple(
        read_inputs(model, state.rule, state.graph, nodes, k, unit=False) for k in range(model.orders + 1)
    )
    return dataclasses.replace(model, baseline=Baseline(embedding.ids, embedding.vectors, messages))
