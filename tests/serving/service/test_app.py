"""The web shell: limits, doors and errors, as whoever stands outside sees them."""

import re
import socket
import sqlite3
import threading
import time

import httpx
import msgspec
import pytest

from dygcn.errors import DygcnError
from dygcn.live.durable.storage.log import EventLog
from dygcn.serving.service.app import ROUTES, refusal
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.settings import Limits
from dygcn.serving.service.web import V1
from tests.serving.service.serving import (
    ARROW,
    HUNG_UP,
    NDJSON,
    is_problem,
    on_loopback,
    send_until_refused,
    serving,
)

WITH_BODY = sorted({route.path for route in ROUTES if route.forms})


def connect(served):
    host, port = served.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(path, *lines, method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def read_all(connection):
    found = b""
    while chunk := connection.recv(65536):
        found += chunk
    return found


def read_answer(connection):
    """Read one answer, whose length is told."""
    found = b""
    while b"\r\n\r\n" not in found:
        chunk = connection.recv(65536)
        if not chunk:
            return found, b""
        found += chunk
    top, _, body = found.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", top)[1])
    while len(body) < length:
        body += connection.recv(65536)
    return top, body


# ---- sizes and types ---------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused(serve):
    served = serve(limits=Limits(body_bytes=100))
    large = b'{"ids": [' + b"1, " * 100 + b"1]}"
    for path in WITH_BODY:
        is_problem(served.ask(path, large), 413, "too-large")
        chunks = (large[i : i + 10] for i in range(0, len(large), 10))
        headers = {"content-type": "application/json"}
        answer = served.client.post(path, content=chunks, headers=headers)  # of no known length
        is_problem(answer, 413, "too-large")
        assert served.get("/livez").status_code == 200


def test_exactly_as_large_as_allowed_is_taken(serve):
    body = msgspec.json.encode([{"src": 1, "dst": 2}])
    served = serve(limits=Limits(body_bytes=len(body)))
    assert served.post(body).status_code == 200
    is_problem(served.post(body + b" "), 413)


def test_a_large_body_is_refused_before_it_is_sent(serve):
    served = serve(limits=Limits(body_bytes=100))
    with connect(served) as connection:
        connection.sendall(head("/v1/events", "Content-Type: application/json", "Content-Length: 1000000000"))
        top, _ = read_answer(connection)
        assert b" 413 " in top


@pytest.mark.parametrize(
    "form",
    [
        "text/plain",  # a page of another site may send these three without asking
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonx",
        "text/plain; application/json",
        "*/*",
    ],
)
def test_other_types_are_refused(quiet, form):
    for path in WITH_BODY:
        answer = quiet.client.post(path, content=b"[]", headers={"content-type": form} if form else {})
        assert "send Content-Type: application/json" in is_problem(answer, 415)


@pytest.mark.parametrize("path", ["/v1/vectors", "/v1/nearest", "/v1/score"])
@pytest.mark.parametrize("form", [ARROW, NDJSON])
def test_questions_are_json(quiet, path, form):
    answer = quiet.client.post(path, content=b"{}", headers={"content-type": form})
    is_problem(answer, 415)


def test_a_type_that_nobody_checks_would_be_noticed(quiet, monkeypatch):
    monkeypatch.setattr("dygcn.serving.service.app.content_type", lambda request: "application/json")
    with pytest.raises(AssertionError):
        test_other_types_are_refused(quiet, "text/plain")


# ---- slow and broken -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WITH_BODY)
def test_a_body_that_takes_too_long_is_given_up(serve, path):
    served = serve(limits=Limits(seconds_to_send=0.4))
    with connect(served) as connection:
        connection.sendall(head(path, "Content-Type: application/json", "Content-Length: 1000") + b"[")
        begun = time.monotonic()
        top, body = read_answer(connection)
        assert b" 408 " in top
        assert b"connection: close" in top.lower()
        assert msgspec.json.decode(body)["type"] == "/problems/too-slow"
        assert time.monotonic() - begun > 0.3
        assert connection.recv(1) == b""


def test_dripping_does_not_help(serve):
    served = serve(limits=Limits(seconds_to_send=0.5))
    with connect(served) as connection:
        connection.sendall(head("/v1/events", "Content-Type: application/json", "Content-Length: 1000"))
        with pytest.raises(HUNG_UP):
            send_until_refused(connection, b" ", seconds=5, pause=0.05)


def test_a_body_that_ends_early_harms_nobody(serve):
    served = serve()
    for _ in range(5):
        with connect(served) as connection:
            top = head("/v1/events", "Content-Type: application/json", "Content-Length: 99")
            connection.sendall(top + b"[{")
    assert served.post([{"src": 1, "dst": 9}]).json()["applied"] == 1
    assert served.get("/v1/status").json()["queue"]["events"] == 0


def test_whoever_hangs_up_while_waiting_harms_nobody(serve):
    """The events were taken: they are applied, though nobody hears it."""
    served = serve()
    body = msgspec.json.encode([{"src": 1, "dst": 900}])
    with served.service.live.lock, connect(served) as connection:
        connection.sendall(
            head("/v1/events", "Content-Type: application/json", f"Content-Length: {len(body)}") + body
        )
        time.sleep(0.1)
    until = time.monotonic() + 10
    while served.get("/v1/vectors/900").status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert served.post([{"src": 1, "dst": 9}]).status_code == 200


# ---- too much ------------------------------------------------------------------------------------------


def busy(served, count, **limits):
    """Send requests at once while the writer is held up; return the answers."""
    answers = []

    def send(number):
        answers.append(served.post([{"src": 1, "dst": 5_000 + number}]))

    with served.service.live._ahead._writing:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 10
        while served.service.queue.shed + served.service.queue.events < count:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert served.get("/livez").status_code == 200
        assert served.get("/v1/vectors/1").status_code == 200  # reads go on meanwhile
    for thread in threads:
        thread.join(20)
    return answers


def test_a_full_queue_sheds_and_what_was_taken_is_there(serve):
    served = serve(limits=Limits(queued_events=5, cut_events=1))
    answers = busy(served, 15)
    taken = [answer for answer in answers if answer.status_code == 200]
    shed = [answer for answer in answers if answer.status_code == 429]
    assert len(taken) + len(shed) == 15
    assert 5 <= len(taken) <= 7
    for answer in shed:
        is_problem(answer, 429, "overloaded")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
    there = served.ask("/v1/vectors", {"ids": list(range(5_000, 5_015))}).json()["ids"]
    assert len(there) == len(taken)
    status = served.get("/v1/status").json()["queue"]
    assert (status["events"], status["rows"], status["shed"]) == (0, 0, len(shed))
    assert served.post([{"src": 1, "dst": 6_000}]).status_code == 200


def test_bodies_at_once_have_a_bound(serve):
    served = serve(limits=Limits(bodies_bytes=1_000))
    with connect(served) as one, connect(served) as other:
        begun = (
            head("/v1/events", "Content-Type: application/json", "Content-Length: 5000") + b"[" + b" " * 900
        )
        one.sendall(begun)
        time.sleep(0.2)
        other.sendall(begun)
        top, body = read_answer(other)
        assert b" 429 " in top
        assert b"retry-after: 1" in top.lower()
        assert msgspec.json.decode(body)["type"] == "/problems/overloaded"
    until = time.monotonic() + 10
    while served.post(b"[" + b" " * 900 + b"]").status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.02)


