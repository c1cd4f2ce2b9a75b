"""The listening end: how many, how long, how much before a request is one."""

import socket
import threading
import time

import pytest

from dygcn.errors import OptionError
from dygcn.serving.service import server as listening
from dygcn.serving.service.server import bind
from dygcn.serving.service.settings import Http, Limits
from tests.serving.service.serving import HUNG_UP, is_problem, send_until_refused
from tests.serving.service.test_app import connect, head, read_all, read_answer

ASKED = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def is_closed_by_server(connection, seconds=3):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_too_many_connections_are_told_to_come_again(serve):
    served = serve(limits=Limits(connections=3))
    with connect(served) as one, connect(served) as two, connect(served) as three:
        for connection in (one, two, three):
            connection.sendall(ASKED)
            assert b" 200 " in read_answer(connection)[0]
        answer = served.get("/v1/status")
        is_problem(answer, 503, "too-many-connections")
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["connection"] == "close"
    until = time.monotonic() + 10
    while served.get("/v1/status").status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_crowd_that_nobody_counts_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(listening.Connections, "refusal", lambda self, scope: None)
    with pytest.raises(AssertionError):
        test_too_many_connections_are_told_to_come_again(serve)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /livez HTTP/1.1\r\nHost: local"])
def test_silent_connections_are_closed(serve, sent):
    served = serve(limits=Limits(seconds_to_send=0.4))
    with connect(served) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        assert is_closed_by_server(connection)
        assert time.monotonic() - begun > 0.2


def test_dripping_headers_does_not_help(serve):
    served = serve(limits=Limits(seconds_to_send=0.5))
    with connect(served) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n")
        with pytest.raises(HUNG_UP):
            send_until_refused(connection, b"X: y\r\n", seconds=60, pause=0.05)


def test_a_connection_in_use_stays_open(serve):
    served = serve(limits=Limits(seconds_to_send=0.5))
    with connect(served) as connection:
        begun = time.monotonic()
        while time.monotonic() - begun < 1.5:
            connection.sendall(ASKED)
            assert b" 200 " in read_answer(connection)[0]
            time.sleep(0.15)


def test_an_answer_that_takes_long_is_waited_for(serve):
    served = serve(limits=Limits(seconds_to_send=0.3))
    since, begun = served.get("/v1/changes").json()["next"], time.monotonic()
    assert served.get("/v1/changes", since=since, wait=1.2).status_code == 200
    assert time.monotonic() - begun > 1.1


def test_silence_that_nobody_ends_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(listening.Server, "_close_silent", lambda self, now: None)
    with pytest.raises(AssertionError):
        test_silent_connections_are_closed(serve, b"G")


def test_headers_without_end_are_cut_off(serve):
    served = serve()
    for line in (b"X: " + b"y" * 1_000 + b"\r\n", b"y" * 1_000):
        with connect(served) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ")
            with pytest.raises(HUNG_UP):  # what the two ends hold in their buffers is less
                send_until_refused(connection, line * 16)
    assert served.get("/livez").status_code == 200


