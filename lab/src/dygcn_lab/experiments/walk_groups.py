"""Cells of walk features: the default of `fit`, and what keeps it fresh."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.records import Float32
from dygcn.engine.training.fitting import with_rows
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.evaluation import Method, VectorMethod, judge_method
from dygcn_lab.evaluation.method import by_number
from dygcn_lab.evaluation.steps import Moment
from dygcn_lab.experiments.cells import Record, rounded
from dygcn_lab.experiments.ours import DoNothing, Exact, SharedFit, choose_memory, event_table
from dygcn_lab.experiments.row_bits import BITS, RoundedRows

if TYPE_CHECKING:
    from dygcn_lab.experiments.groups import Task

DIM = 128  # the default of `fit`


def options_of(task: Task) -> dict[str, Any]:
    """Return the options of `fit`: its defaults."""
    return {"dim": DIM, "features": "walks", **task.settings}


def walks(task: Task) -> dict[str, Record]:
    """The default of `fit`, and doing nothing; where edges go, also with a half-life chosen in training."""
    options, notes = options_of(task), {}
    fitting = SharedFit(task.seed, **options)
    methods: dict[str, Method] = {"walks": Counted(fitting), "walks-do-nothing": DoNothing(fitting)}
    fitted = task.steps.moments[: task.steps.fitted + 1]
    if any((moment.op < 0).any() for moment in fitted):
        half_life = choose_memory(fitted, task.steps.nodes, 1, **options)
        notes["memory"] = half_life
        methods["walks-memory"] = Counted(SharedFit(task.seed, **options, memory=half_life))
    found = {name: task.judge(method) for name, method in methods.items()}
    for name, method in methods.items():
        if isinstance(method, Counted):
            table = method.live.model.table
            assert table is not None
            more = {**notes, "window": table.window, "rows": len(table)}
            figures = {**found[name].figures, "unreached": [round(share, 5) for share in method.unreached]}
            found[name] = msgspec.structs.replace(found[name], notes=more, figures=figures)
    return found


class Counted(Exact):
    """The exact rule over walk features; notes the share of nodes that no row reaches."""

    def follow(self, moment: Moment) -> None:
        """Update, read, and count."""
        super().follow(moment)
        self.unreached.append(self.live.unreached / max(len(self.live), 1))

    def begin(self, moments: Any, nodes: int) -> None:
        """Fit."""
        self.unreached: list[float] = []
        super().begin(moments, nodes)


def row_bits(task: Task) -> dict[str, Record]:
    """Rows of fewer and fewer bits."""
    ways: dict[str, dict[str, Any]] = {
        "as made" if bits is None else f"{bits} bits": {"bits": bits} for bits in BITS
    }
    return _in_training(task, ways)


def cores(task: Task) -> dict[str, Record]:
    """Rows of shorter walks, and rows for fewer nodes."""
    ways: dict[str, dict[str, Any]] = {
        "as many steps as fit": {},
        "one step": {"window": 1},
        "one step, half of the nodes": {"window": 1, "share": 0.5},
        "one step, a fifth of the nodes": {"window": 1, "share": 0.2},
    }
    return _in_training(task, ways)


def _in_training(task: Task, ways: dict[str, dict[str, Any]]) -> dict[str, Record]:
    """Judge rows made at three quarters of the fitted steps on the other fitted steps."""
    moments = task.steps.moments[: task.steps.fitted + 1]
    fitted = min(int(np.ceil(0.75 * (len(moments) - 1))), len(moments) - 3)
    found = {}
    for name, way in ways.items():
        method = RoundedRows(task.seed, DIM, **way)
        figures, seconds = judge_method(method, moments, task.steps.nodes, fitted)
        found[name] = Record(rounded(figures), seconds)
    return found


def freshness(task: Task) -> dict[str, Record]:
    """Rows that stay, the exact rule over them, rows made anew at every step, and both; no ranking."""
    fitting = SharedFit(task.seed, **options_of(task))
    anew = Anew(fitting)
    methods: dict[str, Callable[[], Method]] = {
        "exact rule over old rows": lambda: Exact(fitting),
        "frozen rows": lambda: FrozenRows(fitting),
        "nothing updated": lambda: DoNothing(fitting),
        "rows anew and the exact rule": lambda: anew,
        "rows anew": lambda: RowsAnew(anew),
    }
    found = {name: task.judge(method()) for name, method in methods.items()}
    # The rows were made while both were judged; who takes the rows alone would have had to make them, too.
    rows = found["rows anew"]
    seconds = [float(f"{value:.5g}") for value in anew.seconds]
    found["rows anew"] = msgspec.structs.replace(rows, figures={**rows.figures, "seconds": seconds})
    cost = {"factorising": float(np.median(seconds))} if seconds else {}
    return {name: msgspec.structs.replace(record, notes=cost) for name, record in found.items()}


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
