"""Fronts on a real Ray cluster, each in a process of its own.

``python -m tests.cluster.on_ray shards|killed|again FOLDER ADDRESS PID``, with the process that holds the Ray
cluster.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from dygcn import cluster
from dygcn.cluster.certificates import NAME
from dygcn.cluster.front import FrontState
from dygcn.cluster.messages import Entries, ShardSnapshot
from dygcn.cluster.ray_shards import RayShards
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import read_events
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.live.embedding import start
from dygcn.live.files import digest_of
from dygcn_lab.testbed.simulated_world import DiskLog
from tests.cluster.authority import Authority

MODEL = Model((np.eye(8, dtype=np.float32),) * 3, "int64", "hashed", np.ones(8))
SHARDS = 2


class Run:
    """A front on Ray, and one process with the same events."""

    def __init__(self, folder, address):
        self.folder, self.address, self.log = folder, address, DiskLog()
        self.shards = self.join(())
        for number in range(SHARDS):
            self.shards.add(number, ShardSnapshot(0, SlotMap.even(SHARDS), SHARDS, None))
        self.front = FrontState(MODEL, self.shards, self.commit, 0)
        self.one, self.random = State(MODEL), np.random.default_rng(5)

    def join(self, numbers):
        """Make a front."""
        places = (self.folder / "front", str(self.folder / "store"), MODEL)
        return RayShards(*places, self.log, numbers, address=self.address, cpus=0.1, every=25)

    def join_again(self):
        """Put a new front in the place of one."""
        self.shards.leave()
        self.shards = self.join(range(SHARDS))
        self.front = FrontState(MODEL, self.shards, self.commit, self.log.end)

    def commit(self, entry):
        """Give an entry its number."""
        sequence = self.log.append(entry, "test", self.log.end)
        self.shards.announce(Entries(sequence - 1, (entry,), sequence))
        return sequence

    def steps(self, count):
        """Apply batches, and compare."""
        for _ in range(count):
            n = int(self.random.integers(1, 20))
            ends = self.random.integers(0, 80, (2, n))
            op = self.random.choice([1, 1, -1], n)
            batch = read_events({"src": ends[0], "dst": ends[1], "op": op})
            self.front.apply(batch)
            self.one.apply(batch)
        assert digest_of(self.front) == digest_of(self.one)

    def pids(self):
        """Return the processes of shards."""
        return [self.shards.registry.beats[number].pid for number in range(SHARDS)]


def listening_elsewhere(*roots):
    """Return addresses other than loopback at which processes and their descendants listen."""
    parents, sockets = {}, set()
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(one.name)] = int((one / "stat").read_text().rpartition(")")[2].split()[1])
    family = set(roots)
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in family:
        with contextlib.suppress(OSError):
            sockets |= {os.readlink(one)[8:-1] for one in Path(f"/proc/{pid}/fd").iterdir()}
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [row.split() for table in tables for row in table]
    listening = [row for row in rows if row[3] == "0A" and row[9] in sockets]
    assert len(listening) > SHARDS
    return [row[1] for row in listening if row[1].rpartition(":")[0][-8:] != "0100007F"]


def shards(folder, address, holder):
    """Do to shards what happens to them: killed, stopped and left by their front, they stay one graph."""
    run = Run(folder, address)
    run.steps(30)
    first = run.pids()
    os.kill(first[0], signal.SIGKILL)
    run.steps(30)
    os.kill(first[1], signal.SIGSTOP)
    run.steps(30)
    second = run.pids()
    assert not set(first) & set(second)
    run.shards.add(SHARDS, ShardSnapshot(run.log.end + 1, SlotMap.even(SHARDS), SHARDS + 1, None))
    run.join_again()  # in the middle of growing: the log says nothing of the third
    run.steps(30)
    assert run.pids() == second
    end = time.monotonic() + 60
    while run.shards._actor(SHARDS) is not None:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert listening_elsewhere(os.getpid(), holder) == []
    run.shards.close()


def killed(folder, address, holder):
    """Use a cluster as any embedding, and be killed."""
    start(MODEL).save(folder / "graph")
    Authority(folder).files()
    live = cluster.launch(folder / "graph", SHARDS, batches=10, **given(folder))
    for batch in batches(range(30)):
        live.update(add=batch)
    (folder / "pids").write_text(str(pids(live)))
    os.kill(os.getpid(), signal.SIGKILL)


def again(folder, address, holder):
    """Find everything as it was left, with the same shards."""
    one = start(MODEL)
    with cluster.launch(folder / "graph", batches=10, **given(folder)) as live:
        for batch in batches(range(30)):
            one.update(add=batch)
        assert live.digest() == one.digest()
        for batch in batches(range(30, 60)):
            live.update(add=batch)
            one.update(add=batch)
        assert live.digest() == one.digest()
        assert (folder / "pids").read_text() == str(pids(live))


def given(folder):
    """Return the certificate, the key and the ca of an authority, as a user names them."""
    return {part: folder / f"{NAME}-{part}.pem" for part in ("certificate", "key", "ca")}


def batches(numbers):
    """Return edges."""
    return [np.random.default_rng(number).integers(0, 80, (20, 2)).tolist() for number in numbers]


def pids(live):
    """Return the processes of shards, once each has said that it lives."""
    registry = live._front.queries.processes.registry
    while len(registry.beats) < SHARDS:
        time.sleep(0.1)
    return [registry.beats[number].pid for number in range(SHARDS)]


if __name__ == "__main__":
    os.environ["RAY_ADDRESS"] = sys.argv[3]
    do = {"shards": shards, "killed": killed, "again": again}[sys.argv[1]]
    do(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
