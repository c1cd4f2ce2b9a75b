"""Contacts of nodes and pairs in a live embedding: saved, recovered, interrupted, they are the same bits."""

import copy
import dataclasses

import numpy as np
import pytest

import dygcn
from dygcn.engine.graph.ageing import Memory
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.model import COUNT_HALF_LIFE
from dygcn.engine.propagation.spreading import Spreading
from dygcn_lab.testbed.seeding import small_model
from tests.engine.graph.contact_twin import ContactTwin

ARRAYS = "contact", "activity", "pair_t", "pair_count"
HALF_LIVES = pytest.mark.parametrize("half_life", [None, 2.0])
DIRECTED = pytest.mark.parametrize("directed", [False, True])


def start(half_life=None, directed=False, unit=0.5):
    return dygcn.start(dataclasses.replace(small_model(half_life=half_life, directed=directed), unit=unit))


def stream(seed, count=300, nodes=12):
    """Adds, repeats, removes, loops and late events, of few nodes and of a hub."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        src, dst = random.integers(0, nodes, 2).tolist()
        src, dst = (0, 100 + dst * 10 + i % 10) if random.random() < 0.3 else (src, dst)
        t = i // 10 - (random.integers(12) if random.random() < 0.1 else 0)
        rows.append((src, dst, float(t), -1 if random.random() < 0.35 else 1, 1.0))
    return rows


def held(live):
    image = live._state.image()[0].graph
    return {name: getattr(image, name) for name in ARRAYS} | {"clock": image.clock}


def same(one, other):
    mine, theirs = held(one), held(other)
    assert len(mine["pair_t"]) > 0
    for name, values in mine.items():
        np.testing.assert_array_equal(values, theirs[name])
    assert one.digest() == other.digest()


def parts(events, size):
    return [events[begin : begin + size] for begin in range(0, len(events), size)]


@DIRECTED
@HALF_LIVES
@pytest.mark.parametrize("size", [1, 17])
def test_contacts_equal_the_twin(directed, half_life, size):
    """Single edges in one call, and batches."""
    live = start(half_life, directed)
    twin = ContactTwin(directed=directed, half_life=half_life, count_half_life=COUNT_HALF_LIFE * 0.5)
    for number, part in enumerate(parts(stream(3), size)):
        live.update(part)
        twin.apply_batch(part)
        if number % (60 // size + 1) == 0:
            gone = next(iter(live.ids().tolist()))
            live.update(remove_nodes=[gone])
            twin.remove_node(gone)
            assert twin.disagreement(live._state.graph) < 1e-4
    assert twin.disagreement(live._state.graph) < 1e-4


@DIRECTED
@HALF_LIVES
def test_saved_loaded_copied_and_recomputed(tmp_path, directed, half_life):
    live = start(half_life, directed)
    events = stream(5)
    live.update(events[:250])
    live.save(tmp_path / "x")
    others = [dygcn.load(tmp_path / "x"), copy.deepcopy(live), live.recompute()]
    for other in others:
        same(live, other)
    for part in parts(events[250:], 7):
        for one in (live, *others):
            one.update(part)
    for other in others:
        same(live, other)


@DIRECTED
def test_recovered_from_the_log(tmp_path, directed):
    """A restart joins batches, and nodes leave and come back inside what it joins."""
    live = dygcn.open(tmp_path / "x", start(None, directed))
    for part in parts(stream(7), 3):
        live.update(part)
    before = copy.deepcopy(live._state)
    live._let_go()
    with dygcn.open(tmp_path / "x") as again:
        for name in ARRAYS:
            one, other = (getattr(state.image()[0].graph, name) for state in (before, again._state))
            np.testing.assert_array_equal(one, other)


def test_pairs_recovered_from_the_log_with_memory(tmp_path):
    live = dygcn.open(tmp_path / "x", start(2.0))
    for part in parts(stream(7), 3):
        live.update(part)
    before = copy.deepcopy(live._state)
    live._let_go()
    with dygcn.open(tmp_path / "x") as again:
        for name in ("contact", "pair_t", "pair_count"):
            one, other = (getattr(state.image()[0].graph, name) for state in (before, again._state))
            np.testing.assert_array_equal(one, other)


def fail(*_, **__):
    raise MemoryError("no room, on purpose")


def interrupted(monkeypatch, half_life, owner, name):
    """What `recompute` makes of an update that an exception ended, and an update that none did."""
    live, events = start(half_life), stream(9)
    live.update(events[:200])
    whole = live.recompute()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(owner, name, fail)
        with pytest.raises(MemoryError):
            live.update(events[200:])
    whole.update(events[200:])
    return live.recompute(), whole


PLACES = [
    (None, Spreading, "add"),
    (2.0, Spreading, "add"),
    (2.0, Memory, "remember"),
    (2.0, Transaction, "_write_arcs"),
    (2.0, Transaction, "collect"),
]


@pytest.mark.parametrize(("half_life", "owner", "name"), PLACES)
def test_an_interrupted_update_is_finished(monkeypatch, half_life, owner, name):
    same(*interrupted(monkeypatch, half_life, owner, name))


def test_contacts_that_are_played_twice_would_be_noticed(monkeypatch):
    """The mutant: what nodes have is not staged, but added to when the batch is written again."""

    whole = Transaction.complete

    def complete(self):
        if self.pairs is not None and self.pairs.touched is not None:
            nodes, last, count = self.pairs.touched
            self.pairs.touched = nodes, last, count + 1
        return whole(self)

    monkeypatch.setattr(Transaction, "complete", complete)
    with pytest.raises(AssertionError):
        same(*interrupted(monkeypatch, 2.0, Memory, "remember"))


def test_a_model_without_times_keeps_nothing(tmp_path):
    live = start(2.0, unit=None)
    live.update(stream(1))
    graph = live._state.graph
    assert graph.contacts is None
    assert all(len(getattr(live._state.image()[0].graph, name)) == 0 for name in ARRAYS)
    assert len(graph.pull.times) == len(graph.pull.counts) == 0
    live.save(tmp_path / "x")
    assert dygcn.load(tmp_path / "x").digest() == live.digest()
