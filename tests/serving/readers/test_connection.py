"""Reads that a connection answers at once: the same answers as the usual way gives, and the same bounds."""

import re
import socket
from urllib.parse import urlsplit

import pytest

from dygcn.serving.readers import process
from dygcn.serving.service.server import Connections
from dygcn.serving.service.settings import Limits
from tests.serving.readers.test_app import VECTOR, reading


def exchange(client, data, answers):
    """Send bytes; return so many answers, head and body each."""
    place = urlsplit(str(client.base_url))
    with socket.create_connection((place.hostname, place.port), timeout=20) as one:
        one.sendall(data)
        got, found = b"", []
        while len(found) < answers:
            part = one.recv(1 << 16)
            if not part:
                break
            got += part
            while (head := got.partition(b"\r\n\r\n"))[1]:
                length = int(re.search(rb"content-length: (\d+)", head[0]).group(1))
                if len(head[2]) < length:
                    break
                found.append((head[0], head[2][:length]))
                got = head[2][length:]
        return found


def ask(node, *headers, method="GET", version="1.1", body=""):
    lines = [f"{method} {VECTOR}{node} HTTP/{version}", "Host: 127.0.0.1", *headers, "", body]
    return "\r\n".join(lines).encode()


def names_of(head):
    return sorted(line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:])


@pytest.fixture
def at_once(monkeypatch):
    """How often a connection answered at once."""
    answered, whole = [], process.ReaderConnection._answers_at_once

    def counted(self):
        answered.append(whole(self))
        return answered[-1]

    monkeypatch.setattr(process.ReaderConnection, "_answers_at_once", counted)
    return answered


def test_both_ways_give_the_same_answer(at_once):
    with reading() as (_, client):
        for node in (0, 1, 9_999):
            ((head, body),) = exchange(client, ask(node), 1)
            ((usual, same),) = exchange(client, ask(node, "Connection: close"), 1)
            assert at_once[-2:] == [True, False]
            assert body == same
            assert head.startswith(b"HTTP/1.1 200 ")
            assert names_of(head) == [one for one in names_of(usual) if one != b"connection"]


@pytest.mark.parametrize(
    "request_",
    [
        ask(1, version="1.0"),
        ask("1?x=1"),
        ask("%31"),
        ask("1#2"),
        ask(1, method="HEAD"),
        ask(13),
        ask("9" * 300),
    ],
)
def test_what_is_not_plainly_a_read_takes_the_usual_way(request_, at_once):
    with reading() as (_, client):
        exchange(client, request_, 1)
        assert not any(at_once)


def test_answers_come_in_the_order_of_requests(at_once):
    """Also where some of them take the usual way, which takes longer."""
    nodes = [1, 2, 13, 3, 13, 4, 5]
    with reading() as (_, client):
        found = exchange(client, b"".join(map(ask, nodes)), len(nodes))
    assert [head.split()[1] for head, _ in found] == [b"503" if one == 13 else b"200" for one in nodes]
    shown = [re.search(rb'"id":(\d+)', body).group(1) for head, body in found if head.split()[1] == b"200"]
    assert shown == [b"1", b"2", b"3", b"4", b"5"]
    assert any(at_once)


def test_a_body_that_nobody_wants_is_no_request(at_once):
    inside = ask(2).decode()
    data = ask(1, f"Content-Length: {len(inside)}", body=inside) + ask(3)
    with reading() as (_, client):
        found = exchange(client, data, 2)
    assert [re.search(rb'"id":(\d+)', body).group(1) for _, body in found] == [b"1", b"3"]
    assert at_once == [True, True]


def test_the_id_of_a_request_comes_back(at_once):
    with reading() as (_, client):
        ((head, _),) = exchange(client, ask(1, "X-Request-Id: order-7"), 1)
        ((other, _),) = exchange(client, ask(1, "X-Request-Id: two words"), 1)
    assert at_once == [True, True]
    assert b"x-request-id: order-7" in head
    assert b"two words" not in other


def test_too_many_connections_are_refused(at_once):
    with reading(limits=Limits(connections=2)) as (_, client):
        place = urlsplit(str(client.base_url))
        idle = [socket.create_connection((place.hostname, place.port)) for _ in range(3)]
        ((head, _),) = exchange(client, ask(1), 1)
        for one in idle:
            one.close()
    assert head.split()[1] == b"503"
    assert at_once == [False]


def test_a_crowd_that_is_let_in_would_be_noticed(monkeypatch, at_once):
    monkeypatch.setattr(Connections, "excess", lambda self, client: "")
    with pytest.raises(AssertionError):
        test_too_many_connections_are_refused(at_once)
