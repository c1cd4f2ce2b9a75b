"""A cluster on simulated machines: one seed decides every delay, loss, crash and pause.

The shards, the sequencer and the engine are the real ones. Network, disks and time are simulated. Meanwhile
vectors are read, and each is compared with what one process has at the sequence that the answer names; in the
end everything is compared.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dygcn.cluster.messages import (
    SEQUENCER,
    BatchUpdate,
    Entry,
    Events,
    Fetch,
    Message,
    MirrorRows,
    Move,
    Remove,
    Resize,
    ShardSnapshot,
)
from dygcn.cluster.slots import SLOTS, SlotMap
from dygcn.cluster.wire import pack, unpack
from dygcn.cluster.worker import Worker
from dygcn.engine.events import read_events
from dygcn.engine.records import EventBatch
from dygcn.errors import ClusterError
from dygcn_lab.testbed.divided import MemoryStore
from dygcn_lab.testbed.shard_digest import digest_of_parts, part_of
from dygcn_lab.testbed.simulated_world import (
    DiskLog,
    LoggingSequencer,
    Oracle,
    Weather,
    ids_of,
    model_of,
    named,
    rows_of,
)

_LONG = 2_000.0  # simulated seconds after the last fault, in which everything must be done


@dataclass
class Machine:
    """A process of a shard."""

    worker: Worker
    paused: bool = False
    waiting: list[Message] = field(default_factory=list)  # for a paused one

    def receive(self, message: Message) -> None:
        """Take a message, and apply every entry whose updates have all arrived."""
        self.worker.take(message)
        while self.worker.step():
            pass

    def tick(self) -> None:
        """Request missing messages again, and apply every complete entry."""
        self.worker.request_again()
        while self.worker.step():
            pass


class SimulatedCluster:
    """A run.

    `seed`: decides everything; `weather`: none: drawn, too.
    """

    def __init__(self, seed: int, weather: Weather | None = None) -> None:
        self.random = np.random.default_rng(seed)
        self.weather = Weather.of(self.random) if weather is None else weather
        w = self.weather
        self.model = model_of(w, self.random)
        self.now, self._tie = 0.0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.log, self.oracle = DiskLog(), Oracle(self.model)
        self.shards = w.shards  # as of the end of the log
        self.slots = SlotMap.even(w.shards)
        self._owners = [self.slots]  # of every sequence
        self.disks: list[MemoryStore] = []
        for number in range(w.shards):
            self._add_disk(number, ShardSnapshot(0, self.slots, w.shards, None))
        self.machines: dict[int, Machine] = {}
        self._stale: list[Machine] = []
        self._epochs = [0] * w.shards
        self.sequencer: LoggingSequencer | None = LoggingSequencer(self.log, _Wire(self, SEQUENCER), w.shards)
        self._cut: set[tuple[int, int]] = set()
        self.healthy = False
        self.wrong: list[str] = []
        self.reads = self.crashes = self.moves = self.messages = self.bytes = 0
        self._sent, self._t = 0, 0.0
        self._fewer: int | None = None  # shards, from the next entry on: the others own nothing any more
        self._leaving: dict[int, int] = {}  # shards that others need until they are past an entry
        for number in range(w.shards):
            self._start(number)

    def _add_disk(self, number: int, snapshot: ShardSnapshot) -> None:
        self.disks[number : number + 1] = [MemoryStore(number, self.disks, {snapshot.sequence: snapshot})]

    # ---- time ------------------------------------------------------------------------------------------

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something later."""
        self._tie += 1
        heapq.heappush(self._events, (self.now + seconds, self._tie, call))

    def run(self) -> None:
        """Run until everything is done, or too long."""
        self.later(0.0, self._feed)
        self.later(0.1, self._read)
        if self.weather.faults:
            self.later(self.random.exponential(1 / self.weather.faults), self._fault)
        until = float("inf")
        while self._events and self.now < until and not self.wrong:
            self.now, _, call = heapq.heappop(self._events)
            call()
            if self._sent == self.weather.batches and not self.healthy:
                self._heal()
                until = self.now + _LONG
            if self.healthy and self._is_done():
                break
        if not self.wrong:
            self._compare()

    def _heal(self) -> None:
        """End all faults: whatever is left has to come right by itself."""
        self.healthy = True
        self._cut.clear()
        for number, machine in list(self.machines.items()):
            if machine.paused:
                self._resume(machine)
            assert number == machine.worker.number
        for number in self._needed():
            self._start_if_missing(number)
        if self.sequencer is None:
            self._restart_sequencer()

    def _is_done(self) -> bool:
        return all(
            number in self.machines
            and self.machines[number].worker.ready
            and self.machines[number].worker.position == self.log.end
            for number in range(self.shards)
        )

    # ---- the network -----------------------------------------------------------------------------------

    def carry(self, sender: int, to: int, message: Message) -> None:
        """Deliver a message some time, once, twice or never."""
        self.messages += 1
        w, message = self.weather, self._through_bytes(message)
        if (sender, to) in self._cut or (not self.healthy and self.random.random() < w.loss):
            return
        for _ in range(2 if self.random.random() < w.twice else 1):
            self.later(self.random.exponential(w.delay), lambda: self._deliver(to, message))

    def _through_bytes(self, message: Message) -> Message:
        """Return a message as it is after a real network carried it."""
        if not isinstance(message, BatchUpdate | MirrorRows):
            return message
        if isinstance(message, BatchUpdate) and not (len(message.update.change) or len(message.update.new)):
            return message
        body = pack(message)
        if isinstance(message, BatchUpdate):
            self.bytes += len(body)
        received: Message = unpack(body)
        return received

    def _deliver(self, to: int, message: Message) -> None:
        if to == SEQUENCER:
            if self.sequencer is not None:
                assert isinstance(message, Fetch)
                self.sequencer.receive(message)
            return
        machine = self.machines.get(to)
        if machine is None:
            return
        if machine.paused:
            machine.waiting.append(message)
        else:
            self._guarded(machine, lambda: machine.receive(message))

    def _guarded(self, machine: Machine, call: Callable[[], None]) -> None:
        try:
            call()
        except ClusterError:  # it says that it has to start again
            self._end(machine)
        except Exception as error:
            self.wrong.append(f"shard {machine.worker.number}: {type(error).__name__}: {error}")
            raise

    def _end(self, machine: Machine) -> None:
        number = machine.worker.number
        if self.machines.get(number) is machine:
            del self.machines[number]
            self.later(0.1, lambda: self._start_if_missing(number))

    # ---- machines --------------------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        """Start a process for a shard; whatever was there before is stale."""
        self._epochs[number] += 1
        disk: Any = self.disks[number]  # in memory, with the methods of a `SnapshotFolder`
        worker = Worker(
            number,
            self._epochs[number],
            self.model,
            disk,
            _Wire(self, number),
            self.weather.every,
        )
        machine = self.machines[number] = Machine(worker)
        self._tick(machine)

    def _tick(self, machine: Machine) -> None:
        if self.machines.get(machine.worker.number) is not machine and machine not in self._stale:
            return
        if not machine.paused:
            self._guarded(machine, machine.tick)
        self.later(0.2 + 0.1 * self.random.random(), lambda: self._tick(machine))

    def _fault(self) -> None:
        if self.healthy:
            return
        kind = self.random.choice(["crash", "crash", "pause", "cut", "sequencer", "stale"])
        number = int(self.random.choice(self._needed()))
        machine = self.machines.get(number)
        seconds = float(self.random.exponential(0.7))
        if kind == "sequencer":
            self._crash_sequencer(seconds)
        elif kind == "cut":
            self._cut_off(number, int(self.random.integers(-1, self.shards)), seconds)
        elif machine is not None and kind == "crash":
            del self.machines[number]
            self.crashes += 1
            self.later(seconds, lambda: self._start_if_missing(number))
        elif machine is not None and kind == "pause":
            machine.paused = True
            self.later(seconds, lambda: self._resume(machine))
        elif machine is not None and kind == "stale":  # it was taken for dead, and is not
            machine.paused = True
            self._stale.append(machine)
            self._start(number)
            self.crashes += 1
            self.later(seconds, lambda: self._resume(machine))
            self.later(seconds + 5, lambda: self._stale.remove(machine))
        self.later(self.random.exponential(1 / self.weather.faults), self._fault)

    def _needed(self) -> list[int]:
        return sorted({*range(self.shards), *self._leaving})

    def _start_if_missing(self, number: int) -> None:
        if number not in self.machines and number in self._needed():
            self._start(number)

    def _resume(self, machine: Machine) -> None:
        machine.paused = False
        waiting, machine.waiting = machine.waiting, []
        for message in waiting:
            self._guarded(machine, partial(machine.receive, message))

    def _cut_off(self, a: int, b: int, seconds: float) -> None:
        both = {(a, b), (b, a)}
        self._cut |= both
        self.later(seconds, lambda: self._cut.difference_update(both))

    def _crash_sequencer(self, seconds: float) -> None:
        if self.sequencer is not None:
            self.sequencer = None
            self.later(seconds, self._restart_sequencer)

    def _restart_sequencer(self) -> None:
        if self.sequencer is None:
            self.sequencer = LoggingSequencer(self.log, _Wire(self, SEQUENCER), self.shards)

    # ---- the client ------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Send the next entry; sometimes twice, as one who had no answer does."""
        if self._sent >= self.weather.batches:
            return
        if self.sequencer is not None:
            entry = self._next_entry()
            sequence = self.sequencer.append(entry, "client", self._sent)
            assert sequence == self.log.end
            if self.random.random() < 0.1:
                assert self.sequencer.append(entry, "client", self._sent) is None
            self._sent += 1
            self.oracle.apply(entry)
            self._owners.append(self.slots)
        self.later(self.random.exponential(0.1), self._feed)

    def _next_entry(self) -> Entry:
        random = self.random
        if self._fewer is not None:
            return self._shrink(self._fewer)
        if random.random() < self.weather.moves and self.shards > 1:
            self.moves += 1
            chosen = random.choice(SLOTS, int(random.integers(1, SLOTS // 2)), replace=False)
            move = Move(tuple(chosen.tolist()), int(random.integers(self.shards)))
            self.slots, _ = move.owners(self.slots, self.shards)
            return move
        if random.random() < self.weather.moves / 3 and self.shards < 8 and not self._leaving:
            return self._grow(min(self.shards + int(random.integers(1, 3)), 8))
        if random.random() < self.weather.moves / 3 and self.shards > 1 and not self._leaving:
            self._fewer = int(random.integers(1, self.shards))
            last = np.flatnonzero(self.slots.owner >= self._fewer)
            move = Move(tuple(last.tolist()), int(random.integers(self._fewer)))
            self.slots, _ = move.owners(self.slots, self.shards)
            return move
        if random.random() < 0.05:
            return Remove(
                ids_of(named(random.integers(0, self.weather.nodes, 2), self.weather.kind), self.weather.kind)
            )
        return Events(self._next_batch())

    def _grow(self, shards: int) -> Resize:
        sequence = self.log.end + 1
        for number in range(self.shards, shards):
            self._add_disk(number, ShardSnapshot(sequence, self.slots, shards, None))
            self._epochs += [0] * (number == len(self._epochs))
            self.later(0.0, partial(self._start_if_missing, number))
        self.shards = shards
        assert self.sequencer is not None
        self.sequencer.shards = shards
        return Resize(shards)

    def _shrink(self, shards: int) -> Resize:
        for number in range(shards, self.shards):
            self._leaving[number] = self.log.end + 1
            self.later(0.1, partial(self._retire, number))
        self.shards, self._fewer = shards, None
        assert self.sequencer is not None
        self.sequencer.shards = shards
        return Resize(shards)

    def _retire(self, number: int) -> None:
        """End a process that owns nothing any more, when all others are past the entry that says so."""
        others = [self.machines.get(other) for other in range(self.shards)]
        past = [one is not None and one.worker.position >= self._leaving[number] for one in others]
        if all(past) and all(one is not None and one.worker.ready for one in others):
            del self._leaving[number]
            self.machines.pop(number, None)
        else:
            self.later(0.1, partial(self._retire, number))

    def _next_batch(self) -> EventBatch:
        random, w = self.random, self.weather
        n = int(random.integers(1, 8))
        ends = random.integers(0, w.nodes, (2, n))
        columns: dict[str, Any] = {
            "src": named(ends[0], w.kind),
            "dst": named(ends[1], w.kind),
            "op": np.where(random.random(n) < 0.6, 1, -1),
        }
        if w.weighted:
            columns["weight"] = random.integers(1, 9, n) / 2.0 ** random.integers(0, 10, n)
        if w.half_life is not None or w.contacts:
            self._t += float(random.exponential(1.0))
            columns["t"] = self._t + random.random(n) * random.choice([1.0, -5.0])  # some come late
        return read_events(columns)

    def _read(self) -> None:
        """Read all vectors of one shard, which must be those of the sequence that it names."""
        if self.healthy:
            return
        living = [
            machine for machine in self.machines.values() if not machine.paused and machine.worker.ready
        ]
        if living:
            self._check_reads(living[int(self.random.integers(len(living)))].worker)
        self.later(self.random.exponential(0.1), self._read)

    def _check_reads(self, worker: Worker) -> None:
        shard, at = worker.shard, worker.position
        found = rows_of(shard.graph, shard.rule, shard.own_nodes())
        self.reads += len(found)
        expected = self.oracle.rows[at]
        owners = self._owners[at].owners(ids_of(list(expected), self.weather.kind))
        mine = {name for name, owner in zip(expected, owners, strict=True) if owner == worker.number}
        if set(found) != mine:
            self.wrong.append(f"shard {worker.number} at {at} has {set(found) ^ mine} too many or too few")
        elif any(expected[name] != rows for name, rows in found.items()):
            self.wrong.append(f"shard {worker.number} at {at} has other rows")

    def _compare(self) -> None:
        if not self._is_done():
            where = {
                number: (machine.worker.position, machine.worker.ready)
                for number, machine in self.machines.items()
            }
            self.wrong.append(f"stuck: {where} of {self.log.end}")
            return
        for number in range(self.shards):
            self._check_reads(self.machines[number].worker)
        parts = [part_of(self.machines[number].worker.shard) for number in range(self.shards)]
        if digest_of_parts(self.model, parts) != self.oracle.digest():
            self.wrong.append("another digest")


@dataclass(frozen=True)
class _Wire:
    """The network as one machine sees it."""

    cluster: SimulatedCluster
    sender: int

    def send(self, to: int, message: Message) -> None:
        """Send a message."""
        self.cluster.carry(self.sender, to, message)
