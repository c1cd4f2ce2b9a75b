"""Every state change that a service logs; repeated failures become few lines.

`note` logs an event of the table. `Reachable` and `Overload` log that a state changed, not each try.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

_LOG = logging.getLogger("dygcn.service")
_INFO, _WARNING, _ERROR = logging.INFO, logging.WARNING, logging.ERROR
REMIND = 60.0  # seconds between two lines that say the same
MOST_LINES, WINDOW = 6, 60.0  # lines of one thing in so many seconds, however often its state changes
QUIET = 10.0  # seconds without a refusal that end an overload

EVENTS = {  # name -> level and meaning
    "service.starting": (_INFO, "the folder is open; what the log held is applied"),
    "service.recovered": (
        _WARNING,
        "the folder was opened without parts that are damaged; `damage` lists them",
    ),
    "service.ready": (_INFO, "requests are answered"),
    "service.draining": (_INFO, "nothing new is taken, what waits is applied"),
    "service.stopped": (_INFO, "everything is on disk, the folder is free"),
    "settings.reloaded": (_INFO, "the settings were read again; `changed` lists the keys that differ"),
    "settings.refused": (_ERROR, "the settings were read again and cannot be used; the old ones stay"),
    "reader.died": (_ERROR, "a reader process ended by itself"),
    "disk.failed": (_ERROR, "a write failed; events are refused until the service is started again"),
    "snapshot.written": (_INFO, "a snapshot is on disk"),
    "snapshot.failed": (_ERROR, "a snapshot could not be written"),
    "index.building": (_INFO, "the index of neighbours is being built"),
    "index.ready": (_INFO, "the index of neighbours holds every node"),
    "index.failed": (_ERROR, "the index of neighbours cannot be kept up"),
    "source.connected": (_INFO, "a source is read"),
    "source.lost": (_WARNING, "a source cannot be read; it is tried again"),
    "source.still_lost": (_WARNING, "the same, a minute later and every minute"),
    "source.recovered": (_INFO, "a source is read again"),
    "sink.connected": (_INFO, "a sink is written"),
    "sink.lost": (_WARNING, "a sink cannot be written; it is tried again"),
    "sink.still_lost": (_WARNING, "the same, a minute later and every minute"),
    "sink.recovered": (_INFO, "a sink is written again"),
    "sink.history": (_INFO, "whose rows a sink holds: same, new, rewriting or rewritten"),
    "sink.refused": (_ERROR, "a sink holds rows of another history, and is not written"),
    "overload.began": (_WARNING, "the queue is full; requests are refused with 429"),
    "overload.ended": (_INFO, "no request was refused for ten seconds"),
    "rejection.began": (_ERROR, "too many of the last events became dead letters"),
    "rejection.ended": (_INFO, "events are applied again"),
    "request.failed": (_ERROR, "an error inside the service; the answer was 500"),
}


def note(event: str, *, exc_info: BaseException | None = None, **fields: object) -> None:
    """Log an event of the table; `fields` never hold a token, nor the id of a node."""
    level, _ = EVENTS[event]
    if _LOG.isEnabledFor(level):
        _LOG.log(level, event, exc_info=exc_info, extra={"fields": fields})


_Note = Callable[..., None]


class Reachable:
    """Whether a source or a sink works, and the log lines about it; `kind` begins the events' names."""

    def __init__(
        self, kind: str, name: str, *, clock: Callable[[], float] = time.monotonic, log: _Note = note
    ) -> None:
        self._kind, self._name, self._clock, self._log = kind, name, clock, log
        self._lock = threading.Lock()
        self._last_event = ""  # what a reader of the log believes
        self._written_at = 0.0
        self._lines: deque[float] = deque()
        self._suppressed = 0  # lines
        self._since, self._wall = 0.0, 0.0  # the first failure of this outage
        self._error, self._tries = "", 0
        self.failing = False  # whether the last try failed
        self.worked_at = 0.0  # seconds since 1970; 0: never

    @property
    def failing_since(self) -> float | None:
        """When the present outage began, in seconds since 1970; None without one."""
        return self._wall if self.failing else None

    def works(self) -> None:
        """Record a successful try."""
        with self._lock:
            self.worked_at = time.time()
            self.failing = False
            self._report()

    def fails(self, error: str) -> None:
        """Record a failed try."""
        with self._lock:
            if not self.failing and self._believed_working():
                self._since, self._wall, self._tries = self._clock(), time.time(), 0
            self._error, self._tries, self.failing = error, self._tries + 1, True
            self._report()

    def report(self) -> None:
        """Log the line that was held back, if it is due."""
        with self._lock:
            if self._last_event or self.failing:
                self._report()

    def _believed_working(self) -> bool:
        return self._last_event in ("", "connected", "recovered")

    def _report(self) -> None:
        now = self._clock()
        if not self.failing:
            if self._believed_working() and self._last_event:
                return
            fields = {} if not self._last_event else self._outage(now)
            self._write("recovered" if self._last_event else "connected", now, fields)
        elif self._believed_working():
            self._write("lost", now, {"error": self._error, **self._outage(now)})
        elif now - self._written_at >= REMIND:
            self._write("still_lost", now, {"error": self._error, **self._outage(now)})

    def _outage(self, now: float) -> dict[str, object]:
        since = datetime.fromtimestamp(self._wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"since": since, "seconds": round(now - self._since, 3), "tries": self._tries}

    def _write(self, what: str, now: float, fields: dict[str, object]) -> None:
        while self._lines and now - self._lines[0] >= WINDOW:
            self._lines.popleft()
        if len(self._lines) >= MOST_LINES:
            self._suppressed += 1
            return
        self._lines.append(now)
        suppressed, self._suppressed = self._suppressed or None, 0
        self._last_event, self._written_at = what, now
        self._log(f"{self._kind}.{what}", **{self._kind: self._name}, **fields, suppressed=suppressed)


class Overload:
    """Whether requests are refused for overload, and the log lines when that begins and ends."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, log: _Note = note) -> None:
        self._clock, self._log = clock, log
        self._lock = threading.Lock()
        self._began = self._last = 0.0
        self._refused = 0
        self.on = False

    def refused(self, events: int, rows: int) -> None:
        """Record a refused request, and the number of events and rows that wait."""
        with self._lock:
            self._last = self._clock()
            if not self.on:
                self.on, self._began, self._refused = True, self._last, 0
                self._log("overload.began", queued_events=events, queued_rows=rows)
            self._refused += 1

    def taken(self) -> None:
        """End the overload, if no request was refused for a while."""
        if not self.on:
            return
        with self._lock:
            if self.on and self._clock() - self._last >= QUIET:
                self.on = False
                seconds = round(self._last - self._began, 3)
                self._log("overload.ended", seconds=seconds, refused=self._refused)
