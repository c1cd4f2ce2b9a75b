"""An exception at any line of a call, a child process for each: what the call leaves behind."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import msgspec

import dygcn

Call: TypeAlias = Callable[[], object]
_ROOT = str(Path(dygcn.__file__).parent) + os.sep
_NOT_TRACED = (_ROOT + "testing" + os.sep,)
_PIPE_BLOCK = 1 << 16
_LONGEST = 60  # seconds for a child


class Bomb:
    """Raises an exception at the n-th line of the library that is run."""

    def __init__(self, at: int, kind: type[BaseException]) -> None:
        self.at, self.kind, self.lines = at, kind, 0
        self.where: str | None = None

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Count lines; to be handed to `sys.settrace`."""
        file = frame.f_code.co_filename
        if not file.startswith(_ROOT) or file.startswith(_NOT_TRACED):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{file[len(_ROOT) :]}:{frame.f_lineno}"
                sys.settrace(None)
                frame.f_trace = None
                raise self.kind("raised on purpose")
        return self.trace


def count_lines(call: Call) -> int:
    """Return how many lines of the library a call runs."""
    bomb = Bomb(-1, KeyboardInterrupt)
    with _tracing(bomb):
        call()
    return bomb.lines


def raise_at(call: Call, at: int, kind: type[BaseException]) -> str | None:
    """Make a call and raise at its n-th line; return where that was, None if the call ended before it."""
    bomb = Bomb(at, kind)
    try:
        with _tracing(bomb):
            call()
    except BaseException:
        if bomb.where is None:
            raise
    return bomb.where


@contextmanager
def _tracing(bomb: Bomb) -> Iterator[None]:
    sys.settrace(bomb.trace)
    try:
        yield
    finally:
        sys.settrace(None)


def interrupt_after(call: Call, seconds: float) -> str | None:
    """Make a call and interrupt it after a time, as Ctrl-C would; return None if it had ended before.

    For a process of its own: the signal's handler stays.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except (KeyboardInterrupt, SystemError):  # the second: inside a call of a compiled loop
        return f"after {seconds * 1e6:.0f} us"
    return None


def starve(call: Call, spare: int) -> str | None:
    """Make a call while only so many more bytes can be had; return None if they were enough."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + spare, resource.RLIM_INFINITY))
    try:
        call()
    except MemoryError:
        return f"with {spare} bytes to spare"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return None


def in_a_child(work: Callable[[], list[str]]) -> list[str]:
    """Return what a function returns in a forked process; its death is a line of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(_LONGEST)
            os.close(reading)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                found = work()
            except BaseException as error:
                found = [f"{type(error).__name__}: {error}"]
            os.write(writing, msgspec.json.encode(found))
        finally:
            os._exit(0)
    os.close(writing)
    said = b""
    while block := os.read(reading, _PIPE_BLOCK):
        said += block
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return [f"the process was not done after {_LONGEST} seconds: does it wait for itself?"]
    if os.WIFSIGNALED(status):
        return [f"the process died of signal {os.WTERMSIG(status)}"]
    return msgspec.json.decode(said, type=list[str]) if said else ["the process said nothing"]
