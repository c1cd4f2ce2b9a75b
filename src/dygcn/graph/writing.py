"""Writing the net effect of a batch to the graph, all of it in one call. Loops only.

Nothing is written before it is known to fit: a call that finds too little room says so and can be made again.
Nothing is allocated after the first write, so a call writes everything or, if memory runs out, nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dygcn._jit import kernel, page, prefetch
from dygcn.graph import arcs as adjacency
from dygcn.graph.arcs import FAR, Arcs
from dygcn.graph.contacts import touch_nodes
from dygcn.graph.delta import LOOP, Pairs, census, number_pairs, overweight, play
from dygcn.records import Float32, Float64, Int8, Int32, Int64

if TYPE_CHECKING:
    from dygcn.records import Nodes

DONE, SMALL_POOL, OVERWEIGHT = 0, 1, 2
CAME, WENT, IDLE, TOUCHED, MOVED, EDGES, UNCHANGED, MISSING, LOOPS = range(9)  # places in `sizes`
SIZES_PAGE = 14  # of `PairRoom.book`
NodeArrays: TypeAlias = tuple[Int64, Int64, Int8, Int8, Int8, Float64, Float32]
"""Of every node: strength, room for counting, owns features, active, seen, last contact and count."""
Written: TypeAlias = tuple[Int32, Int32, Int64]
"""Room for the pairs that are written: both ends and the weight."""


@kernel
def _room_for_arcs(
    n: int, a: Nodes, b: Nodes, new: Int64, directed: bool, pull: Arcs, push: Arcs, needed: Int64
) -> bool:
    """Say whether the arcs fit; if not, `needed` says how much pool and table each direction takes."""
    adjacency.count_new(n, a, new, pull)
    adjacency.count_new(n, b, new, push)
    pool, table = adjacency.needs(n, a, pull)
    more_pool, more_table = adjacency.needs(n, b, push)
    if not directed:  # both directions stand in one place
        pool, table = pool + more_pool, table + more_table
        more_pool, more_table = 0, 0
    needed[0], needed[1], needed[2], needed[3] = pool, table, more_pool, more_table
    if adjacency.fits(pool, table, pull) and (not directed or adjacency.fits(more_pool, more_table, push)):
        return True
    adjacency.forget_needs(n, a, pull)
    adjacency.forget_needs(n, b, push)
    return False


@kernel
def _list_nodes(
    found: int, a: Nodes, b: Nodes, named: Nodes, pair_of: Int32, seen: Int8, out: Nodes
) -> tuple[int, int]:
    """List the ends of pairs, each once, then those of self loops; return how many of these, and of all."""
    n = 0
    for p in range(found):
        if p + FAR < found:
            prefetch(seen, a[p + FAR])
            prefetch(seen, b[p + FAR])
        if seen[a[p]] == 0:
            seen[a[p]] = 1
            out[n] = a[p]
            n += 1
        if seen[b[p]] == 0:
            seen[b[p]] = 1
            out[n] = b[p]
            n += 1
    touched = n
    for i in range(len(named)):
        node = named[i]
        if pair_of[i] == LOOP and seen[node] == 0:
            seen[node] = 1
            out[n] = node
            n += 1
    for i in range(n):
        seen[out[i]] = 0
    return touched, n


@kernel
def _write_pairs(
    found: int,
    a: Nodes,
    b: Nodes,
    old: Int64,
    new: Int64,
    directed: bool,
    pull: Arcs,
    push: Arcs,
    written: Written,
    needed: Int64,
    sizes: Int64,
) -> bool:
    """Write the pairs whose stored weight is another one now, if there is room."""
    end_a, end_b, weight = written
    n, edges = 0, 0
    for p in range(found):
        if old[p] != new[p]:
            end_a[n], end_b[n], weight[n] = a[p], b[p], new[p]
            edges += (1 if new[p] > 0 else 0) - (1 if old[p] > 0 else 0)
            n += 1
    if not _room_for_arcs(n, end_a, end_b, weight, directed, pull, push, needed):
        return False
    adjacency.reserve(n, end_a, pull)
    adjacency.reserve(n, end_b, push)
    adjacency.write(n, end_a, end_b, weight, pull)
    adjacency.write(n, end_b, end_a, weight, push)
    adjacency.give_back_empty(n, end_a, pull)
    adjacency.give_back_empty(n, end_b, push)
    sizes[EDGES] = edges
    return True


@kernel
def _list_arcs(
    found: int,
    a: Nodes,
    b: Nodes,
    old: Int64,
    new: Int64,
    directed: bool,
    strength: Int64,
    moved: int,
    nodes: Nodes,
    weights: Int64,
) -> None:
    """List the arcs that weigh another thing now: receivers, then senders; old weights, then new ones."""
    arcs = moved if directed else 2 * moved
    i = 0
    for p in range(found):
        was, now = abs(old[p]), abs(new[p])
        if was == now:
            continue
        for turned in range(1 if directed else 2):
            at = i + turned * moved
            nodes[at] = b[p] if turned else a[p]
            nodes[arcs + at] = a[p] if turned else b[p]
            weights[at] = was
            weights[arcs + at] = now
            strength[nodes[at]] += now - was
        i += 1


@kernel
def commit(
    found: int,
    a: Nodes,
    b: Nodes,
    old: Int64,
    new: Int64,
    pair_last: Float64,
    pair_count: Float32,
    named: Nodes,
    other: Nodes,
    t: Float64,
    mark: Int8,
    pair_of: Int32,
    half_life: float,
    directed: bool,
    stay: bool,
    pull: Arcs,
    push: Arcs,
    nodes: NodeArrays,
    written: Written,
    needed: Int64,
    sizes: Int64,
) -> tuple[int, Nodes, Int64, Nodes]:
    """Write what pairs of nodes are now; return the arcs that moved and the nodes that it concerns.

    Parameters
    ----------
    pair_last, pair_count
        Contacts of the pairs; empty: they are not kept, or stay what they are.
    named, other, t, mark
        Events; without times, their contacts are not for the nodes.
    half_life
        Of contacts.

    Returns
    -------
    tuple
        `DONE` or `SMALL_POOL`; receivers and senders; old and new weights; the touched nodes, those that
        came, those that went, those that never were there, a row for each. `sizes` says how many of them.
    """
    strength, change, own, active, seen, last, count = nodes
    sizes[:UNCHANGED] = 0
    for p in range(found):
        sizes[MOVED] += abs(old[p]) != abs(new[p])
    moved = sizes[MOVED] if directed else 2 * sizes[MOVED]
    arcs, weights = np.empty(2 * moved, np.int32), np.empty(2 * moved, np.int64)
    lists = np.empty((4, 2 * found + len(named)), np.int32)
    if not _write_pairs(found, a, b, old, new, directed, pull, push, written, needed, sizes):
        return SMALL_POOL, arcs, weights, lists
    if len(pair_last) > 0:
        adjacency.set_contacts(found, a, b, new, pair_last, pair_count, pull)
    if len(last) > 0 and len(t) > 0:
        pulls, pushes, fixed = pull[1], push[1] if directed else push[1][:0], own[:0] if stay else own
        ends = named, other, t, mark, half_life
        touch_nodes(found, a, b, old, new, *ends, pulls, pushes, fixed, change, last, count)
    _list_arcs(found, a, b, old, new, directed, strength, sizes[MOVED], arcs, weights)
    touched, known = _list_nodes(found, a, b, named, pair_of, seen, lists[0])
    arcs_of = pull[1], push[1]
    census(known, lists[0], *arcs_of, own, active, last, count, stay, lists[1], lists[2], lists[3], sizes)
    sizes[TOUCHED] = touched
    return DONE, arcs, weights, lists


@kernel
def _open_pairs(pages: Int64) -> tuple[Pairs, Written, Int64, Int64, Int64]:
    """Return the arrays of `PairRoom.book`: pairs, room for what is written, needs, sizes, secret."""
    pairs = (
        page(pages, 0, np.int32),
        page(pages, 1, np.int32),
        page(pages, 2, np.int64),
        page(pages, 3, np.int64),
        page(pages, 4, np.float64),
        page(pages, 5, np.int32),
        page(pages, 6, np.int32),
        page(pages, 7, np.int32),
        page(pages, 8, np.float32),
        page(pages, 9, np.int8),
    )
    written = page(pages, 10, np.int32), page(pages, 11, np.int32), page(pages, 12, np.int64)
    rest = page(pages, 13, np.int64), page(pages, SIZES_PAGE, np.int64), page(pages, 15, np.int64)
    return pairs, written, *rest


@kernel
def _open_nodes(pages: Int64) -> NodeArrays:
    """Return the arrays of `Graph`'s book of nodes."""
    marks = page(pages, 2, np.int8), page(pages, 3, np.int8), page(pages, 4, np.int8)
    contacts = page(pages, 5, np.float64), page(pages, 6, np.float32)
    return page(pages, 0, np.int64), page(pages, 1, np.int64), *marks, *contacts


