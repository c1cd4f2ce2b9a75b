"""State is a function of the graph, of its clock, too: sums that grow old and edges that expire.

A durable embedding with a filter lives through random events with jumps of the clock, trials, removed nodes
and restarts. Beside it are a dict of edges, whose sums are added up in Python's whole numbers, a rebuilt
embedding, and others that get the same history in other cuts or the edges of now alone.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dygcn.engine.filter import loops
from dygcn.engine.filter.filter import Filter
from dygcn.engine.filter.head import SUMS, WINDOW
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ageing import Expiry
from dygcn.engine.graph.constants import FOUND
from dygcn.engine.graph.staging import NodeEvents, PairBuffers
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.errors import ClockWarning
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.embedding import LiveEmbedding, start
from dygcn.live.view import EmbeddingView
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.aged_twin import AgedEvent, AgedTwin, aged_model, bits_of, differences, edges_of
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.seeding import seeded

BATCHES = (1, 7, 100, 10_000)
_NODES, _MOST_EVENTS = 24, 12
_JUMPS = (0.01, 0.1, 0.1, 0.3, 2.0, 30.0)  # mean time between two events of a step
_WAYS: tuple[dict[str, Any], ...] = (
    {"expire": 9.0},
    {"expire": None, "half_lives": (2.0, 7.0)},
    {"expire": 40.0, "half_lives": (3.0, 0.5), "kinds": False},
    {"expire": 25.0, "half_lives": (0.25, 0.0), "features": "walks"},  # edges below the window that are there
)
_LARGE = 8_000  # items of the graph in which one who asks comes to have too many edges, and loses them again
_STEPS, _SHORT = 250, 20  # of a history, at most; where a seeded bug is looked for
_HUNT = 400  # steps within which a seeded bug must show


@dataclass(slots=True)
class AgedTally(Tally):
    """What was done and compared."""

    histories: int = 0
    steps: int = 0
    events: int = 0
    expired: int = 0
    restarts: int = 0
    trials: int = 0
    compared: int = 0
    dense: int = 0

    def check(self, right: bool, what: str) -> None:
        """Count one comparison."""
        self.compared += 1
        Tally.check(self, right, what)


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a history: events, then the clock comes to a time, or a node is removed."""

    events: list[AgedEvent]
    now: float | None = None
    gone: str = ""


