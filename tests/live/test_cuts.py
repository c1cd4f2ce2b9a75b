"""However a stream is cut into batches, the state is the same: with memory, and weights of any fineness."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.graph import Graph
from dygcn.engine.graph.store import GREATEST_SHIFT
from dygcn_lab.testbed.seeding import small_model
from tests.seeded import try_with

NODES = 8
WEIGHTS = st.sampled_from([1.0, 1.0, 3.0, 0.5, 2.0**-7, 2.0**-14, 2.0**-16, 0.3, 37.77])
EVENT = st.tuples(
    st.integers(0, NODES), st.integers(0, NODES), st.integers(0, 12), st.sampled_from([1, 1, -1]), WEIGHTS
)
EVENTS = st.lists(EVENT, max_size=40)
HUNT = settings(
    max_examples=100, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def table(events):
    columns = list(zip(*events, strict=True)) or [()] * 5
    return dict(zip(("src", "dst", "t", "op", "weight"), map(list, columns), strict=True))


def played(events, cuts, half_life, orders=2, features="hashed"):
    live = dygcn.start(small_model(half_life=half_life, orders=orders, features=features))
    bounds = [0, *sorted(cut % (len(events) + 1) for cut in cuts), len(events)]
    for begin, end in pairwise(bounds):
        if begin < end:
            live.update(table(events[begin:end]))
    return live


def agree(events, cuts, half_life, features="hashed"):
    """Events in order of their times, in some cuts, in one batch and one by one."""
    events = sorted(events, key=lambda event: event[2])
    lives = [played(events, some, half_life, features=features) for some in (cuts, [], range(len(events)))]
    digests = {live.digest() for live in lives} | {live.recompute().digest() for live in lives}
    assert len(digests) == 1


@HUNT
@given(
    EVENTS,
    st.lists(st.integers(0, 40), max_size=6),
    st.sampled_from([None, 1.0, 3.0]),
    st.sampled_from(["hashed", "walks"]),
)
def test_n_cuts_are_one_batch(events, cuts, half_life, features):
    agree(events, cuts, half_life, features)


@HUNT
@given(EVENTS, st.lists(st.integers(0, 40), max_size=6))
def test_n_cuts_are_one_batch_with_the_finest_weight_last(events, cuts):
    plain = [(*event[:4], 1.0) for event in events]
    last = [(3, 5, 12, 1, 2.0**-16), (3, 5, 12, -1, 1.0), (6, 90, 12, 1, 2.0**-16), (6, 90, 12, -1, 1.0)]
    agree(plain + last, cuts, 3.0)


def test_an_edge_that_comes_and_goes_inside_a_batch_leaves_an_exact_ghost():
    live = dygcn.start(small_model(half_life=3.0))
    live.update(table([(i, i + 1, 0.0, 1, 1.0) for i in range(30)]))
    live.update(table([(3, 9, 1.0, 1, 2.0**-14), (3, 9, 1.0, -1, 1.0), (5, 50, 1.0, 1, 2.0**-14)]))
    live.update(table([(5, 50, 1.0, -1, 1.0)]))
    ids = live.ids().tolist()
    np.testing.assert_array_equal(live.vectors(ids), live.recompute().vectors(ids))
    live.update([], now=100.0)
    assert live.digest() == live.recompute().digest()


def test_a_restart_that_joins_cuts_is_exact(tmp_path):
    live = dygcn.open(tmp_path / "x", dygcn.start(small_model(half_life=3.0)))
    live.update(table([(i, i + 1, 0.0, 1, 1.0) for i in range(30)]))
    live.update(table([(3, 9, 1.0, 1, 2.0**-14), (5, 50, 1.0, 1, 2.0**-14)]))
    live.update(table([(3, 9, 1.0, -1, 1.0), (5, 50, 1.0, -1, 1.0)]))
    before = live.digest()
    live._let_go()
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == before == again.recompute().digest()


def test_bits_that_are_not_noted_would_be_noticed(monkeypatch):
    whole = Graph.note_bits

    def note_the_first_alone(self, weights):
        if self.weight_shift == GREATEST_SHIFT:
            whole(self, weights)

    monkeypatch.setattr(Graph, "note_bits", note_the_first_alone)
    hunt = settings(HUNT, max_examples=300, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        hunt(given(EVENTS, st.just([]))(lambda events, cuts: agree(events, cuts, 3.0)))()


def lose_a_bit():
    live = dygcn.start(small_model())
    live.update(add=[(1, 2), (2, 3)])
    live.update({"src": [2], "dst": [3], "weight": [0.25]})


def test_a_lost_bit_is_caught_by_loops_that_are_not_compiled(tmp_path):
    """Uncompiled loops say so; compiled ones do not look."""
    line = "graph.note_bits(events.weight)"
    wrong = f"if graph.weight_shift == {GREATEST_SHIFT}:\n    {line}"
    done = try_with(tmp_path, "dygcn.engine.graph.transaction", line, wrong, lose_a_bit)
    assert "AssertionError a shift lost bits of a weight" in done.stdout, done.stderr
