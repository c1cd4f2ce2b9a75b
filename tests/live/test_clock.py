"""A time in another unit would move the clock for good: it is noticed before it does."""

import warnings

import numpy as np
import pytest

import dygcn
from dygcn.errors import ClockWarning, OptionError
from dygcn.live.embedding import usual_jump
from dygcn.serving.service.ingest_queue import latest_of
from dygcn.serving.service.settings import parse_settings

NOW = 1_700_000_000


def seconds(memory=86_400):
    events = {"src": list(range(50)), "dst": list(range(1, 51)), "t": [NOW + i for i in range(50)]}
    return dygcn.fit(events, dim=4, memory=memory)


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("memory", [None, 60, 86_400])
def test_a_time_in_another_unit_is_told_before_anything_changes(factor, memory):
    live = seconds(memory)
    before, clock = live.digest(), live._state.graph.clock
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ClockWarning, match="another unit"):
            live.update({"src": [7], "dst": [9], "t": [factor * NOW]})
        with pytest.raises(ClockWarning):
            live.update(add=[(7, 9)], now=factor * NOW)
    assert (live.digest(), live._state.graph.clock) == (before, clock)
    with pytest.warns(ClockWarning):  # who wants it gets it
        live.update({"src": [7], "dst": [9], "t": [factor * NOW]})
    assert live._state.graph.clock == factor * NOW


def test_a_durable_embedding_tells_it_before_the_log(tmp_path):
    live = dygcn.open(tmp_path / "x", seconds())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ClockWarning):
            live.update({"src": [7], "dst": [9], "t": [1e3 * NOW]})
    assert (live.sequence, live._log.last) == (0, 0)
    live.update({"src": [7], "dst": [9], "t": [NOW + 99]})
    live.close()


def test_years_of_silence_are_usual():
    live = seconds(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live.update({"src": [7], "dst": [9], "t": [NOW + 20 * 365 * 86_400]})


def test_counters_from_zero_may_grow():
    live = dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0, 1, 2]}, dim=4, memory=2)
    assert usual_jump(live._state) == 2000


def test_what_knows_no_times_is_asked_nothing():
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    assert usual_jump(live._state) is None
    live.update({"src": [1], "dst": [3], "t": [1e308]})
    assert usual_jump(dygcn.start(seconds().model)._state) is None  # no time was seen yet


def test_the_service_takes_the_nearer_of_two_clocks():
    live = seconds()
    assert latest_of(live._state, None, "any") is None
    assert latest_of(live._state, None, 10.0) == NOW + 59
    assert latest_of(live._state, None, "usual") == pytest.approx(10 * (NOW + 49))
    assert latest_of(live._state, "s", "usual") < 10 * NOW
    assert np.isfinite(latest_of(live._state, "s", 10.0))


def test_settings_say_how_far():
    assert parse_settings('folder = "x"').clock_jump == "usual"
    assert parse_settings('folder = "x"\nclock_jump = 60.0').clock_jump == 60.0
    assert parse_settings('folder = "x"\nclock_jump = "any"').clock_jump == "any"
    with pytest.raises(OptionError):
        parse_settings('folder = "x"\nclock_jump = -1.0')
