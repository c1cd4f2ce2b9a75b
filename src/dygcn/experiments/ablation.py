"""What each part of the exact rule is worth: one fit, scored with and without it.

The score's few numbers are fitted anew for every row, on the same held-out training steps.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.events import cut_steps, read_events, sort_by_time
from dygcn.experiments.ours import Exact, event_table
from dygcn.live import LiveEmbedding
from dygcn.live.choices import Choices
from dygcn.live.fitting_exact import new_model
from dygcn.models import State
from dygcn.training import HeldOut, collect_samples, fit_heads, fit_matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.models import LinkHead
    from dygcn.records import Float32, Moment
    from dygcn.training import Recipe

COLUMNS = {
    "cosine": (0,),
    "cosine and degree": (0, 1, 2),
    "cosine, degree and contact": (0, 1, 2, 3),
    "degree and contact alone": (1, 2, 3),
}
UNTRAINED = "the same, matrices never trained"


class Prepared:
    """A fit taken apart: its state, its matrices, and a score for every row of the table."""

    def __init__(
        self, moments: Sequence[Moment], seed: int, dim: int, memory: float | None, recipe: Recipe
    ) -> None:
        choices = Choices(dim, 2, "exact", memory, seed, 256, False)
        batch = sort_by_time(read_events(event_table(moments)))
        parts = cut_steps(batch, None)
        model, _ = new_model(batch, parts, choices, "hashed")
        self.state = State(model)
        held_out = HeldOut(model, len(parts), recipe)
        samples = collect_samples(self.state, parts, seed, visit=partial(held_out.visit, self.state))
        start = np.concatenate(model.weights)
        without = held_out.matrices(samples, start, None)
        self._start, self._trained = start, fit_matrices(samples, start, recipe, seed)
        self._heads = {name: fit_heads(held_out.samples, without, used) for name, used in COLUMNS.items()}
        self._heads[UNTRAINED] = fit_heads(held_out.samples, start)

    def live_for(self, row: str, moments: Sequence[Moment]) -> LiveEmbedding:
        """Return the embedding with the score of a row, fitted on the moments that were prepared."""
        return self._with(self._start if row == UNTRAINED else self._trained, self._heads[row])

    def _with(self, matrices: Float32, heads: dict[str, LinkHead]) -> LiveEmbedding:
        state = copy.deepcopy(self.state)
        weights = tuple(np.split(matrices, state.model.orders + 1))
        state.model = dataclasses.replace(state.model, weights=weights, links=heads)
        return LiveEmbedding(state)


def ablated(moments: Sequence[Moment], seed: int, **options: Any) -> dict[str, Exact]:
    """Return a method for each row of the ablation table."""
    prepared = Prepared(moments, seed, **options)
    return {row: Exact(partial(prepared.live_for, row)) for row in (*COLUMNS, UNTRAINED)}
