"""How soon a service answers: from the start of its process to the first write, and the hundredth."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dygcn.errors import DygcnError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

POSTS = 100
_LAST = 20  # of them, whose median stands for the hundredth
_PATIENCE = 600.0
_BETWEEN = 0.005  # seconds between two questions whether it is ready


def measure_service(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, workdir: Path
) -> dict[str, float]:
    """Serve a copy of a folder, write to it a hundred times, one edge each; return seconds.

    Parameters
    ----------
    command
        What to start, without the arguments of `dygcn`.
    room
        A folder for the copy.
    """
    shutil.copytree(folder, workdir / "served")
    arguments = ["serve", str(workdir / "served"), "--port", "0", "--json"]
    with (workdir / "said").open("wb") as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*command, *arguments], env=dict(variables), stdout=subprocess.PIPE, stderr=said
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise DygcnError(f"the service did not start: {(workdir / 'said').read_text()[-2000:]}")
        connection = HTTPConnection(urlsplit(json.loads(line)["address"]).netloc, timeout=_PATIENCE)
        _wait_until_ready(connection)
        ready = time.perf_counter() - begun
        used = processor_seconds(process.pid)
        posts = [_post(connection, number) for number in range(POSTS)]
        connection.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE)
    finally:
        process.kill()
        process.wait()
    hundredth = statistics.median(posts[-_LAST:])
    return {
        "ready_seconds": ready,
        "ready_cpu_seconds": used,
        "first_seconds": posts[0],
        "second_seconds": posts[1],
        "hundredth_seconds": hundredth,
        "times_hundredth": posts[0] / hundredth,
    }


def _post(connection: HTTPConnection, number: int) -> float:
    """Add an edge between nodes that are there, and return the seconds until it was applied."""
    body = json.dumps([{"src": 7 * number % 1000, "dst": (11 * number + 5) % 1000}])
    begun = time.perf_counter()
    _ask(connection, "POST", "/v1/events", body)
    return time.perf_counter() - begun


def _wait_until_ready(connection: HTTPConnection) -> None:
    while True:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            return
        time.sleep(_BETWEEN)


def _ask(connection: HTTPConnection, method: str, path: str, body: str | None = None) -> None:
    headers = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise DygcnError(f"{path} answered {answer.status}: {text[:500].decode(errors='replace')}")


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process that still runs; 0 where the system does not tell.

    Examples
    --------
    >>> processor_seconds(os.getpid()) >= 0
    True
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
