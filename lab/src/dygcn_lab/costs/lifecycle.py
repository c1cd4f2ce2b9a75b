"""The beginning and the end of a service: from ready to the first answers, and from SIGTERM to the exit."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from dygcn._extras import extra
from dygcn.errors import DygcnError
from dygcn_lab.costs.sending import Sender
from dygcn_lab.testbed.subprocess_ready import started

with extra("serve"):
    import httpx

_PATIENCE = 600.0  # seconds
_JSON = {"content-type": "application/json"}
STATES = ("right after it is ready", "while events come", "quiet, the index is built")


def measure_lifecycle(
    folder: str, ids: Sequence[int], rate: int, size: int, seed: int = 0
) -> list[dict[str, Any]]:
    """Start and end a service in several states; return seconds, a row for each state."""
    return [_measure(folder, ids, state, rate, size, seed) for state in STATES]


def _measure(folder: str, ids: Sequence[int], state: str, rate: int, size: int, seed: int) -> dict[str, Any]:
    begun = time.perf_counter()
    process, address = started("dygcn_lab.costs.load_server", [folder, "1"])
    try:
        with httpx.Client(base_url=address, timeout=_PATIENCE) as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.01)
            row: dict[str, Any] = {"state": state, "ready_seconds": time.perf_counter() - begun}
            edge = msgspec.json.encode([{"src": ids[0], "dst": ids[-1]}])
            row["first_read_seconds"] = _timed(client.build_request("GET", f"/v1/vectors/{ids[0]}"), client)
            request = client.build_request("POST", "/v1/events", content=edge, headers=_JSON)
            row["first_write_seconds"] = _timed(request, client)
            row["first_nearest_seconds"] = _timed(
                client.build_request("GET", f"/v1/nearest/{ids[0]}"), client
            )
            if state == STATES[2]:
                while client.get("/v1/status").json()["nearest"]["pending"]:
                    time.sleep(0.2)
            row["pending"] = client.get("/v1/status").json()["nearest"]["pending"]
        events = _events(address, ids, rate, size, seed) if state == STATES[1] else nullcontext()
        with events:
            ended = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            row["exit_code"] = process.wait(_PATIENCE)
            row["exit_seconds"] = time.perf_counter() - ended
    finally:
        process.kill()
        process.wait()
    return row


def _timed(request: httpx.Request, client: httpx.Client) -> float:
    begun = time.perf_counter()
    answer = client.send(request)
    if answer.status_code != 200:
        raise DygcnError(f"{request.url.path} answered {answer.status_code}: {answer.text[:500]}")
    return time.perf_counter() - begun


@contextmanager
def _events(address: str, ids: Sequence[int], rate: int, size: int, seed: int) -> Iterator[None]:
    sender = Sender(address, ids, rate, size, seed)
    time.sleep(5.0)
    try:
        yield
    finally:
        sender.stop()
