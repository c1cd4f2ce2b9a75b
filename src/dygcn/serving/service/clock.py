"""The latest time that an event may have, by the service's clock and the graph's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from dygcn.engine.models.contracts import StateWriter
from dygcn.live.embedding import usual_jump

Jump: TypeAlias = float | Literal["usual", "any"]
"""How far the graph's clock may jump: in units of t, by the rule of `usual_jump`, or as far as it likes."""
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
AHEAD = 300.0  # seconds that an event may be ahead of the clock


def latest_of(state: StateWriter, unit: str | None, jump: Jump) -> float | None:
    """Return the latest time that an event may have, by both clocks; None: no limit."""
    clock = state.graph.clock
    by_wall = None if unit is None else (time.time() + AHEAD) * UNITS[unit]
    if jump == "any" or clock is None:
        return by_wall
    ahead = usual_jump(state) if jump == "usual" else float(jump)
    by_graph = clock + (ahead or 0.0)
    return by_graph if by_wall is None else min(by_wall, by_graph)


class EventClock:
    """The time limits of events now. Reading them takes no lock."""

    def __init__(self, state: StateWriter, unit: str | None, jump: Jump) -> None:
        self._state, self._unit, self._jump = state, unit, jump
        self._trials = 0  # odd while one is made
        self._before_trial: float | None = None

    def now(self) -> float | None:
        """Return the time now, in the unit of events; None where no unit is declared."""
        return None if self._unit is None else time.time() * UNITS[self._unit]

    def latest(self) -> float | None:
        """Return the latest time that an event may have now; None: no limit."""
        while True:
            trials, found = self._trials, self._before_trial
            if trials % 2 == 0:  # else the clock is that of a trial
                found = latest_of(self._state, self._unit, self._jump)
            if trials == self._trials:
                return found

    @contextmanager
    def during_trial(self) -> Iterator[None]:
        """Hide the clock of a trial from other threads; called in the writing thread."""
        self._before_trial = self.latest()
        self._trials += 1
        try:
            yield
        finally:
            self._trials += 1
