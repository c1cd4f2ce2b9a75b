"""Requests that were made to be slow, each beside an ordinary one of its size: in counts, and in seconds."""

from __future__ import annotations

import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeAlias

import msgspec

import dygcn
from dygcn.engine.events import read_events
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.dead_letters import ALONE
from dygcn.live.embedding import start
from dygcn_lab.soak.check import Check, Found
from dygcn_lab.soak.promises.flood import time_floods
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.crafted import ids_of_one_place, longest_probe, names_of_one_key
from dygcn_lab.testbed.seeding import seeded, small_model
from dygcn_lab.testbed.served import served_process

TIMES, PATIENCE = 5.0, 0.05  # as long as an ordinary request; seconds that /livez may take
_REPEATS = 3
_FURTHEST = 64  # cursors that an id may stand from where it is looked for first
_SHARING = 20  # events that share a dead letter, at least
_HEAVY, _TOO_MUCH = 4e6, 1e300
_BAD_ROWS = {
    "a weight below 0": b'{"src":1,"dst":2,"weight":-1.5}',
    "an id of another type": b'{"src":"a","dst":2,"weight":1.5}',
    "no src": b'{"dst":2,"weight":1.5,"other":"long enough"}',
    "no JSON": b'{"src":1,"dst":2,"weight":x}',
    "numbers that are slow to read": b'{"src":1,"dst":2,"weight":2.2250738585072011e-308}',
}
Events: TypeAlias = list[dict[str, Any]]
Ask: TypeAlias = Callable[[str, int], None]  # an address, and which of the repeats it is


def _events(ids: list[Any], **more: Any) -> Events:
    half = len(ids) // 2
    return [{"src": a, "dst": b, **more} for a, b in zip(ids[:half], ids[half:], strict=False)]


def _ordinary_ids(count: int, seed: int) -> list[int]:
    return [Random(seed * 1_000_003 + i).getrandbits(63) - (1 << 62) for i in range(count)]


def _ordinary_names(count: int, seed: int, length: int) -> list[str]:
    random = Random(seed)
    return ["".join(chr(random.randrange(97, 123)) for _ in range(length)) for _ in range(count)]


# ---- in counts ---------------------------------------------------------------------------------------


