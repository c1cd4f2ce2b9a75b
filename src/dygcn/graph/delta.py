"""The net effect of a batch: what each pair of nodes was before it, and what it is after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import kernel
from dygcn.graph.memory import ghost_weight

if TYPE_CHECKING:
    from dygcn.records import Float64, Int8, Int32, Int64, Nodes

AGE = 0  # beside +1 and -1: the events were silent about the pair, but time has passed


@dataclass(frozen=True, slots=True)
class PairEvents:
    """Events on pairs of nodes, self loops dropped, undirected ones as (lower, higher)."""

    a: Nodes  # (n,)
    b: Nodes  # (n,)
    op: Int8  # (n,) +1, -1 or AGE
    weight: Int64  # (n,) on the grid
    t: Float64  # (n,) zero where nothing is remembered


@dataclass(frozen=True, slots=True)
class NetEffect:
    """One row for each pair that the batch spoke of."""

    a: Nodes  # (p,)
    b: Nodes  # (p,)
    old: Int64  # (p,) stored weight before: above 0 an edge, below 0 a ghost
    new: Int64  # (p,) stored weight after
    ghost_weight: Int64  # (p,) full weight that the ghost remembers, 0: no ghost after
    ghost_t: Float64  # (p,)
    unchanged: int
    missing: int
    contact: Float64 | None = None  # (p,) greatest time of an add, or of a remove of an edge that was there


@kernel
def group_pairs(a: Nodes, b: Nodes) -> tuple[Int64, Int64, Nodes, Nodes]:
    """Return an order that brings equal pairs together, in order of arrival, and where each begins."""
    n = len(a)
    keys = np.empty(n, np.int64)
    for i in range(n):
        keys[i] = (np.int64(a[i]) << np.int64(32)) | np.int64(b[i])
    order = np.argsort(keys, kind="mergesort") if n > 1 else np.zeros(n, np.int64)
    first = np.empty(n + 1, np.int64)
    count = 0
    for i in range(n):
        if i == 0 or keys[order[i]] != keys[order[i - 1]]:
            first[count] = i
            count += 1
    first[count] = n
    pair_a = np.empty(count, np.int32)
    pair_b = np.empty(count, np.int32)
    for p in range(count):
        pair_a[p] = a[order[first[p]]]
        pair_b[p] = b[order[first[p]]]
    return order, first[: count + 1], pair_a, pair_b


@kernel
def settle(
    order: Int64,
    first: Int64,
    old: Int64,
    kept_weight: Int64,
    kept_t: Float64,
    op: Int8,
    weight: Int64,
    t: Float64,
    clock: float,
    half_life: float,
) -> tuple[Int64, Int64, Float64, int, int, Float64]:
    """Play the events of each pair in order of arrival; the last one wins.

    A half-life of 0 means that nothing is remembered.
    """
    pairs = len(old)
    new = np.empty(pairs, np.int64)
    ghosts = kept_weight.copy()
    ghost_t = kept_t.copy()
    contact = np.full(pairs, -np.inf)
    unchanged = 0
    missing = 0
    for p in range(pairs):
        now = old[p] if old[p] > 0 else 0
        for i in range(first[p], first[p + 1]):
            event = order[i]
            if op[event] > 0:
                if now == weight[event]:
                    unchanged += 1
                now = weight[event]
                contact[p] = max(contact[p], t[event])
            elif op[event] < 0:
                if now == 0:
                    missing += 1
                else:
                    contact[p] = max(contact[p], t[event])
                    if half_life > 0:
                        ghosts[p] = now
                        ghost_t[p] = t[event]
                now = 0
        if now > 0:
            ghosts[p] = 0
        left = ghost_weight(ghosts[p], ghost_t[p], clock, half_life) if ghosts[p] > 0 else 0
        if left == 0:
            ghosts[p] = 0
        new[p] = now if now > 0 else -left
    return new, ghosts, ghost_t, unchanged, missing, contact


@kernel
def overweight(
    a: Nodes, b: Nodes, old: Int64, new: Int64, directed: bool, strength: Int64, change: Int64, limit: int
) -> bool:
    """Say whether a node would carry too much weight. `change` is zero before and after."""
    for i in range(len(a)):
        more = abs(new[i]) - abs(old[i])
        change[a[i]] += more
        if not directed:
            change[b[i]] += more
    found = False
    for i in range(len(a)):
        for end in (a[i], b[i]):
            found = found or strength[end] + change[end] >= limit
    for i in range(len(a)):
        change[a[i]] = 0
        change[b[i]] = 0
    return found


@kernel
def distinct(nodes: Nodes, seen: Int8) -> Nodes:
    """Return the nodes, each once, in the order of their first mention. `seen` stays zero."""
    out = np.empty(len(nodes), np.int32)
    n = 0
    for node in nodes:
        if seen[node] == 0:
            seen[node] = 1
            out[n] = node
            n += 1
    for node in out[:n]:
        seen[node] = 0
    return out[:n]


@kernel
def census(nodes: Nodes, pulls: Int32, pushes: Int32, own: Int8, active: Int8) -> tuple[Nodes, Nodes, Nodes]:
    """Say which of the nodes came, which went and which never were in the graph; update `active`."""
    came = np.empty(len(nodes), np.int32)
    went = np.empty(len(nodes), np.int32)
    idle = np.empty(len(nodes), np.int32)
    n_came, n_went, n_idle = 0, 0, 0
    for node in nodes:
        now = pulls[node] > 0 or pushes[node] > 0 or own[node] > 0
        if now and active[node] == 0:
            came[n_came] = node
            n_came += 1
        elif not now and active[node] == 1:
            went[n_went] = node
            n_went += 1
        elif not now:
            idle[n_idle] = node
            n_idle += 1
        active[node] = 1 if now else 0
    return came[:n_came], went[:n_went], idle[:n_idle]
