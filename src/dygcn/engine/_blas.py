"""How many threads BLAS may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_held = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread, in this process, until the first caller leaves.

    On matrices of a few hundred columns, threads of BLAS mostly wait for each other, and busily: two take 2.5
    times the processor time of one. A caller inside another's block changes nothing: two that each restore
    what they found would leave one thread for ever.
    """
    if not _held.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        _held.release()
