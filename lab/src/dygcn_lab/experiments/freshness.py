"""What keeps vectors fresh: the exact rule over rows that grow old, rows made anew at every step, or both.

*Frozen rows* are the rows of the model as they are, for ever; who has none has a zero vector. *Rows anew*
factorises the graph at every step, and takes the rows themselves for vectors. *Both* runs the exact
rule over those rows. The exact rule over the old rows is `Exact`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.models.state import State
from dygcn.engine.training.fitting_walks import with_rows
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.evaluation import VectorMethod
from dygcn_lab.experiments.ours import Exact, event_table
from dygcn_lab.experiments.tables import by_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dygcn.engine.models.model import Model
    from dygcn.engine.records import Float32
    from dygcn_lab.evaluation.steps import Moment


def row_vectors(model: Model, nodes: int) -> Float32:
    """Return the rows of a model by number, zero where there is none."""
    assert model.table is not None
    rows = model.table.rows.astype(np.float32) * np.float32(model.table.scale / 128)
    return by_number(model.table.ids.values, rows, nodes)


class FrozenRows(VectorMethod):
    """The rows of the model as they are."""

    def __init__(self, fitting: Callable[[Sequence[Moment]], LiveEmbedding]) -> None:
        self._fitting = fitting

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Fit."""
        self._table = row_vectors(self._fitting(moments).model, nodes)

    def follow(self, moment: Moment) -> None:
        """Do nothing."""

    def vectors(self) -> Float32:
        """Return the rows."""
        return self._table


class Anew(Exact):
    """Rows made anew at every step, read by the exact rule; the rows are kept for `RowsAnew`."""

    def __init__(self, fitting: Callable[[Sequence[Moment]], LiveEmbedding]) -> None:
        super().__init__(fitting)
        self.models: list[Model] = []
        self.seconds: list[float] = []  # of the factorisation alone

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Fit."""
        super().begin(moments, nodes)
        self.models = [self.live.model]

    def follow(self, moment: Moment) -> None:
        """Play the step, factorise, compute all vectors."""
        self.live.update(event_table([moment], self._step))
        self._step += 1
        begun = time.perf_counter()
        graph = self.live._state.graph
        model = with_rows(self.live.model, graph)
        self.seconds.append(time.perf_counter() - begun)
        self.models.append(model)
        self.live = LiveEmbedding(State.from_graph(model, graph))
        self._table = by_number(*self._read(), self._nodes)


class RowsAnew(VectorMethod):
    """The rows that `Anew` made, themselves; it must have gone through the same steps before."""

    def __init__(self, anew: Anew) -> None:
        self._anew = anew

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Take the first rows."""
        self._nodes, self._at = nodes, 0

    def follow(self, moment: Moment) -> None:
        """Take the next rows."""
        self._at += 1

    def vectors(self) -> Float32:
        """Return the rows."""
        return row_vectors(self._anew.models[self._at], self._nodes)
