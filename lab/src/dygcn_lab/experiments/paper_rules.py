"""The paper's comparison, one step from a fresh base: GCN retrained, rolling, spectral.

The base at t - 1 is trained on that snapshot, one update leads to t, and the vectors at t must tell the edges
at t + 1 from negatives. The first half of the steps is fitted on, the second half is judged.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.events import read_events
from dygcn.engine.graph import apply_batch
from dygcn.engine.models.choices import Choices
from dygcn.engine.models.links import norms
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float32, IdColumn, Int64
from dygcn.paper import Base, RollingRecipe, RollingRule, adopt
from dygcn.paper.bases import base_vectors, fit_base, keep_last, play, play_history
from dygcn.paper.fitting import new_model
from dygcn.paper.spec import with_base
from dygcn.paper.training import first_matrices, fit_rolled
from dygcn_lab.evaluation import Judge
from dygcn_lab.evaluation.method import by_number
from dygcn_lab.evaluation.steps import Moment, Steps

DIM, ORDERS = 100, 2  # the paper's defaults
RULES = ("rolling", "spectral")


@dataclass(frozen=True)
class Frames:
    """A graph that changes, step by step: as our engine takes it, and as it is judged."""

    batches: list[EventBatch]
    moments: list[Moment]
    nodes: int
    fitted: int  # the last step that is fitted on
    labels: Int64 | None = None

    @classmethod
    def of(cls, steps: Steps, labels: Int64 | None = None) -> Frames:
        """Cut numbered events into batches."""
        batches = [read_events(steps.part(step, step).table()) for step in range(steps.last + 1)]
        return cls(batches, steps.moments, steps.nodes, steps.fitted, labels)

    @property
    def tested(self) -> range:
        """Steps whose vectors are judged by the edges of the next."""
        return range(self.fitted + 1, len(self.moments) - 1)


class Series:
    """What was measured at each step: the judge's figures, rows computed, and lengths of the vectors.

    `first`: ids and vectors that a classifier is fitted on before the first step.
    """

    def __init__(self, frames: Frames, seed: int, first: tuple[Int64, Float32]) -> None:
        self._judge = Judge(frames.moments, frames.nodes, frames.fitted, seed, frames.labels)
        self._judge.train(by_number(*first, frames.nodes), no_score)
        self.figures = self._judge.figures

    def look(
        self, step: int, found: tuple[Int64, Float32], seconds: float | None = None, rows: int | None = None
    ) -> None:
        """Judge the vectors of a step."""
        lengths = norms(found[1])
        self._judge.look(step, by_number(*found, self._judge.nodes), no_score, seconds)
        self._note("length", float(lengths.mean()))
        self._note("zero", float((lengths == 0).mean()))
        if rows is not None:
            self._note("rows", float(rows))

    def _note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    @property
    def auc(self) -> list[float]:
        """AUC of the cosine for all edges of the next graph."""
        return self.figures["cosine.auc.all.uniform"]

    def mean(self, name: str) -> float:
        """Return the mean of a figure over the steps."""
        return float(np.mean(self.figures[name]))


def no_score(pairs: Int64, task: str) -> None:
    """Return None: the cosine decides."""


@dataclass(frozen=True)
class Trained:
    """Bases of every step, and what it takes to fit a rule on them."""

    frames: Frames
    recipe: RollingRecipe
    seed: int
    ids: list[IdColumn]
    tables: list[Float32]
    seconds: list[float]  # that each base took
    base: Base  # of the last step that is fitted on

    def at(self, step: int) -> tuple[Int64, Float32]:
        """Return ids and vectors of a step's base."""
        return self.ids[step].values, self.tables[step]

    def series(self, first: int) -> Series:
        """Return an empty series; classifiers are fitted on the base of step `first`."""
        return Series(self.frames, self.seed, self.at(first))


def empty_model(
    frames: Frames, rule: str, recipe: RollingRecipe, seed: int, dim: int = DIM, orders: int = ORDERS
) -> Model:
    """Return a model before anything is learned."""
    choices = Choices(dim, orders, rule, None, seed, 256, False)
    return new_model(frames.batches[0], choices, "gcn", recipe)


