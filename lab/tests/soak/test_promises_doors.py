"""Nobody gets in: the check at its small size, and that it can fail."""

import random

from dygcn.serving.service.app import ROUTES
from dygcn_lab.soak.promises import doors
from dygcn_lab.soak.promises.doors import SCOPES, DoorTally, Keys, due
from dygcn_lab.testbed.plain_http import Answer


def test_only_health_is_open():
    assert [route.path for route in ROUTES if route.scope == "open"] == ["/livez", "/readyz"]
    assert {route.scope for route in ROUTES} == {"open", *SCOPES}


def test_what_is_due():
    by_path = {(route.method, route.path): route for route in ROUTES}
    events, status = by_path["POST", "/v1/events"], by_path["GET", "/v1/status"]
    letters, health = by_path["GET", "/v1/dead-letters"], by_path["GET", "/livez"]
    table = {
        None: (401, 401, 401, 200),
        "read": (403, 200, 403, 200),
        "write": (200, 403, 403, 200),
        "admin": (200, 200, 200, 200),
    }
    for scope, expected in table.items():
        assert tuple(due(route, scope) for route in (events, status, letters, health)) == expected


def test_every_route_can_be_asked_something_that_it_answers():
    assert {route.path for route in ROUTES if route.forms} == set(doors._BODIES)


def test_headers_are_of_every_kind():
    keys = Keys.made()
    found = list(keys.headers(random.Random(0), 50))
    assert {scope for _, _, scope in found} == {None, *SCOPES}
    assert sum(scope is not None for _, _, scope in found) == 6
    assert len({header for _, header, _ in found}) > 50
    assert keys.are_in(f"x{keys.secrets['read']}y".encode())
    assert keys.are_in(keys.tokens[0].sha256.encode())
    assert not keys.are_in(keys.tokens[0].sha256.encode(), hashes=False)


def test_a_refusal_that_names_a_node_tells_something():
    assert doors._says_nothing(Answer(401, {}, b"no"))
    assert not doors._says_nothing(Answer(401, {}, str(doors.NAMES[2]).encode()))


def test_an_address_that_is_served_without_a_token_is_a_problem(monkeypatch, tmp_path):
    tally = DoorTally()
    monkeypatch.setattr(doors, "_HOSTS", ("127.0.0.1",))  # which needs none
    done = doors.subprocess.CompletedProcess([], 0, b"", b"")
    monkeypatch.setattr(doors.subprocess, "run", lambda *_, **__: done)
    doors.try_addresses(doors._graph(tmp_path), tally)
    assert tally.bad == 2
