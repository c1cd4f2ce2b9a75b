"""Candidates among all vectors of the cache, while there are no lists: outside of the lock, one product."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.errors import IndexNotReady
from dygcn.live.search.unit_rows import rounding

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import Float32, Nodes
    from dygcn.live.search.nearest import VectorCache

_BLOCK = 1 << 12  # vectors that are read while others wait: some milliseconds
MOST_UNREAD = 2_000_000  # vectors that a question waits for


def read_stale(
    cache: VectorCache, guard: AbstractContextManager[Any], cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Read every vector that moved since it was read, some at a time, until it is cancelled."""
    with guard:
        stale = cache.stale()
    for start in range(0, len(stale), _BLOCK):
        if cancelled():
            return
        some = stale[start : start + _BLOCK]
        with guard:
            cache.refresh(some[cache.state.graph.present(some)])


def nearest_of_all(
    cache: VectorCache,
    guard: AbstractContextManager[Any],
    reading: AbstractContextManager[Any],
    query: Float32,
    k: int,
) -> Nodes:
    """Return the k nearest by cosine and all who may be as near, of vectors as they were a moment ago.

    Parameters
    ----------
    cache
        Where vectors are read, those first that moved since.
    guard
        Held while the state is read, for moments.
    reading
        Held by whoever reads many vectors: two that read the same ones hinder each other.
    query
        (dim,), of length one.
    k
        How many will be chosen, 1 or more.

    Raises
    ------
    IndexNotReady
        If so many vectors were never read that the answer would take long.

    Examples
    --------
    >>> import dygcn
    >>> from contextlib import nullcontext
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
    >>> query = live["ann"] / np.linalg.norm(live["ann"])
    >>> found = nearest_of_all(live._cached(), nullcontext(), nullcontext(), query, 1)
    >>> live._state.graph.find_one("ann") in found
    True
    """
    with guard:
        unread = len(cache.stale())
    if unread > MOST_UNREAD:
        raise IndexNotReady(
            f"the index is being built, and {unread} vectors are still to be read; ask again later"
        )
    with reading:
        read_stale(cache, guard)
    with guard:
        nodes = np.flatnonzero(cache.state.graph.here).astype(np.int32)
        vectors, lengths = cache.arrays()
    # Another thread may write a row meanwhile: then its node is a candidate, or none, by half of its vector,
    # and ranked by the whole one.
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (vectors @ query)[nodes] / lengths[nodes]
    scores = np.nan_to_num(scores, copy=False, nan=0.0)
    k = min(k, len(nodes))
    if k <= 0:
        return nodes
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]
    found: Nodes = nodes[scores >= bar - rounding(len(query))]
    return found
