"""Mass rejection: an alarm while too many of the last events went to the dead letters."""

from __future__ import annotations

from collections import deque

from dygcn.schema import answers
from dygcn.serving.observing.events import note

WINDOW = 1_000  # events
_LEAST = 20  # events, before which nothing is said
NAME = "mass rejection"


class Rejections:
    """Counts dead letters among the last events. One thread counts; any may ask.

    Parameters
    ----------
    share
        Of the last `WINDOW` events; from it on there is an alarm, until it is half as much.

    Examples
    --------
    >>> seen = Rejections(0.5)
    >>> seen.count(applied=80, dead=0)
    >>> seen.count(applied=0, dead=100)
    >>> [alarm.name for alarm in seen.alarms()], round(seen.share, 2)
    (['mass rejection'], 0.56)
    >>> seen.count(applied=990, dead=0)
    >>> seen.alarms()
    []
    """

    def __init__(self, share: float) -> None:
        self.bar = share
        self._last: deque[tuple[int, int]] = deque()
        self._events = self._dead = 0
        self.active = False

    @property
    def share(self) -> float:
        """How many of the last events were rejected, from 0 to 1."""
        return self._dead / self._events if self._events else 0.0

    def count(self, applied: int, dead: int) -> None:
        """Count the events of a request or message."""
        if not applied + dead:
            return
        self._last.append((applied + dead, dead))
        self._events += applied + dead
        self._dead += dead
        while self._events - self._last[0][0] >= WINDOW:
            events, gone = self._last.popleft()
            self._events -= events
            self._dead -= gone
        self._ring()

    def _ring(self) -> None:
        """Begin or end the alarm, and say so once."""
        if not self.active and self._events >= _LEAST and self.share >= self.bar:
            self.active = True
            note("rejection.began", dead=self._dead, events=self._events)
        elif self.active and self.share < self.bar / 2:
            self.active = False
            note("rejection.ended", dead=self._dead, events=self._events)

    def alarms(self) -> list[answers.Alarm]:
        """Return the alarm, while there is one."""
        return [answers.Alarm(NAME, self._detail())] if self.active else []

    def _detail(self) -> str:
        return (
            f"{self._dead} of the last {self._events} events went to the dead letters; see why "
            "(GET /v1/dead-letters), mend the sender or the clock, then replay them"
        )
