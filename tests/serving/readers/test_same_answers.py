"""Answers are the same with readers and without: status, headers and bytes, whoever asks."""

import re
import shutil
from contextlib import ExitStack

import httpx
import pytest

from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.auth import new_token
from dygcn_lab.testbed.served import served_process
from tests.serving.readers.test_app import MANY, VECTOR
from tests.serving.service.streams import until

SECRETS = {scope: new_token(scope, [scope]) for scope in ("read", "write", "admin")}
CALLERS = {"nobody": {}, "wrong": {"authorization": "Bearer x"}, "odd": {"authorization": "Basic ???"}} | {
    scope: {"authorization": f"Bearer {secret}"} for scope, (secret, _) in SECRETS.items()
}
VARYING = {"/v1/status", "/v1/history", "/v1/changes", "/v1/dead-letters", "/metrics"}  # times, counts, names
JSON, ARROW = {"content-type": "application/json"}, "application/vnd.apache.arrow.stream"
IDS = {"json": {"ids": ["ann", "bob"]}}


def requests():
    """Yield every route with every method that it may be mistaken for, and vectors in many forms."""
    for route in ROUTES:
        for method in sorted({route.method, "HEAD", "PUT"}):
            yield method, route.path.replace("{id}", "ann"), IDS if method == "POST" else {}
    for node in (
        "bob",
        "nobody",
        "",
        "%C3%A9",
        "a/b",
        "a%2Fb",
        "%00",
        "%FF",
        "x" * 300,
        "x" * 5_000,
        "%61nn",
    ):
        yield "GET", VECTOR + node, {}
    for query in ("?as_of=99", "?as_of=x", "?x=1", "?"):
        yield "GET", f"{VECTOR}ann{query}", {}
    for headers in (
        {"accept-encoding": "gzip"},
        {"accept": ARROW},
        {"x-request-id": "order-7"},
        {"range": "bytes=0-3"},
        {"connection": "close"},
    ):
        yield "GET", f"{VECTOR}ann", {"headers": headers}
        yield "POST", MANY, {**IDS, "headers": headers}
        yield "POST", MANY, {"json": {"ids": ["ann", "bob"] * 300}, "headers": headers}
    for ids in ([], ["ann"] * 3, ["ann", "nobody"], [1], [True], [1.5], [2**70], None, "ann"):
        yield "POST", MANY, {"json": {"ids": ids}}
    for body in (b"", b"{", b"\xff", b"[]", b'{"ids":["ann"],"ids":[]}', b'{"ids":["\\ud800"]}'):
        yield "POST", MANY, {"content": body, "headers": JSON}
    for headers in ({"content-type": "text/plain"}, {**JSON, "content-encoding": "gzip"}, {}):
        yield "POST", MANY, {"content": b'{"ids":["ann"]}', "headers": headers}


def answer_of(client, caller, method, path, asked):
    """Return what is the same in both: all but times and the ids of requests."""
    headers = {"accept-encoding": "identity", **asked.get("headers", {}), **CALLERS[caller]}
    found = client.request(method, path, **{**asked, "headers": headers})
    shown = {name: value for name, value in found.headers.items() if name != "date"}
    body = re.sub(rb'"instance":"[0-9a-f]+-[0-9a-f]+"', b"", found.content)
    if body != found.content or path in VARYING:
        shown.pop("content-length", None)
    if "order" not in shown["x-request-id"]:
        shown["x-request-id"] = ""
    return found.status_code, shown, b"" if path in VARYING else body


def check_answers(path, bug=""):
    """Ask a service without readers and one with a reader, of the same folder, the same."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    tokens = tuple(token for _, token in SECRETS.values())
    with ExitStack() as opened:
        clients = []
        for folder, readers in ((path, 0), (copy, 1)):
            one = opened.enter_context(
                served_process(folder, readers=readers, tokens=tokens, bug=bug if readers else "")
            )
            client = opened.enter_context(httpx.Client(base_url=one.address, timeout=60))
            until(lambda client=client: client.get("/readyz").status_code == 200)
            clients.append(client)
        for method, place, asked in requests():
            for caller in CALLERS:
                without, with_one = (answer_of(client, caller, method, place, asked) for client in clients)
                assert without == with_one, (caller, method, place, asked)


def test_answers_are_the_same_with_readers(folder):
    check_answers(folder("string"))


def test_a_reader_that_lets_everybody_in_would_be_noticed(folder):
    with pytest.raises(AssertionError, match="nobody"):
        check_answers(folder("string"), "tests.serving.readers.open_door:open_door")
