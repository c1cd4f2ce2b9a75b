"""Python does something for a batch, never for an event: a loop that is compiled cannot even allocate."""

import sys

import pytest

from dygcn.engine._rows import cpu_level
from dygcn.engine.propagation import set_threads
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.traffic import Traffic, as_users_do
from dygcn_lab.costs.updates import live_of


def calls_of(work):
    """Return how many functions Python calls, its own and those of C."""
    made = 0

    def count(frame, event, argument):
        nonlocal made
        made += event in ("call", "c_call")

    known = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(known)
    return made


@pytest.mark.skipif(cpu_level() == "none", reason="the loops are not compiled")
@pytest.mark.parametrize("parts", [1, 2])
def test_calls_do_not_grow_with_the_batch(parts, monkeypatch):
    monkeypatch.setattr("dygcn.engine.propagation.spreading.SHARED", 100)
    events = graph_events("power-law-3k-20k")
    live = live_of(events, 16)
    traffic = Traffic(live._state.graph, events)
    made = {}
    set_threads(parts)
    try:
        for size in (100, 500, 4000):
            for _ in range(6):  # the first times rooms grow, and calls are made again
                there, back = (as_users_do(batch) for batch in traffic.round(size))
                calls = calls_of(lambda there=there: live.update(**there))
                made[size] = min(calls, made.get(size, calls))
                live.update(**back)
    finally:
        set_threads(None)
    assert made[4000] < 1.5 * made[500]


def test_the_count_would_notice_one_for_each_event():
    assert calls_of(lambda: [abs(i) for i in range(100)]) >= 100
