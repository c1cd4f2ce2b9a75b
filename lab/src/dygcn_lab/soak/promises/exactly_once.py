"""Exactly once: everything is sent three times, out of order, while the process dies: one digest."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from dygcn.engine.events import read_events
from dygcn.live.durable import source_batch
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.source_batch import (
    APPLIED,
    GAP,
    REPEATED,
    Receipt,
    Screened,
    SourceBatch,
    StreamOffsets,
)
from dygcn.live.embedding import start
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.seeding import seeded, small_model

TIMES, WINDOW = 3, 8
_NODES, _LONGEST = 40, 20
_CLIENTS, _BROKERS = ("http:ann", "http:bob"), ("nats:clicks", "kafka:views/3")
_TOO_HEAVY = 1e30
Event = tuple[int, int, float, int, float]


@dataclass(slots=True)
class DeliveryTally(Tally):
    """What was sent and what became of it."""

    events: int = 0
    sent: int = 0
    taken: int = 0  # events that receipts say were applied, or set apart
    repeated: int = 0
    gaps: int = 0
    crashes: int = 0


class Sender:
    """One stream of events, over pairs of nodes that no other touches: streams may overtake each other."""

    def __init__(self, name: str, number: int, count: int, random: Random) -> None:
        self.name, self.dense = name, name in _CLIENTS
        self.events = [_event(random, number) for _ in range(count)]
        self.parts: list[tuple[int, int, int]] = []  # first event, number of events, position
        at = position = 0
        while at < count:
            length = min(random.randint(1, _LONGEST), count - at)
            position = at + length - 1 if self.dense else position + random.randint(1, 9)
            self.parts.append((at, length, position))
            at += length

    def part(self, number: int) -> SourceBatch:
        """Return one message."""
        first, length, position = self.parts[number]
        batch = read_events(self.events[first : first + length])
        return SourceBatch(batch, self.name, position, first if self.dense else None)

    def overlapping(self, number: int, before: int) -> SourceBatch:
        """Return a message that also holds the last events of the one before it, as a client may send it."""
        first, length, position = self.parts[number]
        before = min(before, first)
        batch = read_events(self.events[first - before : first + length])
        return SourceBatch(batch, self.name, position, first - before)

    def deliveries(self, random: Random) -> Iterator[SourceBatch]:
        """Yield every message three times: a client's in any order in a window, a broker's by rewinding."""
        count = len(self.parts)
        for begin in range(0, count, WINDOW):
            numbers = list(range(begin, min(begin + WINDOW, count))) * TIMES
            if self.dense:
                random.shuffle(numbers)
            for number in numbers:
                if self.dense and random.random() < 0.2:
                    yield self.overlapping(number, random.randint(1, _LONGEST))
                else:
                    yield self.part(number)


def _event(random: Random, stream: int) -> Event:
    a = random.randrange(_NODES)
    b = (4 * random.randrange(_NODES) + stream - a) % (4 * _NODES)
    weight = _TOO_HEAVY if random.random() < 0.002 else random.choice((1.0, 2.0, 3.5))
    return a, 1000 + b, 0.0, random.choice((1, 1, -1)), weight


class Delivery:
    """A folder to which all of it is sent; a message that comes too early is sent again later."""

    def __init__(self, path: Path, senders: Sequence[Sender], seed: int, tally: DeliveryTally) -> None:
        self._senders, self._random, self.tally = senders, Random(seed), tally
        self.live = open_folder(path, start(small_model()), snapshot_every=max(tally.events // 4, 50))
        self._dense = {sender.name for sender in senders if sender.dense}

    def run(self) -> None:
        """Send everything, several messages in a transaction, and die in between."""
        waiting = [(sender.deliveries(self._random), list[SourceBatch]()) for sender in self._senders]
        crash_every = max(self.tally.events // 200, 5)
        while waiting:
            deliveries, early = self._random.choice(waiting)
            parts: list[SourceBatch] = []
            if len(early) <= TIMES * WINDOW:  # all of a window was sent before anything of the next but one
                parts = [part for _, part in zip(range(self._random.randint(1, 6)), deliveries, strict=False)]
            if not parts:
                parts, early[:] = early[:], []
                self._random.shuffle(parts)
            if not parts:
                waiting.remove((deliveries, early))
                continue
            early += self._send(parts)
            if self._random.randrange(crash_every) == 0:
                self._crash()
        self._crash()

    def _send(self, parts: list[SourceBatch]) -> list[SourceBatch]:
        receipts = self.live._ingest(parts)
        self.tally.sent += len(parts)
        again = []
        for part, receipt in zip(parts, receipts, strict=True):
            self.tally.taken += receipt.applied + receipt.dead
            self.tally.repeated += receipt.status == REPEATED
            if receipt.status == GAP:
                self.tally.gaps += 1
                again.append(part)
                self.tally.check(
                    part.stream in self._dense, f"{part.stream}: a gap in a stream that may have some"
                )
        return again

    def _crash(self) -> None:
        before = self.live.digest(), self.live.streams
        self.live._let_go()
        self.tally.crashes += 1
        self.live = open_folder(self.live._folder)
        same = (self.live.digest(), self.live.streams) == before
        self.tally.check(same, f"crash {self.tally.crashes}: another state than before it")

    def letters(self) -> list[tuple[str, str]]:
        """Return the events that were set apart, whatever message they came with."""
        return sorted((one.stream, one.event) for _, one in self.live._log.dead_letters(10**6))


def plain(senders: Sequence[Sender]) -> tuple[str, int]:
    """Return the digest of all events, each applied once, and how many cannot be."""
    live, dead = start(small_model()), 0
    for sender in senders:
        for event in sender.events:
            if event[3] > 0 and event[4] == _TOO_HEAVY:
                dead += 1
            else:
                live.update([event])
    return live.digest(), dead


def deliver(size: int, seed: int) -> DeliveryTally:
    """Send so many events in all, and compare with each of them applied once."""
    random = Random(seed)
    names = (*_CLIENTS, *_BROKERS)
    senders = [Sender(name, number, size // len(names), random) for number, name in enumerate(names)]
    tally = DeliveryTally(events=sum(len(sender.events) for sender in senders))
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        delivery = Delivery(Path(workdir) / "x", senders, seed, tally)
        try:
            delivery.run()
            digest, dead = plain(senders)
            ends, letters = {s.name: s.parts[-1][2] for s in senders if s.parts}, len(delivery.letters())
            for right, what in (
                (delivery.live.digest() == digest, "another digest than that of each event once"),
                (tally.taken == tally.events, f"{tally.taken} events were taken of {tally.events}"),
                (delivery.live.streams == ends, "streams have not come to their end"),
                (letters == dead, f"{letters} dead letters, expected {dead}"),
            ):
                tally.check(right, f"seed {seed}: {what}")
        finally:
            delivery.live._let_go()
    return tally


def nothing_is_a_repeat(parts: Sequence[SourceBatch], followed: StreamOffsets) -> Screened:
    """The seeded bug: nobody looks at where a stream has come to."""
    del followed
    fresh = [(part, Receipt(APPLIED)) for part in parts]
    return Screened([receipt for _, receipt in fresh], fresh, [], [])


def look(size: int, seed: int) -> Found:
    """Deliver, then see whether it would be noticed if repeats were not."""
    tally = deliver(size, seed)
    with seeded(source_batch, "screen", nothing_is_a_repeat):
        caught = deliver(min(size, 400), seed).bad > 0
    figures = {"messages": tally.sent, "repeated": tally.repeated, "gaps": tally.gaps}
    figures["crashes"] = tally.crashes
    return Found(tally.events, tally.bad, caught, figures, tally.notes)


CHECK = Check(
    "exactly_once",
    4_000,
    100_000,
    "exactly once",
    f"every event {TIMES} times, shuffled in a window of {WINDOW} messages, with crashes in between",
    "a repeat is taken for news",
    look,
)
