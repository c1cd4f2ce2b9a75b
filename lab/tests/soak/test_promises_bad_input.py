"""Bad input stops nobody: the check at its small size, and that it can fail."""

import random

import httpx
import pytest

from dygcn.engine.events.wire import decode_events
from dygcn_lab.soak.promises import bad_input
from dygcn_lab.soak.promises.bad_input import ARROW, JSON, NDJSON, InputTally, as_body, bad_event
from dygcn_lab.soak.promises.mangling import SETTINGS, mangled, questions


@pytest.mark.parametrize("form", [JSON, NDJSON, ARROW])
def test_events_that_are_meant_to_be_bad_are(form):
    drawn, kinds = random.Random(3), {JSON: "json", NDJSON: "ndjson", ARROW: "arrow"}
    for number in range(60):
        event = bad_event(number, form, drawn)
        found = decode_events(as_body([event, {"src": 1, "dst": 2}], form), kinds[form], "int64")
        late = event.get("weight") == 1e30  # that one is only known when it is applied
        assert [one.row for one in found.bad] == ([] if late else [0])
        assert len(found.batch) == 1 + late


def test_a_failure_of_the_service_is_a_problem(monkeypatch):
    tally = InputTally()
    with bad_input._graph() as one:
        monkeypatch.setattr(one.service.report, "status", lambda *_: 1 // 0)
        bad_input.fuzz(one.address, 200, 0, tally)
    assert any("500" in problem for problem in tally.notes)


def test_a_service_that_went_away_is_a_problem():
    tally = InputTally()
    with bad_input._graph() as one:
        address = one.address
    with pytest.raises(httpx.HTTPError):
        bad_input.fuzz(address, 3, 0, tally)
    assert tally.bad == 3


def test_settings_that_break_the_reader_are_a_problem(monkeypatch):
    tally = InputTally()
    monkeypatch.setattr(bad_input, "parse_settings", lambda text: 1 // 0)
    bad_input.fuzz_settings(5, 0, tally)
    assert tally.bad == 5


def test_an_error_without_a_name_is_no_refusal():
    typed = {"content-type": "application/problem+json"}
    told = {"type": "/problems/bad-option", "title": "A", "status": 400, "detail": "b"}
    for answer, is_one in (
        (httpx.Response(400, json=told, headers=typed), True),
        (httpx.Response(400, json=told), False),
        (httpx.Response(400, text="no", headers=typed), False),
        (httpx.Response(400, json=["no"], headers=typed), False),
        (httpx.Response(400, json={"detail": "no"}, headers=typed), False),
        (httpx.Response(400, json=told | {"status": 404}, headers=typed), False),
        (httpx.Response(500, json=told | {"status": 500}, headers=typed), False),
    ):
        assert bad_input._is_refusal(answer) is is_one


# ---- what is asked --------------------------------------------------------------------------------------


def test_the_same_seed_asks_the_same():
    one, other = (list(questions(random.Random(7), 200)) for _ in range(2))
    assert one == other
    assert one != list(questions(random.Random(8), 200))


def test_every_parser_is_asked():
    asked = list(questions(random.Random(0), 3_000))
    paths = {address.partition("?")[0] for _, address, _, _ in asked}
    assert {
        "/v1/events",
        "/v1/vectors",
        "/v1/score",
        "/v1/nearest",
        "/v1/changes",
        "/v1/dead-letters",
        "/v1/status",
    } <= paths
    assert any(path.startswith("/v1/nearest/") for path in paths)
    assert {headers.get("content-type") for _, _, headers, _ in asked} >= {JSON, NDJSON, ARROW, "text/plain"}
    assert any("client=" in address for _, address, _, _ in asked)


def test_much_is_mangled_and_some_is_still_good():
    drawn = random.Random(0)
    found = [mangled(SETTINGS, drawn) for _ in range(300)]
    assert len(set(found)) > 250
    assert all(isinstance(one, bytes) for one in found)
    assert mangled(b"", drawn) is not None