def probes(size: int) -> dict[str, int]:
    """Return how far the furthest id stands from its cursor, of ids made to collide and of others."""
    names = names_of_one_key(size)
    chosen: dict[str, tuple[str, list[Any]]] = {
        "ids made to collide": ("int64", ids_of_one_place(size)),
        "ordinary ids": ("int64", _ordinary_ids(size, 1)),
        "names made to collide": ("string", names),
        "ordinary names": ("string", _ordinary_names(size, 1, len(names[0]))),
    }
    found = {}
    for name, (kind, ids) in chosen.items():
        live = start(small_model(kind))
        live.update({"src": ids[: size // 2], "dst": ids[size // 2 : 2 * (size // 2)]})
        found[name] = longest_probe(live._state.graph.ids)
    return found


def entries(folder: Path, events: Events) -> tuple[int, int, int]:
    """Return how many entries of the log, refused events, and dead letters one request becomes."""
    live = open_folder(folder, start(small_model()))
    try:
        columns = {name: [event[name] for event in events] for name in events[0]}
        receipt = live._ingest([SourceBatch(read_events(columns))])[0]
        return live._log.last, receipt.dead, live._log.count_dead_letters()
    finally:
        live._let_go()


def largest_page(folder: Path, size: int) -> int:
    """Return how many rows a page of one has after so many ids left."""
    live = open_folder(folder, start(small_model()))
    try:
        live.update(add=[(0, 1)])
        cursor = live.feed.cursor
        for op in (1, -1):
            live.update({"src": [0] * size, "dst": list(range(10, 10 + size)), "op": [op] * size})
        found = 0
        for _ in range(20):
            page = live.feed.since(cursor, 1)
            cursor, found = page.next, max(found, len(page.rows))
        return found
    finally:
        live._let_go()


def count_costs(size: int) -> tuple[dict[str, Any], list[str]]:
    """Return what hostile requests cost in counts, and what of it is too much."""
    figures: dict[str, Any] = {"furthest cursor": probes(size)}
    wrong = [name for name, far in figures["furthest cursor"].items() if far > _FURTHEST]
    ids = list(range(2 * size))
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        asked = {
            "ordinary": _events(ids, weight=1.5),
            "weights off the grid": _events(ids, weight=_TOO_MUCH),
            "a node too heavy": [{"src": 0, "dst": 1 + i, "weight": _HEAVY} for i in range(size)],
        }
        for number, (name, events) in enumerate(asked.items()):
            written, dead, letters = entries(Path(workdir) / str(number), events)
            figures[name] = {"entries": written, "refused events": dead, "dead letters": letters}
            if written > 1 or (dead == 0) != (name == "ordinary") or letters > ALONE + dead / _SHARING:
                wrong.append(f"{name}: {written} entries, {dead} refused events, {letters} dead letters")
        rows = figures["rows in a page of one, after all left"] = largest_page(Path(workdir) / "page", size)
        if rows > 1:
            wrong.append(f"a page of one has {rows} rows")
    return figures, wrong


# ---- in seconds --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A hostile request and an ordinary one, and what comes before each."""

    name: str
    hostile: Ask
    ordinary: Ask
    before: tuple[Ask, ...] = ()
    between: tuple[Ask, ...] = ()  # after the ordinary one
    strings: bool = False


@dataclass(slots=True)
class Timed:
    """What a case took."""

    hostile: list[float] = field(default_factory=list)
    ordinary: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)  # the longest wait of each repeat

    @property
    def ratio(self) -> float:
        """How many times as long as an ordinary one a hostile request takes."""
        return median(self.hostile) / median(self.ordinary)


def _post(path: str, events: Events) -> Callable[[str], None]:
    return _send(path, msgspec.json.encode(events))


def _send(path: str, body: bytes) -> Callable[[str], None]:
    def send(address: str) -> None:
        request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=600).read()

    return send


def _sending(make: Callable[[int], Events]) -> Ask:
    """Send events that are made for each repeat; made once, so that only sending is timed."""
    ready = [_post("/v1/events", make(number)) for number in range(_REPEATS)]
    return lambda address, number: ready[number](address)


class Pages:
    """A reader that asks for one row at a time, from where it was before others left."""

    def __init__(self) -> None:
        self._place = ""

    def first(self, address: str, number: int) -> None:
        """Ask before they leave, and keep the cursor of now."""
        del number
        self._place = self._ask(f"{address}/v1/changes?limit=1")["latest"]

    def next(self, address: str, number: int) -> None:
        """Ask after they left."""
        del number
        self._ask(f"{address}/v1/changes?limit=1&since={self._place}")

    def _ask(self, url: str) -> Any:
        return msgspec.json.decode(urllib.request.urlopen(url, timeout=600).read())


def _named(clients: int, names: str) -> Ask:
    """Send one event after the other, each as a client of its own or all as one."""

    def ask(address: str, number: int) -> None:
        for i in range(clients):
            many = names == "many"
            client = f"c{number}-{i}" if many else f"one-{number}"
            query = f"/v1/events?client={client}&sequence={0 if many else i}"
            _post(query, [{"src": i, "dst": i + 1}])(address)

    return ask


def _repeated(event: bytes, size: int) -> Ask:
    """Send one bad event many times."""
    send = _send("/v1/events", b"[%b]" % b",".join([event] * size))
    return lambda address, number: send(address)


def cases(size: int) -> Iterator[Case]:
    """Yield every hostile request; those of numbers first, then those of names."""

    def crafted(number: int) -> list[int]:
        return ids_of_one_place(2 * size * _REPEATS)[2 * size * number : 2 * size * (number + 1)]

    def plain(number: int) -> list[int]:
        return _ordinary_ids(2 * size, number)

    def removed(ids: Callable[[int], list[int]]) -> Ask:
        return _sending(lambda number: _events(ids(number), op=-1))

    added = _sending(lambda n: _events(crafted(n))), _sending(lambda n: _events(plain(n)))

    def usual(first: int) -> Ask:  # edges that are there already would cost less
        return _sending(lambda number: _events(plain(first + number), weight=1.5))

    yield Case("ids made to collide, added", *added)
    yield Case("ids made to collide, removed", removed(crafted), removed(plain), added)
    off = _sending(lambda n: _events(plain(20 + n), weight=_TOO_MUCH))
    yield Case("weights off the grid", off, usual(10))
    hub = _sending(lambda n: [{"src": -1 - n, "dst": i, "weight": _HEAVY} for i in range(size)])
    yield Case("a node too heavy", hub, usual(30))
    for at, (name, event) in enumerate(_BAD_ROWS.items()):
        yield Case(f"bad rows: {name}", _repeated(event, size), usual(40 + 10 * at))
    yield Case("many clients", _named(size // 20, "many"), _named(size // 20, "one"))
    names = names_of_one_key(2 * size * _REPEATS)
    ready = [_events(names[2 * size * n : 2 * size * (n + 1)]) for n in range(_REPEATS)]
    length = len(names[0])
    text = _sending(lambda n: ready[n]), _sending(lambda n: _events(_ordinary_names(2 * size, n, length)))
    yield Case("names made to collide, added", *text, strings=True)
    gone = (
        _sending(lambda n: [event | {"op": -1} for event in ready[n]]),
        _sending(lambda n: _events(_ordinary_names(2 * size, n, length), op=-1)),
    )
    yield Case("names made to collide, removed", *gone, text, strings=True)
    pages = Pages()
    yield Case("a page after many left", pages.next, pages.first, (text[1],), (gone[1],), strings=True)


@contextmanager
def _watching(address: str) -> Iterator[list[float]]:
    """Ask for /livez all the time, and note how long each answer takes."""
    waits: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            begun = time.perf_counter()
            urllib.request.urlopen(address + "/livez", timeout=600).read()
            waits.append(time.perf_counter() - begun)
            ended.wait(0.005)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield waits
    finally:
        ended.set()
        thread.join()


def _timed(ask: Ask, address: str, number: int) -> float:
    begun = time.perf_counter()
    ask(address, number)
    return time.perf_counter() - begun


def time_case(case: Case, address: str) -> Timed:
    """Send both requests in turns, and watch /livez meanwhile."""
    found = Timed()
    for number in range(_REPEATS):
        for ask in case.before:
            ask(address, number)
        found.ordinary.append(_timed(case.ordinary, address, number))
        for ask in case.between:
            ask(address, number)
        with _watching(address) as waits:
            found.hostile.append(_timed(case.hostile, address, number))
        found.health.append(max(waits, default=0.0))
    return found


def time_costs(size: int) -> dict[str, Timed]:
    """Return what every case takes, in a service of its own process."""
    found: dict[str, Timed] = {}
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        for strings in (False, True):
            name = "strings" if strings else "numbers"
            begin = [("ann", "bob"), ("bob", "cat")] if strings else [(1, 2), (2, 3)]
            dygcn.fit(begin, dim=8).save(Path(workdir) / name)
            with served_process(Path(workdir) / name) as one:
                warm = _ordinary_names(4000, 99, 12) if strings else _ordinary_ids(4000, 99)
                for op in (1, -1, 1):
                    _post("/v1/events", _events(warm, op=op, weight=2.5))(one.address)
                for case in cases(size):
                    if case.strings == strings:
                        found[case.name] = time_case(case, one.address)
    return found


# ---- the check ---------------------------------------------------------------------------------------


def _unsifted(self: DurableEmbedding, parts: list[SourceBatch]) -> list[SourceBatch]:
    """The seeded bug: what cannot be applied is only found when it is applied."""
    del self
    return list(parts)


def look(size: int, seed: int) -> Found:
    """Count, and at full size time, then see whether the seeded bug would be noticed."""
    del seed
    figures, wrong = count_costs(size)
    if size >= CHECK.full:
        timed = time_costs(size)
        waits = {name: median(one.health) for name, one in timed.items()}
        floods = time_floods()
        figures |= {
            "times as long as an ordinary request": {n: round(t.ratio, 2) for n, t in timed.items()},
            "longest /livez, ms, median of three": {n: round(1e3 * wait, 1) for n, wait in waits.items()},
            "times as long as in quiet, with sixty such bodies in flight": floods,
        }
        wrong += [f"{n}: {t.ratio:.1f} times as long" for n, t in timed.items() if t.ratio > TIMES]
        wrong += [
            f"{n}: {p} takes {r} times as long" for n, f in floods.items() for p, r in f.items() if r > TIMES
        ]
        wrong += [f"{n}: /livez took {1e3 * wait:.0f} ms" for n, wait in waits.items() if wait > PATIENCE]
    with seeded(DurableEmbedding, "_sift", _unsifted):
        _, noticed = count_costs(min(size, 500))
    return Found(size, len(wrong), bool(noticed), figures, wrong)


CHECK = Check(
    "hostile_cost",
    2_000,
    10_000,
    "hostile input costs what ordinary input costs",
    "requests that were made to be slow, each beside an ordinary one of the same size",
    "what cannot be applied is only found when it is applied",
    look,
)
