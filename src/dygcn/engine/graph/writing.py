"""Writes the net effect of a batch to the graph, in one call. Loops only.

Nothing is written before it is known to fit: a call that finds too little capacity returns that, and can be
made again. Nothing is allocated, so a call writes everything or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.engine.graph.constants import (
    DONE,
    EDGES,
    FAR,
    FOUND,
    LOOP,
    MOVED,
    NEVER,
    OVERWEIGHT,
    SMALL_POOL,
    TOUCHED,
    UNCHANGED,
)
from dygcn.engine.records import Float64, Nodes

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
        reserve,
        slot_of,
        write,
    )
    from dygcn.engine.graph.delta import census, find_stored, magnitude, overweight, play, touch_nodes
    from dygcn.engine.graph.pairs import recall
    from dygcn.engine.graph.ticks import stamp
if TYPE_CHECKING:
    from dygcn.engine.graph.delta import BatchArrays, EventArrays, GraphArrays, NodeArrays


# ---- events ------------------------------------------------------------------------------------------------


def apply_events(graph: GraphArrays, events: EventArrays) -> int:
    """Play events and write their net effect, in a graph without ghosts; see `commit`.

    Or return `OVERWEIGHT`, having written nothing.
    """
    if _play(graph, events, 0.0, 0.0) == OVERWEIGHT:
        return OVERWEIGHT
    counted = graph.count_half_life
    return commit(graph, events.src, events.dst, events.t, counted > 0, counted)


def _play(graph: GraphArrays, events: EventArrays, before: float, clock: float) -> int:
    found = find_stored(graph, events)
    if graph.half_life > 0:
        recall(graph.ghosts, found, graph.batch.a, graph.batch.b, graph.batch.ghosts, graph.batch.ghost_t)
    play(graph.batch, events, before, clock, graph.half_life, graph.count_half_life)
    heavy = overweight(graph.batch, graph.directed, graph.nodes.strength, graph.nodes.change, graph.limit)
    return OVERWEIGHT if heavy else DONE


def play_events(graph: GraphArrays, events: EventArrays, before: float = 0.0, clock: float = 0.0) -> int:
    """Play events (clocks: see `delta.play`), and write nothing; return `DONE` or `OVERWEIGHT`."""
    with cython.nogil:
        status = _play(graph, events, before, clock)
    return status


def write_events(graph: GraphArrays, events: EventArrays) -> int:
    """Apply events, for plain Python."""
    with cython.nogil:
        status = apply_events(graph, events)
    return status


# ---- pairs -------------------------------------------------------------------------------------------------


def write_pairs(graph: GraphArrays, named: Nodes, contacts: bool) -> int:
    """Write the pairs that a batch holds, for plain Python; see `commit`."""
    with cython.nogil:
        status = commit(graph, named, named, graph.batch.last, contacts, 0.0)
    return status


def commit(
    graph: GraphArrays, named: Nodes, other: Nodes, t: Float64, contacts: bool, half_life: float
) -> int:
    """Write pairs of nodes, list changed arcs and touched nodes; return `DONE` or `SMALL_POOL`.

    `named`, `other` and `t` are the events, or nodes that may come or go; `batch.pair_of` marks those of no
    pair. With `contacts`, the contacts of the pairs are written, too; with a `half_life`, those of the events
    count for the nodes.
    """
    found = graph.batch.sizes[FOUND]
    for kind in range(UNCHANGED):
        graph.batch.sizes[kind] = 0
    _note_times(graph.batch, found, graph.pull)
    if not _write_changed(graph, graph.batch, found):
        return SMALL_POOL
    if contacts:
        _set_contacts(graph.pull, graph.batch, found, graph.batch.a, graph.batch.b)
        if not graph.directed:
            _set_contacts(graph.pull, graph.batch, found, graph.batch.b, graph.batch.a)
    if half_life > 0:
        touch_nodes(graph, found, named, other, t)
    _list_arcs(graph.batch, found, graph.directed, graph.nodes)
    census(graph, _list_nodes(graph.batch, found, named, graph.nodes))
    return DONE


def _note_times(batch: BatchArrays, found: int, pull: ArcArrays) -> None:
    """Note the last contact of each pair before it is written, if contacts are kept."""
    if len(pull.times) > 0:
        for p in range(found):
            slot = slot_of(pull, batch.a[p], batch.b[p])
            batch.before[p] = pull.times[pull.start[batch.a[p]] + slot] if slot >= 0 else NEVER


def _set_contacts(pull: ArcArrays, batch: BatchArrays, found: int, nodes: Nodes, other: Nodes) -> None:
    for p in range(found):
        if batch.new[p] != 0:
            at = pull.start[nodes[p]] + slot_of(pull, nodes[p], other[p])
            pull.times[at] = batch.last[p]
            pull.counts[at] = batch.count[p]


def _write_changed(graph: GraphArrays, batch: BatchArrays, found: int) -> bool:
    """Write the pairs whose stored weight differs from before, if there is capacity."""
    n, edges = 0, 0
    for p in range(found):
        if batch.old[p] != batch.new[p]:
            batch.end_a[n] = batch.a[p]
            batch.end_b[n] = batch.b[p]
            batch.weight[n] = batch.new[p]
            edges += (1 if batch.new[p] > 0 else 0) - (1 if batch.old[p] > 0 else 0)
            n += 1
    if not _capacity_for_arcs(batch, n, graph.directed, graph.pull, graph.push):
        return False
    for i in range(n):  # whose arcs in `pull` are written
        stamp(graph.nodes.ticks, batch.end_a[i])
        if not graph.directed:
            stamp(graph.nodes.ticks, batch.end_b[i])
    reserve(graph.pull, n, batch.end_a)
    reserve(graph.push, n, batch.end_b)
    write(graph.pull, n, batch.end_a, batch.end_b, batch.weight)
    write(graph.push, n, batch.end_b, batch.end_a, batch.weight)
    give_back_empty(graph.pull, n, batch.end_a)
    give_back_empty(graph.push, n, batch.end_b)
    batch.sizes[EDGES] = edges
    return True


def _capacity_for_arcs(batch: BatchArrays, n: int, directed: bool, pull: ArcArrays, push: ArcArrays) -> bool:
    """Return whether the arcs fit; if not, `needed` gets the pool and table of each direction."""
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
    """List the arcs whose weight changed, one direction first, and add to the strength of nodes."""
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
    """List the distinct ends of pairs, then those of self loops; return the length of the list."""
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
    if nodes.seen[node]:
        return n
    nodes.seen[node] = 1
    batch.nodes[0, n] = node
    return n + 1
