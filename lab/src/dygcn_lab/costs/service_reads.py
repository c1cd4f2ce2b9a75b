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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.fitting import fit
from dygcn_lab.costs.asking import asking
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.lifecycle import measure_lifecycle
from dygcn_lab.costs.sending import Sender
from dygcn_lab.costs.serving import processor_seconds
from dygcn_lab.costs.timing import load_average
from dygcn_lab.testbed.subprocess_ready import started

with extra("serve"):
    import httpx

if TYPE_CHECKING:
    from dygcn_lab.costs.timing import Notify

GRAPH, RATE, SIZE = "arxiv-coauthor", 5_000, 100
ASKED = 20_000  # different nodes that wrk asks for
_RATE = re.compile(r"Requests/sec:\s+([0-9.]+)")
_P99 = re.compile(r"99%\s+([0-9.]+)(us|ms|s)\b")
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_LUA = """
local ids = {}
for line in io.lines("%s") do ids[#ids + 1] = line end
local at = 0
function request() at = at %% #ids + 1; return wrk.format("GET", "/v1/vectors/" .. ids[at]) end
"""


@contextmanager
def served(folder: str, readers: int = 1) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a folder in a process of its own."""
    process, address = started("dygcn_lab.costs.load_server", [folder, str(readers)])
    try:
        yield address, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


@contextmanager
def bare(body: bytes, folder: str) -> Iterator[tuple[str, int]]:
    """Serve the same bytes to everybody; yield the address and the process."""
    path = Path(folder, "body.json")
    path.write_bytes(body)
    process, address = started("dygcn_lab.costs.bare_server", [str(path)])
    try:
        yield address, process.pid
    finally:
        process.kill()
        process.wait()


class Wrk:
    """The load generator, asking for vectors of given nodes.

    Parameters
    ----------
    ids
        Which nodes, in turns.
    folder
        For its script.
    """

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


def reader_of(process: subprocess.Popen[str]) -> int:
    """Return the process that answers: the first child of the service, or itself."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    tasks = [Path(one, "children") for one in Path(f"/proc/{process.pid}/task").iterdir()]
    children = [int(pid) for one in (path, *tasks) for pid in one.read_text().split()]
    return children[0] if children else process.pid


def side_by_side(
    wrk: Wrk, ours: tuple[str, int], other: tuple[str, int], seconds: int, repeats: int
) -> dict[str, float]:
    """Ask both servers in turns; return medians, and the median of the ratios."""
    rounds = []
    for _ in range(repeats):
        found, beside = wrk.run(ours[0], seconds, ours[1]), wrk.run(other[0], seconds, other[1])
        rounds.append((found, beside))
    return {
        "reads_a_second": statistics.median(one["a_second"] for one, _ in rounds),
        "bare_a_second": statistics.median(one["a_second"] for _, one in rounds),
        "ratio": statistics.median(a["a_second"] / b["a_second"] for a, b in rounds),
        "cpu_us": statistics.median(one["cpu_us"] for one, _ in rounds),
        "bare_cpu_us": statistics.median(one["cpu_us"] for _, one in rounds),
        "p99_ms": statistics.median(one["p99_ms"] for one, _ in rounds),
        "bare_p99_ms": statistics.median(one["p99_ms"] for _, one in rounds),
    }


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
    with tempfile.TemporaryDirectory() as workdir, served(folder) as (address, process):
        wrk = Wrk(drawn, workdir)
        _wait_for_index(address)
        body = httpx.get(f"{address}/v1/vectors/{drawn[0]}").content
        with bare(body, workdir) as other:
            ours = address, reader_of(process)
            quiet = side_by_side(wrk, ours, other, seconds, repeats)
            neighbours: dict[str, Any] = {"nothing": nullcontext()}
            neighbours["pages of changes"] = asking(address)
            neighbours["10,000 ids at once"] = asking(address, drawn[:10_000])
            waits: list[dict[str, Any]] = []
            for name, beside in neighbours.items():
                with beside:
                    waits.append({"beside": name, **waits_of_one(address, drawn, 2 * seconds)})
            sender = Sender(address, ids, rate, size, seed)
            try:
                time.sleep(3.0)
                alone = _usual([_window(sender, seconds) for _ in range(repeats)])
                busy = side_by_side(wrk, ours, other, seconds, repeats)
                held = sender.mark()
            finally:
                sender.stop()
            sequence = httpx.get(f"{address}/v1/status").json()["sequence"]
    for one in waits:
        one["times_quiet"] = one["p99_ms"] / waits[0]["p99_ms"]
    return {
        "answer_bytes": len(body),
        "rounds": [{"while": "nothing is written", **quiet}, {"while": "events are applied", **busy}],
        "waits": waits,
        "events": {"asked_a_second": rate, "request_size": size, "alone": alone, "with_reads": held},
        "sequence": sequence,
    }


def _window(sender: Sender, seconds: int) -> dict[str, float]:
    """Return how late events were readable for some seconds, while nobody reads."""
    sender.mark()
    time.sleep(seconds)
    return sender.mark()


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
    """Fit a graph, serve it with one reader process, and read.

    Parameters
    ----------
    graph
        See `graph_events`.
    rate
        Events a second that are sent.
    seconds, repeats
        Of each run of wrk.
    """
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
        found["lifecycle"] = measure_lifecycle(f"{folder}/graph", ids, rate, SIZE)
    return {"kind": "service", **about, "load_average": load_average(), **found}
