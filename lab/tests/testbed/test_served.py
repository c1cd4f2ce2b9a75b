"""The service for checks, in a thread and in a process, and the client that sends anything."""

import os
import time
from pathlib import Path

import pytest

import dygcn
from dygcn.errors import DygcnError, FolderInUse
from dygcn.serving.service.auth import new_token
from dygcn_lab.testbed.plain_http import PlainClient
from dygcn_lab.testbed.seeding import small_model
from dygcn_lab.testbed.served import on_loopback, served, served_process


@pytest.fixture
def folder(tmp_path):
    live = dygcn.start(small_model())
    live.update(add=[(1, 2), (2, 3)])
    live.save(tmp_path / "graph")
    return tmp_path / "graph"


def test_in_a_thread(folder):
    with served(on_loopback(folder)) as one, PlainClient(one.address) as client:
        assert client.request("GET", "/v1/vectors/1").status == 200
        with pytest.raises(FolderInUse):
            dygcn.open(folder)
    with dygcn.open(folder):
        pass


def test_in_a_process(folder):
    secret, token = new_token("boss", ["admin"])
    with served_process(folder, {"body_bytes": 10}, (token,)) as one, PlainClient(one.address) as client:
        assert one.pid != os.getpid()
        assert 10 < one.megabytes() < 4_000
        headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
        assert client.request("GET", "/v1/status").status == 401
        assert client.request("POST", "/v1/events", b"[]", headers).status == 200
        assert client.request("POST", "/v1/events", b"[          ]", headers).status == 413
        code, said = one.drain()
    assert code == 0
    assert [line for line in said.splitlines() if line.startswith("{")] == [f'{{"address": "{one.address}"}}']
    assert "service.stopped" in said
    assert "error" not in said


def seed_a_bug():
    raise DygcnError("the bug was put in")


def test_a_process_that_does_not_begin_says_why(folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # where it finds this module
    bug = f"{__name__}:seed_a_bug"
    with pytest.raises(DygcnError, match="the bug was put in"), served_process(folder, bug=bug):
        pass


def test_a_process_is_gone_at_the_end(folder):
    with served_process(folder) as one:
        pid = one.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with dygcn.open(folder):
        pass


def test_the_plain_client_sends_anything_and_comes_again(folder):
    with served(on_loopback(folder)) as one, PlainClient(one.address, timeout=10) as client:
        answer = client.request("BREW", "/v1/status", headers={"x": "\xff trailing "})
        assert answer.status in (400, 405)
        assert client.request("HEAD", "/v1/status").body == b""
        assert client.request("GET", "/nothing").text.startswith('{"type"')
        assert client.request("GET", "/v1/status").headers["content-type"] == "application/json"
        address = one.address
    begun = time.monotonic()
    with PlainClient(address, timeout=60) as client, pytest.raises(OSError, match="GET /v1/status"):
        client.request("GET", "/v1/status")
    assert time.monotonic() - begun < 60
