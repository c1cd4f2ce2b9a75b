"""The paper's comparison, one step from a fresh base: GCN retrained, rolling, spectral.

The base at t - 1 is trained on that snapshot, one update leads to t, and the vectors at t must tell the edges
at t + 1 from strangers. The first half of the steps is fitted on, the second half is judged.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dygcn.evaluation import Snapshots, auc, f1_at_median, link_scores
from dygcn.events import read_events
from dygcn.experiments.link_prediction import by_number
from dygcn.live.choices import Choices
from dygcn.live.fitting_paper import new_model
from dygcn.models import Paper, State, norms
from dygcn.propagation import RollingRule
from dygcn.training.bases import base_vectors, fit_base, keep_last
from dygcn.training.history import play, play_history
from dygcn.training.rolled import first_matrices, fit_rolled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.experiments.link_prediction import Steps
    from dygcn.models import Base, Model
    from dygcn.records import EventBatch, Float32, IdColumn, Int64
    from dygcn.training import RollingRecipe

Notify = Callable[[int, int, str], None]
DIM, ORDERS = 100, 2  # the paper's
RULES = ("rolling", "spectral")


@dataclass(frozen=True)
class Frames:
    """A graph that changes, step by step: events, and the edges after them."""

    batches: list[EventBatch]
    edges: list[Int64]  # (e, 2) at each step
    nodes: int
    fitted: int  # the last step that is fitted on

    @classmethod
    def of(cls, steps: Steps) -> Frames:
        """Cut numbered events into batches."""
        graph, batches, edges = Snapshots(), [], []
        for step in range(steps.last + 1):
            part = steps.part(step, step)
            edges.append(graph.apply(part.src, part.dst, part.op))
            batches.append(read_events(part.table()))
        return cls(batches, edges, int(max(steps.src.max(), steps.dst.max())) + 1, steps.fitted)

    @property
    def tested(self) -> range:
        """Steps whose vectors are judged by the edges of the next."""
        return range(self.fitted + 1, len(self.edges) - 1)


@dataclass
class Series:
    """What was measured at each step."""

    auc: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)  # rows of vectors computed
    length: list[float] = field(default_factory=list)  # mean length of the vectors
    zero: list[float] = field(default_factory=list)  # share of the vectors that are zero

    def judge(self, ids: Int64, vectors: Float32, frames: Frames, step: int, seed: int) -> None:
        """Note how well the vectors of a step tell the edges of the next one from strangers."""
        table = by_number(ids, vectors, frames.nodes)
        scores = link_scores(table, frames.edges[step + 1], np.random.default_rng([seed, step]))
        self.auc.append(auc(*scores))
        self.f1.append(f1_at_median(*scores))
        lengths = norms(vectors)
        self.length.append(float(lengths.mean()))
        self.zero.append(float((lengths == 0).mean()))

    def means(self) -> dict[str, float]:
        """Return the mean of each measure; of the seconds the median."""
        values = dataclasses.asdict(self)
        return {
            name: float(np.median(series) if name == "seconds" else np.mean(series))
            for name, series in values.items()
            if series
        }


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


def empty_model(frames: Frames, rule: str, recipe: RollingRecipe, seed: int) -> Model:
    """Return a model of the paper's size before anything is learned."""
    choices = Choices(DIM, ORDERS, rule, None, seed, 256, False)
    return new_model(frames.batches[0], choices, "gcn", recipe)


def train_bases(frames: Frames, recipe: RollingRecipe, seed: int, notify: Notify | None = None) -> Trained:
    """Train the base on every snapshot, from the first to the last."""
    model = empty_model(frames, "rolling", recipe, seed)
    ids, snapshots, tables, seconds = [], [], [], []
    last: Base | None = None
    bases = []
    for step, (graph, snapshot, _) in enumerate(play(model, frames.batches, recipe.base.aggregation)):
        begun = time.perf_counter()
        last = fit_base("gcn", [snapshot], DIM, recipe.base, seed, last)
        bases.append(last)
        tables.append(base_vectors(last, snapshot))
        seconds.append(time.perf_counter() - begun)
        ids.append(graph.ids.names(snapshot.nodes))
        snapshots.append(snapshot)
        if notify is not None:
            notify(step + 1, len(frames.batches), "training bases")
    return Trained(frames, recipe, seed, ids, keep_last(snapshots, tables), seconds, bases[frames.fitted])


