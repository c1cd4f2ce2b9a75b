"""A durable embedding, a twin that gets the same events in other batches, and a mirror fed by the feed alone.

Restarts, restored copies, memory, weights of any fineness and a tolerance lie between them: embedding and
twin are the same, to the bit, and so is the mirror, once what a tolerance kept back is published.
"""

from __future__ import annotations

import copy
import dataclasses
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dygcn.engine.models.model import Model, order_weights
from dygcn.engine.propagation import set_threads
from dygcn.engine.records import Float32, Int64
from dygcn.errors import ClockWarning
from dygcn.live.durable import feed as feed_module
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.embedding import LiveEmbedding, start
from dygcn.live.view import EmbeddingView
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.seeding import random_rows, seeded

_DIM = 4
_LATE = 0.05  # of the events come late
_EVENTS_A_ROUND = 100_000
_LIMITS = (1, 3, 100, 5_000, 1_000_000)
_ROUNDED = 1e-5  # vectors are sums of float32


@dataclass(slots=True)
class MirrorTally(Tally):
    """What was done, and how often two of the three were compared."""

    events: int = 0
    rounds: int = 0
    restarts: int = 0
    restores: int = 0
    compared: int = 0

    def check(self, right: bool, what: str) -> None:
        """Count a comparison."""
        self.compared += 1
        Tally.check(self, right, what)


class Mirror:
    """Vectors by number of node, as a reader of the feed has them."""

    def __init__(self, nodes: int, strings: bool) -> None:
        self.rows: Float32 = np.zeros((nodes, _DIM), np.float32)
        self.here = np.zeros(nodes, np.bool_)
        self.cursor = ""
        self._strings = strings

    def follow(self, live: DurableEmbedding, limit: int, pages: int) -> bool:
        """Read up to so many pages; say whether that was all."""
        for _ in range(pages):
            page = live.feed.since(self.cursor, limit)
            if page.reset:
                self.here[:] = False
            at = numbers_of(page.rows.ids, self._strings)
            self.rows[at], self.here[at] = page.rows.vectors, True
            self.here[numbers_of(page.rows.left, self._strings)] = False
            self.cursor = page.next
            if not page.more:
                return True
        return False

    def within_bound(self, live: DurableEmbedding) -> bool:
        """Say whether no vector of the mirror is further from the exact one than `error_bound` says."""
        ids = live.ids()
        at = numbers_of(ids, self._strings)
        if len(ids) == 0 or not self.here[at].all():
            return len(ids) == 0
        bound = live.error_bound(ids)
        far = np.linalg.norm(self.rows[at].astype(np.float64) - live.vectors(ids), axis=1)
        return bool((far <= bound + _ROUNDED * (bound > 0) * (1 + bound)).all())

    def equals(self, live: EmbeddingView) -> bool:
        """Say whether the mirror has every vector that is served, and no other."""
        ids = live.ids()
        at = numbers_of(ids, self._strings)
        same = np.array_equal(self.rows[at], live.vectors(ids)) if len(ids) else True
        return same and int(self.here.sum()) == len(ids) and bool(self.here[at].all())


def numbers_of(ids: Any, strings: bool) -> Int64:
    """Return the numbers of nodes that were named by `names_of`."""
    return np.array([int(name[1:]) for name in ids] if strings else ids, np.int64)


