"""What a reader answers itself, and what it leaves to the writer: the application over a real socket."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import httpx
import msgspec
import numpy as np
import pytest

from dygcn.serving.readers import app as app_module
from dygcn.serving.readers.app import MANY, ONE, ReaderApp
from dygcn.serving.readers.process import ReaderServer
from dygcn.serving.readers.upstream import Writer
from dygcn.serving.service import bodies
from dygcn.serving.service.auth import Authorizer, new_token
from dygcn.serving.service.bodies import decoded
from dygcn.serving.service.server import address_of, bind
from dygcn.serving.service.settings import CurrentSettings, Http, Limits, ServiceSettings
from tests.serving.service.streams import until

DIM = 8
VECTOR = ONE.removesuffix("{id}")


class Shared:
    """Rows of nodes 0 to 9,999; node 13 has to be asked of the writer."""

    sequence = 7

    def row(self, node):
        return np.random.default_rng(node).standard_normal(DIM, np.float32)

    def vector(self, node):
        if node == 13:
            return None
        return self.sequence, self.row(node) if 0 <= node < 10_000 else None

    def vectors(self, ids):
        if 13 in ids:
            return None
        here = [one for one in ids if 0 <= one < 10_000]
        rows = np.array([self.row(one) for one in here], np.float32).reshape(-1, DIM)
        return self.sequence, here, rows, [one for one in ids if one not in here]


class Quiet(ReaderServer):
    def _say_counts(self):
        pass

    async def shutdown(self, sockets=None):
        await super().shutdown(sockets)
        for one in self._app._writer._idle:
            one.end()
        await asyncio.sleep(0.01)


@contextmanager
def reading(http=None, limits=None, writer="/nowhere/at/all"):
    """Serve with rows, and mostly without a writer: whoever asks it gets 503."""
    settings = ServiceSettings(folder="", http=http or Http(port=0), limits=limits or Limits())
    current = CurrentSettings(settings)
    app = ReaderApp(Shared(), Writer(writer), current, "int64")
    sockets = bind(settings.http)
    server = Quiet(app, current)
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        with httpx.Client(base_url=address_of(sockets[0]), timeout=20) as client:
            yield app, client
    finally:
        server.should_exit = True
        thread.join(20)


def test_a_vector_is_that_of_the_rows():
    with reading() as (app, client):
        for node in (0, 1, 9_999):
            found = client.get(f"{VECTOR}{node}")
            assert found.headers["content-type"] == "application/json"
            answer = found.json()
            assert (answer["sequence"], answer["id"]) == (7, node)
            assert (np.array(answer["vector"], np.float32) == Shared().row(node)).all()
        seconds = app.counts.seconds[ONE]
        assert (app.counts.requests, sum(seconds.counts), seconds.total > 0) == (3, 3, True)


@pytest.mark.parametrize("node", ["13", "10000", "-1", "x", "", "9" * 30, "1?as_of=3", "1?x=1"])
def test_what_is_not_plainly_a_vector_is_asked_of_the_writer(node):
    with reading() as (app, client):
        answer = client.get(f"{VECTOR}{node}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert app.counts.requests == 0


def test_many_vectors_are_those_of_the_rows():
    with reading() as (app, client):
        for count in (0, 1, 300, 2_000):
            ids = [*range(20, 20 + count), 77_777]
            answer = client.post(MANY, json={"ids": ids}).json()
            assert (answer["sequence"], answer["ids"], answer["missing"]) == (7, ids[:-1], [77_777])
            rows = np.array(answer["vectors"], np.float32).reshape(-1, DIM)
            assert (rows == Shared().vectors(ids)[2]).all()
        assert app.counts.statuses == {MANY: {"200": 4}}


@pytest.mark.parametrize(
    "asked",
    [
        {"json": {"ids": [13]}},
        {"json": {"ids": [1, 2, 3, 4]}},
        {"json": {"ids": "none"}},
        {"json": {"ids": [1], "other": 1}},
        {"content": b"{"},
        {"content": b'{"ids": [1]}', "headers": {"content-type": "text/plain"}},
        {"json": {"ids": [1]}, "headers": {"accept": "application/vnd.apache.arrow.stream"}},
        {"json": {"ids": [1]}, "params": {"as_of": "1"}},
        {"content": iter([b'{"ids": [1]}']), "headers": {"content-type": "application/json"}},
    ],
)
def test_what_is_not_plainly_many_vectors_is_asked_of_the_writer(asked):
    with reading(limits=Limits(ids=3)) as (app, client):
        assert client.post(MANY, **asked).status_code == 503
        assert app.counts.requests == 0


@pytest.mark.parametrize("coding", ["gzip", "zstd", "identity"])
@pytest.mark.parametrize("closes", [False, True])
def test_long_answers_are_compressed_as_those_of_the_writer(coding, closes, monkeypatch):
    headers = {"accept-encoding": coding, "connection": "close" if closes else "keep-alive"}
    with reading() as (_, client):
        many = client.post(MANY, json={"ids": list(range(20, 400))}, headers=headers)
        few = client.post(MANY, json={"ids": [20]}, headers=headers)
        monkeypatch.setattr(bodies, "_SHORTEST", 10)
        one = client.get(f"{VECTOR}20", headers=headers)
    for answer in (many, one):
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers.get("content-encoding", "identity") == coding
    assert not {"vary", "content-encoding"} & set(few.headers)
    # The client decodes gzip by itself.
    many, one = (decoded(a.content, coding, 1 << 20) if coding == "zstd" else a.content for a in (many, one))
    first = few.json()["vectors"][0]
    assert msgspec.json.decode(many)["vectors"][0] == msgspec.json.decode(one)["vector"] == first


def test_doors_are_those_of_the_writer():
    secret, token = new_token("app", ["read"])
    other, second = new_token("writes", ["write"])
    with reading(Http(port=0, tokens=[token, second])) as (app, client):
        good = {"authorization": f"Bearer {secret}"}
        for _ in range(3):
            assert client.get(f"{VECTOR}1", headers=good).status_code == 200
        for bad in ({}, {"authorization": f"Bearer {other}"}, {"authorization": f"Bearer {secret}x"}):
            assert client.get(f"{VECTOR}1", headers=bad).status_code == 503  # refused by the writer, if there
            assert client.post(MANY, json={"ids": [1]}, headers=bad).status_code == 503
        changed = ServiceSettings(folder="", http=Http(port=0, tokens=[second]))
        app._current.replace(changed)
        assert client.get(f"{VECTOR}1", headers=good).status_code == 503


def test_a_door_that_is_open_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Authorizer, "allows_read", lambda self, authorization, host: True)
    with pytest.raises(AssertionError):
        test_doors_are_those_of_the_writer()


def test_the_first_of_two_headers_counts():
    """As it does for the writer: what one of them refuses the other must not answer."""
    asked = f"GET {VECTOR}1 HTTP/1.1\r\nHost: %s\r\nHost: %s\r\nConnection: %s\r\n\r\n"
    with reading() as (_, client):
        for connection in ("keep-alive", "close"):  # at once, and the usual way
            for hosts, status in ((("localhost", "evil"), b"200"), (("evil", "localhost"), b"503")):
                place = (client.base_url.host, client.base_url.port)
                with socket.create_connection(place, timeout=20) as one:
                    one.sendall((asked % (*hosts, connection)).encode())
                    assert one.recv(1 << 16).split()[1] == status


def test_the_last_of_two_headers_would_be_noticed(monkeypatch):
    monkeypatch.setattr(app_module, "_firsts", dict)
    with pytest.raises(AssertionError):
        test_the_first_of_two_headers_counts()


def test_no_part_of_a_body_is_lost_where_many_are_read():
    """A part that does not fit beside the bodies of others was received, and cannot be received again."""
    body = b'{"ids": [1]}' + b" " * 900
    head = f"POST {MANY} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with reading(limits=Limits(bodies_bytes=1_000, seconds_to_send=5.0)) as (here, client):
        place = (client.base_url.host, client.base_url.port)
        with socket.create_connection(place) as slow:
            slow.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + body)
            until(lambda: here._bodies.held == len(body))
            answer = client.post(MANY, content=body, headers={"content-type": "application/json"})
            assert answer.json()["ids"] == [1]
            assert here._bodies.held == len(body)


def test_a_part_that_is_lost_would_be_noticed(monkeypatch):
    right = ReaderApp._read

    async def losing(self, receive, body):
        found = await right(self, receive, body)
        del body.chunks[bool(body.size) :]
        return found

    monkeypatch.setattr(ReaderApp, "_read", losing)
    with pytest.raises((AssertionError, KeyError)):
        test_no_part_of_a_body_is_lost_where_many_are_read()


def test_a_remembered_header_is_no_other_one():
    secret, token = new_token("app", ["read"])
    doors = Authorizer(Http(host="0.0.0.0", tokens=[token]))
    asked = f"Bearer {secret}".encode()
    assert doors.allows_read(asked, b"a.example")
    assert doors.allows_read(asked, b"a.example")
    assert not doors.allows_read(asked + b"x", b"a.example")
    assert not doors.allows_read(None, b"a.example")
    for number in range(3_000):
        assert doors.allows_read(asked, b"%d.example" % number)
    assert len(doors._readers) <= 1_000
    assert doors.allows_read(asked, b"x" * 60_000)
    assert all(len(host) < 60_000 for _, host in doors._readers)


def test_one_read_does_not_wait_for_many():
    """While thousands are encoded, others have their turn."""

    async def run():
        app = ReaderApp(Shared(), Writer(""), CurrentSettings(ServiceSettings(folder="")), "int64")
        turns, done = [], asyncio.Event()

        async def count():
            while not done.is_set():
                turns.append(1)
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        body = b'{"ids": [%s]}' % b",".join(b"%d" % one for one in range(100, 3_000))
        assert await app._vectors(body)
        done.set()
        await counting
        return len(turns)

    assert asyncio.run(run()) > 10
