"""Bytes that no library would send: services with readers and without answer the same, and what is due."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

import dygcn
from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.auth import Authorizer
from dygcn_lab.testbed.plain_http import PlainClient
from dygcn_lab.testbed.served import on_loopback, served, served_process
from tests.attacks.raw_requests import IDS, NEXT, REQUESTS, TOKENS

PATIENCE = 60  # seconds; a service closes connections that are silent long before
LIMITS = {"seconds_to_send": 5}
TRICKS = ("/", "//", "%2f", ";a", "/.", "/..", "?x", "#x", "%00")
TOO_MUCH = 64 << 20  # bytes of requests whose answers nobody takes; buffers of a system are smaller


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Save a graph whose ids are as odd as the requests; vectors are long, so that answers are."""
    live = dygcn.fit(list(pairwise(IDS)), dim=256)

    def save(name):
        path = tmp_path_factory.mktemp("raw") / name
        live.save(path)
        return path

    return save


@pytest.fixture(scope="module")
def services(folder):
    """Serve the graph without readers, and with one."""
    with (
        served_process(folder("plain"), LIMITS, TOKENS) as plain,
        served_process(folder("read"), LIMITS, TOKENS, readers=1) as read,
    ):
        yield plain.address, read.address


def connected(address):
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), timeout=PATIENCE)


def exchange(address, data):
    """Send bytes; return all that comes back until the service closes the connection."""
    found = b""
    with closing(connected(address)) as one:
        try:
            one.sendall(data)
            while part := one.recv(1 << 16):
                found += part
        except ConnectionError:  # it was closed before all was sent, or read
            pass
    return found


def answers(address, requests):
    """Send requests side by side; return statuses and bodies of the answers to each."""
    with ThreadPoolExecutor(len(requests)) as pool:
        found = pool.map(lambda data: exchange(address, data), [data for data, _ in requests.values()])
        return {name: _parts(said) for name, said in zip(requests, found, strict=True)}


def _parts(said):
    statuses = [int(one) for one in re.findall(rb"HTTP/1\.[01] (\d+)", said)]
    return statuses, re.sub(rb"HTTP/1\..*?\r\n\r\n", b"|", said, flags=re.DOTALL)


def check_statuses(found, requests):
    statuses = {name: answer[0] for name, answer in found.items()}
    assert statuses == {name: due for name, (_, due) in requests.items()}


def test_every_request_is_answered_as_is_due_with_readers_and_without(services):
    """Else: a reader reads a request otherwise than the writer (smuggling), or lets somebody in."""
    with ThreadPoolExecutor(2) as both:
        plain, read = both.map(lambda address: answers(address, REQUESTS), services)
    check_statuses(plain, REQUESTS)
    check_statuses(read, REQUESTS)
    granted = [name for name, (_, due) in REQUESTS.items() if set(due) <= {100, 200}]
    assert {name: read[name] for name in granted} == {name: plain[name] for name in granted}


def test_no_spelling_of_a_path_leads_past_a_door(services):
    """Else: a path that is spelled another way is served without asking for its scope."""
    closed = [route for route in ROUTES if route.scope != "open"]
    wrong = {"authorization": "Bearer " + "x" * 43}
    for address in services:
        with PlainClient(address) as client:
            for route in closed:
                for trick in TRICKS:
                    path = route.path.replace("{id}", "n1") + trick
                    for headers in ({}, wrong):
                        status = client.request(route.method, path, headers=headers).status
                        assert status in (400, 401, 404, 405), (route.method, path, headers)


def ask_without_reading(address):
    """Send requests and take no answer; return how many bytes the service took."""
    place, sent = urlsplit(address), 0
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        one.settimeout(1.0)
        one.connect((place.hostname, place.port))
        with suppress(TimeoutError, ConnectionError):
            while sent < TOO_MUCH:
                sent += one.send(NEXT * 100)
    return sent


def test_a_client_that_takes_no_answer_is_not_read_any_more(services):
    """Else: answers pile up in the memory of a reader, as many as a client asks for."""
    for address in services:
        assert ask_without_reading(address) < TOO_MUCH
        with PlainClient(address) as client:
            assert client.request("GET", "/livez").status == 200


def test_a_door_that_is_open_would_be_noticed(folder, monkeypatch):
    """The seeded bug: whoever brings any token is let in."""
    ends = b"\r\nConnection: close\r\n\r\n"
    names = ("a read", "no token", "a bad token, then a good one")
    some = {name: (REQUESTS[name][0].replace(b"\r\n\r\n", ends), REQUESTS[name][1]) for name in names}
    with served(on_loopback(folder("mutant"), tokens=TOKENS)) as one:
        check_statuses(answers(one.address, some), some)
        monkeypatch.setattr(Authorizer, "status", lambda self, scope, authorization, host: 200)
        with pytest.raises(AssertionError):
            check_statuses(answers(one.address, some), some)
