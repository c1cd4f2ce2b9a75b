"""How many threads BLAS may use."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_inside = 0
_limits: threadpool_limits | None = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread, in the whole process, until the last who asked for it leaves.

    On matrices of a few hundred columns, threads of BLAS mostly wait for each other, and busily: two take 2.5
    times the processor time of one.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    global _inside, _limits
    with _lock:
        if _inside == 0:
            _limits = threadpool_limits(1, "blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limits is not None:
                _limits.restore_original_limits()
                _limits = None
