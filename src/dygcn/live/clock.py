"""How far the clock of a graph may jump at once: one `t` in another unit would move it for good."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from dygcn.engine.events import moment
from dygcn.errors import ClockWarning

if TYPE_CHECKING:
    from dygcn.engine.models.contracts import StateReader
    from dygcn.engine.records import EventBatch

SPANS, TIMES = 1000.0, 10.0


def usual_jump(state: StateReader) -> float | None:
    """Return the largest plausible jump of the clock; None if there is no clock or no time was seen yet.

    A thousand half-lives of the memory, a thousand training steps, or nine times the clock itself, whichever
    is most: seconds that become milliseconds are beyond it, a service that was off for a year is not.
    """
    model, clock = state.model, state.graph.clock
    if clock is None:
        return None
    spans = SPANS * (model.half_life or 0.0), SPANS * (model.unit or 0.0)
    return max(*spans, (TIMES - 1.0) * abs(clock))


def warn_of_jump(state: StateReader, batch: EventBatch, now: float | None) -> None:
    """Warn, before anything changes, if times are implausibly far ahead of the clock."""
    if now is None and batch.t is None:
        return
    jump = usual_jump(state)
    if jump is None:
        return
    seen = [] if now is None else [moment(now)]
    if batch.t is not None and len(batch):
        seen.append(float(batch.t.max()))
    latest = max(seen, default=-float("inf"))
    clock = state.graph.clock
    assert clock is not None
    if latest > clock + jump:
        warnings.warn(
            f"t is {latest:g} and the clock is at {clock:g}: is t in another unit? The clock never goes "
            "back, and takes with it what is remembered of removed edges, and edges that expire",
            ClockWarning,
            stacklevel=4,
        )
