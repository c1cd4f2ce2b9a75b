"""Large arrays grow in place: their memory moves, and whoever was told where it lies must be told again."""

import numpy as np
import pytest

import dygcn
from dygcn._jit import Book
from dygcn.graph.ids import grown
from dygcn.models import Model
from tests.live.test_copies import parts_of
from tests.live.test_hubs import play


@pytest.fixture
def in_place(monkeypatch):
    """Arrays of any size grow as only very large ones do."""
    monkeypatch.setattr("dygcn.graph.ids._COPIED", -1)


def stale(live):
    """Books that name a place where their arrays no longer lie."""
    known, _ = {}, live.state.rule._books()  # some are made anew only when they are needed
    parts_of(live.state, known)
    books = [part for part in known.values() if isinstance(part, Book)]
    assert len(books) > 10
    return [book for book in books if Book(*book.arrays).pages.tolist() != book.pages.tolist()]


def start():
    weights = (np.eye(5, 3, dtype=np.float32),) * 3
    return dygcn.start(Model(weights, "int64", "hashed", np.ones(5), unit=1.0))


def test_no_book_is_stale(in_place):
    """Nodes, arcs, hubs and wide rows grow a little with every update."""
    live, random, known = start(), np.random.default_rng(0), 0
    for step in range(60):
        known += int(random.integers(1, 40))
        pairs = random.integers(0, known, (int(random.choice([1, 10, 150])), 2))
        pairs[::2, 0] = step % 3
        live.update({"src": pairs[:, 0], "dst": pairs[:, 1], "t": np.full(len(pairs), float(step))})
        assert not stale(live)
    assert live.recompute().digest() == live.digest()


def test_streams_with_a_hub(in_place):
    for seed in range(20):
        play(seed)


def test_a_stale_book_would_be_noticed(in_place):
    """The mutant: nobody is told that degrees lie elsewhere. (No loop may run after it.)"""
    live = start()
    live.update(add=[(1, 2), (2, 3)])
    sums = live.state.rule.sums[0]
    assert not stale(live)
    assert grown(sums.degree, 1 << 20) is sums.degree
    assert stale(live) == [sums.book]