class Round:
    """One model, and one stream of events for the three."""

    def __init__(self, folder: Path, seed: int, tally: MirrorTally) -> None:
        self.random = random = np.random.default_rng(seed)
        self.tally, self.seed, self.folder = tally, seed, folder
        self.strings = bool(random.random() < 0.15)
        self.nodes = int(random.choice([30, 1_000, 20_000]))
        self.tolerant = bool(random.random() < 0.3)
        self.half_life = None if random.random() < 0.3 else float(random.choice([0.5, 3.0, 50.0]))
        orders = int(random.choice([2] * 3 if self.tolerant else [1, 2, 3]))
        weights = tuple(random.standard_normal((8, _DIM)).astype(np.float32) for _ in range(orders + 1))
        kind, directed = "string" if self.strings else "int64", bool(random.random() < 0.3)
        self.model = Model(weights, kind, "hashed", np.ones(8), seed, directed, half_life=self.half_life)
        if seed % 2:  # every other round over rows of the model, for two of three nodes
            table = random_rows(kind, random, _DIM, self.nodes)
            scales, weights = np.ones(_DIM), order_weights(orders)
            self.model = dataclasses.replace(
                self.model, weights=weights, scales=scales, features="walks", table=table
            )
        self.live = open_folder(folder / "live", start(self.model), snapshot_every=self._every())
        self.twin = start(self.model)
        self.mirror = Mirror(self.nodes, self.strings)
        self.t = 0.0
        self._waiting: list[dict[str, Any]] = []
        self._backup: tuple[LiveEmbedding, float] | None = None

    def _every(self) -> int:
        return int(self.random.choice([500, 20_000, 10**9]))

    def run(self, events: int) -> None:
        """Apply events, in between restart, restore, read and compare."""
        done = 0
        while done < events:
            count = int(self.random.choice([1, 5, 64, 65, 700, 8_000]))
            batch = self._events(count)
            self.live.update(batch)
            self._waiting.append(batch)
            done += count
            self.tally.events += count
            self._do_something_else()
        self._compare_all()
        self.live.close()

    def _events(self, count: int) -> dict[str, Any]:
        random = self.random
        steps = random.choice([0.0, 0.0, 0.01, 0.3], count)
        times = self.t + np.cumsum(steps)
        self.t = float(times[-1])
        late = random.random(count) < _LATE
        ends = random.integers(0, self.nodes, (2, count))
        hub = random.random(count) < 0.1
        ends[0, hub] = 0
        fine = random.random(count)
        weight = np.select(
            [fine < 0.5, fine < 0.7, fine < 0.8], [1.0, 0.5, 2.0**-16], 10.0 ** random.uniform(-4, 2, count)
        )
        if random.random() < 0.2:  # edges that come and go inside one batch
            ends[:, 1::2] = ends[:, : 2 * (count // 2) : 2]
        op = np.where(random.random(count) < 0.65, 1, -1)
        src, dst = (np.array([f"v{n}" for n in side]) if self.strings else side for side in ends)
        table = {"src": src, "dst": dst, "op": op, "weight": weight}
        return table | ({"t": times - late * 0.2} if self.half_life else {})

    def _do_something_else(self) -> None:
        chance = self.random.random()
        if chance < 0.2:
            self.mirror.follow(self.live, int(self.random.choice(_LIMITS)), int(self.random.choice([1, 7])))
        elif chance < 0.24:
            self._restart()
        elif chance < 0.26:
            self._back_up()
        elif chance < 0.275 and self._backup is not None:
            self._restore()
        elif chance < 0.31 and self.tolerant:
            self.live.publish(tolerance=float(self.random.choice([0.0, 0.01, 0.1])))
        elif chance < 0.33:
            self._compare_all()

    def _restart(self) -> None:
        self.tally.restarts += 1
        (self.live._let_go if self.random.random() < 0.6 else self.live.close)()
        self.live = open_folder(self.folder / "live", snapshot_every=self._every())

    def _back_up(self) -> None:
        self._catch_up()
        self.live._let_go()
        shutil.rmtree(self.folder / "backup", ignore_errors=True)
        shutil.copytree(self.folder / "live", self.folder / "backup")
        self._backup = copy.deepcopy(self.twin), self.t
        self.live = open_folder(self.folder / "live", snapshot_every=self._every())

    def _restore(self) -> None:
        """Put the copy in the cursor of the folder: what came after it never was. Nobody tells the mirror."""
        assert self._backup is not None
        self.tally.restores += 1
        self.live._let_go()
        shutil.rmtree(self.folder / "live")
        shutil.copytree(self.folder / "backup", self.folder / "live")
        twin, self.t = self._backup
        self.twin, self._waiting = copy.deepcopy(twin), []
        self.live = open_folder(self.folder / "live", snapshot_every=self._every())

    def _catch_up(self) -> None:
        """Give the twin what it has not had yet, in batches of its own."""
        if not self._waiting:
            return
        names = self._waiting[0].keys()
        whole = {name: np.concatenate([table[name] for table in self._waiting]) for name in names}
        self._waiting = []
        size = int(self.random.choice([333, 10_000, 10**9]))
        for begin in range(0, len(whole["src"]), size):
            self.twin.update({name: column[begin : begin + size] for name, column in whole.items()})

    def _compare_all(self) -> None:
        where = f"seed {self.seed}, sequence {self.live.sequence}"
        limit = int(self.random.choice(_LIMITS[2:]))
        self._follow_all(limit)
        if self.live._tolerance:
            self.tally.check(self.mirror.within_bound(self.live), f"{where}: an error is beyond error_bound")
            self.live.publish()
            self._follow_all(limit)
        self.tally.check(self.mirror.equals(self.live), f"{where}: the mirror is not what is served")
        self._catch_up()
        digest = self.live.digest()
        self.tally.check(digest == self.twin.digest(), f"{where}: other batches, another digest")
        if self.random.random() < 0.3:
            self.tally.check(digest == self.live.recompute().digest(), f"{where}: recompute differs")

    def _follow_all(self, limit: int) -> None:
        while not self.mirror.follow(self.live, limit, 10_000):
            pass


def walk(events: int, seed: int) -> MirrorTally:
    """Play rounds until so many events were applied."""
    tally = MirrorTally()
    set_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClockWarning)  # the twin gets the events of days at once
            while tally.events < events and tally.bad < 5:
                _round(events - tally.events, seed, tally)
    finally:
        set_threads(None)
    return tally


def _round(events: int, seed: int, tally: MirrorTally) -> None:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        one = Round(Path(workdir), 1_000 * seed + tally.rounds, tally)
        one.run(min(_EVENTS_A_ROUND, events))
    tally.rounds += 1


def _any_chain_will_do(self: Any, cursor: object) -> bool:
    """The seeded bug: nobody compares epochs and chain values."""
    del self, cursor
    return True


def followed(seed: int, copies: bool) -> int:
    """Return how often a mirror is wrong that follows updates and, with copies, one that overtakes it."""
    tally = MirrorTally()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        one = Round(Path(workdir), seed, tally)
        for step in range(18):
            events = one._events(300)
            one.live.update(events)
            one._waiting.append(events)
            if step == 4 and copies:
                one._back_up()
            if step in (6, 7):
                one.mirror.follow(one.live, 10**6, 100)
            if step == 7 and copies:
                one._restore()
        one._compare_all()
        one.live.close()
    return tally.bad


def bugs_noticed(seed: int) -> bool:
    """Say whether each seeded bug would be noticed, and nothing without one."""
    note, seeds = feed_module.Feed.note, range(4 * seed, 4 * seed + 4)

    def forget_some(self: Any, nodes: Any, left: Any, *rest: Any) -> None:
        note(self, nodes[::2], left, *rest)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClockWarning)
        right = sum(followed(one, copies) for one in seeds for copies in (True, False))
        with seeded(feed_module.Histories, "confirm_cursor", _any_chain_will_do):
            blind = sum(followed(one, True) for one in seeds)
        with seeded(feed_module.Feed, "note", forget_some):
            forgetful = sum(followed(one, False) for one in seeds)
    return right == 0 < min(blind, forgetful)


def look(size: int, seed: int) -> Found:
    """Walk, then see whether seeded bugs would be noticed."""
    tally = walk(size, seed)
    figures = {
        "rounds": tally.rounds,
        "restarts": tally.restarts,
        "restored copies": tally.restores,
        "comparisons": tally.compared,
    }
    return Found(tally.events, tally.bad, bugs_noticed(seed), figures, tally.notes)


CHECK = Check(
    "mirror",
    30_000,
    20_000_000,
    "histories have an identity",
    "fuzzed events with memory, any weights, restarts, restored copies and a tolerance",
    "epochs and chain values are not compared; the feed forgets nodes that moved",
    look,
)