# ---- a write that fails ------------------------------------------------------------------------------


class Broken:
    """A connection to a disk that is full from now on."""

    def __init__(self, real):
        self._real = real
        self.full = False

    def execute(self, statement, *values):
        if self.full and statement.startswith(("BEGIN", "COMMIT", "INSERT", "DELETE")):
            raise sqlite3.OperationalError("database or disk is full")
        return self._real.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._real, name)


def test_after_a_failed_write_nothing_is_taken_and_everything_is_read(serve, folder):
    path = folder()
    with serving(on_loopback(path)) as served:
        assert served.post([{"src": 1, "dst": 10}]).status_code == 200
        log = served.service.live._log
        log._db = Broken(log._db)
        log._db.full = True
        for number in range(3):
            answer = served.post([{"src": 1, "dst": 20 + number}])
            assert "nothing more is accepted" in is_problem(answer, 503, "write-failed")
            assert int(answer.headers["retry-after"]) > 0
        log._db.full = False  # that it is better now does not help: what the file holds is not known
        is_problem(served.post([{"src": 1, "dst": 30}]), 503, "write-failed")
        assert served.get("/readyz").json() == {"ready": True, "accepting": False}
        status = served.get("/v1/status").json()
        assert status["accepting"] is False
        assert "disk is full" in status["failure"]
        assert served.get("/v1/vectors/10").status_code == 200
        assert served.get("/v1/vectors/20").status_code == 404
        assert served.get("/v1/nearest/10").status_code == 200
        assert served.ask("/v1/score", {"pairs": [[1, 10]]}).status_code == 200
        assert served.get("/v1/changes").status_code == 200
        assert served.get("/v1/map").status_code == 200
        assert served.get("/v1/dead-letters").status_code == 200
        assert "dygcn_accepting 0.0" in served.get("/metrics").text
    with serving(on_loopback(path)) as served:
        assert served.get("/v1/vectors/10").status_code == 200
        assert served.post([{"src": 1, "dst": 20}]).status_code == 200


