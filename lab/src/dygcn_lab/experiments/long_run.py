"""Thirty steps on its own output: the paper's long-term figure, with the rows that it does not print.

Every line starts from the same base. *Do nothing* keeps its vectors for ever, *recompute* trains the base
anew at every step, *exact* is this project's default rule, fitted on the same half.
"""

from __future__ import annotations

from collections.abc import Mapping

from dygcn.engine.models.model import Model
from dygcn.live.embedding import LiveEmbedding
from dygcn.paper import Base, RollingRecipe
from dygcn.paper.bases import exact_tables, play_history
from dygcn_lab.experiments.paper_rules import Frames, Series, Trained, empty_model, rolled


def exact_bases(frames: Frames, exact: LiveEmbedding, recipe: RollingRecipe, seed: int) -> Trained:
    """Return the exact rule's vectors of every step as bases."""
    model = empty_model(frames, "rolling", recipe, seed)
    history = play_history(model, frames.batches, recipe.base.aggregation)
    tables = exact_tables(exact.model, frames.batches, history)
    ids = [history.graph.ids.names(snapshot.nodes) for snapshot in history.snapshots]
    weights = dict(exact.model.matrices)
    return Trained(frames, recipe, seed, ids, tables, [], Base("hashed", recipe.base, weights))


def kept(trained: Trained, first: int, steps: range, fresh: bool) -> Series:
    """Judge the base of step `first` at every later step (*do nothing*), or a fresh one (*recompute*)."""
    series = trained.series(first)
    for step in steps:
        series.look(step, trained.at(step if fresh else first))
    return series


def long_run(trained: Trained, models: Mapping[str, Model], length: int = 30) -> dict[str, Series]:
    """Roll fitted rules from one base on, beside doing nothing and recomputing.

    `length`: steps on its own output; the last one is judged by the last graph. Where the second half is
    shorter, the run is. The first of the steps leads to the last graph that was fitted on.
    """
    first, tested = stretch(trained.frames, length)
    return {
        "do nothing": kept(trained, first, tested, fresh=False),
        "recompute": kept(trained, first, tested, fresh=True),
        **{rule: rolled(model, trained, first, tested) for rule, model in models.items()},
    }


def stretch(frames: Frames, length: int) -> tuple[int, range]:
    """Return the step of the base and the steps after it."""
    last = len(frames.moments) - 2
    first = max(last - length, frames.fitted - 1)
    return first, range(first + 1, last + 1)