def fit_rule(rule: str, trained: Trained, recipe: RollingRecipe, notify: Notify | None = None) -> Model:
    """Fit the matrices of a rule on the first half of the steps."""
    frames, fitted = trained.frames, trained.frames.fitted
    model = empty_model(frames, rule, recipe, trained.seed)
    history = play_history(model, frames.batches[: fitted + 1], recipe.base.aggregation)
    spectral = rule == "spectral"
    start = first_matrices(DIM, model.orders, spectral, recipe.start, trained.seed)
    tables = trained.tables[: fitted + 1]
    weights = fit_rolled(history, tables, start, recipe, spectral, trained.seed, notify)
    return dataclasses.replace(
        model, weights=weights, paper=Paper(recipe.options, trained.base, recipe.watch)
    )


def ids_and_vectors(state: State) -> tuple[Int64, Float32]:
    """Return what a rolled state holds."""
    assert isinstance(state.rule, RollingRule)
    here = state.graph.nodes()
    return state.graph.ids.names(here).values, state.rule.vectors(here)


def one_step(model: Model, trained: Trained) -> Series:
    """Judge a rule one step from a fresh base, at every tested step."""
    frames, series = trained.frames, Series()
    state = _at(model, frames, frames.fitted)
    for step in frames.tested:
        state.adopt(trained.ids[step - 1], trained.tables[step - 1], keep=False)
        begun = time.perf_counter()
        moved = state.apply(frames.batches[step]).moved
        series.seconds.append(time.perf_counter() - begun)
        series.rows.append(moved.rows)
        series.judge(*ids_and_vectors(state), frames, step, trained.seed)
    return series


def retrained(trained: Trained) -> Series:
    """Judge the base itself, trained on every snapshot; its rows are those of every epoch."""
    frames, series = trained.frames, Series()
    recipe = trained.recipe.base
    for step in frames.tested:
        series.judge(trained.ids[step].values, trained.tables[step], frames, step, trained.seed)
        series.seconds.append(trained.seconds[step])
        series.rows.append((recipe.warm or recipe.epochs) * len(trained.tables[step]))
    return series


def unchanged(trained: Trained) -> Series:
    """Judge the base of the step before, left as it is: what a rule must beat to be worth its update."""
    frames, series = trained.frames, Series()
    for step in frames.tested:
        series.judge(trained.ids[step - 1].values, trained.tables[step - 1], frames, step, trained.seed)
        series.seconds.append(0.0)
        series.rows.append(0)
    return series


def rolled(model: Model, trained: Trained, first: int, steps: Sequence[int]) -> Series:
    """Judge a rule on its own output, from the base at step `first` on."""
    frames, series = trained.frames, Series()
    state = _at(model, frames, first)
    state.adopt(trained.ids[first], trained.tables[first], keep=False)
    for step in steps:
        begun = time.perf_counter()
        series.rows.append(state.apply(frames.batches[step]).moved.rows)
        series.seconds.append(time.perf_counter() - begun)
        series.judge(*ids_and_vectors(state), frames, step, trained.seed)
    return series


def _at(model: Model, frames: Frames, step: int) -> State:
    """Return a state whose graph is that of a step; its vectors are worth nothing yet."""
    state = State(model)
    for batch in frames.batches[: step + 1]:
        delta = state.graph.apply(batch)
        state.graph.release(delta.left)
    return state


def judge_paper_rules(
    frames: Frames, recipe: RollingRecipe, seed: int = 0, notify: Notify | None = None
) -> tuple[Trained, dict[str, Model], dict[str, Series]]:
    """Return bases, fitted rules, and what GCN retrained, each rule, and no update reach in one step."""
    trained = train_bases(frames, recipe, seed, notify)
    models = {rule: fit_rule(rule, trained, recipe, notify) for rule in RULES}
    found = {"gcn": retrained(trained), "unchanged": unchanged(trained)}
    return trained, models, found | {rule: one_step(model, trained) for rule, model in models.items()}
