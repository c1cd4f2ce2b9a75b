"""Thirty steps on its own output: the paper's long-term figure, with the rows that it does not print.

Every line starts from the same base. *Do nothing* keeps its vectors for ever, *recompute* trains the base
anew at every step, *exact* is this project's default rule, fitted on the same half.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import read_vectors
from dygcn.engine.models.state import State
from dygcn.live.embedding import LiveEmbedding
from dygcn.paper import Base, RollingRecipe
from dygcn.paper.bases import keep_last, play_history
from dygcn_lab.experiments.paper_rules import Frames, Series, Trained, empty_model, rolled


def exact_bases(frames: Frames, exact: LiveEmbedding, recipe: RollingRecipe, seed: int) -> Trained:
    """Return the exact rule's vectors of every step as bases."""
    model = empty_model(frames, "rolling", recipe, seed)
    history = play_history(model, frames.batches, recipe.base.aggregation)
    state, tables = State(exact.model), []
    for batch, snapshot in zip(frames.batches, history.snapshots, strict=True):
        state.apply(batch)
        nodes = state.graph.find(history.graph.ids.names(snapshot.nodes))  # nodes of the history stay
        table = np.zeros((len(nodes), exact.model.dim), np.float32)
        table[nodes >= 0] = read_vectors(exact.model, state.rule, state.graph, nodes[nodes >= 0])
        tables.append(table)
    tables = keep_last(history.snapshots, tables)
    ids = [history.graph.ids.names(snapshot.nodes) for snapshot in history.snapshots]
    return Trained(frames, recipe, seed, ids, tables, [], Base("embedding", recipe.base))


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