class AgedWalk:
    """One durable embedding and its dict of edges, changed together, step by step."""

    def __init__(self, folder: Path, seed: int, way: dict[str, Any], tally: AgedTally) -> None:
        self.model = aged_model(seed, nodes=_NODES, **way)
        self.twin = AgedTwin(self.model.ids != "int64", self.model.expire or math.inf)
        self.changes: list[Change] = []
        self._random, self._folder, self.tally = np.random.default_rng(seed), folder, tally
        self._live: DurableEmbedding = open_folder(folder, start(self.model), snapshot_every=self._every())
        self._time, self._name = float(self._random.normal() * 50), f"seed {seed}, {way}"
        self._expired = 0

    def _every(self) -> int:
        return int(self._random.choice([20, 100, 10**9]))

    def _events(self) -> list[AgedEvent]:
        """Return events, some of them late; a removal is mostly one of an edge that is there."""
        random, events = self._random, list[AgedEvent]()
        jump = float(random.choice(_JUMPS))
        for _ in range(int(random.integers(0, _MOST_EVENTS))):
            self._time += float(random.exponential(jump)) if random.random() < 0.7 else 0.0
            t = self._time - (float(random.exponential(4 * jump)) if random.random() < 0.2 else 0.0)
            a, b = (int(node) for node in random.integers(0, _NODES, 2))
            add = random.random() < 0.7
            if self.twin.edges and random.random() < (0.3 if add else 0.9):
                a, b = self._known_pair()
            weight = float(random.choice([1.0, 1.0, 2.0, 0.25, 7.5]))
            events.append((a, b, t, 1 if add else -1, weight))
        return events

    def _known_pair(self) -> tuple[int, int]:
        pair = list(self.twin.edges)[int(self._random.integers(len(self.twin.edges)))]
        return _numbers(pair)

    def step(self, number: int) -> None:
        """Change the graph, and compare: edges always, all sums often, with the dense twin now and then."""
        chance = self._random.random()
        if chance < 0.1:
            self._try_out(number)
        elif chance < 0.2:
            self._restart(number)
        self._change()
        self.tally.steps += 1
        live, where = self._live, f"{self._name}: step {number}"
        same = edges_of(live) == self.twin.edges and self._expired == self.twin.expired
        self.tally.check(
            same and (live._state.graph.clock or -math.inf) == self.twin.clock, f"{where}: edges"
        )
        if number % 5 == 0:
            self._compare(live, f"{where}: recomputed")
        if number % 25 == 0:
            self._add_up(live, where)

    def _change(self) -> None:
        """Apply events, or let the clock jump, or remove a node."""
        random, gone, now = self._random, "", None
        events = self._events()
        if random.random() < 0.15:
            now = self._time = self._time + float(random.exponential(float(random.choice([0.5, 5.0, 50.0]))))
        elif random.random() < 0.05 and self.twin.edges:
            gone = next(iter(self.twin.edges))[int(random.integers(2))]
        self._apply(Change(events, now, gone))

    def _apply(self, one: Change) -> None:
        self.changes.append(one)
        self.tally.events += len(one.events)
        self._expired += update(self._live, one.events, one.now)
        self.twin.apply(one.events, one.now)
        if one.gone:
            self._live.update(remove_nodes=[as_id(one.gone)])
            self.twin.remove(one.gone)

    def _try_out(self, number: int) -> None:
        """Enter a trial, ask in it, leave it: nothing must remain of it."""
        before, time_before, twin = bits_of(self._live), self._time, self.twin.copy()
        events, later = self._events(), self._time + float(self._random.choice([0.0, 5.0, 60.0]))
        with self._live.what_if(table(events), now=later) as trial:
            twin.apply(events, later)
            if self._random.random() < 0.5:
                self.tally.check(edges_of(trial) == twin.edges, f"{self._name}: trial before step {number}")
                self._add_up(trial, f"{self._name}: trial before step {number}", twin)
        self._time = time_before
        self.tally.trials += 1
        self.tally.check(bits_of(self._live) == before, f"{self._name}: after a trial, step {number}")

    def _restart(self, number: int) -> None:
        """Open the folder again, with a snapshot or as after a crash: the same bits."""
        before = bits_of(self._live)
        (self._live._let_go if self._random.random() < 0.6 else self._live.close)()
        self._live = open_folder(self._folder, snapshot_every=self._every())
        self.tally.restarts += 1
        self.tally.check(bits_of(self._live) == before, f"{self._name}: restart before step {number}")

    def _compare(self, live: DurableEmbedding, where: str) -> None:
        """Compare all bits with those of an embedding that is built from the graph, and two answers."""
        again = live.recompute()
        self.tally.check(bits_of(live) == bits_of(again), where)
        asking = [one for one in live.ids().tolist() if not (isinstance(one, tuple) and one[0] == "item")][:2]
        same = live.recommend(asking, 3) == again.recommend(asking, 3) if asking else True
        self.tally.check(same, f"{where}: recommendations")

    def _add_up(self, live: EmbeddingView, where: str, twin: AgedTwin | None = None) -> None:
        """Compare the sums of the filter with those that are added up from the dict."""
        self.tally.dense += 1
        wrong = differences(live, self.twin if twin is None else twin)
        self.tally.check(not wrong, f"{where}: the dense twin: {', '.join(wrong)}")

    def end(self) -> None:
        """Go every other way to the same graph, then let everything leave."""
        live, tally = self._live, self.tally
        self._add_up(live, f"{self._name}: at the end")
        self._compare(live, f"{self._name}: at the end")
        bits = bits_of(live)
        for size in BATCHES:
            other, expired = in_batches(self.model, self.changes, size)
            tally.check(bits_of(other) == bits, f"{self._name}: batches of {size}")
            tally.check(expired == self.twin.expired, f"{self._name}: batches of {size}: edges that expired")
        built = self._from_edges()
        tally.check(bits_of(built, False) == bits_of(live, False), f"{self._name}: its edges in any order")
        self._let_all_leave()
        tally.expired += self._expired
        live.close()

    def _from_edges(self) -> LiveEmbedding:
        """Return an embedding that got the edges of now alone, in any order, and the clock."""
        edges = [(*_numbers(pair), t, 1, weight) for pair, (t, weight) in self.twin.edges.items()]
        self._random.shuffle(edges)
        return in_batches(self.model, [Change(edges, self.twin.clock)], 13)[0]

    def _let_all_leave(self) -> None:
        """Let all edges expire or be removed: with the next events all is as if they had been the first."""
        if self.model.expire is not None:
            self._time = self.twin.clock + self.model.expire
            self._apply(Change([], self._time))
        else:
            now = self.twin.clock
            self._apply(Change([(*_numbers(pair), now, -1, 1.0) for pair in list(self.twin.edges)]))
        self.tally.check(len(self._live) == self._live.edge_count == 0, f"{self._name}: all have left")
        self._time = max(self._time, self.twin.clock)
        first = Change([(a, b, self._time + 1.0, 1, 1.0) for a, b in ((1, 2), (2, 3), (3, 2), (1, 3))])
        self._apply(first)
        fresh = in_batches(self.model, [first], 100)[0]
        self.tally.check(bits_of(self._live) == bits_of(fresh), f"{self._name}: begun anew")


