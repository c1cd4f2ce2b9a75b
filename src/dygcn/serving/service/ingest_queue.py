"""The ingest queue: bounded, and emptied by the one thread that writes; and which times events may have."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from dygcn.engine.events.wire import BadEvent
from dygcn.engine.models.contracts import StateWriter
from dygcn.engine.propagation import ExactRule
from dygcn.errors import DygcnError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import Receipt, SourceBatch
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.embedding import usual_jump
from dygcn.serving.service.cost_estimate import ROWS_OF_A_BOUNDED_EVENT, expected_rows, rows_of_expiry
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.settings import CurrentSettings, Jump

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
AHEAD = 300.0  # seconds that an event may be ahead of the clock


def latest_of(state: StateWriter, unit: str | None, jump: Jump) -> float | None:
    """Return the latest time that an event may have, by both clocks; None: no limit."""
    clock = state.graph.clock
    by_wall = None if unit is None else (time.time() + AHEAD) * UNITS[unit]
    if jump == "any" or clock is None:
        return by_wall
    ahead = usual_jump(state) if jump == "usual" else float(jump)
    by_graph = clock + (ahead or 0.0)
    return by_graph if by_wall is None else min(by_wall, by_graph)


class EventClock:
    """The time limits of events now. Reading them takes no lock."""

    def __init__(self, state: StateWriter, unit: str | None, jump: Jump) -> None:
        self._state, self._unit, self._jump = state, unit, jump
        self._trials = 0  # odd while one is made
        self._before_trial: float | None = None

    def now(self) -> float | None:
        """Return the time now, in the unit of events; None where no unit is declared."""
        return None if self._unit is None else time.time() * UNITS[self._unit]

    def latest(self) -> float | None:
        """Return the latest time that an event may have now; None: no limit."""
        while True:
            trials, found = self._trials, self._before_trial
            if trials % 2 == 0:  # else the clock is that of a trial
                found = latest_of(self._state, self._unit, self._jump)
            if trials == self._trials:
                return found

    @contextmanager
    def during_trial(self) -> Iterator[None]:
        """Hide the clock of a trial from other threads; called in the writing thread."""
        self._before_trial = self.latest()
        self._trials += 1
        try:
            yield
        finally:
            self._trials += 1


Answer = Callable[[Any], None]  # takes a receipt or what work returned, or an exception in its place


class Overloaded(DygcnError):
    """The queue is full; retry after `retry_after` seconds."""

    def __init__(self, retry_after: int, what: str) -> None:
        super().__init__(f"{what}; come again in {retry_after} s")
        self.retry_after = retry_after


class Closing(DygcnError):
    """The service is shutting down and accepts nothing more."""


def dead_letters_of(bad: Sequence[BadEvent], stream: str, offset: int) -> list[DeadLetter]:
    """Return the dead letters of a message."""
    return [DeadLetter(stream, offset, one.row, one.reason, one.text) for one in bad]


@dataclass(slots=True)
class _Pending:
    part: SourceBatch
    events: int  # bad ones wait, too
    rows: int
    answer: Answer
    since: float = 0.0  # when it was put into the queue
    context: Any = None  # of the trace that it belongs to


@dataclass(slots=True)
class _PendingWork:
    work: Callable[[], object]
    rows: int
    answer: Answer
    changes: bool = False
    events: int = 1
    since: float = 0.0


class IngestQueue:
    """Takes parts from any thread, and applies them in the order of arrival, many in a transaction."""

    def __init__(
        self,
        live: DurableEmbedding,
        current: CurrentSettings,
        listeners: Sequence[Callable[[], None]],  # called after every transaction, in the writing thread
        observations: Observations | None = None,
    ) -> None:
        self._live, self._current, self._listeners = live, current, listeners
        self._seen = Observations() if observations is None else observations
        self._queue: deque[_Pending | _PendingWork] = deque()
        self._changed = threading.Condition()
        self._open = True
        self.events = self.rows = 0  # waiting
        self.seconds_a_row = 2e-7  # as measured
        self.total_events = self.total_requests = self.total_dead = self.shed = 0
        self.longest_wait = 0.0  # of the last transaction: from its arrival to being readable
        self._thread = threading.Thread(target=self._work, name="dygcn-writer", daemon=True)
        self._thread.start()

    def submit(self, part: SourceBatch, answer: Answer, *, wait: float = 0.0, blocking: bool = True) -> bool:
        """Put a part into the queue; `answer` is called from the writing thread.

        Return False, having done nothing, where that would wait for the lock and `blocking` is false.
        """
        state, events = self._live._state, len(part.batch)
        bounded = isinstance(state.rule, ExactRule) and state.rule.pulls_some  # no event touches many rows
        rows = ROWS_OF_A_BOUNDED_EVENT * events
        if not bounded or state.model.expire is not None:
            if not self._live.lock.acquire(blocking=blocking):
                return False
            try:
                rows = rows if bounded else expected_rows(state, part.batch)
                rows += rows_of_expiry(state, part.batch)
            finally:
                self._live.lock.release()
        tracing = self._seen.tracing
        context = tracing.current() if tracing.on else None
        self._put(_Pending(part, max(events + len(part.dead), 1), rows, answer, context=context), wait)
        return True

    def submit_work(
        self, work: Callable[[], object], rows: int, answer: Answer, *, changes: bool = False
    ) -> None:
        """Queue work for the writing thread, after everything queued before."""
        self._put(_PendingWork(work, rows, answer, changes), 0.0)

    def refuse_if_full(self) -> None:
        """Raise Overloaded if the queue is full, before any work is done for a request."""
        with self._changed:
            if not self._fits(1, 1):
                raise self._overloaded()

    def _overloaded(self) -> Overloaded:
        self.shed += 1
        self._seen.overload.refused(self.events, self.rows)
        return Overloaded(self._retry_after(), f"{self.events} events wait to be applied")

    def _put(self, one: _Pending | _PendingWork, wait: float) -> None:
        events, rows = one.events, one.rows
        with self._changed:
            fits = self._changed.wait_for(lambda: not self._open or self._fits(events, rows), timeout=wait)
            if not self._open:
                raise Closing("the service is going down")
            if not fits:
                raise self._overloaded()
            one.since = time.monotonic()
            self._queue.append(one)
            self.events += events
            self.rows += rows
            self._changed.notify_all()
        if self._seen.overload.on:
            self._seen.overload.taken()

    def _fits(self, events: int, rows: int) -> bool:
        limits = self._current.limits
        fits = self.events + events <= limits.queued_events and self.rows + rows <= limits.queued_rows
        return fits or not self._queue  # one that is larger than the queue comes in alone

    def _retry_after(self) -> int:
        return min(max(1, round(self.rows * self.seconds_a_row)), 60)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or not self._open)
                if not self._queue:
                    return
                taken = self._take()
            begun = time.perf_counter()
            if isinstance(taken, _PendingWork):
                self._do(taken)
            else:
                self._apply(taken)
            done = [taken] if isinstance(taken, _PendingWork) else taken
            rows = sum(one.rows for one in done)
            if rows:
                spent = (time.perf_counter() - begun) / rows
                self.seconds_a_row += 0.1 * (spent - self.seconds_a_row)
            with self._changed:
                self.events -= sum(one.events for one in done)
                self.rows -= rows
                self._changed.notify_all()

    def _take(self) -> list[_Pending] | _PendingWork:
        taken: list[_Pending] = []
        events = rows = 0
        limits = self._current.limits
        while self._queue:
            one = self._queue[0]
            if isinstance(one, _PendingWork):
                if not taken:
                    self._queue.popleft()
                    return one
                break
            events, rows = events + one.events, rows + one.rows
            if taken and (events > limits.cut_events or rows > limits.cut_rows):
                break
            self._queue.popleft()
            taken.append(one)
        return taken

    def _do(self, one: _PendingWork) -> None:
        try:
            result = one.work()
        except Exception as error:  # to whoever waits for an answer
            result = error
        for listener in self._listeners if one.changes else ():
            listener()
        one.answer(result)

    def _apply(self, taken: list[_Pending]) -> None:
        begun, parts = time.monotonic(), [one.part for one in taken]
        waits = [begun - one.since for one in taken]
        try:
            contexts = [one.context for one in taken]
            with self._seen.traced_batch(waits, contexts) if self._seen.tracing.on else nullcontext():
                results: list[Receipt | BaseException] = [*self._live._ingest(parts)]
        except Exception as error:  # to whoever waits for an answer
            results = [error] * len(taken)
        now = time.monotonic()
        self.longest_wait = max(now - one.since for one in taken)
        self.total_requests += len(taken)
        for result in results:
            if isinstance(result, Receipt):
                self.total_events += result.applied
                self.total_dead += result.dead
        self._seen.batch(waits, parts, results)
        for one in taken:
            self._seen.lag.observe(now - one.since)
        for listener in self._listeners:
            listener()
        for one, result in zip(taken, results, strict=True):
            one.answer(result)

    def close(self) -> None:
        """Refuse new parts, apply the waiting ones, and return when that is done."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        self._thread.join()
