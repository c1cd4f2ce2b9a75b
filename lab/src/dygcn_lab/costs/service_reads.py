"""Reads of one vector over HTTP: against a bare route with the same bytes, quiet and beside events.

The service has one reader process. It and the bare server run side by side, and `wrk` asks them in turns; a
process of its own sends events on a fixed schedule meanwhile. Processor time a read is that of the process
that answers.
"""

from __future__ import annotations

import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dygcn._extras import extra
from dygcn._progress import Notify
from dygcn.errors import DygcnError
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.fitting import fit
from dygcn_lab.costs.clients import JSON, asking, bare_route, sending
from dygcn_lab.costs.footprint import processor_seconds
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average
from dygcn_lab.testbed.served import served_process

with extra("serve"):
    import httpx


GRAPH, RATE, SIZE = "arxiv-coauthor", 5_000, 100
ASKED = 20_000  # different nodes that wrk asks for
STATES = "right after it is ready", "while events come", "quiet, the index is built"
_PATIENCE = 600.0  # seconds
_RATE = re.compile(r"Requests/sec:\s+([0-9.]+)")
_P99 = re.compile(r"99%\s+([0-9.]+)(us|ms|s)\b")
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_LUA = """
local ids = {}
for line in io.lines("%s") do ids[#ids + 1] = line end
local at = 0
function request() at = at %% #ids + 1; return wrk.format("GET", "/v1/vectors/" .. ids[at]) end
"""


class Wrk:
    """The load generator, asking for vectors of given nodes in turns; its script is in a folder."""

    def __init__(self, ids: Sequence[int], folder: str) -> None:
        if shutil.which("wrk") is None:
            raise RuntimeError("wrk is not installed; Debian's package wrk has it")
        Path(folder, "ids").write_text("\n".join(map(str, ids)) + "\n")
        self._script = Path(folder, "read.lua")
        self._script.write_text(_LUA % Path(folder, "ids"))

    def run(self, address: str, seconds: int, pid: int, connections: int = 16) -> dict[str, float]:
        """Return reads a second, their p99, and processor time a read of the process that answers."""
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(self._script)]
        before = processor_seconds(pid)
        said = subprocess.run([*command, address], capture_output=True, text=True, check=True).stdout
        used = processor_seconds(pid) - before
        rate, p99 = _RATE.search(said), _P99.search(said)
        assert rate is not None, said
        assert p99 is not None, said
        if "Non-2xx" in said:
            raise AssertionError(f"some reads were refused:\n{said}")
        a_second = float(rate.group(1))
        return {
            "a_second": a_second,
            "p99_ms": float(p99.group(1)) * _UNITS[p99.group(2)],
            "cpu_us": 1e6 * used / (a_second * seconds),
        }


def reader_of(pid: int) -> int:
    """Return the process that answers: the first child of a service, or itself."""
    tasks = [Path(one, "children") for one in Path(f"/proc/{pid}/task").iterdir()]
    children = [int(child) for one in tasks for child in one.read_text().split()]
    return children[0] if children else pid


def side_by_side(
    wrk: Wrk, ours: tuple[str, int], other: tuple[str, int], seconds: int, repeats: int
) -> dict[str, float]:
    """Ask both servers in turns; return medians, and the median of the ratios."""
    rounds = []
    for _ in range(repeats):
        found, beside = wrk.run(ours[0], seconds, ours[1]), wrk.run(other[0], seconds, other[1])
        rounds.append((found, beside))
    names = {"reads_a_second": "a_second", "cpu_us": "cpu_us", "p99_ms": "p99_ms"}
    medians = {
        name if side == 0 else f"bare_{name.removeprefix('reads_')}": statistics.median(
            both[side][field] for both in rounds
        )
        for name, field in names.items()
        for side in (0, 1)
    }
    return medians | {"ratio": statistics.median(a["a_second"] / b["a_second"] for a, b in rounds)}


def waits_of_one(address: str, ids: Sequence[int], seconds: float) -> dict[str, float]:
    """Read one vector after the other, a hundred a second; return p50 and p99 in ms."""
    waits, until = [], time.perf_counter() + seconds
    with httpx.Client(base_url=address, timeout=30.0) as client:
        for number in range(1 << 30):
            begun = time.perf_counter()
            if begun > until:
                break
            client.get(f"/v1/vectors/{ids[number % len(ids)]}").raise_for_status()
            waits.append(1e3 * (time.perf_counter() - begun))
            time.sleep(0.01)
    return {"p50_ms": float(np.median(waits)), "p99_ms": float(np.quantile(waits, 0.99)), "reads": len(waits)}


