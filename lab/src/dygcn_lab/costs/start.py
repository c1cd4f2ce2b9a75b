"""What starting costs: processor seconds of commands in fresh processes, and how soon a service answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dygcn
from dygcn._progress import Notify
from dygcn.errors import DygcnError
from dygcn_lab.costs.footprint import processor_seconds
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average

GRAPH = "power-law-100k-1m"
LINES = """\
import dygcn
orders = {"user": ["ann", "ann", "bob", "bob", "cat", "dan"],
          "item": ["tea", "jam", "tea", "jam", "tea", "oil"]}
live = dygcn.fit(orders, src="user", dst="item", kinds=True, dim=32)
[item for item, score in live.recommend("cat", k=1)]
change = live.update(add=[("cat", "oil")])
sorted(zip(change.ids, change.orders.tolist()))
"""
"""The example of the README, which a test compares."""
_SAVE = "import sys; live.save(sys.argv[1])\n"
_MAIN = "from dygcn.cli import main; main()"
NOTHING, LIBRARIES, IMPORT, README = (
    "python",
    "import numpy, pyarrow",
    "import dygcn",
    "the README's example",
)
HELP, INFO, NEAREST = "dygcn --help", "dygcn info FOLDER", "dygcn nearest FOLDER ID"

_POSTS, _LAST = 100, 20  # how many, and how many of them have the median that stands for the hundredth
_PATIENCE = 600.0
_BETWEEN = 0.005  # seconds between two questions whether it is ready


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python with dygcn in it, and a name for it in tables."""

    name: str
    python: str

    @classmethod
    def read(cls, text: str) -> Environment:
        """Read ``NAME=PATH`` or a path.

        Examples
        --------
        >>> Environment.read("wheel=/x/bin/python"), Environment.read("/x/bin/python").name
        (Environment(name='wheel', python='/x/bin/python'), 'python')
        """
        name, _, path = text.rpartition("=")
        return cls(name or Path(path).name, path)

    def variables(self, cache: Path) -> dict[str, str]:
        """Return the variables of its processes: an own place for what is kept, no modules of ours."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        if self.python != sys.executable:
            kept.pop("PYTHONPATH", None)
        return {**kept, "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": str(cache)}


HERE = Environment("this one", sys.executable)


def measure_start(
    pythons: Sequence[str] = (),
    *,
    repeats: int = 5,
    graph: str = GRAPH,
    starts: int = 3,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Start commands, and a service on a graph, in each environment by turns.

    A first start of each command, on an empty cache, is not one of the repeats. Each of the `starts` of the
    service has a copy of the folder and an empty cache; 0 leaves it out.
    """
    environments = [Environment.read(python) for python in pythons] or [HERE]
    tell = notify or (lambda done, total, what: None)
    with tempfile.TemporaryDirectory() as workdir:
        rows = _measure_commands(environments, repeats, Path(workdir), tell)
        services = _measure_services(environments, graph, starts, Path(workdir), tell) if starts else []
    setting = {"repeats": repeats, "graph": graph, "starts": starts, "load_average": load_average()}
    return {"kind": "start", **setting, "rows": rows, "services": services}


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the arguments of Python by the name of what is measured; the example makes the folder."""
    return {
        NOTHING: ["-c", "pass"],
        LIBRARIES: ["-c", "import numpy, pyarrow"],
        IMPORT: ["-c", "import dygcn"],
        README: ["-c", LINES + _SAVE, str(folder)],
        HELP: ["-c", _MAIN, "--help"],
        INFO: ["-c", _MAIN, "info", str(folder)],
        NEAREST: ["-c", _MAIN, "nearest", str(folder), "ann"],
    }


def _measure_commands(
    environments: Sequence[Environment], repeats: int, workdir: Path, tell: Notify
) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for turn in range(repeats + 1):
        for number, one in enumerate(environments):
            tell(
                turn * len(environments) + number, (repeats + 1) * len(environments), f"commands, {one.name}"
            )
            variables = one.variables(_folder(workdir / f"cache-{number}"))
            folder = workdir / f"friends-{number}-{turn}"
            for name, arguments in commands(folder).items():
                took = run([one.python, *arguments], variables)
                found.setdefault((one.name, name), []).append(took)
    return [_row(*key, times) for key, times in found.items()]


def _row(environment: str, name: str, times: Sequence[tuple[float, float]]) -> dict[str, Any]:
    (first, _), *later = times
    return {
        "environment": environment,
        "name": name,
        "cpu_seconds": round(statistics.median(cpu for cpu, _ in later), 4),
        "seconds": round(statistics.median(wall for _, wall in later), 4),
        "first_cpu_seconds": round(first, 4),
    }


def run(command: Sequence[str], variables: Mapping[str, str]) -> tuple[float, float]:
    """Run a command to its end; return its processor seconds, and those of the clock.

    Examples
    --------
    >>> cpu, wall = run([sys.executable, "-c", "pass"], os.environ)
    >>> 0 < cpu < 10
    True
    """
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=dict(variables), stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # nobody else is to wait for it
        took = time.perf_counter() - begun
        if process.returncode:
            said.seek(0)
            raise DygcnError(f"{command[0]} failed: {said.read()[-2000:].decode(errors='replace')}")
    return used.ru_utime + used.ru_stime, took


def _measure_services(
    environments: Sequence[Environment], graph: str, starts: int, workdir: Path, tell: Notify
) -> list[dict[str, Any]]:
    tell(0, starts, f"drawing {graph}")
    live = dygcn.start(dygcn.fit([(0, 1), (1, 2)]).model)
    live.bulk([graph_events(graph)])
    live.save(workdir / "graph")
    about = {"graph": graph, "nodes": len(live), "edges": live.edge_count}
    del live
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(starts):
        for one in environments:
            tell(turn, starts, f"service, {one.name}")
            with tempfile.TemporaryDirectory(dir=workdir) as own:
                variables = one.variables(_folder(Path(own) / "cache"))
                command = [one.python, "-c", _MAIN]
                found.setdefault(one.name, []).append(
                    _measure_service(command, variables, workdir / "graph", Path(own))
                )
    return [{"environment": name, **about, **_medians(times)} for name, times in found.items()]


def _measure_service(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, workdir: Path
) -> dict[str, float]:
    """Serve a copy of a folder, write to it a hundred times, one edge each; return seconds."""
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
        posts = [_post(connection, number) for number in range(_POSTS)]
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


def _medians(times: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in times), 5) for name in times[0]}


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path
