"""Thirty steps on its own output: the paper's long-term figure, with the rows that it does not print.

Every line starts from the same base. *Do nothing* keeps its vectors for ever, *recompute* trains the base
anew at every step, *exact* is this project's default rule, fitted on the same half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.experiments.paper_rules import (
    DIM,
    Notify,
    Series,
    Trained,
    empty_model,
    fit_rule,
    rolled,
    train_bases,
)
from dygcn.live import LiveEmbedding, fit
from dygcn.models import Base
from dygcn.training.bases import exact_tables
from dygcn.training.history import play_history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dygcn.experiments.link_prediction import Steps
    from dygcn.experiments.paper_rules import Frames
    from dygcn.records import Float32
    from dygcn.training import RollingRecipe


def exact_bases(frames: Frames, exact: LiveEmbedding, recipe: RollingRecipe, seed: int) -> Trained:
    """Return the exact rule's vectors of every step as bases."""
    model = empty_model(frames, "rolling", recipe, seed)
    history = play_history(model, frames.batches, recipe.base.aggregation)
    tables = exact_tables(exact.model, frames.batches, history)
    ids = [history.graph.ids.names(snapshot.nodes) for snapshot in history.snapshots]
    weights = dict(exact.weights)
    return Trained(frames, recipe, seed, ids, tables, [], Base("hashed", recipe.base, weights))


def kept(trained: Trained, first: int, steps: range, fresh: bool) -> Series:
    """Judge the base of step `first` at every later step (*do nothing*), or a fresh one (*recompute*)."""
    series, frames = Series(), trained.frames
    for step in steps:
        series.judge(trained.by_number(step if fresh else first), frames.edges[step + 1], step, trained.seed)
    return series


def exact_run(exact: LiveEmbedding, steps: Steps, frames: Frames, tested: range, seed: int) -> Series:
    """Judge the exact rule. It is fitted on the first half, so its lines begin after it."""
    series = Series()
    for step in range(frames.fitted + 1, tested.stop):
        exact.update(steps.part(step, step).table())
        if step in tested:
            series.judge(_by_number(exact, frames.nodes), frames.edges[step + 1], step, seed)
    return series


def _by_number(live: LiveEmbedding, nodes: int) -> Float32:
    out = np.zeros((nodes, live.model.dim), np.float32)
    ids = live.ids()
    out[ids] = live.vectors(ids)
    return out


def long_run(
    steps: Steps,
    frames: Frames,
    recipes: Mapping[str, RollingRecipe],
    length: int = 30,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Series]:
    """Roll every recipe's rules from its own GCN base, and from the exact rule's vectors.

    Parameters
    ----------
    length
        Steps on its own output; the last one is judged by the last graph.
    """
    last = len(frames.edges) - 2
    first = max(last - length, frames.fitted - 1)
    tested = range(first + 1, last + 1)
    exact = fit(steps.part(0, frames.fitted).table(), dim=DIM, seed=seed)
    found: dict[str, Series] = {}
    for name, recipe in recipes.items():
        bases = {"gcn": train_bases(frames, recipe, seed, notify)}
        bases["hashed"] = exact_bases(frames, exact, recipe, seed)
        for base, trained in bases.items():
            label = f"{name}, base {base}"
            found[f"do nothing, {label}"] = kept(trained, first, tested, fresh=False)
            found[f"recompute, {label}"] = kept(trained, first, tested, fresh=True)
            for rule in ("rolling", "spectral"):
                model = fit_rule(rule, trained, recipe, notify)
                found[f"{rule}, {label}"] = rolled(model, trained, first, tested)
    found["exact"] = exact_run(exact, steps, frames, tested, seed)
    return found