def measure_folder(
    folder: str, ids: Sequence[int], *, rate: int, size: int, seconds: int, repeats: int, seed: int = 0
) -> dict[str, Any]:
    """Measure the reads of a saved graph."""
    drawn = np.random.default_rng(seed).choice(np.array(ids), min(ASKED, len(ids)), replace=False).tolist()
    with tempfile.TemporaryDirectory() as workdir, served_process(Path(folder), readers=1) as one:
        wrk, address = Wrk(drawn, workdir), one.address
        _wait_for_index(address)
        body = httpx.get(f"{address}/v1/vectors/{drawn[0]}").content
        with bare_route(body) as other:
            ours = address, reader_of(one.pid)
            quiet = side_by_side(wrk, ours, other, seconds, repeats)
            neighbours: dict[str, Any] = {"nothing": nullcontext()}
            neighbours["pages of changes"] = asking(address)
            neighbours["10,000 ids at once"] = asking(address, drawn[:10_000])
            waits: list[dict[str, Any]] = []
            for name, client in neighbours.items():
                with client:
                    waits.append({"beside": name, **waits_of_one(address, drawn, 2 * seconds)})
            with sending(address, ids, rate, size, seed) as mark:
                time.sleep(3.0)
                windows = []
                for _ in range(repeats):  # how late events were readable, while nobody reads
                    mark()
                    time.sleep(seconds)
                    windows.append(mark())
                alone = _usual(windows)
                busy = side_by_side(wrk, ours, other, seconds, repeats)
                held = mark()
            sequence = httpx.get(f"{address}/v1/status").json()["sequence"]
    for wait in waits:
        wait["times_quiet"] = wait["p99_ms"] / waits[0]["p99_ms"]
    return {
        "answer_bytes": len(body),
        "rounds": [{"while": "nothing is written", **quiet}, {"while": "events are applied", **busy}],
        "waits": waits,
        "events": {"asked_a_second": rate, "request_size": size, "alone": alone, "with_reads": held},
        "sequence": sequence,
    }


def _usual(windows: list[dict[str, float]]) -> dict[str, float]:
    """Return the one with the median p99; what was refused is that of all."""
    middle = sorted(windows, key=lambda one: one["p99_ms"])[len(windows) // 2]
    return middle | {"refused": sum(one["refused"] for one in windows)}


def _wait_for_index(address: str) -> None:
    while httpx.get(f"{address}/v1/status").json()["nearest"]["pending"]:
        time.sleep(0.2)


def measure_service(
    graph: str = GRAPH, *, rate: int = RATE, seconds: int = 8, repeats: int = 3, notify: Notify | None = None
) -> dict[str, Any]:
    """Fit a graph, serve it with one reader process, and read, quiet and beside so many events a second."""
    tell = notify or (lambda *_: None)
    tell(0, 3, f"fitting {graph}")
    live: LiveEmbedding = fit(graph_events(graph), progress=False)
    about = {"graph": graph, "nodes": len(live), "edges": live.edge_count, "dim": live.model.dim}
    with tempfile.TemporaryDirectory() as folder:
        live.save(f"{folder}/graph")
        ids = live.ids().tolist()
        del live
        tell(1, 3, "reading")
        found = measure_folder(f"{folder}/graph", ids, rate=rate, size=SIZE, seconds=seconds, repeats=repeats)
        tell(2, 3, "starting and stopping")
        found["lifecycle"] = [_live_once(Path(folder, "graph"), ids, state, rate) for state in STATES]
    return {"kind": "service", **about, "load_average": load_average(), **found}


def _live_once(folder: Path, ids: Sequence[int], state: str, rate: int) -> dict[str, Any]:
    """Start a service and end it in a state; return seconds from ready to first answers, and to the exit."""
    begun, node = time.perf_counter(), ids[0]
    row: dict[str, Any] = {"state": state}
    with served_process(folder, readers=1) as one:
        with httpx.Client(base_url=one.address, timeout=_PATIENCE) as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.01)
            row["ready_seconds"] = time.perf_counter() - begun
            edge = msgspec.json.encode([{"src": node, "dst": ids[-1]}])
            for name, request in {
                "read": client.build_request("GET", f"/v1/vectors/{node}"),
                "write": client.build_request("POST", "/v1/events", content=edge, headers=JSON),
                "nearest": client.build_request("GET", f"/v1/nearest/{node}"),
            }.items():
                since = time.perf_counter()
                answer = client.send(request)
                row[f"first_{name}_seconds"] = time.perf_counter() - since
                if answer.status_code != 200:
                    raise DygcnError(f"{request.url.path} answered {answer.status_code}: {answer.text[:500]}")
            if state == STATES[2]:
                _wait_for_index(one.address)
            row["pending"] = client.get("/v1/status").json()["nearest"]["pending"]
        with sending(one.address, ids, rate, SIZE, 0) if state == STATES[1] else nullcontext():
            time.sleep(5.0 if state == STATES[1] else 0.0)
            ended = time.perf_counter()
            one.send(signal.SIGTERM)
            row["exit_code"] = one.wait(_PATIENCE)[0]
            row["exit_seconds"] = time.perf_counter() - ended
    return row
