"""The way to the writer: what one client sends or leaves out is never felt by another one."""

import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from dygcn.serving.readers import upstream
from dygcn.serving.service.server import PEER, Connection
from tests.serving.readers.fake_writers import ANSWER, fake_writer, is_whole
from tests.serving.readers.test_app import reading
from tests.serving.service.streams import until


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("w") / "writer"  # short, as the path of a socket has to be


@contextmanager
def passing_on(path):
    """Serve without rows of use: everything but vectors is passed on to a writer that keeps what came."""
    with fake_writer(path) as writer, reading(writer=str(path)) as (_, client):
        yield writer, client


def connected(client):
    place = urlsplit(str(client.base_url))
    return socket.create_connection((place.hostname, place.port), timeout=20)


def send(client, head, body=b""):
    """Send a request on a connection of its own; return the beginning of the answer."""
    with connected(client) as one:
        one.sendall(head.encode() + b"\r\nHost: localhost\r\n\r\n" + body)
        return one.recv(1 << 16)


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
def test_a_body_that_does_not_come_is_not_taken_from_the_next_request(path, method):
    """After `Upgrade` the parser reads no body, whatever length was announced."""
    with passing_on(path) as (writer, client):
        assert client.get("/one").status_code == 200
        lines = f"{method} /two HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 50"
        assert send(client, lines).split()[1] == b"400"
        assert client.get("/three").status_code == 200
        (stream,) = [one for one in writer.streams if b"GET /three" in one]
        assert is_whole(stream)


@pytest.fixture
def unrefused(monkeypatch):
    """The connection lets such a request through, so what passes requests on has to look."""
    monkeypatch.setattr(Connection, "_unsupported_upgrade_warning", lambda self: None)


def test_a_body_that_does_not_come_is_noticed_where_requests_are_passed_on(path, unrefused):
    test_a_body_that_does_not_come_is_not_taken_from_the_next_request(path, "GET")


def test_a_length_that_nobody_compares_would_be_noticed(path, unrefused, monkeypatch):
    right = upstream._request
    monkeypatch.setattr(upstream, "_request", lambda *asked: right(*asked)._replace(length=0))
    with pytest.raises(AssertionError):
        test_a_body_that_does_not_come_is_not_taken_from_the_next_request(path, "GET")


