"""How many may connect: in all, from one peer, and never too many to ask for health."""

import socket
from contextlib import ExitStack

import pytest

from dygcn.serving.service import server
from dygcn.serving.service import server as listening
from dygcn.serving.service.server import Connections, peer_of
from dygcn.serving.service.settings import CurrentSettings, Limits, ServiceSettings
from tests.serving.service.serving import is_problem
from tests.serving.service.streams import until

MANY = 3_000


def crowd(**limits):
    return Connections(CurrentSettings(ServiceSettings(folder="", limits=Limits(**limits))))


def asked(host, path="/v1/status"):
    return {"type": "http", "path": path, "client": (host, 4711)}


def idle(served, stack, count):
    """Open connections that say nothing."""
    listening.allow_many_connections()
    host, _, port = served.address.removeprefix("http://").rpartition(":")
    for _ in range(count):
        stack.enter_context(socket.create_connection((host, int(port)), timeout=20))


def health_of_a_crowd(served):
    with ExitStack() as stack:
        idle(served, stack, MANY)
        until(lambda: len(served.server.server_state.connections) > 1_000)
        is_problem(served.get("/v1/status"), 503, "too-many-connections")
        for _ in range(20):
            assert served.get("/livez").json() == {"alive": True}
            assert served.get("/readyz").json() == {"ready": True, "accepting": True}


def test_thousands_of_idle_connections_are_no_reason_to_restart(serve):
    served = serve()
    until(lambda: served.get("/readyz").status_code == 200)
    health_of_a_crowd(served)
    until(lambda: served.get("/v1/status").status_code == 200)


def test_health_that_is_counted_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(server, "HEALTH", ())
    served = serve()
    until(lambda: served.get("/readyz").status_code == 200)
    with pytest.raises(AssertionError):
        health_of_a_crowd(served)


def test_silent_connections_of_a_crowd_are_closed_soon(serve):
    served = serve(limits=Limits(connections=10))
    with ExitStack() as stack:
        idle(served, stack, 50)
        until(lambda: len(served.server.server_state.connections) > 40)
        until(lambda: len(served.server.server_state.connections) <= 11)  # long before `seconds_to_send`
        assert served.get("/v1/status").status_code == 200


def test_a_peer_has_its_share():
    many = crowd(connections_per_peer=2)
    peers = [many.enter(("192.0.2.1", port)) for port in range(3)]
    many.enter(("192.0.2.2", 1))
    assert many.refusal(asked("192.0.2.1")).status_code == 503
    assert many.refusal(asked("192.0.2.1", "/readyz")) is None
    assert many.refusal(asked("192.0.2.2")) is None
    many.leave(peers[0])
    assert many.refusal(asked("192.0.2.1")) is None
    for peer in peers[1:]:
        many.leave(peer)
    assert many.peers == {"192.0.2.2": 1}


def test_a_network_of_ipv6_is_one_peer():
    many = crowd(connections_per_peer=2)
    for number in range(3):
        many.enter((f"2001:db8::{number}", 1))
    many.enter(("2001:db8:0:1::", 1))
    assert many.refusal(asked("2001:db8::77")).status_code == 503
    assert many.refusal(asked("2001:db8:0:1::77")) is None


@pytest.mark.parametrize("host", ["", "127.0.0.1", "127.8.9.1", "::1", "testclient"])
def test_who_is_on_this_machine_is_not_counted(host):
    assert peer_of(host) == ""


def test_a_share_holds_over_the_network(serve, monkeypatch):
    """Loopback is the only network that a test has, so it counts here."""
    monkeypatch.setattr(server, "peer_of", lambda host: host)
    served = serve(limits=Limits(connections_per_peer=5))
    with ExitStack() as stack:
        idle(served, stack, 6)
        until(lambda: served.server._counted.peers["127.0.0.1"] > 5)
        answer = served.get("/v1/status")
        assert "from your address" in is_problem(answer, 503, "too-many-connections")
        assert served.get("/livez").status_code == 200
    until(lambda: served.get("/v1/status").status_code == 200)


def test_limits_that_change_hold_at_once():
    many = crowd(connections_per_peer=1)
    many.enter(("192.0.2.1", 1))
    assert many.refusal(asked("192.0.2.1")) is None
    many.enter(("192.0.2.1", 2))
    assert many.refusal(asked("192.0.2.1")) is not None
    many._current.replace(ServiceSettings(folder="", limits=Limits(connections_per_peer=2)))
    assert many.refusal(asked("192.0.2.1")) is None