def _numbers(pair: tuple[str, str]) -> tuple[int, int]:
    a, b = (int(name.split(":")[-1]) for name in pair)
    return a, b


def as_id(name: str) -> Any:
    """Return a node of the twin as an embedding calls it."""
    kind, _, number = name.rpartition(":")
    return (kind, int(number)) if kind else int(number)


def table(events: Sequence[AgedEvent]) -> dict[str, list[Any]] | None:
    """Return events as columns, None if there are none."""
    names = "src", "dst", "t", "op", "weight"
    return dict(zip(names, map(list, zip(*events, strict=True)), strict=True)) if events else None


def update(live: LiveEmbedding | DurableEmbedding, events: Sequence[AgedEvent], now: float | None) -> int:
    """Apply events and come to a time; return how many edges expired."""
    return live.update(table(events), now=now).expired if events or now is not None else 0


def in_batches(model: Model, changes: Sequence[Change], size: int) -> tuple[LiveEmbedding, int]:
    """Return a new embedding that got a history so many events at a time, and how many edges expired.

    A batch ends where the history itself sets the clock, or removes a node.
    """
    live, expired, waiting = start(model), 0, list[AgedEvent]()
    for number, one in enumerate(changes):
        waiting += one.events
        if one.now is None and not one.gone and number < len(changes) - 1:
            continue
        parts = [waiting[at : at + size] for at in range(0, len(waiting), size)] or [[]]
        for part in parts[:-1]:
            expired += update(live, part, None)
        expired += update(live, parts[-1], one.now)
        if one.gone:
            live.update(remove_nodes=[as_id(one.gone)])
        waiting = []
    return live, expired


# ---- a larger graph --------------------------------------------------------------------------------------


