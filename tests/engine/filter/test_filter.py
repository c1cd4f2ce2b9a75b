"""A filter beside its slow twin: any history, any cut, any age, the same integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.filter import head, loops
from dygcn_lab.testbed.dense_filter import sums_of, weight
from tests.engine.filter import histories
from tests.seeded import assert_noticed

LOOPS = "dygcn.engine.filter.loops"
FILTER = "dygcn.engine.filter.filter"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["plain", "untimed", "memory", "expire"]))
def test_any_history(seed, kinds, how):
    lives = {how: 3.0 if how == "memory" else 6.0} if how in ("memory", "expire") else {}
    histories.play(seed, kinds, how != "untimed", **lives)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_any_cut(seed, kinds):
    histories.cut_two_ways(seed, kinds)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_saved_between_events(tmp_path_factory, seed):
    histories.reopened(tmp_path_factory.mktemp("saved"), seed)


def test_a_question_interrupted_anywhere():
    histories.read_interrupted(1)


def test_answers_without_edges():
    histories.answers_without_edges()


@pytest.mark.parametrize("far", [1e15, 1e17, 9e18, 1e19, 1e100, 1.7e308])
def test_times_far_apart(far):
    histories.far_apart(far)


def test_a_graph_that_never_saw_a_time():
    """Edges without a time, in a model that looks at times: those of one who asks count all alike."""
    live = dygcn.LiveEmbedding(histories.new_state(half_life=0.0))
    live.update(add=[("user:0", "item:0"), ("user:1", "item:0"), ("user:1", "item:1")])
    ((name, score),) = live.recommend(("user", "0"), 3)
    assert name == ("item", "1")
    assert np.isfinite(score)


@pytest.mark.parametrize("seed", range(3))
def test_paths_are_those_of_a_twin(seed):
    histories.check_paths(seed)


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_those_that_paths_weigh_most(seed):
    histories.check_candidates(seed)


def test_ten_years():
    histories.ten_years()


def test_weights_are_those_of_the_twin():
    state = histories.new_state(half_life=2.0)
    histories.apply(state, [("user:0", "item:0", 1000.0, 1)])
    sums_of(state.filter, state.graph)
    for t in np.random.default_rng(0).uniform(940.0, 1000.0, 200).tolist():
        assert loops.weight_of(state.filter.arrays, head.SUMS, t) == weight(t, 2.0, 1000.0)


def test_who_has_very_many_says_nothing(monkeypatch):
    """One event writes no more rows than a bound: whoever has more edges tells nobody."""
    state = histories.new_state(timed=False)
    many = [("user:0", f"item:{n}", 0.0, 1) for n in range(head.MOST_EDGES + 1)]
    histories.apply(state, many[:-1])
    row = state.filter._asks[state.graph.find_one("user:0")]
    sums_of(state.filter, state.graph)
    assert state.filter._said[row].any()
    histories.apply(state, many[-1:])
    sums_of(state.filter, state.graph)
    assert not state.filter._said[row].any()
    assert not state.filter._total.any()


def test_an_event_writes_the_rows_of_one_who_asks():
    state = histories.new_state()
    histories.apply(state, [("user:0", item, 1.0, 1) for item in histories.ITEMS[:4]])
    sums_of(state.filter, state.graph)
    before = int(state.filter._sizes[head.ROWS])
    histories.apply(state, [("user:0", histories.ITEMS[4], 1.5, 1)])
    sums_of(state.filter, state.graph)
    assert int(state.filter._sizes[head.ROWS]) - before <= 1 + 5


LEAVING = "weight = -weight_of(of, which, pull.times[at])"
BASE = "return int(loops.octave_of(self.arrays, which, contacts.clock)) - WINDOW + 1"
BUGS = {
    "a shift that rounds": (LOOPS, LEAVING, "weight = 0", "ten_years", (2.0, 200)),
    "an edge that leaves twice": (LOOPS, LEAVING, LEAVING.replace("-", "-2 * "), "ten_years", (2.0, 200)),
    "a window too short": (FILTER, BASE, BASE.replace("+ 1", "+ 2"), "ten_years", (2.0, 50)),
    "a message nobody tells": (LOOPS, "_mark_dirty(of, row)", "pass", "play", (1,)),
    "an edge that met again": (
        LOOPS, "if was != now or (now and before != last):", "if was != now:", "cut_two_ways", (1,),
    ),
    "a message told in part": (
        LOOPS, "of.said[row, column] = value", "of.said[row, column] = of.change[0, column]", "play", (1,),
    ),
    "a weight that comes too late": (
        FILTER, "tops = self._base + (WINDOW - 1)", "tops = self._base + WINDOW", "cut_two_ways", (1,),
    ),
    "a read that shifts": (
        FILTER, "self._weigh(rows)", "self._weigh(rows); self._total >>= 1", "cut_two_ways", (1,),
    ),
    "a row that a newcomer finds": (FILTER, "kept[rows] = 0", "pass", "play", (2,)),
    "a rebuild that says it is whole too soon": (
        FILTER, "self._base[which] = self._base_of(graph, which)",
        "self._base[which] = self._base_of(graph, which); self._whole = True", "read_interrupted", (1,),
    ),
    "an answer without edges that nobody notes": (
        FILTER, "self._touch(rows[1])", "pass", "answers_without_edges", (5,),
    ),
    "candidates that paths weigh least": (
        FILTER, "some = reached[weights[reached] >= least]",
        "some = reached[weights[reached] <= least]", "check_candidates", (0,),
    ),
    "paths that are walked twice": (LOOPS, "passing[row] = 0", "pass", "check_paths", (0,)),
    "a trial that took the clock back": (
        FILTER, "if not self._whole or (bases < self._base).any():", "if not self._whole:", "play", (1,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_seeded_bugs(tmp_path, bug):
    name, line, wrong, hunt, arguments = BUGS[bug]
    assert_noticed(tmp_path, name, line, wrong, getattr(histories, hunt), *arguments)
