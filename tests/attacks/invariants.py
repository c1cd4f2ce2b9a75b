"""Structural invariants of a state between two updates.

A broken one may stay silent for long: a mark that stays, or two blocks that overlap, show in a vector only
once another update comes by. The check reads private arrays, and is for tests alone.
"""

import numpy as np

from dygcn.engine.graph.constants import FEW, LOWER, SMALLEST_BLOCK


def check_invariants(live):
    """Assert all of them for an embedding of one process."""
    graph, rule = live._state.graph, live._state.exact
    check_ids(graph)
    for arcs in {id(arcs): arcs for arcs in (graph.pull, graph.push)}.values():
        check_blocks(arcs)
        check_hubs(arcs)
    check_nodes(graph)
    if graph.memory is not None:
        check_ghosts(graph)
    if graph.expiry is not None:
        check_expiry(graph)
    for sums in rule.sums:
        check_rows(sums)
    check_marks(rule._spreading)


def check_ids(graph):
    """Every node is an id's or free, and every id is found."""
    ids = graph.ids
    given, free = ids.given(), ids._free[: int(ids._counts[1])]
    nodes = np.concatenate((given, free))
    assert len(np.unique(nodes)) == len(nodes) == ids.high, "a node is two ids', or nobody's"
    assert np.array_equal(np.sort(ids._table[ids._table >= 0]), np.sort(given)), "the table of ids"
    assert np.array_equal(ids.find(ids.names(given)), given), "an id is not found where it stands"
    assert graph.present(given).all(), "an id that is not in the graph was not forgotten"


def check_blocks(arcs):
    """No two nodes, or free blocks, share a part of the pool."""
    count, start, room = arcs.count, arcs.start, arcs._room
    assert (arcs._extra == 0).all(), "counters of a batch are left behind"
    assert ((count >= 0) & (count <= room)).all(), "more arcs than room"
    tail = int(arcs._tail[0])
    assert tail <= len(arcs.others) == len(arcs.weights), "the pool is shorter than its blocks"
    owned = room > 0
    blocks = list(zip(start[owned].tolist(), room[owned].tolist(), strict=True)) + list(free_blocks(arcs))
    used = np.zeros(tail // SMALLEST_BLOCK + 1, np.int64)
    for base, size in blocks:
        assert base % SMALLEST_BLOCK == 0 <= base <= tail - size, "a block outside of the pool"
        used[base // SMALLEST_BLOCK : (base + size) // SMALLEST_BLOCK] += 1
    assert (used <= 1).all(), "blocks overlap"


def free_blocks(arcs):
    """Yield beginning and size of every free block."""
    for size, head in enumerate(arcs._heads.tolist()):
        while head >= 0:
            yield head * SMALLEST_BLOCK, SMALLEST_BLOCK << size
            head = int(arcs.others[head * SMALLEST_BLOCK])


def check_hubs(arcs):
    """No arc is there twice, and the table of hubs knows where each of theirs stands."""
    nodes = np.flatnonzero(arcs.count).astype(np.int32)
    node, other, _ = arcs.arcs(nodes)
    keys = (node.astype(np.int64) << 32) | other
    assert len(np.unique(keys)) == len(keys), "an arc is there twice"
    assert arcs._hub[arcs.count > FEW].all(), "a node with many arcs is no hub"
    first = np.repeat(np.cumsum(arcs.count[nodes]) - arcs.count[nodes], arcs.count[nodes])
    slots, of_hub = np.arange(len(keys)) - first, arcs._hub[node] > 0
    known = numbered_pairs(arcs._table)
    assert len(known) == len(arcs._table) == of_hub.sum(), "the table of hubs has other arcs"
    assert known == dict(zip(keys[of_hub].tolist(), slots[of_hub].tolist(), strict=True)), "an arc moved"


def numbered_pairs(table):
    """Return the pairs of a table with their numbers."""
    keys, slots, _ = table.arrays
    there = keys >= 0
    return dict(zip(keys[there].tolist(), slots[there].tolist(), strict=True))


def check_nodes(graph):
    """Who is in the graph, and how much each carries, follows from the arcs."""
    high = graph.ids.high
    assert not graph._change.any(), "changes of a batch are left behind"
    assert not graph._seen.any(), "marks of a batch are left behind"
    here = (graph.pull.count[:high] > 0) | (graph.push.count[:high] > 0) | (graph._own[:high] > 0)
    assert np.array_equal(here, graph._active[:high] > 0), "who is in the graph"
    assert len(graph) == here.sum(), "how many are in the graph"
    node, _, weight = graph.pull.arcs(np.flatnonzero(here).astype(np.int32))
    carried = np.zeros(high, np.int64)
    np.add.at(carried, node, np.abs(weight))
    assert np.array_equal(carried, graph.strength[:high]), "what nodes carry"
    assert graph.edge_count == (graph.edges()[2] > 0).sum(), "how many edges there are"


def check_ghosts(graph):
    """Every ghost is an arc below zero, and will be looked at when it ages."""
    memory = graph.memory
    a, b, weight = graph.edges()
    ends = (a, b) if graph.directed else (np.minimum(a, b), np.maximum(a, b))
    arcs = ((ends[0].astype(np.int64) << 32) | ends[1])[weight < 0]
    known = numbered_pairs(memory._table).keys()
    assert known == set(arcs.tolist()), "ghosts and arcs below zero are not the same"
    queued = memory._queue.arrays[1][: len(memory._queue)].tolist()
    assert known <= set(queued), "a ghost that never ages"


def check_expiry(graph):
    """Every edge has an entry that is not later than it is due, and nobody is due."""
    a, b, _ = graph.edges()
    due = dict(zip(zip(a.tolist(), b.tolist(), strict=True), graph.edge_contacts()[0].tolist(), strict=True))
    queue, *_, held, counts = graph.expiry.arrays.arrays
    times, keys = (array[: len(queue)].tolist() for array in queue.arrays[:2])
    first = {(key >> 32, key & LOWER): -np.inf for key in held[: counts[0]].tolist()}  # since a refusal
    for time, key in zip(times, keys, strict=True):
        first[key >> 32, key & LOWER] = min(time, first.get((key >> 32, key & LOWER), np.inf))
    for pair, last in due.items():
        assert first.get(pair, np.inf) <= last + graph.expiry.span, "an edge that never leaves"
        assert last + graph.expiry.span > graph.contacts.clock, "an edge that is still there"


def check_rows(sums):
    """Every wide row is one node's or free."""
    wide = sums.slot[sums.slot >= 0]
    rows = np.concatenate((wide, sums._free[: int(sums._counts[1])]))
    assert len(np.unique(rows)) == len(rows) == int(sums._counts[0]), "a wide row is two nodes', or nobody's"


def check_marks(spreading):
    """Nothing is marked between updates."""
    assert (spreading.place == -1).all(), "places of an update are left behind"
    assert not spreading.seen.any(), "marks of an update are left behind"