def in_bursts(events: int, seed: int) -> dict[str, Any]:
    """Return events of a shop, nearly all of them for a while of the same user: many items, then none."""
    random = np.random.default_rng((seed, 1 << 42))
    users = np.minimum(random.zipf(1.4, events), 2_000)
    items = np.minimum(random.zipf(1.2, events), _LARGE)
    burst = (np.arange(events) // max(events // 6, 1) % 2 == 0) & (random.random(events) < 0.95)
    users[burst], items[burst] = 0, random.integers(0, _LARGE, int(burst.sum()))
    t = np.cumsum(random.exponential(60.0 / events, events)) - random.exponential(0.1, events)
    op = np.where(random.random(events) < 0.9, 1, -1)
    return {"src": users, "dst": items, "t": t, "op": op}


def at_large(events: int, seed: int, tally: AgedTally) -> int:
    """Apply events of a shop in two cuts, and compare with a rebuild; return the most edges of a user.

    Sixty units of time pass, a half-life is two, and an edge stays for nine.
    """
    whole, found, most = in_bursts(events, seed), set(), 0
    model = aged_model(seed, nodes=_LARGE)
    for size in BATCHES[2:]:
        live, where = start(model), f"seed {seed}: {events} events in batches of {size}"
        for number, at in enumerate(range(0, events, size)):
            live.update({name: column[at : at + size] for name, column in whole.items()})
            most = max(most, len(live.neighbors(("user", 0))) if ("user", 0) in live else 0)
            if number % max(events // size // 4, 1) == 0:
                tally.check(bits_of(live) == bits_of(live.recompute()), f"{where}: recomputed")
        found.add(bits_of(live))
    tally.check(len(found) == 1, f"seed {seed}: batches {BATCHES[2:]}")
    return most


def walk(size: int, seed: int, steps: int = _STEPS, *, stop_at_bad: bool = False) -> AgedTally:
    """Walk so many steps in all: one history after the other, with every kind of ages in turn."""
    tally = AgedTally()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir, warnings.catch_warnings():
        warnings.simplefilter("ignore", ClockWarning)  # jumps are what this is about
        steps = min(steps, -(-size // (2 * len(_WAYS))))  # a short walk, too, has histories of each kind
        while tally.steps < size and not (stop_at_bad and tally.bad):
            number = tally.histories
            way = _WAYS[number % len(_WAYS)]
            one = AgedWalk(Path(workdir) / str(number), 1_000 * seed + number, way, tally)
            for step in range(1, min(steps, size - tally.steps) + 1):
                one.step(step)
            one.end()
            tally.histories += 1
    return tally


# ---- bugs ------------------------------------------------------------------------------------------------


def shift_what_leaves(of: Any, pull: Any, nodes: int, *more: Any) -> None:
    """Shift the sums when an octave begins, and do not subtract first what leaves the window: it rounds."""
    del nodes
    _shift(of, pull, 0, *more)


def leave_twice(self: Filter, graph: Graph) -> None:
    """Subtract the edges that leave the window, and then once more."""
    before = self._base.copy()
    _advance(self, graph)
    by = int(self._base[SUMS] - before[SUMS])
    if 0 < by < WINDOW:
        self._total <<= by
        self._base[SUMS] = before[SUMS]
        _advance(self, graph)


def shift_in_a_snapshot(self: State) -> Any:
    """Bring the sums to another octave when a snapshot is taken."""
    if self.filter is not None:
        self.filter._total >>= 1
    return _loose_image(self)


def expire_at_once(self: Expiry, graph: Graph, events: NodeEvents, *more: Any) -> Any:
    """Let edges leave by the clock at the end of a batch, also those that the batch meets in time."""
    assert graph.contacts is not None
    seen = np.full(len(events.op), events.contact_clock)
    return _play(self, graph, events, more[0] if more else None, seen)


def queue_some(self: Expiry, buffers: PairBuffers) -> None:
    """Forget now and then that an edge which came is to leave."""
    if int(buffers.sizes[FOUND]) % 5 != 1:
        _note(self, buffers)


_shift, _advance, _loose_image = loops.advance, Filter._advance, State.loose_image
_play, _note = Expiry.play, Expiry.note
BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a shift that rounds": (loops, "advance", shift_what_leaves),
    "an edge that leaves the window twice": (Filter, "_advance", leave_twice),
    "a snapshot that shifts": (State, "loose_image", shift_in_a_snapshot),
    "edges that expire before an event that keeps them": (Expiry, "play", expire_at_once),
    "edges that nobody lets expire": (Expiry, "note", queue_some),
}


def hunt(bug: str, seed: int) -> int | None:
    """Walk with a seeded bug; return the steps until it showed, None if it did not."""
    owner, name, wrong = BUGS[bug]
    with seeded(owner, name, wrong):
        tally = walk(_HUNT, seed, _SHORT, stop_at_bad=True)
    return tally.steps if tally.bad else None


def look(size: int, seed: int) -> Found:
    """Walk, then see whether each seeded bug would be noticed."""
    tally = walk(size, seed)
    most = at_large(min(10 * size, 60_000), seed, tally)
    caught = {bug: hunt(bug, seed) for bug in BUGS}
    figures = {
        "histories": tally.histories,
        "events": tally.events,
        "edges that expired": tally.expired,
        "restarts": tally.restarts,
        "trials": tally.trials,
        "compared": tally.compared,
        "added up from a dict": tally.dense,
        "most edges of one who asks": most,
        "batches": BATCHES,
        "steps until a bug showed": caught,
    }
    return Found(tally.steps, tally.bad, None not in caught.values(), figures, tally.notes)


CHECK = Check(
    "aged",
    400,
    15_000,
    "state is a function of the graph",
    "sums of a filter that grow old, edges that expire: jumps of the clock, trials, restarts, other cuts",
    "; ".join(BUGS),
    look,
)
