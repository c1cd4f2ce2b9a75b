"""Counts of several processes add up."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.observing.counts import Distribution, RequestCounts
from dygcn_lab.testbed.seeding import seeded

CALLS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.sampled_from([200, 404]), st.floats(0, 20)),
    max_size=40,
)


def check(calls):
    alone, shared = RequestCounts(), [RequestCounts() for _ in range(4)]
    for process, route, status, seconds in calls:
        alone.count(route, status, seconds)
        shared[process].count(route, status, seconds)
    sent = [msgspec.json.decode(msgspec.json.encode(one), type=RequestCounts) for one in shared[1:]]
    sums = shared[0].added(sent)
    assert sums.statuses == alone.statuses
    assert {route: one.counts for route, one in sums.seconds.items()} == {
        route: one.counts for route, one in alone.seconds.items()
    }
    for route, one in sums.seconds.items():
        assert one.total == pytest.approx(alone.seconds[route].total)
        assert one.cumulative()[-1] == ("+Inf", sum(alone.statuses[route].values()))


@given(CALLS)
def test_processes_add_up(calls):
    check(calls)


def test_a_process_that_is_left_out_would_be_noticed():
    with seeded(Distribution, "add", lambda self, other: None), pytest.raises(AssertionError):
        check([(1, "a", 200, 0.1)])
