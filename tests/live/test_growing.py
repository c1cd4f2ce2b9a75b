"""Arrays are replaced when they grow: a book that says where they lie must be of those that are used now."""

import numpy as np

import dygcn
from dygcn.models import Model
from tests.live.test_hubs import play


def books(live):
    """Every book that loops are handed, and the arrays that should be in it."""
    graph, rule = live.state.graph, live.state.rule
    ids, room, spreading = graph.ids, rule._room, rule._spreading
    of_ids = ids._table, ids.keys, ids._values, ids._alive, ids._free, ids._counts, ids.hashes, ids._secret
    yield ids._book, of_ids
    yield ids.key_book, (ids.keys, ids.hashes)
    for arcs in (graph.pull, graph.push):
        blocks = arcs.start, arcs.count, arcs._room, arcs.others, arcs.weights, arcs._hub, arcs._extra
        table = arcs._table.keys, arcs._table.slots, arcs._table.used
        yield arcs.book, (*blocks, arcs._heads, arcs._tail, *table, arcs.times, arcs.counts)
    marks = graph._own, graph._active, graph._seen
    contacts = graph.contacts.times, graph.contacts.counts
    yield graph._node_book, (graph.strength, graph._change, *marks, *contacts)
    for sums in rule.sums:
        yield sums.book, (sums.degree, sums.slot, sums.narrow, sums.wide)
    yield spreading.marks, (spreading.place, spreading.seen)
    yield room.work_book, room.works[0]
    yield room.reach_book, room.reach


def stale(live):
    """Books that name other arrays than those that are used, or another place than where these lie."""
    return [
        book
        for book, arrays in books(live)
        if any(
            kept is not used or kept.ctypes.data != page[0] or len(kept) != page[1]
            for kept, used, page in zip(book.arrays, arrays, book.pages.tolist(), strict=False)
        )
    ]


def start():
    weights = (np.eye(5, 3, dtype=np.float32),) * 3
    return dygcn.start(Model(weights, "int64", "hashed", np.ones(5), unit=1.0))


def test_no_book_is_stale():
    """Nodes, arcs, hubs and wide rows grow a little with every update."""
    live, random, known = start(), np.random.default_rng(0), 0
    for step in range(60):
        known += int(random.integers(1, 40))
        pairs = random.integers(0, known, (int(random.choice([1, 10, 150])), 2))
        pairs[::2, 0] = step % 3
        live.update({"src": pairs[:, 0], "dst": pairs[:, 1], "t": np.full(len(pairs), float(step))})
        assert not stale(live)
    assert live.recompute().digest() == live.digest()


def test_streams_with_a_hub():
    for seed in range(20):
        play(seed)


def test_a_stale_book_would_be_noticed():
    """The mutant: degrees are replaced, and the book is not. (No loop may run after it.)"""
    live = start()
    live.update(add=[(1, 2), (2, 3)])
    sums = live.state.rule.sums[0]
    assert not stale(live)
    sums.degree = sums.degree.copy()
    assert stale(live) == [sums.book]
