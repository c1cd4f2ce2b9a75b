"""How long the way of a request is: Python calls, functions, files and depth inside dygcn.

``python calls.py [-v]`` prints a line for each request; -v lists the functions. The module imports nothing of
the laboratory, so that it can be run as a file on any version of dygcn. Compiled loops are not counted.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import dygcn
from dygcn import cluster
from dygcn_lab.testbed.served import on_loopback, served

_ROOT = os.path.dirname(dygcn.__file__) + os.sep
_INSIDE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")
_QUIET = 0.3  # seconds until other threads have done what a request asked of them


class Way(NamedTuple):
    """The way of one request."""

    calls: int
    functions: int
    files: int
    depth: int


class _Counting:
    """Counts calls of functions of the package, in all threads that begin after it."""

    def __init__(self) -> None:
        self.found: Counter[tuple[str, str]] = Counter()
        self.depth, self._on, self._local = 0, False, threading.local()
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if event not in ("call", "return") or not file.startswith(_ROOT) or name in _INSIDE:
            return
        depth = getattr(self._local, "depth", 0) + (1 if event == "call" else -1)
        self._local.depth = max(depth, 0)
        if self._on and event == "call":
            self.found[file.removeprefix(_ROOT), name] += 1
            self.depth = max(self.depth, depth)

    def way_of(self, request: Callable[[], object]) -> Way:
        """Return the way of a request, after two that warm up what the first ones need."""
        for _ in range(2):
            request()
            time.sleep(_QUIET)
        self.found.clear()
        self.depth, self._on = 0, True
        request()
        time.sleep(_QUIET)
        self._on = False
        files = {file for file, _ in self.found}
        return Way(sum(self.found.values()), len(self.found), len(files), self.depth)


def measure_ways(verbose: bool = False) -> Iterator[tuple[str, Way]]:
    """Yield the ways of an update, of requests over HTTP, of an update on two shards, and of a fit."""
    counting = _Counting()

    def found(name: str, request: Callable[[], object]) -> tuple[str, Way]:
        way = counting.way_of(request)
        if verbose:
            for (file, function), times in counting.found.items():
                sys.stdout.write(f"    {times:4d} {file} {function}\n")
        return name, way

    ring = [(i, (i + 1) % 200) for i in range(200)] + [(i, (i * 7 + 3) % 200) for i in range(200)]
    live, new = dygcn.fit(ring, dim=16), iter(range(1000, 2000))
    try:
        yield found("update of one edge", lambda: live.update(add=[(next(new), 5)]))
        with tempfile.TemporaryDirectory() as folder:
            live.save(f"{folder}/graph")
            with served(on_loopback(f"{folder}/graph")) as one:
                yield found("POST /v1/events, one event", lambda: _post(one.address, next(new)))
                yield found("GET /v1/vectors/ID", lambda: _get(f"{one.address}/v1/vectors/7"))
                yield found("GET /v1/nearest/ID", lambda: _get(f"{one.address}/v1/nearest/7"))
            with _open_shards(f"{folder}/graph") as shards:
                yield found("one edge on two shards", lambda: shards.update(add=[(next(new), 5)]))
        yield found("fit", lambda: dygcn.fit(ring, dim=16))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _open_shards(folder: str) -> Any:
    """Open a folder on two shards in this process; older versions call it start."""
    opened = getattr(cluster, "open", None) or cluster.launch
    return opened(folder, shards=2, on="here")


def _post(address: str, node: int) -> None:
    body = b'[{"src": %d, "dst": 5}]' % node
    request = urllib.request.Request(f"{address}/v1/events", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()


def _get(address: str) -> None:
    urllib.request.urlopen(address).read()


if __name__ == "__main__":
    for name, way in measure_ways("-v" in sys.argv):
        result = f"{way.calls} calls of {way.functions} functions in {way.files} files, depth {way.depth}"
        sys.stdout.write(f"{name}: {result}\n")
