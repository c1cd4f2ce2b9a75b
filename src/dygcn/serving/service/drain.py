"""The end of the process: one deadline for everything that has to be done before it."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

_LOG = logging.getLogger(__name__)
_FOR_REQUESTS, _LONGEST_FOR_REQUESTS = 0.3, 10.0  # of the whole; seconds
_FOR_SOURCES = 0.5  # of the whole, with what went before
_TO_CLOSE, _LONGEST_TO_CLOSE = 0.25, 1.0  # of the whole, at the end; seconds


class Drain:
    """The deadline, from the moment at which the drain began."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self.until = float("inf")

    @property
    def begun(self) -> bool:
        """Whether the service is going down."""
        return self.until < float("inf")

    @property
    def left(self) -> float:
        """How many seconds are left; infinite before the drain began."""
        return self.until - self._clock()

    @property
    def for_requests(self) -> float:
        """Seconds for requests that are being answered; then they are cut off."""
        return min(_FOR_REQUESTS * self.seconds, _LONGEST_FOR_REQUESTS)

    @property
    def sources_until(self) -> float:
        """When a source that does not end is waited for no longer."""
        return self.until - (1 - _FOR_SOURCES) * self.seconds

    @property
    def sinks_until(self) -> float:
        """When sinks have to be done, so that the folder can be closed in time."""
        return self.until - min(_TO_CLOSE * self.seconds, _LONGEST_TO_CLOSE)

    def begin(self) -> None:
        """Set the deadline, the first time."""
        if not self.begun:
            self.until = self._clock() + self.seconds

    def enforce(self) -> None:
        """Begin, and end the process at the deadline whatever it does then. For a process of our own only.

        What was acknowledged is in the log, so nothing is lost; the next start replays what is behind the
        last snapshot.
        """
        self.begin()
        threading.Thread(target=self._enforce, name="dygcn-deadline", daemon=True).start()

    def _enforce(self) -> None:
        time.sleep(max(self.left, 0.0))
        _LOG.error("the drain took longer than %g s; the rest is left to the next start", self.seconds)
        _leave(1)


def leave_behind(names: Sequence[str]) -> None:
    """Let the process end without threads that cannot be interrupted, as one that learns an index in C."""
    if names:
        _LOG.warning("the process ends without waiting for: %s", ", ".join(names))
        atexit.register(_leave, 0)


def leave_now(code: int) -> None:
    """End the process at once, as a crash would."""
    _LOG.error("asked to stop a second time: the process ends at once")
    _leave(code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