def train_bases(
    frames: Frames, recipe: RollingRecipe, seed: int, dim: int = DIM, notify: Notify | None = None
) -> Trained:
    """Train the base on every snapshot, from the first to the last."""
    model = empty_model(frames, "rolling", recipe, seed, dim)
    ids, snapshots, tables, seconds = [], [], [], []
    last: Base | None = None
    bases = []
    for step, (graph, snapshot, _) in enumerate(play(model, frames.batches, recipe.base.aggregation)):
        begun = time.perf_counter()
        last = fit_base([snapshot], dim, recipe.base, seed, last)
        bases.append(last)
        tables.append(base_vectors(last, snapshot))
        seconds.append(time.perf_counter() - begun)
        ids.append(graph.ids.names(snapshot.nodes))
        snapshots.append(snapshot)
        if notify is not None:
            notify(step + 1, len(frames.batches), "training bases")
    return Trained(frames, recipe, seed, ids, keep_last(snapshots, tables), seconds, bases[frames.fitted])


def fit_rule(rule: str, trained: Trained, orders: int = ORDERS, notify: Notify | None = None) -> Model:
    """Fit the matrices of a rule on the first half of the steps."""
    frames, fitted, recipe = trained.frames, trained.frames.fitted, trained.recipe
    dim = trained.tables[0].shape[1]
    model = empty_model(frames, rule, recipe, trained.seed, dim, orders)
    history = play_history(model, frames.batches[: fitted + 1], recipe.base.aggregation)
    spectral = rule == "spectral"
    start = first_matrices(dim, model.orders, spectral, recipe.start, trained.seed)
    tables = trained.tables[: fitted + 1]
    weights = fit_rolled(history, tables, start, recipe, spectral, trained.seed, notify)
    return dataclasses.replace(with_base(model, trained.base), weights=weights)


def ids_and_vectors(state: State) -> tuple[Int64, Float32]:
    """Return what a rolled state holds."""
    assert isinstance(state.rule, RollingRule)
    here = state.graph.nodes()
    return state.graph.ids.names(here).values, state.rule.vectors(here)


def one_step(model: Model, trained: Trained) -> Series:
    """Judge a rule one step from a fresh base, at every tested step."""
    frames, series = trained.frames, trained.series(trained.frames.fitted)
    state = graph_at(model, frames, frames.fitted)
    for step in frames.tested:
        adopt(state, trained.ids[step - 1], trained.tables[step - 1], keep=False)
        begun = time.perf_counter()
        moved = state.apply(frames.batches[step]).moved
        series.look(step, ids_and_vectors(state), time.perf_counter() - begun, moved.rows)
    return series


def retrained(trained: Trained) -> Series:
    """Judge the base itself, trained on every snapshot; its rows are those of every epoch."""
    frames, series = trained.frames, trained.series(trained.frames.fitted)
    recipe = trained.recipe.base
    for step in frames.tested:
        rows = (recipe.warm or recipe.epochs) * len(trained.tables[step])
        series.look(step, trained.at(step), trained.seconds[step], rows)
    return series


def unchanged(trained: Trained) -> Series:
    """Judge the base of the step before, left as it is: what a rule must beat to be worth its update."""
    frames, series = trained.frames, trained.series(trained.frames.fitted)
    for step in frames.tested:
        series.look(step, trained.at(step - 1), 0.0, 0)
    return series


def rolled(model: Model, trained: Trained, first: int, steps: Sequence[int]) -> Series:
    """Judge a rule on its own output, from the base at step `first` on."""
    frames, series = trained.frames, trained.series(first)
    state = graph_at(model, frames, first)
    adopt(state, trained.ids[first], trained.tables[first], keep=False)
    for step in steps:
        begun = time.perf_counter()
        rows = state.apply(frames.batches[step]).moved.rows
        series.look(step, ids_and_vectors(state), time.perf_counter() - begun, rows)
    return series


def graph_at(model: Model, frames: Frames, step: int) -> State:
    """Return a state whose graph is that of a step; its vectors are worth nothing yet."""
    state = State(model)
    for batch in frames.batches[: step + 1]:
        delta = apply_batch(state.graph, batch)
        state.graph.release(delta.left)
    return state


def judge_paper_rules(
    frames: Frames, recipe: RollingRecipe, seed: int = 0, notify: Notify | None = None
) -> tuple[Trained, dict[str, Model], dict[str, Series]]:
    """Return bases, fitted rules, and what GCN retrained, each rule, and no update reach in one step."""
    trained = train_bases(frames, recipe, seed, notify=notify)
    models = {rule: fit_rule(rule, trained, notify=notify) for rule in RULES}
    found = {"gcn": retrained(trained), "unchanged": unchanged(trained)}
    return trained, models, found | {rule: one_step(model, trained) for rule, model in models.items()}
