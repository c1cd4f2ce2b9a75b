"""Who may use an embedding: one thread at a time, and nobody while its state is torn."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from dygcn.errors import ConcurrentUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.models import State
    from dygcn.live.view import EmbeddingView

_P = ParamSpec("_P")
_R = TypeVar("_R")
_V = TypeVar("_V", bound="EmbeddingView")
_BUSY = (
    "another thread is using this embedding; use it from one thread, or hold a lock of your own around every "
    "call (a durable embedding has one: with live.lock)"
)


class Guard:
    """The lock of one embedding. A second thread is refused or, where threads are expected, waits.

    Compiled loops run without the interpreter's lock, so two threads inside one embedding would write to the
    same memory. A thread that holds the lock may take it again.
    """

    def __init__(self, state: State) -> None:
        self.lock = threading.RLock()
        self.waits = False  # whether a second thread waits for the first, instead of being refused
        self._state = state

    def run(self, call: Callable[_P, _R], *arguments: _P.args, **options: _P.kwargs) -> _R:
        """Make a call.

        Raises
        ------
        ConcurrentUse
            If another thread is inside one.
        TornState
            If an exception interrupted a change, or if this thread is in the middle of one.
        """
        held = False
        try:  # first, lest an interrupt leaves the lock behind
            held = self.lock.acquire(blocking=self.waits)
            if not held:
                raise ConcurrentUse(_BUSY)
            if self._state.transaction.torn:
                self._state.check()
            return call(*arguments, **options)
        finally:
            if held:
                self.lock.release()

    def run_torn(self, call: Callable[[], _R]) -> _R:
        """Make a call that may be made while the state is torn."""
        held = False
        try:
            held = self.lock.acquire(blocking=self.waits)
            if not held:
                raise ConcurrentUse(_BUSY)
            return call()
        finally:
            if held:
                self.lock.release()

    def __reduce__(self) -> tuple[type[Guard], tuple[State]]:
        return Guard, (self._state,)  # a copy has a lock of its own


def guarded(method: Callable[Concatenate[_V, _P], _R]) -> Callable[Concatenate[_V, _P], _R]:
    """Let one thread at a time call a method, and nobody while the state is torn."""

    @functools.wraps(method)
    def call(self: _V, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        return self.guard.run(method, self, *arguments, **options)

    return call
