"""Start and end of a service: warm-up, readiness, and one deadline for the drain."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from dygcn.errors import DygcnError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.web import arrow_answer

_LOG = logging.getLogger(__name__)
_FOR_REQUESTS, _LONGEST_FOR_REQUESTS = 0.3, 10.0  # of the whole; seconds
_FOR_SOURCES = 0.5  # of the whole, with what went before
_TO_CLOSE, _LONGEST_TO_CLOSE = 0.25, 1.0  # of the whole, at the end; seconds
_BETWEEN = 0.2  # seconds between two tries


class Drain:
    """The deadline of a drain."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock, self.begun = seconds, clock, False
        self.for_requests = min(_FOR_REQUESTS * seconds, _LONGEST_FOR_REQUESTS)  # then connections are cut
        self.until = self.sources_until = self.sinks_until = float("inf")

    @property
    def left(self) -> float:
        """The seconds left; infinite before the drain begins."""
        return self.until - self._clock()

    def begin(self) -> None:
        """Set the deadlines, the first time."""
        if not self.begun:
            self.until = self._clock() + self.seconds
            self.sources_until = self.until - (1 - _FOR_SOURCES) * self.seconds
            self.sinks_until = self.until - min(_TO_CLOSE * self.seconds, _LONGEST_TO_CLOSE)  # then it closes
            self.begun = True

    def enforce(self) -> None:
        """Begin the drain, and end the process at the deadline in any case. For a process of its own only.

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
    """End the process without waiting for threads that cannot be interrupted, such as C code."""
    if names:
        _LOG.warning("the process ends without waiting for: %s", ", ".join(names))
        atexit.register(_leave, 0)


def leave_now(code: int) -> None:
    """End the process immediately, as a crash would."""
    _LOG.error("asked to stop a second time: the process ends at once")
    _leave(code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


# ---- the beginning ------------------------------------------------------------------------------------


class Readiness:
    """Probes the service like a request, until it answers."""

    def __init__(
        self, live: DurableEmbedding, drain: Drain, probe: Callable[[], None], observations: Observations
    ) -> None:
        self._live, self._drain, self._probe, self._seen = live, drain, probe, observations
        self._reason: str | None = "the service starts"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dygcn-ready", daemon=True)

    def start(self) -> None:
        """Begin to probe."""
        self._thread.start()

    def stop(self) -> None:
        """Stop probing."""
        self._stop.set()

    def reason(self) -> str | None:
        """Return why requests should not come; None: the service is ready. Never waits."""
        if self._drain.begun:
            return "the service is going down"
        if self._is_torn():
            return "an update was cut off within the state; restart the service"
        return self._reason

    def _is_torn(self) -> bool:
        """Return whether an update was interrupted; a running update holds the lock, and is not."""
        live = self._live
        if not live._state.torn or not live.lock.acquire(blocking=False):
            return False
        try:
            return live._state.torn
        finally:
            live.lock.release()

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self._probe()
            except DygcnError as error:
                self._reason = f"a read or a search is not answered yet: {error}"
                self._stop.wait(_BETWEEN)
            else:
                self._reason = None
                self._seen.begun_serving()
                return


# ---- warming ---------------------------------------------------------------------------------------------


def warm_up() -> None:
    """Import what first requests would: NumPy's random numbers, and pandas where pyarrow finds it."""
    importlib.import_module("numpy.random")
    arrow_answer({"id": pa.array(["0", "1"])}, np.zeros((2, 1), np.float32), 0)