@kernel
def apply_events(
    src: Nodes,
    dst: Nodes,
    op: Int8,
    weight: Int64,
    t: Float64,
    directed: bool,
    stay: bool,
    limit: int,
    half_life: float,
    room: Int64,
    pull_book: Int64,
    push_book: Int64,
    node_book: Int64,
) -> tuple[int, Nodes, Int64, Nodes]:
    """Play events and write their net effect, in a graph that remembers nothing; see `commit`.

    Or return `OVERWEIGHT` and the ends of all pairs, having written nothing. The half-life is that of
    contacts, 0 where they are not kept.
    """
    pairs, written, needed, sizes, secret = _open_pairs(room)
    pull, push, nodes = adjacency.open_arcs(pull_book), adjacency.open_arcs(push_book), _open_nodes(node_book)
    a, b, old, new, last, pair_of, _, _, count, mark = pairs
    found = number_pairs(src, dst, directed, secret, pairs)
    none, never = old[:0], last[:0]
    if half_life == 0:
        last, count, t = never, count[:0], t[:0]
    adjacency.look_up(found, a, b, pull, old, last, count)
    told = play(found, op, weight, t, 0.0, 0.0, 0.0, half_life, none, never, pairs)
    sizes[UNCHANGED], sizes[MISSING], sizes[LOOPS] = told
    if overweight(found, a, b, old, new, directed, nodes[0], nodes[1], limit):
        ends = np.empty((4, 2 * found), np.int32)
        ends[0, :found] = a[:found]
        ends[0, found:] = b[:found]
        return OVERWEIGHT, np.empty(0, np.int32), np.empty(0, np.int64), ends
    return commit(
        found,
        a,
        b,
        old,
        new,
        last,
        count,
        src,
        dst,
        t,
        mark,
        pair_of,
        half_life,
        directed,
        stay,
        pull,
        push,
        nodes,
        written,
        needed,
        sizes,
    )
