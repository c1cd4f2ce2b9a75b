"""Request ids: on every answer, from the client if it is harmless, and in the lines of the request."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.observing import request_ids
from dygcn.serving.observing.request_ids import LONGEST, REQUEST_ID, RequestIds
from dygcn_lab.testbed.seeding import seeded

MADE = re.compile(r"[0-9a-f]{12}-[0-9a-f]+")


def answer(*headers):
    """Ask once; return the ids that the application saw, and that of the answer."""
    seen, sent = [], []

    async def app(scope, receive, send):
        seen.extend([scope["state"]["request_id"], REQUEST_ID.get()])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b""})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "headers": list(headers)}
    asyncio.run(RequestIds(app)(scope, None, send))
    names = dict(sent[0]["headers"])
    assert names[b"a"] == b"b"
    return [*seen, names[b"x-request-id"].decode("ascii")]


def check(value):
    found = answer((b"x-request-id", value))
    assert len(set(found)) == 1
    harmless = 0 < len(value) <= LONGEST and all(0x21 <= one <= 0x7E for one in value)
    assert found[0] == value.decode() if harmless else MADE.fullmatch(found[0])


@given(st.one_of(st.binary(max_size=200), st.text("abc-_.:/=", min_size=1, max_size=200).map(str.encode)))
def test_an_id_is_taken_if_it_is_harmless(value):
    check(value)


@pytest.mark.parametrize("value", [b"a\r\nSet-Cookie: b", b"x" * 129, "ü".encode("latin-1"), b""])
def test_an_id_that_is_not_checked_would_be_noticed(value):
    check(value)
    with (
        seeded(request_ids, "_WELL_FORMED", re.compile(rb"(?s).*")),
        pytest.raises((AssertionError, ValueError)),
    ):
        check(value)


def test_without_one_each_request_has_its_own():
    one, other = answer()[0], answer()[0]
    assert MADE.fullmatch(one)
    assert one != other


def test_outside_of_a_request_there_is_none():
    answer()
    assert REQUEST_ID.get() == ""


def test_every_answer_of_a_service_has_one(serve):
    served = serve()
    for path in ("/v1/vectors/1", "/v1/vectors/999", "/nowhere", "/healthz", "/metrics"):
        assert MADE.fullmatch(served.get(path).headers["x-request-id"])
        mine = served.client.get(path, headers={"X-Request-Id": "mine-7"})
        assert mine.headers["x-request-id"] == "mine-7"


def test_a_failure_inside_is_logged_with_it(serve, caplog, monkeypatch):
    served = serve()
    monkeypatch.setattr(served.service.report, "status", lambda: 1 / 0)
    seen = []

    class Ids:
        def filter(self, record):
            seen.append((record.getMessage(), REQUEST_ID.get()))
            return True

    caplog.handler.addFilter(Ids())
    answer = served.client.get("/v1/status", headers={"X-Request-Id": "mine-8"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine-8")
    assert ("request.failed", "mine-8") in seen
