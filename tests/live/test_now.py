"""The time that a user calls now: any number or date; nothing else, and nothing is torn by it."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

import dygcn
from dygcn.errors import EventError

EVENTS = [("ann", "bob", 1, 1), ("bob", "cat", 2, 1)]
COLUMNS = ("src", "dst", "t", "op")


@pytest.fixture(params=[None, 3.0], ids=["no memory", "memory"])
def live(request):
    return dygcn.fit(EVENTS, columns=COLUMNS, dim=8, memory=request.param)


@pytest.mark.parametrize("now", [3, 1, np.int64(3), np.float32(3), 3.0, np.uint8(3)])
def test_any_number_is_a_time(live, now):
    twin = dygcn.fit(EVENTS, columns=COLUMNS, dim=8, memory=live.model.half_life)
    before = live.digest()
    for change in ({"add": [("cat", "dan")]}, {"remove": [("ann", "bob")]}, {"add": [(1, 2)] * 0}):
        with live.what_if(**change, now=now) as trial:
            trial.vectors()
        live.explain_change("cat", **change, now=now)
    assert live.digest() == before
    for one, time in ((live, now), (twin, float(now))):
        one.update(add=[("cat", "dan"), ("dan", "eve")], remove=[("ann", "bob")], now=time)
        one.update(add=[("eve", "fay")], now=time)
    assert live.digest() == twin.digest()
    assert np.array_equal(live.vectors(), twin.vectors())


@pytest.mark.parametrize(
    "now", [True, np.bool_(True), timedelta(days=1), 10**400, np.nan, np.inf, "2026-05-01", [3], 3j]
)
def test_what_is_no_time_is_refused_and_tears_nothing(live, now):
    before = live.digest()
    for ask in (live.update, lambda **change: live.explain_change("cat", **change)):
        with pytest.raises(EventError, match="allowed is a finite number, in units of t, or a date"):
            ask(add=[("cat", "dan")], now=now)
    assert live.digest() == before


@pytest.mark.filterwarnings("ignore::dygcn.errors.ClockWarning")
@pytest.mark.parametrize("now", [date(2026, 5, 1), datetime(2026, 5, 1, tzinfo=UTC)])
def test_a_date_is_seconds(live, now):
    live.update(add=[("cat", "dan")], now=now)
    assert live._state.graph.clock == 1777593600.0
