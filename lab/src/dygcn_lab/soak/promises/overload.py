"""Three times what a service can take, for a while: what it keeps, what it refuses, how it feels meanwhile.

The graph has a hub, so that some events cost a hundred thousand times what others do. What it can take is
measured first. Then a process sends three times as much, without waiting for answers, while another reads.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import dygcn
from dygcn.engine.records import Int64
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.source_batch import Receipt, SourceBatch
from dygcn.live.shared import can_share
from dygcn_lab.soak.check import Check, Found
from dygcn_lab.soak.promises.overload_sender import NEW, Plan, Sent, send
from dygcn_lab.testbed.plain_http import PlainClient
from dygcn_lab.testbed.seeding import small_model
from dygcn_lab.testbed.served import ServedProcess, served_process

TIMES = 3.0  # what it can take
READS_WITHIN = 0.25  # seconds, 99 of 100
WRITES_WITHIN = (
    2.0  # seconds, 99 of 100 of those that are accepted: what the queue holds is less work than that
)
NORMAL_WITHIN = 10.0  # seconds after
MORE_MEMORY = 128.0  # megabytes above what it had before
AN_EVENT = 250e-6  # megabytes more for each accepted event: the graph grows, and snapshots copy it
_QUIET = 0.2  # of what it can take
_ATTEMPTS = 3


def limits_for(spokes: int) -> dict[str, float]:
    """Return limits with a queue of twenty-five requests, of which ten may be at the hub."""
    return {
        "queued_events": 5_000,
        "queued_rows": 10 * spokes,
        "cut_events": 1_000,
        "cut_rows": 2 * spokes,
        "connections": 950,
    }


UNBOUNDED: dict[str, float] = {
    "queued_events": 1 << 40,
    "queued_rows": 1 << 60,
    "connections": 1 << 30,
    "bodies_bytes": 1 << 50,
}


@dataclass
class Seen:
    """What was seen of one service."""

    spokes: int
    capacity: float = 0.0  # requests a second
    calm_p99: float = 0.0  # seconds
    sent: list[Sent] = field(default_factory=list)  # all of them, in every phase
    pressed: list[Sent] = field(default_factory=list)  # those of the overload
    offered: float = 0.0  # requests a second, as they truly left
    calm_reads: list[float] = field(default_factory=list)  # seconds, while nothing is written
    reads: list[float] = field(default_factory=list)  # seconds, during the overload
    failed_reads: int = 0
    before: float = 0.0  # megabytes
    most: float = 0.0
    normal_after: float = 0.0  # seconds; infinite: it was not
    lost: int = 0  # edges that were accepted and are not there
    ghosts: int = 0  # edges that were refused and are there
    code: int = 0

    def by_status(self, *statuses: int) -> list[Sent]:
        """Return the requests of the overload with these statuses."""
        return [one for one in self.pressed if one.status in statuses]

    @property
    def allowed(self) -> float:
        """How much memory it may have at most, in megabytes."""
        events = Plan("", 1, 0, 0).events * len(self.by_status(200))
        return self.before + MORE_MEMORY + AN_EVENT * events

    @property
    def accepted_p99(self) -> float:
        """How long 99 of 100 accepted requests took at most, in seconds."""
        return _p99([one.waited for one in self.by_status(200)])


def _p99(seconds: Sequence[float]) -> float:
    return float(np.quantile(seconds, 0.99)) if len(seconds) else float("inf")


def slow(seen: Seen) -> list[str]:
    """Say what of memory and time is not as promised."""
    found = []
    if seen.most > seen.allowed:
        found.append(f"memory grew from {seen.before:.0f} to {seen.most:.0f} MB")
    if _p99(seen.reads) > READS_WITHIN or seen.failed_reads:
        found.append(f"reads took {_p99(seen.reads):.3f} s, {seen.failed_reads} failed")
    if seen.accepted_p99 > WRITES_WITHIN:
        found.append(f"what was accepted took {seen.accepted_p99:.2f} s")
    if seen.normal_after > NORMAL_WITHIN:
        found.append(f"it was normal again after {seen.normal_after:.1f} s")
    return found


def wrong(seen: Seen) -> list[str]:
    """Say what was lost, doubled or answered as it must not be."""
    shed, found = seen.by_status(429, 503), []
    if seen.lost or seen.ghosts:
        found.append(f"{seen.lost} accepted edges are lost, {seen.ghosts} refused ones are there")
    others = [one.status for one in seen.pressed if one.status not in (200, 429, 503)]
    if others:
        found.append(f"{len(others)} requests were answered with {sorted(set(others))}")
    if not shed or not all(one.told_when for one in shed):
        found.append(
            f"{len(shed)} requests were refused, {sum(one.told_when for one in shed)} told when to come"
        )
    if not seen.by_status(200):
        found.append("nothing was accepted")
    if seen.offered < 0.8 * TIMES * seen.capacity:
        found.append(f"only {seen.offered:.0f} requests a second were sent, {seen.capacity:.0f} are taken")
    if seen.code:
        found.append(f"it ended with {seen.code}")
    return found


class Reader(threading.Thread):
    """Reads a vector fifty times a second, and times each."""

    def __init__(self, address: str, spokes: int) -> None:
        super().__init__(daemon=True)
        self._client, self._spokes = PlainClient(address), spokes
        self._ended = threading.Event()
        self.seconds: list[float] = []
        self.failed = 0

    def run(self) -> None:
        """Read until told to stop."""
        with self._client:
            self._read()

    def _read(self) -> None:
        node, due = 0, time.perf_counter()
        while not self._ended.is_set():
            node = (node * 7 + 1) % self._spokes
            due += 0.02
            time.sleep(max(due - time.perf_counter(), 0.0))
            begun = time.perf_counter()
            try:
                self.failed += self._client.request("GET", f"/v1/vectors/{node}").status != 200
            except OSError:
                self.failed += 1
            self.seconds.append(time.perf_counter() - begun)
            due = max(due, time.perf_counter() - 0.02)

    def stop(self) -> None:
        """Read no more."""
        self._ended.set()
        self.join()


class Pressing:
    """Takes one service through calm, overload and calm again."""

    def __init__(self, one: ServedProcess, spokes: int, workdir: Path) -> None:
        self._one, self._workdir = one, workdir
        self.seen = Seen(spokes)
        self._next = 0

    def _plan(self, seconds: float, rate: float) -> Plan:
        return Plan(self._one.address, self.seen.spokes, self._next, seconds, rate)

    def _here(self, seconds: float, rate: float = 0.0) -> list[Sent]:
        """Send from this process."""
        sent = asyncio.run(send(self._plan(seconds, rate)))
        return self._took(sent)

    def _took(self, sent: list[Sent]) -> list[Sent]:
        self._next = max((one.number for one in sent), default=self._next) + 1
        self.seen.sent += sent
        return sent

    def measure(self, seconds: float) -> None:
        """Measure what it can take, and how long requests take when it is calm."""
        self._here(seconds / 4)  # the first ones wait for compilers
        taken = [one for one in self._here(seconds) if one.status == 200]
        self.seen.capacity = len(taken) / seconds
        calm = self._here(seconds, _QUIET * self.seen.capacity)
        self.seen.calm_p99 = _p99([one.waited for one in calm])
        reader = Reader(self._one.address, self.seen.spokes)
        reader.start()
        time.sleep(seconds)
        reader.stop()
        self.seen.calm_reads = reader.seconds

    def press(self, seconds: float) -> None:
        """Send three times as much from another process, read meanwhile, and look at the memory."""
        seen, out = self.seen, self._workdir / "sent.json"
        plan = msgspec.json.encode(self._plan(seconds, TIMES * seen.capacity)).decode()
        seen.before = self._one.megabytes()
        command = [sys.executable, "-m", "dygcn_lab.soak.promises.overload_sender", plan, str(out)]
        reader = Reader(self._one.address, seen.spokes)
        with subprocess.Popen(command) as sender:
            reader.start()
            while sender.poll() is None:
                seen.most = max(seen.most, self._one.megabytes())
                time.sleep(0.05)
        reader.stop()
        seen.reads, seen.failed_reads = reader.seconds, reader.failed
        seen.pressed = self._took(msgspec.json.decode(out.read_bytes(), type=list[Sent]))
        last = max(one.due for one in seen.pressed)
        seen.offered = len(seen.pressed) / max(last, 1e-9)

    def wait_until_normal(self) -> None:
        """Send a little until a second passes in which everything is as it was before."""
        begun = time.perf_counter()
        bar = max(4 * self.seen.calm_p99, READS_WITHIN)
        while (spent := time.perf_counter() - begun) < NORMAL_WITHIN + 2:
            sent = self._here(1.0, max(_QUIET * self.seen.capacity, 5.0))
            if all(one.status == 200 for one in sent) and _p99([one.waited for one in sent]) <= bar:
                self.seen.normal_after = spent
                return
        self.seen.normal_after = float("inf")

    def count_losses(self, folder: Path) -> None:
        """Compare the edges on disk with those of all requests that were accepted, and of those refused."""
        plan = self._plan(0, 0)
        with dygcn.open(folder) as live:
            there = _keys(_edges_of(live))
        for status, wanted in ((200, True), (429, False)):
            numbers = [one.number for one in self.seen.sent if one.status == status]
            if not numbers:
                continue
            found = np.isin(_keys(np.concatenate([plan.edges(number) for number in numbers])), there)
            if wanted:
                self.seen.lost = int(np.sum(~found))
            else:
                self.seen.ghosts = int(np.sum(found))


def _edges_of(live: DurableEmbedding) -> Int64:
    first, second, _ = live._state.graph.edges()
    return np.stack((live._names(first).values, live._names(second).values), axis=1)


def _keys(edges: Int64) -> Int64:
    """Return one number for each edge, whichever way it is written."""
    low = np.where(edges >= NEW, edges - NEW + (1 << 30), edges)
    ends: Int64 = np.sort(low, axis=1)
    return ends[:, 0] << 32 | ends[:, 1]


@contextmanager
def _pressed(spokes: int, limits: dict[str, float], bug: str = "") -> Iterator[tuple[Pressing, Path]]:
    with tempfile.TemporaryDirectory() as workdir:
        live = dygcn.start(small_model())
        live.bulk([np.stack((np.zeros(spokes, np.int64), np.arange(1, spokes + 1)), axis=1)])
        folder = Path(workdir, "graph")
        live.save(folder)
        with served_process(folder, limits, bug=bug, readers=int(can_share(live._state))) as one:
            pressing = Pressing(one, spokes, Path(workdir))
            yield pressing, folder
            pressing.seen.code = one.drain()[0]
        pressing.count_losses(folder)


def put_to_the_test(seconds: float, spokes: int) -> Seen:
    """Take a service through calm, overload and calm again."""
    with _pressed(spokes, limits_for(spokes)) as (pressing, _):
        pressing.measure(1.5 if seconds < 20 else 5.0)
        pressing.press(seconds)
        pressing.wait_until_normal()
    return pressing.seen


def in_peace(seconds: float, spokes: int) -> tuple[Seen, list[str], int]:
    """Try until nothing is slow, a few times at most: others on the machine take time, too.

    What is wrong, and not only slow, counts however often it was tried.
    """
    attempt, problems, seen = 0, list[str](), Seen(spokes)
    while attempt < _ATTEMPTS and not problems and slow(seen):
        attempt += 1
        seen = put_to_the_test(seconds, spokes)
        problems = wrong(seen)
    return seen, [*problems, *slow(seen)], attempt


# ---- bugs that must be noticed ------------------------------------------------------------------------


def _without_bounds(capacity: float, calm_p99: float, seconds: float, spokes: int) -> bool:
    """Say whether it is noticed, by memory or time, that the queue has no end."""
    with _pressed(spokes, UNBOUNDED) as (pressing, _):
        pressing._here(1.0)
        pressing.seen.capacity, pressing.seen.calm_p99 = capacity, calm_p99
        pressing.press(seconds)
        if not slow(pressing.seen):
            pressing.wait_until_normal()
    return bool(slow(pressing.seen))


def lose_some() -> None:
    """Have the service acknowledge one transaction in ten without doing anything."""
    ingest: Callable[..., Any] = DurableEmbedding._ingest
    count = iter(range(1 << 60))

    def forgetful(self: DurableEmbedding, parts: Sequence[SourceBatch]) -> list[Receipt]:
        if next(count) % 10:
            found: list[Receipt] = ingest(self, parts)
            return found
        return [Receipt("applied", self.sequence, len(part.batch)) for part in parts]

    DurableEmbedding._ingest = forgetful  # type: ignore[method-assign]


def _losing(spokes: int) -> bool:
    """Say whether it is noticed that accepted events are lost."""
    with _pressed(spokes, limits_for(spokes), f"{__name__}:lose_some") as (pressing, _):
        pressing._here(1.0)
    return pressing.seen.lost > 0


_BUGS = "a queue without bounds", "one transaction in ten is acknowledged and not done"


def look(size: int, seed: int) -> Found:
    """Press for so many seconds."""
    del seed
    spokes = 100_000 if size < 20 else 300_000
    seen, problems, attempts = in_peace(size, spokes)
    unbounded = _without_bounds(seen.capacity, seen.calm_p99, 2 if size < 20 else 15, spokes)
    caught = _losing(5_000) and unbounded
    figures = {
        "requests a second that it can take": round(seen.capacity),
        "requests a second that were sent": round(seen.offered),
        "events of a request": Plan("", 1, 0, 0).events,
        "accepted": len(seen.by_status(200)),
        "refused": len(seen.by_status(429, 503)),
        "accepted and lost": seen.lost,
        "reads, p99 in ms": round(_p99(seen.reads) * 1e3, 1),
        "reads while nothing is written, p99 in ms": round(_p99(seen.calm_reads) * 1e3, 1),
        "accepted requests, p99 in ms": round(seen.accepted_p99 * 1e3),
        "the same when calm": round(seen.calm_p99 * 1e3, 1),
        "MB before": round(seen.before),
        "MB at most": round(seen.most),
        "MB allowed": round(seen.allowed),
        "normal again after, s": round(seen.normal_after, 1),
        "attempts": attempts,
    }
    what = f"three times what it can take; a hub of {spokes:,} neighbours"
    return Found(size, len(problems), caught, figures, problems, what=what)


CHECK = Check("overload", 5, 60, "overload sheds", "", "; ".join(_BUGS), look)