CHUNKED = head("/v1/events", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
WAITING = "GET /v1/changes?since={}&wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"
ENDLESS = {"headers": WAITING.encode() + ASKED[:-2] + b"X: ", "trailer": CHUNKED + b"1\r\n\n\r\n0\r\nX: "}


@pytest.mark.parametrize("begun", ENDLESS.values(), ids=ENDLESS)
def test_headers_without_end_are_cut_off_while_a_request_is_open(serve, begun):
    """The parser joins pieces of a header in quadratic time, on the thread that answers everybody."""
    served = serve()
    since = served.get("/v1/changes").json()["next"].encode()
    with connect(served) as connection:
        connection.sendall(begun.replace(b"{}", since))
        with pytest.raises(HUNG_UP):
            send_until_refused(connection, b"y" * 16_000, most=12 << 20)
    assert served.get("/livez").status_code == 200


def test_headers_that_are_taken_for_a_body_would_be_noticed(serve, monkeypatch):
    waits = property(lambda self: not self.cycle.response_complete, lambda self, value: None)
    monkeypatch.setattr(listening.Connection, "_in_body", waits)
    with pytest.raises(AssertionError, match="bytes were taken"):
        test_headers_without_end_are_cut_off_while_a_request_is_open(serve, ENDLESS["headers"])


def test_a_body_behind_an_upgrade_is_refused_and_a_question_is_answered(serve):
    """The parser leaves out such a body; clients of HTTP/2 ask for an upgrade with their first request."""
    asked = "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAI"
    served = serve()
    with connect(served) as connection:
        connection.sendall(
            head("/v1/events", *asked, "Content-Type: application/json", "Content-Length: 2") + b"[]"
        )
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert listening._NO_UPGRADE.encode() in answer
    with connect(served) as connection:
        connection.sendall(head("/livez", *asked, method="GET"))
        assert b" 200 " in read_answer(connection)[0]


def test_a_long_path_is_cut_off(serve):
    with connect(serve()) as connection:
        connection.sendall(b"GET /")
        with pytest.raises(HUNG_UP):
            send_until_refused(connection, b"x" * 65_536, most=12 << 20)


def test_headers_that_nobody_bounds_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(listening, "MOST_HEAD", 1 << 40)
    with pytest.raises(AssertionError, match="bytes were taken"):
        test_a_long_path_is_cut_off(serve)


def test_large_bodies_and_many_requests_on_one_connection_are_no_headers(serve):
    served = serve()
    body = b"[" + b" " * 300_000 + b"]"
    with connect(served) as connection:
        for _ in range(3):
            top = head("/v1/events", "Content-Type: application/json", f"Content-Length: {len(body)}")
            connection.sendall(top + body)
            assert b" 200 " in read_answer(connection)[0]
        for _ in range(2_000):
            connection.sendall(ASKED)
            assert b" 200 " in read_answer(connection)[0]


def test_requests_one_behind_the_other_are_answered_in_order(serve):
    with connect(serve()) as connection:
        connection.sendall(ASKED * 3 + head("/livez", "Connection: close", method="GET"))
        assert read_all(connection).count(b"HTTP/1.1 200") == 4


@pytest.fixture
def waiting(monkeypatch):
    """How many requests waited on a connection, each time that one more was read."""
    seen, whole = [], listening.Connection.on_headers_complete

    def on_headers_complete(self):
        whole(self)
        seen.append(len(self.pipeline))

    monkeypatch.setattr(listening.Connection, "on_headers_complete", on_headers_complete)
    return seen


def test_requests_that_come_faster_than_they_are_answered_wait_outside(serve, waiting):
    """A request takes some kilobytes once it is parsed, token or not; a client decides how many it sends."""
    with connect(serve()) as connection:
        for _ in range(10):
            connection.sendall(ASKED * 400)
        connection.sendall(head("/livez", "Connection: close", method="GET"))
        assert read_all(connection).count(b"HTTP/1.1 200") == len(waiting) == 4_001
    assert 1 < max(waiting) <= listening._PART // len(ASKED) + 1


def test_requests_that_are_read_after_every_answer_would_be_noticed(serve, waiting, monkeypatch):
    """The seeded bug is what the protocol does: it reads on while others still wait."""
    protocol = listening._Protocol
    for name in ("data_received", "on_response_complete"):
        monkeypatch.setattr(listening.Connection, name, getattr(protocol, name))
    with pytest.raises(AssertionError, match=r"max\("):
        test_requests_that_come_faster_than_they_are_answered_wait_outside(serve, waiting)


def test_nonsense_is_refused(serve):
    served = serve()
    for nonsense in (b"\x00\x01\x02\r\n\r\n", b"HELLO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\xff" * 1_000):
        with connect(served) as connection:
            connection.sendall(nonsense + b"\r\n\r\n")
            first = connection.recv(65536)
            assert first == b"" or first.startswith(b"HTTP/1.1 4")
    assert served.get("/livez").status_code == 200


def test_an_upgrade_is_no_way_in(serve):
    served = serve()
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
    }
    for path in ("/", "/v1/events", "/v1/changes", "/nothing"):
        assert served.client.get(path, headers=headers).status_code in (200, 404, 405)


# ---- where to listen -------------------------------------------------------------------------------------


def test_an_address_is_taken_at_once():
    [one] = bind(Http(port=0))
    with one:
        port = one.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port}: .*in use"):
            bind(Http(port=port))
    [again] = bind(Http(port=port))
    again.close()


def test_localhost_is_every_address_that_it_has():
    found = bind(Http(host="localhost", port=0))
    assert found[0].family == socket.AF_INET
    for one in found:
        assert one.getsockname()[0] in ("127.0.0.1", "::1")
        one.close()


@pytest.mark.parametrize("host", ["203.0.113.1", "no such host", "x" * 300, "a..b", "host.invalid"])
def test_an_address_that_cannot_be_had_is_told(host):
    with pytest.raises(OptionError, match="cannot listen on"):
        bind(Http(host=host, port=0))


def test_an_answer_does_not_wait_for_an_update(serve):
    """While the writer has the embedding for itself, everything that needs nothing of it is answered."""
    served = serve()
    held, let_go, answers = threading.Event(), threading.Event(), []

    def hold():
        with served.service.live.lock:
            held.set()
            assert let_go.wait(60)

    writer = threading.Thread(target=hold, daemon=True)
    writer.start()
    assert held.wait(20)
    waiting = [
        threading.Thread(target=lambda: answers.append(served.get("/v1/vectors/1")), daemon=True),
        threading.Thread(target=lambda: answers.append(served.post([{"src": 1, "dst": 9}])), daemon=True),
    ]
    for one in waiting:
        one.start()
    time.sleep(0.2)
    assert served.get("/livez").status_code == 200
    is_problem(served.get("/nothing"), 404)
    assert writer.is_alive()
    assert answers == []
    let_go.set()
    for one in (*waiting, writer):
        one.join(20)
    assert [answer.status_code for answer in answers] == [200, 200]
