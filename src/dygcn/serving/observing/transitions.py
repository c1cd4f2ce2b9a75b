"""Turns many tries into few lines: what is logged is that a state changed, not each try."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from dygcn.serving.observing.events import note

REMIND = 60.0  # seconds between two lines that say the same
MOST_LINES, WINDOW = 6, 60.0  # lines of one thing in so many seconds, however often its state changes
QUIET = 10.0  # seconds without a refusal that end an overload
_Note = Callable[..., None]


class Reachable:
    """Whether a source or a sink works, and the lines that say so.

    Parameters
    ----------
    kind
        ``"source"`` or ``"sink"``: the first part of the events.
    name
        Its public name.

    Attributes
    ----------
    failing
        Whether the last try failed.
    worked_at
        When it worked last, in seconds since 1970; 0: never.

    Examples
    --------
    >>> def show(event, **fields):
    ...     print(event, {name: fields[name] for name in ("error", "tries") if name in fields})
    >>> source = Reachable("source", "nats://here", log=show)
    >>> source.works()
    source.connected {}
    >>> source.fails("refused"); source.fails("refused"); source.works()
    source.lost {'error': 'refused', 'tries': 1}
    source.recovered {'tries': 2}
    """

    def __init__(
        self, kind: str, name: str, *, clock: Callable[[], float] = time.monotonic, log: _Note = note
    ) -> None:
        self._kind, self._name, self._clock, self._log = kind, name, clock, log
        self._lock = threading.Lock()
        self._said = ""  # the last event: what a reader of the log believes
        self._said_at = 0.0
        self._lines: deque[float] = deque()
        self._suppressed = 0  # lines
        self._since, self._wall = 0.0, 0.0  # the first failure of this outage
        self._error, self._tries = "", 0
        self.failing = False
        self.worked_at = 0.0

    @property
    def failing_since(self) -> float | None:
        """When the outage of now began, in seconds since 1970; None while all is well."""
        return self._wall if self.failing else None

    def works(self) -> None:
        """Note a try that succeeded."""
        with self._lock:
            self.worked_at = time.time()
            self.failing = False
            self._report()

    def fails(self, error: str) -> None:
        """Note a try that failed."""
        with self._lock:
            if not self.failing and self._believed_working():
                self._since, self._wall, self._tries = self._clock(), time.time(), 0
            self._error, self._tries, self.failing = error, self._tries + 1, True
            self._report()

    def report(self) -> None:
        """Write the line that is due, if one was held back."""
        with self._lock:
            if self._said or self.failing:
                self._report()

    def _believed_working(self) -> bool:
        return self._said in ("", "connected", "recovered")

    def _report(self) -> None:
        now = self._clock()
        if not self.failing:
            if self._believed_working() and self._said:
                return
            fields = {} if not self._said else self._outage(now)
            self._say("recovered" if self._said else "connected", now, fields)
        elif self._believed_working():
            self._say("lost", now, {"error": self._error, **self._outage(now)})
        elif now - self._said_at >= REMIND:
            self._say("still_lost", now, {"error": self._error, **self._outage(now)})

    def _outage(self, now: float) -> dict[str, object]:
        since = datetime.fromtimestamp(self._wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"since": since, "seconds": round(now - self._since, 3), "tries": self._tries}

    def _say(self, what: str, now: float, fields: dict[str, object]) -> None:
        while self._lines and now - self._lines[0] >= WINDOW:
            self._lines.popleft()
        if len(self._lines) >= MOST_LINES:
            self._suppressed += 1
            return
        self._lines.append(now)
        suppressed, self._suppressed = self._suppressed or None, 0
        self._said, self._said_at = what, now
        self._log(f"{self._kind}.{what}", **{self._kind: self._name}, **fields, suppressed=suppressed)


class Overload:
    """When requests begin to be refused, and when that has ended.

    Examples
    --------
    >>> now, lines = [0.0], []
    >>> overload = Overload(clock=lambda: now[0], log=lambda event, **fields: lines.append(event))
    >>> overload.refused(9, 9); overload.refused(9, 9); overload.taken(); lines
    ['overload.began']
    >>> now[0] = 11.0
    >>> overload.taken(); lines
    ['overload.began', 'overload.ended']
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, log: _Note = note) -> None:
        self._clock, self._log = clock, log
        self._lock = threading.Lock()
        self._began = self._last = 0.0
        self._refused = 0
        self.on = False

    def refused(self, events: int, rows: int) -> None:
        """Note a request that was refused, while so many events and rows wait."""
        with self._lock:
            self._last = self._clock()
            if not self.on:
                self.on, self._began, self._refused = True, self._last, 0
                self._log("overload.began", queued_events=events, queued_rows=rows)
            self._refused += 1

    def taken(self) -> None:
        """Look whether it has ended; called when something is taken, or somebody looks."""
        if not self.on:
            return
        with self._lock:
            if self.on and self._clock() - self._last >= QUIET:
                self.on = False
                seconds = round(self._last - self._began, 3)
                self._log("overload.ended", seconds=seconds, refused=self._refused)
