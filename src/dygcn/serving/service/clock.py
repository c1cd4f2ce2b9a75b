"""Times that events may have: not far ahead of the service's clock, nor of the graph's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from dygcn.live.clock import usual_jump

if TYPE_CHECKING:
    from dygcn.engine.models import State

Jump: TypeAlias = float | Literal["usual", "any"]
"""How far the graph's clock may jump: in units of t, by the rule of `usual_jump`, or as far as it likes."""
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
AHEAD = 300.0  # seconds that an event may be ahead of the clock


def latest_time(unit: str | None) -> float | None:
    """Return the latest time that an event may have; None where no unit is declared.

    Examples
    --------
    >>> latest_time(None) is None, latest_time("ms") > 1e12
    (True, True)
    """
    now = now_in(unit)
    return None if now is None or unit is None else now + AHEAD * UNITS[unit]


def now_in(unit: str | None) -> float | None:
    """Return the time now, in the unit of events; None where no unit is declared."""
    return None if unit is None else time.time() * UNITS[unit]


def latest_of(state: State, unit: str | None, jump: Jump) -> float | None:
    """Return the latest time that an event may have, by both clocks; None: any.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit({"src": [1, 2], "dst": [2, 3], "t": [5.0, 6.0]}, dim=4)
    >>> latest_of(live._state, None, 100.0), latest_of(live._state, None, "any") is None
    (106.0, True)
    """
    by_wall, clock = latest_time(unit), state.graph.clock
    if jump == "any" or clock is None:
        return by_wall
    ahead = usual_jump(state) if jump == "usual" else float(jump)
    by_graph = clock + (ahead or 0.0)
    return by_graph if by_wall is None else min(by_wall, by_graph)
