"""Seconds and what they mean: medians of repeats, and how busy the machine was."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.propagation import set_threads


@dataclass(frozen=True, slots=True)
class Spread:
    """Microseconds of repeats."""

    median: float
    p99: float
    repeats: int


def spread(seconds: Sequence[float]) -> Spread:
    """Return median and 99th percentile.

    Examples
    --------
    >>> spread([1e-6, 2e-6, 6e-6])
    Spread(median=2.0, p99=5.92, repeats=3)
    """
    found = 1e6 * np.asarray(seconds)
    return Spread(round(float(np.median(found)), 6), round(float(np.quantile(found, 0.99)), 6), len(found))


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios, each of two times that were taken one after the other."""
    return float(np.median(np.asarray(ours) / np.asarray(theirs)))


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the garbage collector out of what is timed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Have updates done by one thread, as the bare additions are, whatever the machine has."""
    set_threads(1)
    try:
        yield
    finally:
        set_threads(None)


def in_a_process(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a process that has never had more memory than the call needs."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def load_average() -> float:
    """Return how many processes wanted a core over the last minute."""
    return round(os.getloadavg()[0], 2)


def parts_of(names: Sequence[str], notify: Notify | None) -> Iterator[tuple[str, Notify]]:
    """Yield what is to be measured, each with a function that tells how far the whole is.

    Examples
    --------
    >>> told = []
    >>> for name, notify in parts_of(["a", "b"], lambda done, total, what: told.append((done, total, what))):
    ...     notify(1, 2, "half")
    >>> told
    [(500, 2000, 'a: half'), (1500, 2000, 'b: half')]
    """
    for number, name in enumerate(names):

        def tell(done: int, total: int, what: str, number: int = number, name: str = name) -> None:
            if notify is not None:
                notify(1000 * number + 1000 * done // total, 1000 * len(names), f"{name}: {what}")

        yield name, tell
