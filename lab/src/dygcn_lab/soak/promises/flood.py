"""Sixty bodies that were made to be slow to decode, all in flight, and how long others wait meanwhile."""

from __future__ import annotations

import gzip
import socket
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from urllib.parse import urlsplit

import dygcn
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.served import served_process

IN_FLIGHT = 60
READS = ("/v1/nearest/1", "/v1/status")
_NODES, _EDGES = 500, 3_000
_ASKED, _WARM = 60, 20  # times, each
_IDS = b'{"ids":[' + b",".join([b'""'] * 5_000_000) + b"]}"
_HEAD = (
    "POST /v1/vectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Encoding: {coding}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
)


def bodies() -> dict[str, tuple[str, bytes]]:
    """Return hostile bodies by name, each with its content coding."""
    return {
        "many empty gzip members": ("gzip", gzip.compress(b"", mtime=0) * 50_000),
        "many empty zstd frames": ("zstd", bytes.fromhex("28b52ffd2000010000") * 100_000),
        "many skippable zstd frames": ("zstd", bytes.fromhex("502a4d1800000000") * 100_000),
        "millions of ids in a few kilobytes": ("gzip", gzip.compress(_IDS, mtime=0)),
    }


class Burst:
    """Sixty requests that are sent at once.

    `left`: how many are not answered yet.
    """

    def __init__(self, address: str, coding: str, body: bytes) -> None:
        place = urlsplit(address)
        self._place = str(place.hostname), int(place.port or 80)
        self._request = _HEAD.format(coding=coding, size=len(body)).encode() + body
        self.left = IN_FLIGHT
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(IN_FLIGHT)]

    def _send(self) -> None:
        try:
            with socket.create_connection(self._place, timeout=600) as connection:
                connection.sendall(self._request)
                while connection.recv(1 << 16):
                    pass
        finally:
            self.left -= 1

    @contextmanager
    def sent(self) -> Iterator[Burst]:
        """Send them, and wait for all answers at the end."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            for thread in self._threads:
                thread.join()


def _asked(address: str, path: str) -> float:
    begun = time.perf_counter()
    urllib.request.urlopen(address + path, timeout=600).read()
    return time.perf_counter() - begun


def quiet(address: str) -> dict[str, float]:
    """Return the seconds that each read takes, the median of many."""
    for _ in range(_WARM):
        for path in READS:
            _asked(address, path)
    return {path: median(_asked(address, path) for _ in range(_ASKED)) for path in READS}


def flooded(address: str, coding: str, body: bytes) -> dict[str, float]:
    """Return the same while such bodies are in flight."""
    found: dict[str, list[float]] = {path: [] for path in READS}
    while min(map(len, found.values())) < _ASKED:
        with Burst(address, coding, body).sent() as burst:
            while burst.left:
                for path, seconds in found.items():
                    seconds.append(_asked(address, path))
    return {path: median(seconds) for path, seconds in found.items()}


def time_floods() -> dict[str, dict[str, float]]:
    """Return how many times as long as in quiet each read takes, for each kind of body."""
    random = Random(0)
    edges = [(random.randrange(_NODES), random.randrange(_NODES)) for _ in range(_EDGES)]
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        dygcn.fit(edges, dim=8).save(Path(workdir) / "graph")
        with served_process(Path(workdir) / "graph") as one:
            found = {}
            for name, body in bodies().items():
                before, meanwhile = quiet(one.address), flooded(one.address, *body)
                found[name] = {path: round(meanwhile[path] / before[path], 2) for path in READS}
            return found