def test_a_hidden_failure_would_be_noticed(serve, folder, monkeypatch):
    monkeypatch.setattr(EventLog, "fail", lambda self, error: DygcnError("never mind"))
    with pytest.raises(AssertionError):
        test_after_a_failed_write_nothing_is_taken_and_everything_is_read(serve, folder)


# ---- errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/vectors", 405),
        ("GET", "/v1/events", 405),
        ("PUT", "/v1/events", 405),
        ("DELETE", "/v1/vectors/1", 405),
        ("PATCH", "/v1/score", 405),
        ("OPTIONS", "/v1/events", 405),
        ("OPTIONS", "/v1/status", 405),
        ("TRACE", "/v1/status", 405),
        ("POST", "/v1/status", 405),
        ("GET", "/v1/status/", 404),
        ("GET", "/Status", 404),
        ("GET", "/v1/status//", 404),
        ("GET", "/docs", 404),
        ("GET", "/.git/config", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
    ],
)
def test_what_is_not_there_is_told_as_json(quiet, method, path, status):
    answer = quiet.client.request(method, path, follow_redirects=False)
    is_problem(answer, status)
    if status == 405:
        assert answer.headers["allow"]
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_path_without_its_version_is_told_where_it_is(quiet):
    for route in (one for one in ROUTES if one.path.startswith(V1)):
        path = route.path.removeprefix(V1).replace("{id}", "1")
        message = is_problem(quiet.client.request(route.method, path), 404)
        assert f"is at {V1}/{path.split('/')[1]}:" in message


@pytest.mark.parametrize("route", [one for one in ROUTES if one.method == "GET"], ids=lambda one: one.path)
def test_head_is_get_without_a_body(quiet, route):
    served = quiet
    needed = "&".join(f"{one.name}=1" for one in route.params if one.required and one.place == "query")
    path = route.path.replace("{id}", "1") + (f"?{needed}" if needed else "")
    answer = served.client.head(path)
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers["content-type"] == served.get(path).headers["content-type"]
    assert served.client.head("/v1/vectors/999").status_code == 404


def test_no_answer_says_what_serves_it(quiet):
    answer = quiet.get("/livez")
    assert "server" not in answer.headers


