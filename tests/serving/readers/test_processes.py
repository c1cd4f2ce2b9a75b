"""Reader processes and the writer behind them: real processes, real sockets, real signals."""

import os
import select
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import msgspec
import pytest

import dygcn
from dygcn.errors import DygcnError, OptionError
from dygcn.live.shared.sharing import Handle, Place
from dygcn.serving.observing.metrics import RequestCounts
from dygcn.serving.readers.process import ReaderServer, rows_of
from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.server import bind
from dygcn.serving.service.settings import Http
from dygcn_lab.testbed.served import served_process
from tests.serving.service.streams import until

PATHS = {route.handler: route.path for route in ROUTES}
EVENTS, STATUS, CHANGES = PATHS["post_events"], PATHS["get_status"], PATHS["get_changes"]
VECTOR, VECTORS = PATHS["get_vector"].removesuffix("{id}"), PATHS["post_vectors"]


@contextmanager
def read(path, readers=2, **settings):
    """Serve a folder behind readers; yield the process and a client."""
    with (
        served_process(path, readers=readers, **settings) as one,
        httpx.Client(base_url=one.address, timeout=30) as client,
    ):
        yield one, client


def children(pid):
    """Return the processes that a process has started (Linux)."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(one)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for one in (task / "children").read_text().split()
    ]


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def answered(address, path=STATUS, **asked):
    """Ask on a connection of its own; say whether there was an answer."""
    try:
        return httpx.get(f"{address}{path}", timeout=30, **asked).status_code == 200
    except httpx.HTTPError:
        return False


def post(client, /, *edges, **params):
    return client.post(EVENTS, json=[{"src": a, "dst": b} for a, b in edges], params=params)


def test_everything_is_answered_through_readers(folder):
    with read(folder()) as (one, client):
        until(lambda: client.get("/readyz").status_code == 200)
        assert post(client, (1, 777)).json()["applied"] == 1
        assert client.get(f"{VECTOR}777").status_code == 200
        assert client.get(f"{VECTOR}4321").status_code == 404
        many = client.post(VECTORS, json={"ids": [1, 777, 4321]}).json()
        assert (many["ids"], many["missing"]) == ([1, 777], [4321])
        assert client.head(STATUS).status_code == 200
        assert client.get(STATUS).json()["sequence"] == 1
        assert client.get("/nothing").status_code == 404
        assert client.get(STATUS, headers={"host": "evil.example"}).status_code == 421
        assert client.get(f"{VECTOR}1", headers={"host": "evil.example"}).status_code == 421
        code, said = one.drain()
    assert code == 0, said


def test_a_reader_that_dies_is_started_again(folder):
    with read(folder()) as (one, _):
        until(lambda: len(children(one.pid)) == 2)
        for dead in children(one.pid):
            os.kill(dead, signal.SIGKILL)
        until(lambda: len([pid for pid in children(one.pid) if is_running(pid)]) == 2)
        until(lambda: answered(one.address))
        assert one.said.count("reader.died") == 2


def test_no_reader_outlives_its_writer(folder, tmp_path_factory, monkeypatch):
    """And the last thing that readers do is to remove the writer's socket."""
    places = tmp_path_factory.mktemp("t")  # short, as the path of a socket has to be
    monkeypatch.setenv("TMPDIR", str(places))
    with read(folder()) as (one, _):
        until(lambda: len(children(one.pid)) == 2)
        readers = children(one.pid)
        assert len(list(places.glob("dygcn-*/writer"))) == 1
        one.send(signal.SIGKILL)
        one.wait()
        until(lambda: not any(map(is_running, readers)))
    assert not list(places.glob("dygcn-*"))


def test_a_name_that_is_too_long_for_a_socket_is_refused(folder, tmp_path, monkeypatch):
    places = tmp_path / ("long" * 30)
    places.mkdir()
    monkeypatch.setenv("TMPDIR", str(places))
    with pytest.raises(DygcnError, match="set TMPDIR to a shorter one"), read(folder(), 1):
        pass
    assert not list(places.iterdir())


def test_reads_do_not_wait_for_a_writer_that_does_not_listen(monkeypatch):
    """A reader says once a second what it answered; nobody may take it."""
    taken, said = os.pipe()
    with os.fdopen(taken), os.fdopen(said, "w") as stdout:
        os.set_blocking(said, False)
        with suppress(BlockingIOError):
            while True:
                os.write(said, bytes(4096))
        monkeypatch.setattr("sys.stdout", stdout)
        server = ReaderServer.__new__(ReaderServer)
        server._app = SimpleNamespace(counts=RequestCounts())
        server._say_counts()


