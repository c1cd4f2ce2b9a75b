"""An hour of load, sampled every few seconds, and percentiles of the last minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dygcn.schema import answers
from dygcn.serving.observing.metrics import Distribution, RequestCounts, distribution
from dygcn.serving.service.routes import ROUTES, V1

if TYPE_CHECKING:
    from dygcn.live import DurableEmbedding
    from dygcn.serving.service.ingest_queue import IngestQueue
    from dygcn.serving.service.observations import Observations

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
    """

    def __init__(
        self,
        live: DurableEmbedding,
        queue: IngestQueue,
        observations: Observations,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live, self._queue, self._seen, self._clock = live, queue, observations, clock
        self._offset = time.time() - clock()
        self._samples: deque[answers.LoadSample] = deque(maxlen=KEPT)
        self._minute: deque[_Counted] = deque(maxlen=_MINUTE + 1)
        self._minute.append(self._count())
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

    def _count(self) -> _Counted:
        requests = self._seen.requests.added(self._seen.other_requests())
        counts = self._queue.total_events, self._seen.total_reads(), requests, self._seen.lag.since(None)
        return _Counted(self._now(), *counts)

    def sample(self) -> None:
        """Take one sample; one thread does."""
        before, now = self._minute[-1], self._count()
        seconds = now.time - before.time
        if seconds <= 0:
            return
        self._minute.append(now)
        self._samples.append(
            answers.LoadSample(
                now.time,
                max(now.events - before.events, 0) / seconds,
                max(now.reads - before.reads, 0) / seconds,
                _milliseconds(now.lag.since(before.lag), 0.99),
                _milliseconds(now.seconds_since(before, READS), 0.99),
                _milliseconds(now.seconds_since(before, WRITES), 0.99),
                self._queue.events,
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
        return answers.LoadSamples(self._live.sequence, self._now(), INTERVAL, found)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a service has counted at a moment."""

    time: float
    events: int
    reads: int
    requests: RequestCounts
    lag: Distribution

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