def test_an_unexpected_error_is_json_and_says_nothing(serve, monkeypatch, caplog):
    served = serve()

    def broken(*_):
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(served.service.reads, "vector", broken)
    monkeypatch.setattr(served.service.reads, "vectors", broken)
    for answer in (served.get("/v1/vectors/1"), served.ask("/v1/vectors", {"ids": [1]})):
        assert "swordfish" not in is_problem(answer, 500, "internal-error")
    monkeypatch.setattr(served.service.live, "_ingest", broken)
    assert "swordfish" not in is_problem(served.post([{"src": 1, "dst": 2}]), 500)
    monkeypatch.undo()
    assert served.get("/v1/vectors/1").status_code == 200
    assert served.post([{"src": 1, "dst": 2}]).status_code == 200
    broke = [one.fields for one in caplog.records if one.getMessage() == "request.failed"]
    assert {"method": "GET", "route": "/v1/vectors/{id}"} in broke  # and why is in the log of the service
    assert "swordfish" in caplog.text
    assert 'dygcn_requests_total{route="/v1/vectors/{id}",status="500"} 1.0' in served.get("/metrics").text


def test_every_error_of_ours_has_a_status():
    def all_of(kind):
        return {kind}.union(*(all_of(one) for one in kind.__subclasses__()))

    for kind in all_of(DygcnError):
        error = kind.__new__(kind)
        Exception.__init__(error, "it is so")
        for name, value in (("node", 1), ("_hint", ""), ("retry_after", 3)):
            if not hasattr(error, name):
                error.__dict__[name] = value
        answer = refusal(error)
        assert 400 <= answer.status_code < 600
        assert answer.status_code != 500
        assert answer.status_code not in (429, 503) or int(answer.headers["retry-after"]) > 0


def test_no_error_shows_a_token(folder):
    secret, token = new_token("boss", ["admin"])
    with serving(on_loopback(folder(), tokens=[token])) as served:
        asked = []
        for headers in ({"authorization": f"Bearer {secret}"}, {"authorization": f"Bearer {secret}x"}, {}):
            for route in ROUTES:
                path = route.path.replace("{id}", "999")
                asked.append(served.client.request(route.method, path, headers=headers))
        asked.append(
            served.client.get(f"/v1/vectors/{'x' * 10}", headers={"authorization": f"Bearer {secret}"})
        )
        for answer in asked:
            seen = answer.text + str(answer.headers)
            assert secret not in seen
            assert token.sha256 not in seen


# ---- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8470", "localhost.evil.example", "0.0.0.0"])
def test_a_page_that_calls_itself_by_another_name_gets_nothing(quiet, host):
    for route in ROUTES:
        path = route.path.replace("{id}", "1")
        answer = quiet.client.request(route.method, path, headers={"host": host})
        is_problem(answer, 421, "misdirected")


def test_a_request_without_a_name_gets_nothing(quiet):
    with connect(quiet) as connection:
        connection.sendall(b"GET /v1/status HTTP/1.0\r\n\r\n")
        assert b" 421 " in read_all(connection).partition(b"\r\n")[0]


def test_a_name_in_the_settings_is_known(folder):
    settings = on_loopback(folder())
    http = msgspec.structs.replace(settings.http, names=["v.example"])
    with serving(msgspec.structs.replace(settings, http=http)) as served:
        assert served.client.get("/v1/status", headers={"host": "V.Example:80"}).status_code == 200


# ---- the end -----------------------------------------------------------------------------------------


def ask_for(seconds, address):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        httpx.get(f"{address}/livez", timeout=60)
        time.sleep(0.05)


def test_a_drain_answers_what_was_taken(folder):
    path = folder()
    answers = []
    with serving(on_loopback(path)) as served:
        with served.service.live._ahead._writing:
            sender = threading.Thread(
                target=lambda: answers.append(served.post([{"src": 1, "dst": 777}])), daemon=True
            )
            sender.start()
            while not served.service.queue.events:
                time.sleep(0.01)
            served.server.should_exit = True
            time.sleep(0.3)
        sender.join(20)
        assert answers[0].status_code == 200
        with pytest.raises(httpx.HTTPError):
            ask_for(10, served.address)
    with serving(on_loopback(path)) as served:
        assert served.get("/v1/vectors/777").status_code == 200


def test_while_going_down_nothing_is_taken(serve):
    served = serve()
    served.service.queue.close()
    answer = served.post([{"src": 1, "dst": 777}])
    is_problem(answer, 503, "closing")
    assert int(answer.headers["retry-after"]) > 0
    assert served.get("/v1/vectors/1").status_code == 200
