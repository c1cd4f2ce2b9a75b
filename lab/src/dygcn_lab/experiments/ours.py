"""The exact rule as a method that is judged, beside the two rows that a user should always see.

*Do nothing* keeps the vectors (and the score) of the moment at which fitting ended. *Fixed weights*
recomputes with the starting matrices, never trained. *Retrained* fits everything anew at every step.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dygcn.engine.records import Float32, Float64, IdColumn, Int64, Nodes
from dygcn.engine.training import Recipe
from dygcn.engine.training.matrices import starting_matrices
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.fitting import fit
from dygcn_lab.evaluation import judge_method
from dygcn_lab.evaluation.method import by_number
from dygcn_lab.evaluation.steps import Moment

HALF_LIVES = (None, 1.0, 4.0, 16.0)  # in steps
WIDTHS = (256, 512, 1024)
LINKS = {"all": "all", "new-warm": "new", "never": "new"}


def event_table(moments: Sequence[Moment], first: int = 0) -> dict[str, Any]:
    """Return the events of moments as `dygcn.fit` and `update` take them, with times in steps.

    Where no more is known of a time than the step, it is the number of the moment.
    """
    parts = {name: [getattr(moment, name) for moment in moments] for name in ("src", "dst", "op")}
    times = [
        np.full(len(moment.src), float(number)) if moment.t is None else moment.t
        for number, moment in enumerate(moments, first)
    ]
    return {**{name: np.concatenate(columns) for name, columns in parts.items()}, "t": np.concatenate(times)}


def fit_on(moments: Sequence[Moment], seed: int, **options: Any) -> LiveEmbedding:
    """Fit on moments, each of them a step."""
    return fit(event_table(moments), seed=seed, steps=list(range(len(moments))), **options)


def choose(
    moments: Sequence[Moment],
    nodes: int,
    recipe: Recipe,
    name: str,
    values: Sequence[Any],
    figure: str = "cosine.auc.all.uniform",
    **options: Any,
) -> Any:
    """Return the value of an option of `fit` whose figure is best on the last quarter of the moments.

    Fitted on the moments before. Nothing but the moments that may be fitted on is looked at.
    """
    if len(moments) < 4:
        return values[0]
    fitted = min(int(np.ceil(0.75 * (len(moments) - 1))), len(moments) - 3)
    found = []
    for value in values:
        method = Exact(SharedFit(0, recipe=recipe, **{**options, name: value}))
        figures, _ = judge_method(method, moments, nodes, fitted)
        found.append(float(np.nanmean(figures[figure])))
    return values[int(np.argmax(found))]


def choose_memory(moments: Sequence[Moment], nodes: int, rounds: int, **options: Any) -> float | None:
    """Return the half-life that does best in training; a graph that never loses an edge needs none."""
    if all((moment.op > 0).all() for moment in moments):
        return None
    recipe = Recipe(rounds=rounds, held_out=0.0)
    half_life: float | None = choose(moments, nodes, recipe, "memory", HALF_LIVES, **options)
    return half_life


class SharedFit:
    """Fits once, and hands out copies: the rows of one table start from the same embedding."""

    def __init__(self, seed: int, **options: Any) -> None:
        self._seed, self._options = seed, options
        self._live: LiveEmbedding | None = None

    def __call__(self, moments: Sequence[Moment]) -> LiveEmbedding:
        """Return a copy of the embedding fitted on the moments of the first call."""
        if self._live is None:
            self._live = fit_on(moments, self._seed, **self._options)
        return copy.deepcopy(self._live)


class Exact:
    """The exact rule: fitted on the first half, updated through the second."""

    def __init__(self, fitting: Callable[[Sequence[Moment]], LiveEmbedding]) -> None:
        self._fitting = fitting

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Fit."""
        self.live = self._fitting(moments)
        self._step = len(moments)
        self._nodes = nodes
        self._table = by_number(*self._read(), nodes)

    def follow(self, moment: Moment) -> None:
        """Update, and read the vectors that moved."""
        change = self.live.update(event_table([moment], self._step))
        self._step += 1
        self._table[change.left] = 0
        self._table[change.ids] = change.vectors

    def _read(self) -> tuple[Int64, Float32]:
        ids = self.live.ids()
        return ids, self.live.vectors(ids)

    def vectors(self) -> Float32:
        """Return the vectors."""
        return self._table

    def score(self, pairs: Int64, task: str) -> Float64 | None:
        """Return the score of links for pairs; a node that is not there yet has neither vector nor traits."""
        return self.live._scores_of(self._find(pairs[:, 0]), self._find(pairs[:, 1]), LINKS[task])

    def _find(self, numbers: Int64) -> Nodes:
        return self.live._state.graph.find(IdColumn(np.ascontiguousarray(numbers)))


class DoNothing(Exact):
    """The embedding as it was when fitting ended, for ever."""

    def follow(self, moment: Moment) -> None:
        """Do nothing."""


class FixedWeights(Exact):
    """The exact rule with the matrices that training starts from."""

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Fit, and put the starting matrices in place of the trained ones."""
        super().begin(moments, nodes)
        model = self.live.model
        start = starting_matrices(model.width, model.dim, model.orders, model.seed)
        self.live._state.model = dataclasses.replace(model, weights=start)
        self._table = by_number(*self._read(), nodes)


class Retrained(Exact):
    """Everything fitted anew at every step, on all that has happened."""

    def __init__(self, seed: int, **options: Any) -> None:
        self._seed, self._options = seed, options
        super().__init__(SharedFit(seed, **options))

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Fit."""
        self._past = list(moments)
        super().begin(moments, nodes)

    def follow(self, moment: Moment) -> None:
        """Fit again."""
        self._past.append(moment)
        self.live = fit_on(self._past, self._seed, **self._options)
        self._table = by_number(*self._read(), self._nodes)
