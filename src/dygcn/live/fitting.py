"""Fit: play the events, learn one matrix for each order, hand over the live embedding."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import EventError, FeatureError, OptionError
from dygcn.events import cut_steps, read_events, seconds, sort_by_time, take
from dygcn.features import Embedding, Given, Hashed, column_scales, read_features
from dygcn.graph.ids import IdMap
from dygcn.live.embedding import LiveEmbedding
from dygcn.models import Baseline, Model, State, read_inputs
from dygcn.models.model import RULES
from dygcn.training import Recipe, collect_samples, fit_matrices, starting_matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.records import EventBatch, Float32, Float64, IdColumn
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
        Half-life, in units of `t` (or a timedelta), of the weight that a removed edge leaves; None: it
        leaves nothing.
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
    memory = seconds(memory)
    _check_options({"dim": dim, "orders": orders, "width": width, "seed": seed, "memory": memory}, rule)
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


def _check_options(options: dict[str, Any], rule: str) -> None:
    if rule not in RULES:
        raise OptionError(f"rule is {rule!r}; known: {', '.join(RULES)}")
    bounds = {
        "dim": (1, 1 << 14),
        "orders": (1, GREATEST_ORDERS),
        "width": (1, 1 << 14),
        "seed": (0, 2**63 - 1),
    }
    for name, (least, most) in bounds.items():
        value = options[name]
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise OptionError(f"{name} is {value!r}; allowed is a whole number from {least} to {most}")
    memory = options["memory"]
    if memory is not None and not (isinstance(memory, int | float | np.number) and 0 < memory < np.inf):
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
        "seed": int(seed),
        "directed": bool(directed),
        "half_life": None if memory is None else float(memory),
        "rule": rule,
    }
    if isinstance(features, str) and features == "hashed":
        weights = starting_matrices(width, dim, orders, seed)
        settings["grid"] = weight_grid(batch, Hashed.message_bits)
        return Model(weights, features="hashed", scales=np.ones(width), **settings), None
    ids, values = read_features(features)
    settings["grid"] = weight_grid(batch, Given.message_bits)
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


def weight_grid(batch: EventBatch, message_bits: int) -> float:
    """Return the grid of the weights: as fine as sums below 2^62 allow, with room to grow.

    Without weights (all are 1) a node may have 2^22 neighbours. With weights, it may carry 64 times what
    any node does in these events, and 2^18 times the median; the grid is 2^-24 of the median at the finest.
    """
    carried = 62 - message_bits  # bits of a node's weights in sum, in grid units
    adds = batch.op > 0
    if batch.weight is None or not adds.any():
        return float(2.0 ** (22 - carried))
    weight = batch.weight[adds]
    median = np.median(weight)
    most = max(64 * _greatest_strength(batch, weight), 2.0**18 * median)
    return float(2.0 ** np.ceil(max(np.log2(most) - carried, np.log2(median) - 24)))


def _greatest_strength(batch: EventBatch, weight: Float64) -> float:
    """Return the greatest sum of weights at one node, if nothing were ever removed or replaced."""
    ids, adds = IdMap(batch.src.kind), np.flatnonzero(batch.op > 0)
    ends = np.concatenate([ids.intern(take(column, adds)) for column in (batch.src, batch.dst)])
    return float(np.bincount(ends, np.concatenate((weight, weight))).max())


def _with_baseline(model: Model, embedding: Embedding, batch: EventBatch) -> Model:
    """Play all events once for the messages at t0, the moment at which the user's vectors are right."""
    state = State(model)
    state.set_features(embedding.ids, embedding.vectors)
    state.apply(batch)
    nodes = state.graph.find(embedding.ids)
    messages = []
    for k in range(model.orders + 1):
        h = read_inputs(model, state.rule, state.graph, nodes, k, unit=False)
        absent = state.rule.messages(state.graph, nodes, k)[1] == 0
        h[absent] = embedding.vectors[absent]
        messages.append(h)
    return dataclasses.replace(model, baseline=Baseline(embedding.ids, embedding.vectors, tuple(messages)))
