"""Dead letters over HTTP: listed, replayed, corrected, discarded; mass rejection is an alarm."""

import logging

import pytest

from dygcn.serving.service.observations import Rejections
from dygcn.serving.service.settings import Limits
from tests.serving.service.serving import is_problem

BAD = [{"src": 1.5, "dst": 2}, {"src": 7, "dst": 8, "weight": -1}]


@pytest.fixture
def served(serve):
    served = serve()
    served.post([{"src": 1, "dst": 10}, *BAD], client="a", sequence=0)
    served.post(BAD[:1], client="b", sequence=0)
    return served


def replay(served, **wanted):
    return served.ask("/v1/dead-letters/replay", wanted)


def listed(served, **params):
    return [
        (one["stream"], one["row"]) for one in served.get("/v1/dead-letters", **params).json()["dead_letters"]
    ]


def test_letters_are_listed_by_stream_and_reason(served):
    assert listed(served) == [("http:b", 0), ("http:a", 2), ("http:a", 1)]
    assert listed(served, stream="http:b") == [("http:b", 0)]
    assert listed(served, reason="weight") == [("http:a", 2)]
    assert listed(served, reason="weight", stream="http:b") == []
    assert listed(served, limit=1) == [("http:b", 0)]


def test_a_letter_is_corrected(served):
    by_row = {(one["stream"], one["row"]): one["number"] for one in served.letters()}
    number = by_row["http:a", 2]
    answer = replay(served, corrected=[{"number": number, "event": {"src": 7, "dst": 8}}]).json()
    assert (answer["applied"], answer["dead"], answer["missing"]) == (1, 0, [])
    assert served.get("/v1/vectors/7").status_code == 200
    again = replay(served, corrected=[{"number": number, "event": {"src": 7, "dst": 99}}]).json()
    assert (again["applied"], again["missing"]) == (0, [number])
    assert served.get("/v1/vectors/99").status_code == 404
    assert listed(served) == [("http:b", 0), ("http:a", 1)]


def test_a_letter_that_is_still_bad_stays_with_its_new_reason(served):
    [letter] = served.get("/v1/dead-letters", stream="http:b").json()["dead_letters"]
    event = {"src": 3, "dst": 4, "weight": "much"}
    answer = replay(served, corrected=[{"number": letter["number"], "event": event}]).json()
    assert (answer["applied"], answer["dead"]) == (0, 1)
    [left] = served.get("/v1/dead-letters", stream="http:b").json()["dead_letters"]
    assert "weight" in left["reason"]
    assert (left["offset"], left["row"]) == (letter["offset"], letter["row"])
    assert left["number"] > letter["number"]


def test_letters_are_discarded(served):
    number = served.letters()[0]["number"]
    gone = served.client.delete("/v1/dead-letters", params={"number": [number, 999]}).json()
    assert (gone["discarded"], gone["missing"]) == (1, [999])
    assert served.client.delete("/v1/dead-letters", params={"stream": "http:a"}).json()["discarded"] == 2
    assert served.get("/v1/dead-letters").json()["total"] == 0


@pytest.mark.parametrize("wanted", [{}, {"numbers": [1], "stream": "a"}, {"numbers": list(range(1001))}])
def test_what_is_not_named_is_not_touched(served, wanted):
    is_problem(replay(served, **wanted), 400, "bad-option")
    is_problem(served.client.delete("/v1/dead-letters"), 400, "bad-option")
    assert len(served.letters()) == 3


def test_events_that_a_slow_clock_refused_are_replayed_when_it_is_corrected(serve, monkeypatch, caplog):
    served = serve()
    service = served.service
    events = [{"src": 1, "dst": 100 + i, "t": 5_000.0 + i} for i in range(50)]
    events += [{"src": 2, "dst": 200}]  # without a time
    monkeypatch.setattr(service.clock, "latest", lambda: 1_000.0)
    with caplog.at_level(logging.WARNING, logger="dygcn.serving"):
        assert served.post(events).json()["dead"] >= 50
    assert "rejection.began" in caplog.text
    [alarm] = served.get("/v1/status").json()["alarms"]
    assert alarm["name"] == "mass rejection"
    assert "dygcn_mass_rejection 1.0" in served.get("/metrics").text
    monkeypatch.undo()
    total = len(served.letters())
    answer = replay(served, stream="").json()
    assert (answer["applied"], answer["dead"]) == (total, 0)
    assert served.get("/v1/vectors/149").status_code == 200
    assert served.letters() == []
    for part in range(10):
        served.post([{"src": 3, "dst": 1000 + 100 * part + i} for i in range(100)])
    assert served.get("/v1/status").json()["alarms"] == []


def test_a_few_bad_events_are_no_alarm(serve):
    served = serve(limits=Limits(rejected_share=0.5))
    served.post([*BAD, *({"src": 1, "dst": 10 + i} for i in range(100))])
    assert served.get("/v1/status").json()["alarms"] == []


def test_an_alarm_that_is_never_raised_would_be_noticed(serve, monkeypatch, caplog):
    monkeypatch.setattr(Rejections, "count", lambda self, applied, dead: None)
    with pytest.raises(AssertionError):
        test_events_that_a_slow_clock_refused_are_replayed_when_it_is_corrected(serve, monkeypatch, caplog)
