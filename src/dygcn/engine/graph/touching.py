"""The loops of contacts: what a count of contacts is after one more; see `contacts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.outcomes import LAPSED, LINKED, NO_CONTACT, PARTED

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from math import exp2

    from dygcn.engine.graph.arcs import ArcArrays
    from dygcn.engine.graph.batch import BatchArrays, NodeArrays

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, Float64, Int64, Nodes

NEVER = -np.inf


def count_after(last: float, count: float, t: float, half_life: float) -> float:
    """Return what a count as of `last` is after a contact at t, as of the later of both."""
    passed = float(t) - float(last)
    if passed != passed:  # neither has a time
        passed = 0.0
    if passed >= 0:
        return float(count) * exp2(-passed / half_life) + 1.0
    return float(count) + exp2(passed / half_life)


def touch_pair(batch: BatchArrays, pair: int, t: float, half_life: float) -> None:
    """Take a contact of a pair; a late one adds what is left of it."""
    batch.count[pair] = count_after(batch.last[pair], batch.count[pair], t, half_life)
    if t >= batch.last[pair]:
        batch.last[pair] = t


def _touch_node(nodes: NodeArrays, node: int, t: float, half_life: float) -> None:
    nodes.count[node] = count_after(nodes.last[node], nodes.count[node], t, half_life)
    if t >= nodes.last[node]:
        nodes.last[node] = t


def touch_nodes(
    batch: BatchArrays,
    found: int,
    pull: ArcArrays,
    push: ArcArrays,
    nodes: NodeArrays,
    src: Nodes,
    dst: Nodes,
    t: Float64,
    directed: bool,
    stay: bool,
    half_life: float,
) -> None:
    """Take the contacts of a batch that is written, for both ends of each event; no edge leaves a ghost.

    Who loses its last arc on the way is forgotten, as if the batch had been cut there, unless it is there
    without one, too. `change` is zero before and after: arcs that a node still has to gain.
    """
    for p in range(found):
        gained = (1 if batch.new[p] != 0 else 0) - (1 if batch.old[p] != 0 else 0)
        nodes.change[batch.a[p]] += gained
        nodes.change[batch.b[p]] += gained
    for i in range(len(t)):
        if batch.mark[i] == NO_CONTACT:
            continue
        lapsed = batch.mark[i] == LAPSED
        gained = (PARTED if lapsed else batch.mark[i]) - LINKED
        for end in range(2):
            node = src[i] if end == 0 else dst[i]
            if not lapsed:
                _touch_node(nodes, node, t[i], half_life)
            nodes.change[node] -= gained
            if gained < 0 and not stay and nodes.own[node] == 0:
                arcs = pull.count[node] - nodes.change[node] + (push.count[node] if directed else 0)
                if arcs == 0:
                    nodes.last[node] = NEVER
                    nodes.count[node] = 0


def touch_ends(a: Int64, b: Int64, t: Float64, half_life: float, last: Float64, count: Float32) -> None:
    """Take contacts of pairs, for both ends of each."""
    with cython.nogil:
        for i in range(len(a)):
            for end in range(2):
                at = a[i] if end == 0 else b[i]
                count[at] = count_after(last[at], count[at], t[i], half_life)
                if t[i] >= last[at]:
                    last[at] = t[i]
