"""Threads for one update. Parts of the nodes are disjoint and sums are integers: bits stay the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from typing import TypeVar

from dygcn.errors import OptionError

_R = TypeVar("_R")
_MOST = 8
_pool: ThreadPoolExecutor | None = None
_count: int | None = None


def threads() -> int:
    """Return how many threads a large update uses: `set_threads`, DYGCN_THREADS, or the cores there are."""
    if _count is not None:
        return _count
    wanted = os.environ.get("DYGCN_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return min(
        _MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def set_threads(count: int | None) -> None:
    """Set how many threads a large update may use; None leaves it to DYGCN_THREADS and the machine.

    Examples
    --------
    >>> set_threads(1)
    >>> threads()
    1
    >>> set_threads(None)
    """
    global _count
    if count is not None and (not isinstance(count, int) or count < 1):
        raise OptionError(f"threads is {count!r}; allowed is a whole number, 1 or more, or None")
    _count = count


def side_by_side(calls: Sequence[Callable[[], _R]]) -> list[_R]:
    """Run calls that release the interpreter lock in parallel; the first one in this thread."""
    global _pool
    if len(calls) == 1:
        return [calls[0]()]
    if _pool is None or _pool._max_workers < len(calls) - 1:
        _pool = ThreadPoolExecutor(len(calls) - 1, "dygcn")
    others = [_pool.submit(call) for call in calls[1:]]
    try:
        first = calls[0]()
    finally:  # the caller may not continue while other threads write
        wait(others)
    return [first, *(other.result() for other in others)]


def in_ranges(call: Callable[..., object], count: int, parts: int, *arguments: object) -> None:
    """Run ``call(low, high, *arguments)`` for several ranges of 0..count - 1, in parallel."""
    bounds = [count * part // parts for part in range(parts + 1)]
    side_by_side([partial(call, low, high, *arguments) for low, high in pairwise(bounds)])


def _forget_pool() -> None:
    """Drop the thread pool after a fork: the child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
