"""A Ray cluster of simulated nodes, a front in a process of its own, and what is done to them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dygcn._extras import late

_NODES = 2  # simulated ones that take shards; the head takes none
_CPUS = 4.0  # of each: one has room for all shards, when the other is gone
_SETTLED = 0.2  # seconds after a fault, before which an answer may have been on its way
_PATIENCE = 180.0  # seconds until all has to be well again
_STOPS = 1.0, 8.0  # seconds that a process is stopped: it goes on, or is replaced meanwhile
_SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # it listens on all interfaces otherwise
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "OMP_NUM_THREADS": "1",
}
_SYSTEM = {"kill_worker_timeout_milliseconds": 500}  # for one that is stopped


@contextlib.contextmanager
def ray_cluster() -> Iterator[Any]:
    """Start simulated nodes on loopback, with a home of their own; end them after use."""
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as home:  # sockets: a short path
        os.environ.update(_SETTINGS | {"HOME": home, "RAY_TMPDIR": home})
        token = Path(home) / ".ray" / "auth_token"  # which `ray.init` makes, and a simulated cluster does not
        token.parent.mkdir()
        token.write_text(secrets.token_hex(32))
        cluster = late("ray.cluster_utils").Cluster()
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": _SYSTEM}
        try:
            cluster.add_node(node_ip_address="127.0.0.1", **head)
            for _ in range(_NODES):
                add_node(cluster)
            yield cluster
        finally:
            cluster.shutdown()


def add_node(cluster: Any) -> None:
    """Add a simulated node."""
    cluster.add_node(num_cpus=_CPUS, node_ip_address="127.0.0.1")


@dataclass
class Fault:
    """What was done, and to whom."""

    kind: str
    t: float
    shards: tuple[int, ...]  # whose process it was
    until: float = 0.0  # when all was well again; 0: never
    acknowledged: float = 0.0  # when the next events were


@dataclass
class Heard:
    """What fronts said."""

    done: list[tuple[float, int, int]] = field(default_factory=list)  # time, positions from, to
    reads: dict[int, list[float]] = field(default_factory=dict)
    ready: list[float] = field(default_factory=list)
    pids: dict[int, int] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)  # messages, by the process of the front
    replaced: int = 0
    failed: list[str] = field(default_factory=list)
    end: dict[str, Any] | None = None

    def take(self, said: dict[str, Any]) -> None:
        """Note a line."""
        what, t = said["what"], said["t"]
        if what == "done":
            self.done.append((t, *said["positions"]))
        elif what == "read":
            self.reads.setdefault(said["shard"], []).append(t)
        elif what == "ready":
            self.ready.append(t)
        elif what == "pids":
            self.pids = {int(number): pid for number, pid in said["pids"].items()}
            self.refused[said["front"]] = said["refused"]
        elif what == "replaced":
            self.replaced += 1
        elif what == "failed":
            self.failed.append(said["error"])
        elif what == "end":
            self.end = said


class Field:
    """A front and its shards, and the faults that are drawn for them.

    `cluster`: the Ray cluster; `command`: of the front; `errors`: the file for what the front has to say
    otherwise.
    """

    def __init__(self, cluster: Any, command: list[str], errors: Path) -> None:
        self.heard, self.faults = Heard(), list[Fault]()
        self._cluster, self._command, self._errors = cluster, command, errors
        self._environment = os.environ | {"RAY_ADDRESS": cluster.address}
        self.stale: set[int] = set()  # processes that were stopped, or have a successor
        self.left_alive = 0  # of them, at the end
        self._timers: list[threading.Timer] = []
        self._twins: list[subprocess.Popen[str]] = []
        self._start_front()

    def _process(self, *more: str) -> subprocess.Popen[str]:
        with self._errors.open("a") as errors:
            return subprocess.Popen(
                [*self._command, *more],
                env=self._environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def _start_front(self) -> None:
        self.front = self._process()
        self._listening = threading.Thread(target=self._listen, args=(self.front,), daemon=True)
        self._listening.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):  # of one that was killed
                self.heard.take(json.loads(line))

    # ---- faults ----------------------------------------------------------------------------------------

    def do(self, kind: str, random: np.random.Generator) -> Fault:
        """Do something to someone."""
        self._wait(self._any_lives)
        pids = {number: pid for number, pid in self.heard.pids.items() if alive(pid)}
        shard = int(random.choice(sorted(pids)))
        fault = Fault(kind, time.monotonic(), (shard,))
        getattr(self, f"_{kind}")(fault, pids, random)
        self.faults.append(fault)
        return fault

    def _any_lives(self) -> bool:
        return any(alive(pid) for pid in list(self.heard.pids.values()))

    def _shard(self, fault: Fault, pids: dict[int, int], random: np.random.Generator) -> None:
        _signal(pids[fault.shards[0]], signal.SIGKILL)

    def _stop(self, fault: Fault, pids: dict[int, int], random: np.random.Generator) -> None:
        pid = pids[fault.shards[0]]
        _signal(pid, signal.SIGSTOP)
        self.stale.add(pid)
        timer = threading.Timer(float(random.choice(_STOPS)), _signal, (pid, signal.SIGCONT))
        timer.start()
        self._timers.append(timer)

    def _front(self, fault: Fault, pids: dict[int, int], random: np.random.Generator) -> None:
        fault.shards = ()
        self.front.kill()
        self.front.wait()
        self._listening.join()
        self._start_front()

    def _node(self, fault: Fault, pids: dict[int, int], random: np.random.Generator) -> None:
        """Remove the node of a shard, and add another."""
        raylet = _parent_of(pids[fault.shards[0]])
        nodes = list(self._cluster.worker_nodes)
        node = next((one for one in nodes if raylet in _pids_of(one)), nodes[0])
        gone = _pids_of(node)
        fault.shards = tuple(number for number, pid in pids.items() if _parent_of(pid) in gone)
        self._cluster.remove_node(node, allow_graceful=False)
        add_node(self._cluster)

    def _twin(self, fault: Fault, pids: dict[int, int], random: np.random.Generator) -> None:
        """Start another process of a shard beside the one that lives, which is stale from then on."""
        self.stale.add(pids[fault.shards[0]])
        twin = self._process("--twin", str(fault.shards[0]))
        self.stale.add(twin.pid)
        self._twins.append(twin)

    # ---- waiting ---------------------------------------------------------------------------------------

    def wait_well(self) -> bool:
        """Wait until all shards answer and events are acknowledged; note when each fault was over."""
        open_ones = [fault for fault in self.faults if not fault.until]
        since = max((fault.t for fault in open_ones), default=0.0)
        ended = self._wait(lambda: all(one.poll() is not None for one in self._twins))
        if any(fault.kind == "twin" for fault in open_ones):
            since = max(since, time.monotonic())
        well = ended and self._wait(lambda: self._answers_since(since + _SETTLED))
        for fault in open_ones if well else ():
            fault.acknowledged = next(t for t, *_ in self.heard.done if t > fault.t + _SETTLED)
            fault.until = time.monotonic()
        return well

    def wait_ready(self) -> bool:
        """Wait for the front, and the first answers."""
        return self._wait(lambda: self._answers_since(0.0), 3 * _PATIENCE)

    def _answers_since(self, t: float) -> bool:
        heard = self.heard
        reads = [times[-1] for times in list(heard.reads.values())]
        return (
            bool(heard.pids)
            and set(heard.reads) == set(heard.pids)
            and min(reads) > t
            and bool(heard.done)
            and heard.done[-1][0] > t
        )

    def _wait(self, is_so: Callable[[], bool], most: float = _PATIENCE) -> bool:
        end = time.monotonic() + most
        while time.monotonic() < end:
            if self.heard.failed:
                return False
            if is_so():
                return True
            time.sleep(0.05)
        return False

    # ---- the end ---------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Any] | None:
        """Let the front say what there is, and end; None: it did not."""
        for timer in self._timers:
            timer.join()
        self._wait(lambda: not self.stale_alive())
        self.left_alive = len(self.stale_alive())
        self._tell("end\n")
        said = None
        if self._wait(lambda: self.heard.end is not None, 3 * _PATIENCE):
            said = self.heard.end
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.front.wait(_PATIENCE)
        for process in (self.front, *self._twins):
            process.kill()
            process.wait()
        return said

    def stale_alive(self) -> list[int]:
        """Return processes that have a successor, and live."""
        return [pid for pid in self.stale - set(self.heard.pids.values()) if alive(pid)]

    def _tell(self, line: str) -> None:
        assert self.front.stdin is not None
        with contextlib.suppress(OSError):
            self.front.stdin.write(line)
            self.front.stdin.flush()


def alive(pid: int) -> bool:
    """Say whether there is a process that is more than a name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _pids_of(node: Any) -> set[int]:
    return {one.process.pid for some in node.all_processes.values() for one in some}


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def front_command(folder: Path, **settings: Any) -> list[str]:
    """Return the command of a front."""
    options = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    return [sys.executable, "-m", "dygcn_lab.soak.shard_front", str(folder), *options]
