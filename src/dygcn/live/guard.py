"""The lock of an embedding: one thread at a time, and no call while the state is torn."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar, cast

from dygcn.engine.graph.staging import Before
from dygcn.engine.models.contracts import StateWriter
from dygcn.errors import ConcurrentUse, OpenTrial

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Method = TypeVar("_Method", bound="Callable[..., Any]")
_BUSY = (
    "another thread is using this embedding; use it from one thread, or hold a lock of your own around every "
    "call (a durable embedding has one: with live.lock)"
)
_LENT = "a trial of this embedding is open; ask the trial, or leave its block first"
_OVER = "this trial has ended; its answers are those of a graph that was never there"


class Guard:
    """The lock of one embedding. A second thread is refused or, where threads are expected, waits.

    Compiled loops run without the interpreter's lock, so two threads inside one embedding would write to the
    same memory. A thread that holds the lock may take it again.

    An embedding answers while no trial is open, a trial while it is the innermost one. That is read from the
    state, and noted nowhere else: an interrupt cannot leave a note behind that is wrong.
    """

    def __init__(self, state: StateWriter) -> None:
        self.lock = threading.RLock()
        self.waits = False  # whether a second thread waits for the first, instead of being refused
        self.trial: Before | None = None  # which trial is answered for; None: the embedding itself
        self._state = state

    def held(self) -> AbstractContextManager[None]:
        """Hold the lock, even if the state is torn."""
        return holding(self.lock, self.waits, _BUSY)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Hold the lock for a trial. A trial that an interrupt left open makes the state torn."""
        transaction = self._state.transaction
        with self.held():
            self.check()
            open_before = len(transaction.trials)
            try:
                yield
            finally:
                if len(transaction.trials) > open_before:
                    transaction.torn = True

    def owned(self) -> bool:
        """Return whether the current thread holds the lock."""
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def check(self) -> None:
        """Raise TornState if the state is torn, OpenTrial unless this guard's trial is the innermost one."""
        transaction = self._state.transaction
        if transaction.torn:
            self._state.check()
        innermost = transaction.trials[-1] if transaction.trials else None
        if innermost is not self.trial:
            open_still = self.trial is None or any(one is self.trial for one in transaction.trials)
            raise OpenTrial(_LENT if open_still else _OVER)

    def run(self, call: Callable[_P, _R], *arguments: _P.args, **options: _P.kwargs) -> _R:
        """Make a call under the lock; the state must not be torn."""
        outer = self.lock._is_owned()  # type: ignore[attr-defined]
        try:  # as in `holding`, without its calls
            if not outer and not self.lock.acquire(blocking=self.waits):
                raise ConcurrentUse(_BUSY)
            transaction = self._state.transaction
            if transaction.torn or transaction.trials or self.trial is not None:
                self.check()
            return call(*arguments, **options)
        finally:
            if not outer:
                try:  # noqa: SIM105
                    self.lock.release()
                except RuntimeError:
                    pass

    def __reduce__(self) -> tuple[type[Guard], tuple[StateWriter]]:
        return Guard, (self._state,)  # a copy has a lock of its own


@contextmanager
def holding(lock: threading.RLock, waits: bool, busy: str) -> Iterator[None]:
    """Hold a lock, or raise ConcurrentUse with this text. An interrupt leaves it as it was.

    Python may raise one when the lock is taken and no variable says so yet, and after any other call. So the
    end calls nothing but the release, unless the thread held the lock before; without a lock it is refused.
    """
    outer = lock._is_owned()  # type: ignore[attr-defined]
    try:
        if not outer and not lock.acquire(blocking=waits):
            raise ConcurrentUse(busy)
        yield
    finally:
        if not outer:
            try:  # noqa: SIM105 -- a call of `suppress` could be interrupted
                lock.release()
            except RuntimeError:  # not taken
                pass


def guarded(method: _Method) -> _Method:
    """Run a method of an object with a `_guard` under it: one thread at a time, and never on a torn state."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: Any, **options: Any) -> Any:
        return self._guard.run(method, self, *arguments, **options)

    return cast("_Method", call)
