"""A sink under test, and the model of its expected content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dygcn.errors import OtherHistory, SinkError
from dygcn.testing.sink_model import Held, SinkModel, made_up_history, make_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import History, Rows
    from dygcn.serving.sinks import Sink

DIM = 5


@dataclass(frozen=True)
class SinkTarget:
    """An empty target of its own, and a factory of sinks that write to it.

    Parameters
    ----------
    make
        Returns a new sink, not open yet; several may write to the target.
    read_all
        Returns the content, read without the sink. For a broker, see `dygcn.testing.sink_model.replayed`; for
        rows that say the kind of their node, `dygcn.testing.sink_model.named`.
    interrupt
        Kills the server and starts it again with its data, if there is one.
    """

    make: Callable[[], Sink]
    read_all: Callable[[], Held]
    interrupt: Callable[[], None] | None = None


Fresh: TypeAlias = "Callable[[], SinkTarget]"


class Trial:
    """An open sink, and the model of its expected content.

    Parameters
    ----------
    fresh
        Returns a new place.
    ids, dim
        What the sink is opened for: a type of ids, and a size.
    """

    def __init__(self, fresh: Fresh, ids: str, dim: int = DIM) -> None:
        self.place, self.model = fresh(), SinkModel()
        self.ids, self.dim = ids, dim
        self.sink = self.place.make()
        found = self.sink.open(ids, dim)
        expect(found is None, f"a sink that holds nothing was opened, and says that it holds {found}")

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()

    def write(self, moved: dict[Any, int], left: dict[Any, int] | None = None, **history: Any) -> None:
        """Write ids at versions: one write for each version, the lowest first."""
        left = left or {}
        for version in sorted({*moved.values(), *left.values()}) or [0]:
            self.write_rows(
                make_rows(_at(version, moved), _at(version, left), dim=self.dim, **history),
            )

    def write_rows(self, rows: Rows) -> None:
        """Write rows to the sink and to the model."""
        before = replace(rows, vectors=rows.vectors.copy())  # a sink may not write to what it is given
        self.sink.write(rows)
        self.model.write(before)

    def delete_below(self, floor: int, history: History | None = None) -> None:
        """Settle both; without a history at the newest position."""
        history = history or self.model.newest or made_up_history(0)
        self.sink.delete_below(floor, history)
        self.model.delete_below(floor, history)

    def reopen(self) -> None:
        """Open a new sink at the same place, and compare what it says with the model.

        A broker may say an earlier position of the same epoch, where an older write came late.
        """
        self.sink.close()
        self.sink = self.place.make()
        found, expected = self.sink.open(self.ids, self.dim), self.model.newest
        if found is None:  # then it holds nothing, and nothing is late there
            expect(not self.model.held(), "a sink that holds rows was opened, and says that it holds nothing")
            self.model.empty()
            return
        ours = expected is not None and found.epoch == expected.epoch and found.sequence <= expected.sequence
        expect(ours, f"the newest that was written is {expected}; open() says {found}")

    def compare(self, when: str) -> None:
        """Raise an AssertionError unless the place holds what the model does."""
        expected, found = self.model.held(), self.place.read_all()
        if ":" in self.ids:
            expected = {(str(id_).partition(":")[0], str(id_)): row for id_, row in expected.items()}
        expect(expected.keys() == found.keys(), f"{when}: {_differ(expected, found)}")
        for id_, (history, vector) in expected.items():
            there, stored = found[id_]
            expect(there == history, f"{when}: {id_!r} is of {there}, expected {history}")
            same = np.asarray(stored, np.float32).tobytes() == vector.tobytes()
            expect(same, f"{when}: {id_!r} has the vector {stored}, expected {vector}, bit for bit")


def _at(version: int, ids: dict[Any, int]) -> dict[Any, int]:
    return {id_: at for id_, at in ids.items() if at == version}


def expect(truth: bool, otherwise: str) -> None:
    """Raise an AssertionError that says what was expected."""
    if not truth:
        raise AssertionError(otherwise)


def expect_error(of: str, what: Callable[..., object], *arguments: object) -> None:
    """Raise an AssertionError unless a call raises a SinkError."""
    try:
        what(*arguments)
    except SinkError:
        return
    raise AssertionError(f"{of} was not refused with a SinkError")


def expect_other_history(of: str, what: Callable[..., object], *arguments: object) -> None:
    """Raise an AssertionError unless a call raises OtherHistory."""
    try:
        what(*arguments)
    except OtherHistory:
        return
    raise AssertionError(f"{of} was not refused with OtherHistory")


def _differ(expected: Held, found: Held) -> str:
    missing = sorted(map(repr, expected.keys() - found.keys()))[:5]
    beyond = sorted(map(repr, found.keys() - expected.keys()))[:5]
    return f"missing are {missing or 'none'}, not expected are {beyond or 'none'}"
