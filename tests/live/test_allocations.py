"""Arrays are made for a batch, never for an event: counted by the runtime of the compiled loops."""

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from dygcn.costs.graphs import graph_events
from dygcn.costs.traffic import Traffic, as_users_do
from dygcn.costs.updates import live_of
from dygcn.propagation import set_threads
from dygcn.propagation.gathering import distinct_rows


@pytest.fixture
def counted():
    known = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield lambda: rtsys.get_allocation_stats().alloc
    if not known:
        _nrt_python.memsys_disable_stats()


@pytest.mark.parametrize("parts", [1, 2])
def test_allocations_do_not_grow_with_the_batch(counted, parts, monkeypatch):
    monkeypatch.setattr("dygcn.propagation.spreading.SHARED", 100)
    events = graph_events("power-law-3k-20k")
    live = live_of(events, 16)
    traffic = Traffic(live.state.graph, events)
    made = {}
    set_threads(parts)
    try:
        for size in (1, 50, 500, 4000):
            for _ in range(6):  # the first times rooms grow, and calls are made again
                there, back = (as_users_do(batch) for batch in traffic.round(size))
                before = counted()
                live.update(**there)
                made[size] = min(counted() - before, made.get(size, 1 << 30))
                live.update(**back)
    finally:
        set_threads(None)
    # Handing an array to a loop counts as one, so there are some; but not more for eight times the events.
    assert 0 < made[4000] <= made[500] + 20
    assert made[4000] < 400


def test_the_count_would_notice_one_for_each_event(counted):
    before = counted()
    for _ in range(100):
        distinct_rows(np.zeros(1, np.int32), np.full(1, -1, np.int32))
    assert counted() - before >= 100
