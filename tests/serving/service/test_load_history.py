"""An hour of load: bounded, in order, and percentiles of what was really measured."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.observing.metrics import Distribution, distribution
from dygcn.serving.service import status
from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.observations import Observations
from dygcn.serving.service.status import KEPT, LoadHistory, is_read, is_write
from tests.serving.service.serving import is_problem


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def make():
    """Return a history without a service that works, its clock, and what counts for it."""
    clock, seen = Clock(), Observations()
    queue = SimpleNamespace(total_events=0, events=0)
    service = SimpleNamespace(observations=seen, queue=queue)
    return LoadHistory(SimpleNamespace(sequence=0), queue, seen, clock), clock, service


@given(st.lists(st.tuples(st.floats(-5, 30), st.integers(0, 500)), max_size=60))
def test_samples_are_bounded_and_in_order(steps):
    history, clock, service = make()
    for seconds, events in steps:
        clock.now += seconds
        service.queue.total_events += events
        history.sample()
    samples = history.since().samples
    times = [one.time for one in samples]
    assert times == sorted(set(times))
    assert all(one.events_a_second >= 0 for one in samples)
    assert len(history._samples) <= KEPT
    half = times[len(times) // 2] if times else 0.0
    assert [one.time for one in history.since(half).samples] == [one for one in times if one > half]


def test_an_hour_is_kept_and_no_more():
    history, clock, _ = make()
    for _ in range(KEPT + 50):
        clock.now += status.INTERVAL
        history.sample()
    samples = history.since().samples
    assert len(samples) == KEPT
    assert samples[-1].time - samples[0].time == pytest.approx(3600 - status.INTERVAL)
    assert len(history._minute) == status._MINUTE + 1


def test_percentiles_are_of_the_last_minute():
    history, clock, service = make()
    requests = service.observations.requests
    for _ in range(100):
        requests.count("/v1/vectors", 200, 0.5)
    clock.now += 5
    history.sample()
    assert history.latency.reads.count == 100
    assert history.latency.reads.p50 > 200
    for _ in range(13):
        requests.count("/v1/vectors", 200, 0.001)
        requests.count("/v1/status", 200, 0.9)
        service.observations.lag.observe(0.02)
        clock.now += 5
        history.sample()
    found = history.latency
    assert found.seconds == pytest.approx(60)
    assert (found.reads.count, found.lag.count, found.writes.count) == (12, 12, 0)
    assert found.reads.p99 <= 1.0
    assert 5 < found.lag.p50 <= 25
    assert found.writes.p99 is None
    assert set(found.routes) == {"/v1/vectors", "/v1/status"}


def test_percentiles_since_the_start_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Distribution, "since", lambda self, before: self)
    with pytest.raises(AssertionError):
        test_percentiles_are_of_the_last_minute()


@given(st.lists(st.floats(1e-5, 50), min_size=1, max_size=80), st.floats(0, 1))
def test_a_quantile_is_within_its_bucket(values, share):
    found = distribution("dygcn_request_duration_seconds")
    for value in values:
        found.observe(value)
    true = sorted(values)[max(0, min(len(values) - 1, int(-(-share * len(values) // 1)) - 1))]
    bounds = [0.0, *found.bounds]
    estimate = found.quantile(share)
    assert any(
        low <= estimate <= high and (low < true <= high or (high == bounds[-1] and true > high))
        for low, high in itertools.pairwise(bounds)
    )


def test_every_route_is_a_read_a_write_or_neither():
    of_the_page = {"/v1/changes", "/v1/status", "/v1/map", "/v1/history"}
    reads = {one.path for one in ROUTES if one.scope == "read" and one.path.startswith("/v1")} - of_the_page
    assert {one.path for one in ROUTES if is_read(one.path)} == reads
    assert {one.path for one in ROUTES if is_write(one.path)} == {"/v1/events"}


def test_the_route_returns_what_was_sampled(serve):
    one = serve()
    one.post([{"src": 1, "dst": 9}])
    one.get("/v1/vectors/9")
    one.service.load_history.sample()
    found = one.get("/v1/history").json()
    assert found["samples"][-1]["events_a_second"] > 0
    assert found["samples"][-1]["reads_a_second"] > 0
    assert found["samples"][-1]["lag_p99_ms"] > 0
    assert one.get("/v1/history", since=found["now"] + 1).json()["samples"] == []
    latency = one.get("/v1/status").json()["latency"]
    assert (latency["reads"]["count"], latency["writes"]["count"], latency["lag"]["count"]) == (1, 1, 1)
    assert latency["reads"]["p50"] <= latency["reads"]["p99"]
    for bad in ("-1", "nan", "inf", "x"):
        assert is_problem(one.get("/v1/history", since=bad), 400)
