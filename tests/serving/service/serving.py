"""A service for tests, over a real socket, in a thread of this process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import msgspec
import numpy as np

from dygcn.schema.answers import Problem
from dygcn.serving.service.app import make_app
from dygcn.serving.service.problems import BASE, BY_NAME, PROBLEM_JSON
from dygcn.serving.service.server import Server
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Http, ServiceSettings, check_settings

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"


@dataclass
class Served:
    """A service that answers."""

    service: Service
    address: str
    client: httpx.Client
    server: Server = field(repr=False)

    def post(self, events, *, form="application/json", **params):
        """Send events; a list is sent as JSON, bytes as they are."""
        body = events if isinstance(events, bytes) else msgspec.json.encode(events)
        return self.client.post("/v1/events", content=body, headers={"content-type": form}, params=params)

    def get(self, path, **params):
        return self.client.get(path, params=params or None)

    def ask(self, path, body, **headers):
        """Send a JSON body to a route that reads."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"content-type": "application/json", **headers}
        return self.client.post(path, content=content, headers=headers)

    def vector(self, node):
        return np.array(self.get(f"/v1/vectors/{node}").json()["vector"], np.float32)

    def letters(self):
        return self.get("/v1/dead-letters", limit=1000).json()["dead_letters"]


@contextmanager
def serving(settings: ServiceSettings, *, sources=(), sinks=()) -> Iterator[Served]:
    """Serve until the end of the block, then drain."""
    service = Service(check_settings(settings))
    for source in sources:
        service.add_source(source)
    for sink in sinks:
        service.add_sink(sink)
    app = make_app(service)
    listens, result = threading.Event(), []

    def ready(address):
        result.append(address)
        listens.set()

    server = Server(app, ready)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert listens.wait(20)
        with httpx.Client(base_url=result[0], timeout=20) as client:
            yield Served(service, result[0], client, server)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def on_loopback(folder, *, tokens=(), **settings) -> ServiceSettings:
    """Return settings for a folder, any free port of the loopback address."""
    return ServiceSettings(folder=str(folder), http=Http(port=0, tokens=list(tokens)), **settings)


def send_until_refused(connection, chunk, *, most=24 << 20, seconds=60.0, pause=0.0):
    """Send a chunk again and again until the other end hangs up; return how many bytes that took."""
    sent, begun = 0, time.monotonic()
    while sent < most and time.monotonic() - begun < seconds:
        connection.sendall(chunk)
        sent += len(chunk)
        time.sleep(pause)
    raise AssertionError(f"{sent} bytes were taken in {time.monotonic() - begun:.1f} s")


HUNG_UP = (BrokenPipeError, ConnectionResetError)


def is_problem(answer, status, name=None):
    """Check that an answer is a problem as all problems are; return what it says."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_JSON
    found = msgspec.json.decode(
        answer.content, type=msgspec.defstruct("Strict", [], bases=(Problem,), forbid_unknown_fields=True)
    )
    known = BY_NAME[found.type.removeprefix(BASE)]
    assert (found.status, found.title) == (status, known.title)
    assert known.status == status
    assert found.detail
    assert answer.headers.get("retry-after") == (
        None if found.retry_after is None else str(found.retry_after)
    )
    assert name is None or known.name == name
    return found.detail
