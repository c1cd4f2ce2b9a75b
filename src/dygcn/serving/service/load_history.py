"""An hour of load, sampled every few seconds, and percentiles of the last minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from dygcn.schema import answers
from dygcn.serving.observing.metrics import Distribution, RequestCounts, distribution
from dygcn.serving.service.routes import ROUTES, V1

if TYPE_CHECKING:
    from dygcn.serving.service.service import Service

INTERVAL, KEPT = 5.0, 720  # seconds between two samples, and how many are kept: an hour
_MINUTE = 12  # samples
_PAGES_OWN = ("get_changes", "get_status", "get_map", "get_history")  # what the page asks all the time
WRITES = (f"{V1}/events",)
READS = tuple(
    one.path
    for one in ROUTES
    if one.scope == "read" and one.path.startswith(V1) and one.handler not in _PAGES_OWN
)


class LoadHistory:
    """Samples the load of a service in a thread of its own; any thread may ask.

    Times come from the monotonic clock, begun at the time of day, so they never go back.

    Parameters
    ----------
    service
        Whose load it is.
    clock
        The monotonic clock.
    """

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._offset = time.time() - clock()
        self._samples: deque[answers.LoadSample] = deque(maxlen=KEPT)
        self._minute: deque[_Counted] = deque(maxlen=_MINUTE + 1)
        self._minute.append(_Counted(service, self._now()))
        self._latency = self._measured(self._minute[0])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dygcn-load", daemon=True)

    def start(self) -> None:
        """Begin to take samples."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.sample()

    def _now(self) -> float:
        return self._clock() + self._offset

    def sample(self) -> None:
        """Take one sample; one thread does."""
        before, now = self._minute[-1], _Counted(self._service, self._now())
        seconds = now.time - before.time
        if seconds <= 0:
            return
        self._minute.append(now)
        queue = self._service.ingest_queue
        self._samples.append(
            answers.LoadSample(
                now.time,
                max(now.events - before.events, 0) / seconds,
                max(now.reads - before.reads, 0) / seconds,
                _milliseconds(now.lag.since(before.lag), 0.99),
                _milliseconds(now.seconds_since(before, READS), 0.99),
                _milliseconds(now.seconds_since(before, WRITES), 0.99),
                queue.events,
            )
        )
        self._latency = self._measured(now)

    def _measured(self, now: _Counted) -> answers.LatencyStatus:
        before = self._minute[0]
        return answers.LatencyStatus(
            now.time - before.time,
            _percentiles(now.seconds_since(before, READS)),
            _percentiles(now.seconds_since(before, WRITES)),
            _percentiles(now.lag.since(before.lag)),
            {
                route: found
                for route in now.requests.seconds
                if (found := _percentiles(now.seconds_since(before, (route,)))).count
            },
        )

    def latency(self) -> answers.LatencyStatus:
        """Return percentiles of the last minute, at most `INTERVAL` old."""
        return self._latency

    def since(self, moment: float = 0.0) -> answers.LoadSamples:
        """Return the samples behind a moment, in seconds since 1970, oldest first."""
        found = [one for one in list(self._samples) if one.time > moment]
        return answers.LoadSamples(self._service.live.sequence, self._now(), INTERVAL, found)


class _Counted:
    """What a service has counted at a moment."""

    def __init__(self, service: Service, moment: float) -> None:
        seen = service.observations
        self.time, self.events, self.reads = moment, service.ingest_queue.total_events, service.total_reads()
        self.requests: RequestCounts = seen.requests.added(seen.other_requests())
        self.lag = seen.lag.since(None)

    def seconds_since(self, before: _Counted, routes: tuple[str, ...]) -> Distribution:
        """Return the times of requests to some routes after an earlier moment."""
        found = distribution("dygcn_request_duration_seconds")
        for route in routes:
            if route in self.requests.seconds:
                found.add(self.requests.seconds[route].since(before.requests.seconds.get(route)))
        return found


def _percentiles(found: Distribution) -> answers.Percentiles:
    three = (_milliseconds(found, share) for share in (0.5, 0.95, 0.99))
    return answers.Percentiles(sum(found.counts), *three)


def _milliseconds(found: Distribution, share: float) -> float | None:
    value = found.quantile(share)
    return None if value is None else round(1e3 * value, 3)
