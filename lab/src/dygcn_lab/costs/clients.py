"""Programs beside a service, each in a process of its own: who asks, who sends events, a bare route."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec
import numpy as np

from dygcn._extras import extra

with extra("serve"):
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

JSON = {"content-type": "application/json"}
_ROWS = 1_000  # of a page


@contextmanager
def beside(work: Callable[..., None], *arguments: Any) -> Iterator[tuple[SpawnProcess, Connection]]:
    """Run a function in a process with a pipe to this one, and kill it at the end of the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()


@contextmanager
def asking(address: str, ids: Sequence[int] = ()) -> Iterator[None]:
    """Have a client ask for vectors of ids again and again; without ids, for all pages of changes.

    In a process of its own, since reading large answers would delay whoever measures.
    """
    with beside(_ask, address, list(ids)) as (_, pipe):
        pipe.recv()  # the first answer has come
        yield


def _ask(pipe: Connection, address: str, ids: list[int]) -> None:
    body, since, first = msgspec.json.encode({"ids": ids}), "", True
    with httpx.Client(base_url=address, timeout=60.0) as client:
        while True:
            if ids:
                client.post("/v1/vectors", content=body, headers=JSON).raise_for_status()
            else:
                page = client.get("/v1/changes", params={"since": since, "limit": _ROWS}).json()
                since = page["next"] if page["more"] else ""
            if first:
                pipe.send(None)
                first = False


@contextmanager
def sending(
    address: str, ids: Sequence[int], rate: int, size: int, seed: int
) -> Iterator[Callable[[], dict[str, float]]]:
    """Send so many events a second among ids, some in each request, until the end of the block.

    Yields a function that returns what happened since its last call: events a second, refused requests, and
    how late these were in ms, counted from when each was due.
    """

    def mark() -> dict[str, float]:
        pipe.send(None)
        figures: dict[str, float] = pipe.recv()
        return figures

    with beside(_send, address, list(ids), rate, size, seed) as (_, pipe):
        yield mark


def _send(pipe: Connection, address: str, ids: list[int], rate: int, size: int, seed: int) -> None:
    client, random = httpx.Client(base_url=address, timeout=30.0), np.random.default_rng(seed)
    drawn, every = np.array(ids), size / rate
    due = marked = time.perf_counter()
    waits: list[float] = []
    refused = 0
    while True:
        ends = drawn[random.integers(0, len(drawn), (size, 2))].tolist()
        op = random.choice([1, -1], size).tolist()
        rows = [{"src": a, "dst": b, "op": o} for (a, b), o in zip(ends, op, strict=True)]
        due += every
        time.sleep(max(due - time.perf_counter(), 0.0))
        try:
            answer = client.post("/v1/events", content=msgspec.json.encode(rows), headers=JSON)
            refused += answer.status_code != 200
        except httpx.HTTPError:  # the service went down
            refused += 1
        waits.append(time.perf_counter() - due)
        while pipe.poll():
            pipe.recv()
            now, late = time.perf_counter(), 1e3 * np.array(waits)
            figures = {"events_a_second": (len(waits) - refused) * size / (now - marked), "refused": refused}
            quantiles = {"p50_ms": float(np.median(late)), "p99_ms": float(np.quantile(late, 0.99))}
            pipe.send(figures | quantiles)
            waits, refused, marked = [], 0, now


@contextmanager
def bare_route(body: bytes) -> Iterator[tuple[str, int]]:
    """Serve the same bytes to everybody, the least that a web server does; yield address and process."""
    with beside(_serve_bare, body) as (process, pipe):
        assert process.pid is not None
        yield pipe.recv(), process.pid


def _serve_bare(pipe: Connection, body: bytes) -> None:
    async def bare(request: Request) -> Response:
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/v1/vectors/{id}", bare)])
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    pipe.send(f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(app, log_level="error", access_log=False, ws="none")
    uvicorn.Server(config).run([listening])
