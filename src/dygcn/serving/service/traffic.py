"""Counts, and how many of them a second."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_WINDOW = 5.0  # seconds


class Rate:
    """How fast a count grows, over the last seconds.

    Examples
    --------
    >>> clock = iter([0.0, 1.0, 2.0]).__next__
    >>> rate = Rate(clock)
    >>> rate.at(0), rate.at(100), rate.at(300)
    (0.0, 100.0, 150.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    def at(self, count: int) -> float:
        """Take the count now, and return its growth a second."""
        with self._lock:
            now = self._clock()
            self._seen.append((now, count))
            while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW:
                self._seen.popleft()
            then, before = self._seen[0]
        return (count - before) / (now - then) if now > then else 0.0
