"""How many threads BLAS may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_held = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread until the first caller leaves: on small matrices two threads mostly wait.

    Nested calls change nothing: two that each restored what they found would leave one thread for ever.
    """
    if not _held.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        _held.release()
