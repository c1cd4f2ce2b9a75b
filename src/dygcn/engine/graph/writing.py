"""Writing the net effect of a batch to the graph, all of it in one call. Loops only.

Nothing is written before it is known to fit: a call that finds too little capacity
says so and can be made again. Nothing is allocated, so a call writes everything or, if memory runs out while
capacity is reserved, nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.graph.fixed import FAR
from dygcn.engine.graph.outcomes import (
    DONE,
    EDGES,
    FOUND,
    LOOP,
    MOVED,
    OVERWEIGHT,
    SMALL_POOL,
    TOUCHED,
    UNCHANGED,
)

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._native import prefetch_8
    from dygcn.engine.graph.arcs import (
        ArcArrays,
        add_needs,
        count_new,
        fits,
        forget_needs,
        give_back_empty,
        look_up,
        reserve,
        set_contacts,
        slot_of,
        write,
    )
    from dygcn.engine.graph.batch import BatchArrays, NodeArrays
    from dygcn.engine.graph.delta import census, magnitude, number_pairs, overweight, play
    from dygcn.engine.graph.ghosts import GhostArrays, recall
    from dygcn.engine.graph.ticks import stamp
    from dygcn.engine.graph.touching import touch_nodes

if TYPE_CHECKING:
    from dygcn.engine.records import Float64, Int8, Int64, Nodes


NEVER = -np.inf

# ---- events ------------------------------------------------------------------------------------------------


def apply_events(
    batch: BatchArrays,
    pull: ArcArrays,
    push: ArcArrays,
    nodes: NodeArrays,
    directed: bool,
    stay: bool,
    limit: int,
    half_life: float,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
) -> int:
    """Play events and write their net effect, in a graph that remembers nothing; see `commit`.

    Or return `OVERWEIGHT`, having written nothing. The half-life is that of contacts, 0 where these are not
    kept.
    """
    _play_plain(batch, pull, directed, half_life, src, dst, op, weight, t)
    if _is_overweight(batch, nodes, directed, limit):
        return OVERWEIGHT
    return commit(batch, pull, push, nodes, src, dst, t, directed, stay, half_life > 0, half_life)


def _play_plain(
    batch: BatchArrays,
    pull: ArcArrays,
    directed: bool,
    half_life: float,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
) -> None:
    found = number_pairs(batch, src, dst, directed)
    look_up(pull, found, batch.a, batch.b, batch.old, half_life > 0, batch.last, batch.count)
    play(batch, op, weight, t, 0.0, 0.0, 0.0, half_life)


def play_events(
    batch: BatchArrays,
    pull: ArcArrays,
    directed: bool,
    half_life: float,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
) -> None:
    """Play events in a graph that remembers nothing; nothing is written to it."""
    with cython.nogil:
        _play_plain(batch, pull, directed, half_life, src, dst, op, weight, t)


def write_events(
    batch: BatchArrays,
    pull: ArcArrays,
    push: ArcArrays,
    nodes: NodeArrays,
    directed: bool,
    stay: bool,
    limit: int,
    half_life: float,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
) -> int:
    """Apply events, for plain Python."""
    with cython.nogil:
        status = apply_events(
            batch, pull, push, nodes, directed, stay, limit, half_life, src, dst, op, weight, t
        )
    return status


def play_remembered(
    batch: BatchArrays,
    pull: ArcArrays,
    nodes: NodeArrays,
    ghosts: GhostArrays,
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
    directed: bool,
    limit: int,
    before: float,
    clock: float,
    half_life: float,
    count_half_life: float,
) -> int:
    """Play events in a graph that remembers removed edges (see `delta.play`); nothing is written to it.

    Returns
    -------
    int
        `DONE` or `OVERWEIGHT`.
    """
    with cython.nogil:
        found = number_pairs(batch, src, dst, directed)
        look_up(pull, found, batch.a, batch.b, batch.old, count_half_life > 0, batch.last, batch.count)
        recall(ghosts, found, batch.a, batch.b, batch.ghosts, batch.ghost_t)
        play(batch, op, weight, t, before, clock, half_life, count_half_life)
        heavy = _is_overweight(batch, nodes, directed, limit)
    return OVERWEIGHT if heavy else DONE


def _is_overweight(batch: BatchArrays, nodes: NodeArrays, directed: bool, limit: int) -> bool:
    return overweight(
        batch.sizes[FOUND],
        batch.a,
        batch.b,
        batch.old,
        batch.new,
        directed,
        nodes.strength,
        nodes.change,
        limit,
    )


# ---- pairs -------------------------------------------------------------------------------------------------


def write_pairs(
    batch: BatchArrays,
    pull: ArcArrays,
    push: ArcArrays,
    nodes: NodeArrays,
    named: Nodes,
    directed: bool,
    stay: bool,
    contacts: bool,
) -> int:
    """Write the pairs that a batch holds, for plain Python; see `commit`."""
    with cython.nogil:
        status = commit(batch, pull, push, nodes, named, named, batch.last, directed, stay, contacts, 0.0)
    return status


def commit(
    batch: BatchArrays,
    pull: ArcArrays,
    push: ArcArrays,
    nodes: NodeArrays,
    named: Nodes,
    other: Nodes,
    t: Float64,
    directed: bool,
    stay: bool,
    contacts: bool,
    half_life: float,
) -> int:
    """Write what pairs of nodes are now; the batch lists the arcs that moved and the nodes that it concerns.

    Parameters
    ----------
    named, other, t
        The events, or nodes that may come or go; `batch.pair_of` says which of them are of no pair.
    contacts
        The contacts of the pairs are written, too.
    half_life
        Of contacts; 0: those of the events are not for the nodes.

    Returns
    -------
    int
        `DONE` or `SMALL_POOL`.
    """
    found = batch.sizes[FOUND]
    for kind in range(UNCHANGED):
        batch.sizes[kind] = 0
    _note_times(batch, found, pull)
    if not _write_changed(batch, found, directed, pull, push, nodes):
        return SMALL_POOL
    if contacts:
        set_contacts(pull, found, batch.a, batch.b, batch.new, batch.last, batch.count)
        if not directed:
            set_contacts(pull, found, batch.b, batch.a, batch.new, batch.last, batch.count)
    if half_life > 0:
        touch_nodes(batch, found, pull, push, nodes, named, other, t, directed, stay, half_life)
    _list_arcs(batch, found, directed, nodes)
    census(batch, _list_nodes(batch, found, named, nodes), pull, push, nodes, stay)
    return DONE


def _note_times(batch: BatchArrays, found: int, pull: ArcArrays) -> None:
    """Note the last contact of each pair before it is written, if contacts are kept."""
    if len(pull.times) > 0:
        for p in range(found):
            slot = slot_of(pull, batch.a[p], batch.b[p])
            batch.before[p] = pull.times[pull.start[batch.a[p]] + slot] if slot >= 0 else NEVER


def _write_changed(
    batch: BatchArrays, found: int, directed: bool, pull: ArcArrays, push: ArcArrays, nodes: NodeArrays
) -> bool:
    """Write the pairs whose stored weight is another one now, if there is capacity."""
    n, edges = 0, 0
    for p in range(found):
        if batch.old[p] != batch.new[p]:
            batch.end_a[n] = batch.a[p]
            batch.end_b[n] = batch.b[p]
            batch.weight[n] = batch.new[p]
            edges += (1 if batch.new[p] > 0 else 0) - (1 if batch.old[p] > 0 else 0)
            n += 1
    if not _capacity_for_arcs(batch, n, directed, pull, push):
        return False
    for i in range(n):  # whose arcs in `pull` are written
        stamp(nodes.ticks, batch.end_a[i])
        if not directed:
            stamp(nodes.ticks, batch.end_b[i])
    reserve(pull, n, batch.end_a)
    reserve(push, n, batch.end_b)
    write(pull, n, batch.end_a, batch.end_b, batch.weight)
    write(push, n, batch.end_b, batch.end_a, batch.weight)
    give_back_empty(pull, n, batch.end_a)
    give_back_empty(push, n, batch.end_b)
    batch.sizes[EDGES] = edges
    return True


def _capacity_for_arcs(batch: BatchArrays, n: int, directed: bool, pull: ArcArrays, push: ArcArrays) -> bool:
    """Say whether the arcs fit; if not, `needed` says how much pool and table each direction takes."""
    for i in range(4):
        batch.needed[i] = 0
    count_new(pull, n, batch.end_a, batch.weight)
    count_new(push, n, batch.end_b, batch.weight)
    add_needs(pull, n, batch.end_a, batch.needed, 0)
    # Where edges have no direction, push is pull.
    add_needs(push, n, batch.end_b, batch.needed, 2 if directed else 0)
    if fits(pull, batch.needed[0], batch.needed[1]) and fits(push, batch.needed[2], batch.needed[3]):
        return True
    forget_needs(pull, n, batch.end_a)
    forget_needs(push, n, batch.end_b)
    return False


def _list_arcs(batch: BatchArrays, found: int, directed: bool, nodes: NodeArrays) -> None:
    """List the arcs that weigh another thing now, one direction first, and add to what nodes carry."""
    moved = 0
    for p in range(found):
        moved += magnitude(batch.old[p]) != magnitude(batch.new[p])
    arcs, i = moved if directed else 2 * moved, 0
    for p in range(found):
        was, now = magnitude(batch.old[p]), magnitude(batch.new[p])
        if was == now:
            continue
        for turned in range(1 if directed else 2):
            at = i + turned * moved
            receiver = batch.b[p] if turned else batch.a[p]
            batch.arcs[at] = receiver
            batch.arcs[arcs + at] = batch.a[p] if turned else batch.b[p]
            batch.arc_weights[at] = was
            batch.arc_weights[arcs + at] = now
            nodes.strength[receiver] += now - was
        i += 1
    batch.sizes[MOVED] = moved


def _list_nodes(batch: BatchArrays, found: int, named: Nodes, nodes: NodeArrays) -> int:
    """List the ends of pairs, each once, then those of self loops; return how many these are together."""
    n = 0
    for p in range(found):
        if p + FAR < found:
            prefetch_8(nodes.seen, batch.a[p + FAR])
            prefetch_8(nodes.seen, batch.b[p + FAR])
        n = _note(batch, n, batch.a[p], nodes)
        n = _note(batch, n, batch.b[p], nodes)
    batch.sizes[TOUCHED] = n
    for i in range(len(named)):
        if batch.pair_of[i] == LOOP:
            n = _note(batch, n, named[i], nodes)
    for i in range(n):
        nodes.seen[batch.nodes[0, i]] = 0
    return n


def _note(batch: BatchArrays, n: int, node: int, nodes: NodeArrays) -> int:
    """List a node as the n-th, unless it is listed; return how many there are then."""
    if nodes.seen[node]:
        return n
    nodes.seen[node] = 1
    batch.nodes[0, n] = node
    return n + 1
