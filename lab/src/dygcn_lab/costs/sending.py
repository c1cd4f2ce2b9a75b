"""A process that sends events to a service on a fixed schedule: `python -m dygcn_lab.costs.sending`.

It takes its plan, and then what is asked of it, as lines on standard input, and answers on standard output.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import msgspec
import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float64

with extra("serve"):
    import httpx

_MARK, _STOP = "mark", "stop"


class Plan(msgspec.Struct, frozen=True):
    """What is sent where: so many events a second, so many in a request, among these ids."""

    address: str
    ids: list[int]
    rate: int
    size: int
    seed: int


class Sender:
    """The process, as whoever measures sees it. Lateness counts from when each request was due."""

    def __init__(self, address: str, ids: Sequence[int], rate: int, size: int, seed: int) -> None:
        command = [sys.executable, "-m", "dygcn_lab.costs.sending"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._say(msgspec.json.encode(Plan(address, list(ids), rate, size, seed)).decode())

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def mark(self) -> dict[str, float]:
        """Return what happened since the last mark: events a second, refused requests, lateness in ms."""
        self._say(_MARK)
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.readline(), type=dict[str, float])

    def stop(self) -> None:
        """Send no more."""
        self._say(_STOP)
        self._process.communicate(timeout=60)


def send(plan: Plan, asked: queue.SimpleQueue[str]) -> None:
    """Send until `stop` is asked for."""
    client, random = httpx.Client(base_url=plan.address, timeout=30.0), np.random.default_rng(plan.seed)
    drawn, every = np.array(plan.ids), plan.size / plan.rate
    due = marked = time.perf_counter()
    waits: list[float] = []
    refused = 0
    while True:
        ends = drawn[random.integers(0, len(drawn), (plan.size, 2))].tolist()
        op = random.choice([1, -1], plan.size).tolist()
        rows = [{"src": a, "dst": b, "op": o} for (a, b), o in zip(ends, op, strict=True)]
        due += every
        time.sleep(max(due - time.perf_counter(), 0.0))
        try:
            headers = {"content-type": "application/json"}
            answer = client.post("/v1/events", content=msgspec.json.encode(rows), headers=headers)
            refused += answer.status_code != 200
        except httpx.HTTPError:  # the service went down
            refused += 1
        waits.append(time.perf_counter() - due)
        while not asked.empty():
            if asked.get() == _STOP:
                return
            now = time.perf_counter()
            _report((len(waits) - refused) * plan.size / (now - marked), refused, 1e3 * np.array(waits))
            waits, refused, marked = [], 0, now


def _report(events_a_second: float, refused: int, late: Float64) -> None:
    figures = {
        "events_a_second": events_a_second,
        "refused": refused,
        "p50_ms": float(np.median(late)),
        "p99_ms": float(np.quantile(late, 0.99)),
    }
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the plan, and carry it out."""
    plan = msgspec.json.decode(sys.stdin.readline(), type=Plan)
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            asked.put(line.strip())
        asked.put(_STOP)

    threading.Thread(target=listen, daemon=True).start()
    send(plan, asked)


if __name__ == "__main__":
    main()
