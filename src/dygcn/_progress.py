"""Progress of long calls: a bar in terminals and notebooks, else sparse log lines; none for short calls."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dygcn._extras import late
from dygcn.errors import OptionError

if TYPE_CHECKING:
    import logging

    import rich.console as console
    import rich.progress as bars
else:  # most calls are over before anything is shown
    logging, bars, console = late("logging"), late("rich.progress"), late("rich.console")

Notify: TypeAlias = Callable[[int, int, str], None]  # called as (done, total, what)
Asked: TypeAlias = Notify | Literal["auto"] | bool | None  # the best there is, nothing, or what is called
Plan: TypeAlias = Sequence[tuple[str, float]]  # phases in order, each with its expected share of the time

LOGGER = "dygcn"
QUIET = 2.0  # seconds before anything is shown
APART = 10.0  # seconds between two log lines of one phase

_shown = threading.local()  # .now: whether a display is shown, so that one inside it stays silent


class Phases:
    """The progress of several phases as one fraction that only grows."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._at, self._within = plan, -1, 0.0
        self.fraction, self.what = 0.0, ""

    def move(self, done: int, total: int, what: str) -> bool:
        """Record the progress of a phase; return whether a new phase began.

        Without a plan the fraction is that of the phase.
        """
        within = min(done / total, 1.0) if total else 0.0
        began = what != self.what or within < self._within
        if began:
            ahead = range(self._at + 1, len(self._plan))
            self._at = next((at for at in ahead if self._plan[at][0] == what), self._at)
        self.what, self._within = what, within
        if not self._plan:
            self.fraction = within
        elif self._at >= 0 and self._plan[self._at][0] == what:
            shares = [share for _, share in self._plan]
            passed = sum(shares[: self._at]) + shares[self._at] * within
            self.fraction = max(self.fraction, passed / sum(shares))
        return began


class _Terminal:
    """A bar of rich on standard error, removed when the call ends; a timer starts it, also inside a phase."""

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), False
        self._bar: bars.Progress | None = None
        self._task: Any = None
        self._last = "", 0.0
        self._timer = threading.Timer(QUIET, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def draw(self, phases: Phases, began: bool) -> None:
        with self._lock:
            self._last = phases.what, phases.fraction
            self._update()

    def close(self, whole: bool = True) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def _begin(self) -> None:
        with self._lock:
            if self._closed:
                return
            columns = (
                bars.TextColumn("{task.description}"),
                bars.BarColumn(),
                bars.TaskProgressColumn(),
                bars.TimeElapsedColumn(),
            )
            shown = bars.Progress(*columns, console=console.Console(stderr=True), transient=True)
            self._task = shown.add_task("starting", total=1.0)
            self._bar = shown
            shown.start()
            self._update()

    def _update(self) -> None:
        if self._bar is not None and self._last[0]:
            what, fraction = self._last
            self._bar.update(self._task, completed=fraction, description=what)


class _Lines:
    """Writes a line when a phase begins, and every few seconds; nothing in the first two seconds."""

    def __init__(
        self, show: Callable[[Phases, float], None], end: Callable[[bool, float], None], apart: float
    ) -> None:
        self._show, self._end, self._apart = show, end, apart
        self._begun, self._last = time.monotonic(), -math.inf

    def draw(self, phases: Phases, began: bool) -> None:
        now = time.monotonic()
        if now - self._begun < QUIET or (now - self._last < self._apart and not began):
            return
        self._last = now
        self._show(phases, now - self._begun)

    def close(self, whole: bool = True) -> None:
        if self._last >= self._begun:
            self._end(whole, time.monotonic() - self._begun)


def _notebook() -> _Lines:
    """Return an HTML bar in the output of a cell, removed when the call ends; a thread draws it."""
    ipython = late("IPython.display")
    handles: list[Any] = []

    def show(phases: Phases, seconds: float) -> None:
        shown = ipython.HTML(
            f"<progress value='{phases.fraction:.4f}' max='1'></progress> "
            f"{phases.what}, {phases.fraction:.0%}, {seconds:.0f} s"
        )
        if handles:
            handles[0].update(shown)
        else:
            handles.append(ipython.display(shown, display_id=True))

    return _Lines(show, lambda whole, seconds: handles[0].update(ipython.HTML("")), 0.2)


@contextmanager
def progress_of(
    asked: object, plan: Plan = (), write: Callable[[str], None] | None = None
) -> Iterator[Notify | None]:
    """Show progress as the option `progress` says; yield the callback (done, total, what), or None.

    With "auto" nothing is shown in the first two seconds, nor inside another display. `plan`: the phases, so
    that one bar runs once through all of them; empty: it runs through each. `write` takes lines; by default
    the logger ``dygcn``.
    """
    if asked is None or asked is False or callable(asked):
        yield asked or None
        return
    if asked is not True and asked != "auto":
        raise OptionError(
            f'progress is {asked!r:.60}; allowed are "auto", False, or a function that is called as '
            "(done, total, what)"
        )
    if getattr(_shown, "now", False):
        yield None
        return
    phases, display, whole = Phases(plan), _display(write or _log), False
    try:
        _shown.now = True
        yield lambda done, total, what: display.draw(phases, phases.move(done, total, what))
        whole = True
    finally:
        _shown.now = False
        display.close(whole)


def _display(write: Callable[[str], None]) -> _Terminal | _Lines:
    ipython = sys.modules.get("IPython")
    if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
        return _notebook()
    if is_terminal():
        return _Terminal()
    return _Lines(
        lambda phases, seconds: write(f"{phases.what}: {phases.fraction:.0%}, {seconds:.0f} s"),
        lambda whole, seconds: write(f"{'done in' if whole else 'ended after'} {seconds:.0f} s"),
        APART,
    )


def is_terminal() -> bool:
    """Return whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def _log(line: str) -> None:
    logging.getLogger(LOGGER).info(line)