def test_what_a_reader_says_fits_into_one_write():
    counts = RequestCounts()
    for path in (PATHS["get_vector"], PATHS["post_vectors"]):
        for _ in range(10_000):
            counts.count(path, 200, 1e-3)
    assert len(msgspec.json.encode(counts)) < select.PIPE_BUF / 2


def test_rows_that_cannot_be_read_are_asked_of_the_writer():
    nobody = Handle(process=2**22 + 1, words=Place(3, 1, "<i8", (1,)), list=Place(4, 1, "|u1", (1,)))
    assert rows_of(msgspec.json.encode(nobody).decode()) is None


def test_a_writer_that_does_not_answer_is_503(folder):
    with read(folder(), 1) as (one, client):
        assert client.get(STATUS).status_code == 200
        one.send(signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(3) as pool:
                asked = [pool.submit(client.get, path) for path in ("/livez", STATUS)]
                asked.append(pool.submit(post, client, (1, 50)))
                answers = [one.result() for one in asked]
        finally:
            one.send(signal.SIGCONT)
        assert [answer.status_code for answer in answers] == [503] * 3
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        assert {answer.json()["type"] for answer in answers} == {"/problems/writer-gone"}
        until(lambda: client.get("/livez").status_code == 200)


def test_exactly_once_through_readers(folder):
    path = folder()
    with read(path) as (one, client):
        assert post(client, (1, 50), (1, 51), client="me", sequence=0).json()["status"] == "applied"
        assert post(client, (1, 50), (1, 51), client="me", sequence=0).json()["status"] == "repeated"
        assert post(client, (1, 60), client="me", sequence=9).status_code == 409
        assert post(client, (1, 52), client="me", sequence=2).json()["applied"] == 1
        assert one.drain()[0] == 0
    with dygcn.open(path) as again:
        assert all(node in again for node in (50, 51, 52))
        assert 60 not in again


def test_a_stream_of_changes_comes_through(folder):
    with read(folder()) as (_, client):
        now = client.get(CHANGES, params={"limit": 100}).json()["latest"]
        asked = client.stream("GET", CHANGES, params={"since": now}, headers={"accept": "text/event-stream"})
        with asked as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": here"
            with httpx.Client(base_url=client.base_url, timeout=60) as other:
                post(other, (1, 4242))
            found = next(line for line in lines if line.startswith("data: "))
            assert "4242" in found
        until(lambda: client.get("/livez").status_code == 200)


def test_a_client_that_leaves_a_stream_frees_its_place(folder):
    with read(folder(), 1, limits={"feeds": 1}) as (_, client):
        headers = {"accept": "text/event-stream"}
        for _ in range(3):
            with httpx.stream("GET", f"{client.base_url}{CHANGES}", headers=headers, timeout=60) as stream:
                assert stream.status_code == 200
                assert next(stream.iter_lines()) == ": here"

            def is_free():
                with httpx.stream("GET", f"{client.base_url}{CHANGES}", headers=headers, timeout=60) as again:
                    return again.status_code == 200

            until(is_free)
            until(is_free)


def test_a_large_body_comes_through_and_a_larger_one_does_not(folder):
    with read(folder(), 1) as (_, client):
        headers = {"content-type": "application/json"}
        body = b"[" + b" " * (10 << 20) + b'{"src": 1, "dst": 88}]'
        assert client.post(EVENTS, content=body, headers=headers).json()["applied"] == 1
        parts = iter([b"[", b" " * 1000, b'{"src": 1, "dst": 89}]'])
        assert client.post(EVENTS, content=parts, headers=headers).json()["applied"] == 1
        assert client.post(EVENTS, content=b" " * (17 << 20), headers=headers).status_code == 413
        assert client.get(f"{VECTOR}88").status_code == 200


def test_a_client_that_hangs_up_leaves_nothing_behind(folder):
    with read(folder(), 1) as (one, client):
        host, _, port = one.address.removeprefix("http://").rpartition(":")
        top = f"POST {EVENTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for _ in range(20):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(f"{top}Content-Length: 1000\r\n\r\n[".encode())
        for _ in range(20):
            assert post(client, (1, 90)).status_code == 200
        assert client.get(STATUS).json()["traffic"]["dead_letters"] == 0


def test_a_slow_client_gets_all_of_a_large_answer(folder):
    with read(folder(), 1, limits={"page_rows": 20_000}) as (_, client):
        events = [{"src": 1, "dst": 1_000 + number} for number in range(5_000)]
        assert client.post(EVENTS, content=msgspec.json.encode(events), headers=JSON).status_code == 200
        plain = {"accept-encoding": "identity"}
        with client.stream("GET", CHANGES, params={"limit": 20_000}, headers=plain) as stream:
            got = b""
            for part in stream.iter_raw(1 << 16):
                got += part
                time.sleep(0.02)
                assert client.base_url
        assert len(msgspec.json.decode(got)["moved"]) >= 5_000


JSON = {"content-type": "application/json"}


def test_tokens_and_signals_reach_readers(folder):
    old, first = new_token("old", ["read"])
    new, second = new_token("new", ["read"])
    path = folder()
    with read(path, tokens=(first,)) as (one, client):

        def status(secret, place=f"{VECTOR}1"):
            return client.get(place, headers={"authorization": f"Bearer {secret}"}).status_code

        assert (status(old), status(new), client.get(STATUS).status_code) == (200, 401, 401)
        assert client.get("/livez").status_code == 200
        assert client.post(EVENTS, json=[], headers={"authorization": f"Bearer {old}"}).status_code == 403
        config = path.with_name(f"{path.name}.toml")
        config.write_text(config.read_text().replace(first.sha256, second.sha256))
        one.send(signal.SIGHUP)
        until(lambda: status(new) == 200)
        until(lambda: status(old) == 401)
        for reader in children(one.pid):
            for place in ("cmdline", "environ"):
                assert second.sha256 not in Path(f"/proc/{reader}/{place}").read_text(errors="replace")


def test_signals_to_the_group_leave_the_order_to_the_writer(folder):
    path = folder()
    with read(path) as (one, client):
        assert post(client, (1, 777)).status_code == 200
        until(lambda: len(children(one.pid)) == 2)
        readers = children(one.pid)
        for pid in readers:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGHUP)
        assert client.get(STATUS).status_code == 200
        assert one.drain()[0] == 0
        assert not any(map(is_running, readers))
    with dygcn.open(path) as again:
        assert again._ahead.saved_at == again.sequence


FORGED = [
    {"x-dygcn-peer": "203.0.113.9 1"},
    {"x-dygcn-peer": "no port"},
    {"x-forwarded-for": "203.0.113.9", "forwarded": "for=203.0.113.9", "x-real-ip": "203.0.113.9"},
]


def check_peers(path, readers, bug):
    """Ask with headers that name another peer; the writer must hear of the one that asked."""
    with read(path, readers, bug=f"tests.serving.readers.shown_peers:{bug}") as (one, _):
        host, port = one.address.removeprefix("http://").rsplit(":", 1)
        for number, forged in enumerate(FORGED):
            name, source = f"asked-{number}", ("127.0.0.1", 0)
            with socket.create_connection((host, int(port)), timeout=30, source_address=source) as connection:
                lines = [f"GET {STATUS} HTTP/1.1", "Host: localhost", f"X-Request-Id: {name}"]
                lines += [f"{header}: {value}" for header, value in forged.items()]
                connection.sendall("\r\n".join([*lines, "", ""]).encode())
                assert connection.recv(1 << 16).split()[1] == b"200"
                shown = f"{name} came from {connection.getsockname()[0]} {connection.getsockname()[1]}\n"
            assert shown in one.said, one.said


@pytest.mark.parametrize("readers", [0, 1])
def test_a_peer_cannot_say_who_it_is(folder, readers):
    """The header that readers set is taken from them only, and theirs says what they saw."""
    check_peers(folder(), readers, "show")


@pytest.mark.parametrize(("readers", "bug"), [(0, "believe_everybody"), (1, "believe_clients")])
def test_a_peer_that_is_believed_would_be_noticed(folder, readers, bug):
    with pytest.raises((AssertionError, IndexError)):
        check_peers(folder(), readers, bug)


def test_a_port_that_others_have_is_not_shared_with_them(folder):
    first = folder()
    with read(first) as (one, _):
        port = int(one.address.rpartition(":")[2])
        for readers in (0, 1):
            with pytest.raises(OptionError, match="in use"):
                bind(Http(port=port, readers=readers))


def test_the_writer_counts_its_readers(folder):
    with read(folder()) as (_, client):
        until(lambda: "dygcn_reader_processes 2.0" in client.get("/metrics").text)


def test_readers_answer_what_was_just_acknowledged(folder):
    """From shared rows, where the engine is compiled; else from the writer."""
    with read(folder(), 1) as (_, client):
        for number in range(20):
            done = post(client, (1, 5_000 + number)).json()
            found = client.get(f"{VECTOR}{5_000 + number}").json()
            many = client.post(VECTORS, json={"ids": [5_000 + number]}).json()
            assert found["sequence"] == many["sequence"] == done["sequence"]
            assert found["vector"] == many["vectors"][0]
