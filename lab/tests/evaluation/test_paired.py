"""The paired bootstrap: sure where a difference is steady, tied where steps disagree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn_lab.evaluation import compare


def noisy(seed, shift, steps=25):
    random = np.random.default_rng(seed)
    base = random.uniform(0.2, 0.9, steps)
    return base + shift + random.normal(0, 0.01, steps), base + random.normal(0, 0.01, steps)


def test_a_small_steady_difference_is_seen_under_steps_that_differ_much():
    assert compare(*noisy(0, 0.02)).verdict == "better"
    assert compare(*noisy(0, -0.02)).verdict == "worse"
    found = compare(*noisy(0, 0.02))
    assert found.low < found.difference < found.high


def test_nothing_is_mostly_tied():
    assert np.mean([compare(*noisy(seed, 0.0)).verdict == "tied" for seed in range(200)]) > 0.85


def test_the_order_of_the_two_does_not_matter():
    first, second = noisy(1, 0.01)
    there, back = compare(first, second), compare(second, first)
    assert there.difference == pytest.approx(-back.difference)
    assert {there.verdict, back.verdict} in ({"better", "worse"}, {"tied"})


def test_the_same_answer_every_time():
    assert compare(*noisy(2, 0.01)) == compare(*noisy(2, 0.01))


def test_a_step_is_drawn_with_all_its_seeds():
    """Twenty copies of one seed are no more certain than that seed."""
    first, second = noisy(3, 0.004)
    many, one = compare(np.tile(first, (20, 1)), second), compare(first, second)
    assert (many.low, many.high) == pytest.approx((one.low, one.high))


def test_steps_without_a_figure_are_left_out():
    first, second = noisy(4, 0.05)
    first[3], second[7] = np.nan, np.nan
    found = compare(first, second)
    assert found.steps == 23
    assert found.verdict == "better"
    nothing = compare([np.nan], [0.5])
    assert nothing.steps == 0
    assert nothing.verdict == "tied"


def test_one_step_decides_nothing():
    assert compare([0.9], [0.1]).verdict == "tied"


def test_different_steps_are_refused():
    with pytest.raises(ValueError, match="3 steps, the other 2"):
        compare([1.0, 2.0, 3.0], [1.0, 2.0])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_nobody_beats_itself(series):
    found = compare(series, series)
    assert found.verdict == "tied"
    assert found.difference == 0