def test_a_large_body_that_the_writer_did_not_want_is_nothing_to_others(path):
    """The writer hangs up when too much comes that it does not read: such a connection is not used again."""
    with passing_on(path) as (writer, client):
        writer.go.clear()  # no answer before all of it came
        with connected(client) as one:
            one.sendall(b"POST /one HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
            one.sendall(b"x" * 100_000)
            until(lambda: writer.streams and writer.streams[0].endswith(b"x" * 100_000))
            writer.go.set()
            assert one.recv(1 << 16).split()[1] == b"200"
        assert client.get("/two").status_code == 200
        assert client.get("/three").status_code == 200
        until(lambda: len(writer.heads) == 3)
        assert [stream.count(b" HTTP/1.1\r\n") for stream in writer.streams] == [1, 2]


def test_a_connection_that_is_used_after_a_large_body_would_be_noticed(path, monkeypatch):
    monkeypatch.setattr(upstream, "MOST_HEAD", 1 << 30)
    with pytest.raises(AssertionError):
        test_a_large_body_that_the_writer_did_not_want_is_nothing_to_others(path)


def make_idle(writer, client, count):
    """Have so many connections to the writer that wait for requests."""
    writer.go.clear()
    asked, clients = len(writer.heads), [connected(client) for _ in range(count)]
    for one in clients:
        one.sendall(b"GET /idle HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: len(writer.heads) == asked + count)
    writer.go.set()
    for one in clients:
        assert one.recv(1 << 16).split()[1] == b"200"
        one.close()


def test_a_client_that_leaves_has_asked_once(path):
    """Its request is not sent again over every connection that is idle."""
    with passing_on(path) as (writer, client):
        make_idle(writer, client, 3)
        writer.answers = [None] * 4
        with connected(client) as one:
            one.sendall(b"GET /leaves HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: b"GET /leaves HTTP/1.1" in writer.heads)
        until(lambda: writer.ended > 0)
        writer.answers.clear()
        for _ in range(5):
            assert client.get("/after").status_code == 200
        assert writer.heads.count(b"GET /leaves HTTP/1.1") == 1


def test_a_request_that_is_sent_again_for_nobody_would_be_noticed(path, monkeypatch):
    never = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(upstream._Connection, "left", never, raising=False)
    with pytest.raises(AssertionError):
        test_a_client_that_leaves_has_asked_once(path)


def test_an_answer_that_nobody_asked_for_is_given_to_nobody(path):
    other = ANSWER.replace(b"200 OK", b"418 Other")
    with passing_on(path) as (writer, client):
        writer.answers = [ANSWER + other]
        assert client.get("/one").status_code == 200
        assert client.get("/two").status_code == 200
        assert len(writer.streams) == 2


def test_an_answer_for_the_next_one_would_be_noticed(path, monkeypatch):
    monkeypatch.setattr(upstream._Connection, "on_message_begin", lambda self: None)
    with pytest.raises((AssertionError, httpx.HTTPError)):
        test_an_answer_that_nobody_asked_for_is_given_to_nobody(path)


def test_an_answer_that_breaks_off_is_not_whole(path):
    """And the next request has another connection."""
    broken = b"HTTP/1.1 200 OK\r\nx: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"
    with passing_on(path) as (writer, client):
        writer.answers = [broken]
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/one")
        assert client.get("/two").status_code == 200
        assert len(writer.streams) == 2


def test_a_broken_answer_that_seems_whole_would_be_noticed(path, monkeypatch):
    right = upstream._Connection.connection_lost

    def whole(self, exc):
        self.complete = True
        right(self, exc)

    monkeypatch.setattr(upstream._Connection, "connection_lost", whole)
    with pytest.raises(pytest.fail.Exception):
        test_an_answer_that_breaks_off_is_not_whole(path)


FRAMED = b"8\r\nabcdefgh\r\n0\r\n\r\n"


def test_a_body_comes_through_in_the_form_in_which_it_was_sent(path):
    with passing_on(path) as (writer, client):
        for framing, body in ((b"Content-Length: 3", b"abc"), (b"Transfer-Encoding: chunked", FRAMED)):
            writer.go.clear()  # no answer before all of it came
            with connected(client) as one:
                one.sendall(b"POST /one HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n\r\n" + body)
                until(lambda body=body: b"".join(writer.streams).endswith(b"\r\n\r\n" + body))
                writer.go.set()
                assert one.recv(1 << 16).split()[1] == b"200"
        assert writer.headers(b"content-length") == [b"3"]
        assert len(writer.streams) == 1


FORGED = [
    ["X-Dygcn-Peer: 203.0.113.9 1"],
    ["x-dYGCN-pEER: 203.0.113.9 1", "X-Dygcn-Peer: no port"],
    ["X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "X-Real-Ip: 203.0.113.9"],
    ["Connection: x-dygcn-peer", "X-Dygcn-Peer: 203.0.113.9 1"],
]


@pytest.mark.parametrize("forged", FORGED)
def test_the_writer_hears_of_a_peer_what_the_reader_saw(path, forged):
    with passing_on(path) as (writer, client), connected(client) as one:
        host, port = one.getsockname()
        lines = "\r\n".join(["POST /one HTTP/1.1", "Host: localhost", *forged])
        one.sendall(lines.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        one.sendall(b"0\r\nX-Dygcn-Peer: 203.0.113.9 2\r\n\r\n")
        assert one.recv(1 << 16).split()[1] == b"200"
        assert writer.headers(PEER) == [f"{host} {port}".encode()]


def test_a_reader_that_believes_its_client_would_be_noticed(path, monkeypatch):
    monkeypatch.setattr(upstream, "_NOT_PASSED_ON", upstream._NOT_PASSED_ON - {PEER})
    with pytest.raises(AssertionError):
        test_the_writer_hears_of_a_peer_what_the_reader_saw(path, FORGED[0])


@contextmanager
def stopped_writer(path, answers=b""):
    """Start a process that listens as a writer, sends the same to everybody, and is then stopped."""
    script = (
        "import socket, sys\n"
        "listening = socket.socket(socket.AF_UNIX)\n"
        "listening.bind(sys.argv[1])\n"
        "listening.listen()\n"
        "print(flush=True)\n"
        "kept = []\n"
        "while True:\n"
        "    kept.append(listening.accept()[0])\n"
        "    kept[-1].recv(99999)\n"
        "    kept[-1].sendall(eval(sys.argv[2]))\n"
        "    print(flush=True)\n"
    )
    argv = [sys.executable, "-c", script, str(path), repr(answers)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_stopped_writer_is_503(path, monkeypatch):
    """A process that is stopped takes connections and keeps them, and says nothing."""
    monkeypatch.setattr(upstream, "_SILENCE", 0.05)
    monkeypatch.setattr(upstream, "_PATIENCE_OF_HEALTH", 0.2)
    with stopped_writer(path) as writer, reading(writer=str(path)) as (_, client):
        writer.send_signal(signal.SIGSTOP)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda body: client.post("/v1/events", content=body), [b"{}"] * 4))
        assert {one.status_code for one in found} == {503}
        assert {one.json()["type"] for one in found} == {"/problems/writer-gone"}
        assert {one.headers["retry-after"] for one in found} == {"1"}


def test_an_answer_that_a_stopped_writer_has_begun_is_ended(path, monkeypatch):
    monkeypatch.setattr(upstream, "_SILENCE", 0.05)
    monkeypatch.setattr(upstream, "_PATIENCE_OF_HEALTH", 0.2)
    begun = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab"
    with (
        stopped_writer(path, begun) as writer,
        reading(writer=str(path)) as (_, client),
        client.stream("GET", "/v1/status") as answer,
    ):
        writer.stdout.readline()
        writer.send_signal(signal.SIGSTOP)
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()


def test_a_writer_that_is_slow_is_waited_for(path, monkeypatch):
    monkeypatch.setattr(upstream, "_SILENCE", 0.01)
    with passing_on(path) as (writer, client), ThreadPoolExecutor(1) as pool:
        writer.go.clear()
        asked = pool.submit(client.get, "/one")
        until(lambda: writer.looks > 2 or asked.done())
        assert not asked.done()
        writer.go.set()
        assert asked.result().status_code == 200
        assert writer.heads == [b"GET /one HTTP/1.1"]


def test_a_reader_that_gives_up_on_a_slow_writer_would_be_noticed(path, monkeypatch):
    async def is_alive(self):
        return False

    monkeypatch.setattr(upstream.Writer, "_is_alive", is_alive)
    with pytest.raises(AssertionError):
        test_a_writer_that_is_slow_is_waited_for(path, monkeypatch)
