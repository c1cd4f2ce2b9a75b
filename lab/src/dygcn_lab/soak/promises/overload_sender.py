"""A sender of events that does not wait: requests leave on time, whether or not earlier ones were answered.

``python -m dygcn_lab.soak.promises.overload_sender '{"address": ..., ...}'`` sends as a `Plan` says, and
writes what became of each request to a file.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

from dygcn.engine.records import Int64

HUB, NEW = 0, 1 << 40  # the hub, and the first of the nodes that come new to it
_MOST = 900  # connections
_PATIENCE = 60.0


_encode = msgspec.json.Encoder().encode


class _Edge(msgspec.Struct, gc=False):
    src: int
    dst: int


class Plan(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is sent. Every request has edges of its own; one in some has one at the hub."""

    address: str
    spokes: int  # of the hub
    first: int  # number of the first request
    seconds: float
    rate: float = 0.0  # requests a second; 0: as many as are answered
    workers: int = 8  # that wait for their answers, where there is no rate
    events: int = 200  # of a request
    hub_every: int = 4  # requests

    def edges(self, number: int) -> Int64:
        """Return the edges of a request, (events, 2): no two requests have one in common."""
        place = np.arange(number * self.events, (number + 1) * self.events)
        one, step = place % self.spokes, 1 + place // self.spokes
        found = np.stack((1 + one, 1 + (one + step) % self.spokes), axis=1)
        if number % self.hub_every == 0:
            found[-1] = HUB, NEW + number
        return found

    def body(self, number: int) -> bytes:
        """Return the edges of a request as JSON."""
        return _encode([_Edge(*ends) for ends in self.edges(number).tolist()])


class Sent(msgspec.Struct, array_like=True):
    """What became of a request."""

    number: int
    status: int  # 0: the connection broke
    due: float  # seconds after the beginning
    waited: float  # seconds from when it was due to when it was answered
    told_when: bool = False  # there was a Retry-After


class Connections:
    """Connections that are kept open and used again."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        self._host, self._port = place.hostname, place.port
        self._idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._workdir = asyncio.Semaphore(_MOST)
        self._head = (
            f"POST /v1/events HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
            "Content-Length: %d\r\n\r\n"
        )

    async def post(self, body: bytes) -> tuple[int, bool]:
        """Send a body; return the status, and whether the answer said when to come again."""
        async with self._workdir:
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await self._post(body)
            except (OSError, EOFError, TimeoutError):
                return 0, False

    async def _post(self, body: bytes) -> tuple[int, bool]:
        if self._idle:
            reader, writer = self._idle.popleft()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write((self._head % len(body)).encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in head:
            writer.close()
        else:
            self._idle.append((reader, writer))
        return int(head.split(b" ", 2)[1]), b"\r\nretry-after:" in head

    def close(self) -> None:
        """Close those that nobody uses."""
        for _, writer in self._idle:
            writer.close()


async def send(plan: Plan) -> list[Sent]:
    """Send, and return what became of each request when all are answered."""
    connections, found = Connections(plan.address), list[Sent]()
    begun = time.perf_counter()

    async def one(number: int, due: float) -> None:
        status, told_when = await connections.post(plan.body(number))
        found.append(Sent(number, status, due, time.perf_counter() - begun - due, told_when))

    if plan.rate:
        await _on_time(plan, begun, one)
    else:
        await _one_by_one(plan, begun, one)
    connections.close()
    return found


async def _on_time(plan: Plan, begun: float, one: Any) -> None:
    async with asyncio.TaskGroup() as running:
        for place in range(int(plan.rate * plan.seconds)):
            due = place / plan.rate
            await asyncio.sleep(max(begun + due - time.perf_counter(), 0))
            running.create_task(one(plan.first + place, due))


async def _one_by_one(plan: Plan, begun: float, one: Any) -> None:
    numbers = iter(range(plan.first, 1 << 40))

    async def work() -> None:
        while (now := time.perf_counter() - begun) < plan.seconds:
            await one(next(numbers), now)

    await asyncio.gather(*(work() for _ in range(plan.workers)))


def main(plan: str, out: str) -> None:
    """Send as a plan says, and write what became of it."""
    found = asyncio.run(send(msgspec.convert(json.loads(plan), Plan)))
    Path(out).write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
