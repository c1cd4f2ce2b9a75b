"""The service's clock, in the unit that events are dated in."""

from __future__ import annotations

import time

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
AHEAD = 300.0  # seconds that an event may be ahead of the clock


def latest_time(unit: str | None) -> float | None:
    """Return the latest time that an event may have; None where no unit is declared.

    Examples
    --------
    >>> latest_time(None) is None, latest_time("ms") > 1e12
    (True, True)
    """
    return None if unit is None else (time.time() + AHEAD) * UNITS[unit]
