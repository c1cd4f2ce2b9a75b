"""An update happens or does not: exceptions at every line of every call that changes something."""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np

from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.model import Model
from dygcn.engine.propagation import set_threads
from dygcn.errors import DygcnError, TornState, WriteFailed
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage import log as event_log
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.embedding import LiveEmbedding, load, start
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.soak.promises.interrupting import count_lines, in_a_child, interrupt_after, raise_at, starve
from dygcn_lab.testbed.seeding import WIDTH, seeded, small_model

KINDS = (KeyboardInterrupt, MemoryError)
Act: TypeAlias = Callable[[Any], object]
Interrupt: TypeAlias = Callable[[Callable[[], object]], str | None]
_HALF_LIFE, _NODES, _SPARE_STEP = 1.0, 60, 1 << 18
_FOLDERS = r"/(?:[^\s/]+/)+"  # of this machine, which nobody else has
_STOP, _AFTER = ("s", 4), ("s", 9)


@dataclass(slots=True)
class PointTally(Tally):
    """What was interrupted, and what it left."""

    points: int = 0
    refused: int = 0  # states that answer nothing, and are healed as they say

    def take(self, what: str, found: list[str]) -> None:
        """Count one interruption: what it found is empty, or "refused", or what is wrong."""
        self.points += 1
        wrong = [one for one in found if one != "refused"]
        self.refused += len(wrong) < len(found)
        self.check(not wrong, f"{what}: {re.sub(_FOLDERS, '', ''.join(wrong[:1]))}")


@dataclass(frozen=True, slots=True)
class Scene:
    """A call to interrupt, on an embedding that is made for it, and an update that comes after."""

    name: str
    begin: Callable[[], LiveEmbedding]
    act: Act
    more: Act
    partly: Act | None = None  # what may be left of a call that is not all or nothing


def _edges(random: Random, count: int, nodes: int = _NODES) -> dict[str, list[int]]:
    ends = [random.randrange(nodes) for _ in range(2 * count)]
    return {"src": ends[:count], "dst": ends[count:]}


def _dated(events: dict[str, list[int]], t: float, op: int) -> dict[str, list[Any]]:
    count = len(events["src"])
    return {**events, "t": [t] * count, "op": [op] * count}


def _begin(model: Model, *updates: object, tolerance: float = 0.0) -> LiveEmbedding:
    live = start(model)
    for events in updates:
        live.update(events)
    if tolerance:
        live.publish(tolerance=tolerance)
        live.update(_edges(Random(5), 20))
    return live


def _with_features() -> LiveEmbedding:
    model = small_model()
    live = start(Model(model.weights, "int64", "given", np.ones(WIDTH)))
    live.update(_edges(Random(1), 100))
    live.set_features(list(range(20)), np.ones((20, WIDTH), np.float32) / 2)
    return live


def _weighted(weight: float) -> dict[str, list[Any]]:
    return {"src": [1, 3], "dst": [2, 70], "weight": [weight, weight]}


def scenes() -> Iterator[Scene]:
    """Yield every call of a plain embedding that changes something."""
    plain = partial(_begin, small_model(), _edges(Random(1), 200))
    hub = {"src": [0] * 200, "dst": list(range(1, 201))}
    tolerant = partial(_begin, small_model(), hub, _edges(Random(1), 200), tolerance=0.2)
    names = partial(_begin, small_model("string"), {"src": ["ann"], "dst": ["bob"]})
    past = _edges(Random(2), 80, 40)
    remembering = partial(
        _begin, small_model(half_life=_HALF_LIFE), _dated(past, 0.0, 1), _dated(past, 0.5, -1)
    )
    newcomers = [(f"n{i}", "ann") for i in range(70)]
    parts = [_edges(Random(3), 50, 200), _edges(Random(4), 50)]
    ghosts = {"src": [1, 3, 4, 1], "dst": [2, 77, 5, 2], "t": [3.0, 3.0, 3.1, 3.2], "op": [1, 1, -1, -1]}

    def more(live: Any) -> object:
        return live.update({"src": [5, 1], "dst": [71, 2]})

    def more_names(live: Any) -> object:
        return live.update(add=[("cat", "ann")], remove=[("ann", "bob")])

    def later(live: Any) -> object:
        return live.update({"src": [7], "dst": [9], "t": [9.0]})

    yield Scene("one edge", plain, lambda live: live.update(add=[(3, 59)], remove=[(1, 2)]), more)
    yield Scene("newcomers", plain, lambda live: live.update(_edges(Random(3), 90, 400)), more)
    yield Scene("finer weights", plain, lambda live: live.update(_weighted(0.3)), more)
    yield Scene("names", names, lambda live: live.update(add=newcomers), more_names)
    yield Scene("memory", remembering, lambda live: live.update(ghosts), later)
    yield Scene("time passes", remembering, lambda live: live.update([], now=2.7), later)
    yield Scene("bulk", plain, lambda live: live.bulk(parts), more, lambda live: live.bulk(parts[:1]))
    yield Scene("remove_nodes", plain, lambda live: live.update(remove_nodes=[3, 4, 5]), more)
    yield Scene("remove_nodes, memory", remembering, lambda live: live.update(remove_nodes=[3, 4, 5]), later)
    yield Scene("set_features", _with_features, lambda live: live.set_features([2, 300], _rows(2)), more)
    yield Scene("remove owners", _with_features, lambda live: live.update(remove_nodes=[2, 3]), more)
    yield Scene("tolerate", tolerant, lambda live: live.publish(tolerance=0.05), more)
    yield Scene("flush", tolerant, lambda live: live.publish(), more)
    yield Scene("with a tolerance", tolerant, lambda live: live.update(add=[(0, 201), (1, 62)]), more)


def _rows(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.full((count, WIDTH), 0.25, np.float32)


class Expected:
    """Digests of a scene that nothing interrupts: without the call and with it, and after the next update."""

    def __init__(self, scene: Scene) -> None:
        self.base = scene.begin()
        self.then: dict[str, str] = {}
        for act in (None, scene.act, scene.partly):
            live = copy.deepcopy(self.base)
            if act is not None:
                act(live)
            after = copy.deepcopy(live)
            scene.more(after)
            self.then[live.digest()] = after.digest()


def look_at(live: LiveEmbedding, scene: Scene, expected: Expected) -> list[str]:
    """Say what is wrong with an embedding whose call was interrupted; "refused" if it answers nothing."""
    found = []
    try:
        digest = live.digest()
    except TornState:
        found.append("refused")
        found += _answers(live, scene)
        live = live.recompute()
        digest = live.digest()
    if digest not in expected.then:
        return [*found, "neither with the update nor without it"]
    if digest != live.recompute().digest():
        found.append("digest and recompute differ")
    scene.more(live)
    if live.digest() != expected.then[digest] or live.digest() != live.recompute().digest():
        found.append("wrong after the next update")
    return found


def _answers(live: LiveEmbedding, scene: Scene) -> list[str]:
    """Say what a torn embedding answers all the same."""
    uses: dict[str, Act] = {"vectors": lambda one: one.vectors([1]), "len": len, "ids": lambda one: one.ids()}
    found = []
    for name, use in (uses | {"update": scene.more}).items():
        try:
            use(live)
            found.append(f"torn, and answers {name}")
        except TornState:
            pass
    return found


def _look_after(interrupt: Interrupt, scene: Scene, expected: Expected) -> list[str]:
    live = copy.deepcopy(expected.base)
    _ = live.nearest(live.ids().tolist()[0], 3)  # vectors are kept, too
    if interrupt(lambda: scene.act(live)) is None:
        return []
    return look_at(live, scene, expected)


def _points(lines: int, most: int, random: Random) -> list[int]:
    """Return the lines to raise at: all, or so many of them, spread evenly from a random one on."""
    if lines <= most:
        return list(range(1, lines + 1))
    step = lines / most
    first = random.random() * step
    return sorted({1 + int(first + i * step) % lines for i in range(most)})


def interrupt_plain(most: int, seed: int, tally: PointTally, names: tuple[str, ...] = ()) -> None:
    """Raise at the lines of every call of a plain embedding."""
    random = Random(seed)
    for scene in scenes():
        if names and scene.name not in names:
            continue
        expected = Expected(scene)
        lines = count_lines(partial(scene.act, copy.deepcopy(expected.base)))
        for kind in KINDS:
            for at in _points(lines, most, random):
                interrupt = partial(raise_at, at=at, kind=kind)
                said = in_a_child(partial(_look_after, interrupt, scene, expected))
                tally.take(f"{scene.name}, {kind.__name__} at line {at}", said)


def interrupt_by_time(count: int, seed: int, tally: PointTally) -> None:
    """Interrupt updates after a random time, as Ctrl-C does, and let memory run out in them."""
    random = Random(seed)
    chosen = [scene for scene in scenes() if scene.name in ("newcomers", "memory", "bulk")]
    for number in range(count):
        scene = chosen[number % len(chosen)]
        expected = Expected(scene)
        seconds = random.uniform(1e-5, 2e-3)
        said = in_a_child(partial(_look_after, partial(interrupt_after, seconds=seconds), scene, expected))
        tally.take(f"{scene.name}, Ctrl-C after {seconds * 1e6:.0f} us", said)
    hub = Scene(
        "a hub without memory",
        lambda: _begin(small_model(), {"src": [0] * 20_000, "dst": list(range(1, 20_001))}),
        lambda live: live.update(add=[(0, 30_000)]),
        lambda live: live.update(add=[(5, 6)]),
    )
    expected = Expected(hub)
    for number in range(count // 4):
        spare = number * _SPARE_STEP
        said = in_a_child(partial(_look_after, partial(starve, spare=spare), hub, expected))
        tally.take(f"{hub.name}, {spare} bytes to spare", said)


# ---- in a folder -------------------------------------------------------------------------------------


def _long_journal(live: DurableEmbedding) -> object:
    with seeded(event_log, "LONGEST_JOURNAL", 1):  # so that every commit checkpoints
        return live.update(add=[(5, 70), (6, 71)], stream=_STOP[0], offset=_STOP[1])


def _too_heavy(live: DurableEmbedding) -> object:
    try:
        return live.update({"src": [5], "dst": [6], "weight": [1e300]})
    except WriteFailed:
        raise
    except DygcnError:
        return None


DURABLE: dict[str, Act] = {
    "update": lambda live: live.update(add=[(5, 70), (6, 71)], stream=_STOP[0], offset=_STOP[1]),
    "update with a checkpoint": _long_journal,
    "a refused update": _too_heavy,
    "flush": lambda live: live.publish(),
    "tolerate": lambda live: live.publish(tolerance=0.5),
    "snapshot": lambda live: live.snapshot(),
    "remove_nodes": lambda live: live.update(remove_nodes=[5, 6]),
    "bulk": lambda live: live.bulk([[(5, 70)], [(6, 71)]]),
}


def _prepared(folder: Path, what: str) -> DurableEmbedding:
    live = open_folder(folder)
    live.update(add=[(1, 61)])
    if what == "flush":
        live.publish(tolerance=0.3)
        live.update(add=[(0, 262), (3, 63)])
    return live


def look_at_folder(folder: Path, what: str, interrupt: Interrupt) -> list[str]:
    """Interrupt a call of a durable embedding; say what is wrong with it, or with its folder, afterwards."""
    live = _prepared(folder, what)
    if interrupt(lambda: DURABLE[what](live)) is None:
        live._let_go()
        return []
    found, served = [], None
    try:
        live.update(add=[(7, 80)], stream=_AFTER[0], offset=_AFTER[1])
        served = live.digest()
        if served != live.recompute().digest():
            found.append("acknowledged, and wrong")
    except (WriteFailed, TornState):
        found.append("refused")
    live._let_go()
    again = open_folder(folder)
    digest = again.digest()
    if served is not None and digest != served:
        found.append("another state after it was opened again")
    if served is not None and again.streams.get(_AFTER[0]) != _AFTER[1]:
        found.append("acknowledged, and lost")
    if digest != again.recompute().digest():
        found.append("wrong after it was opened again")
    again.update(add=[(8, 90)])
    again.close()
    return found


def _look_in_copy(saved: Path, what: str, interrupt: Interrupt) -> list[str]:
    folder = Path(tempfile.mkdtemp(dir=saved.parent)) / "copy"
    shutil.copytree(saved, folder)
    try:
        return look_at_folder(folder, what, interrupt)
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


def interrupt_durable(most: int, seed: int, tally: PointTally, names: tuple[str, ...] = ()) -> None:
    """Raise at the lines of every call of a durable embedding."""
    random = Random(seed)
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        saved = Path(workdir) / "saved"
        hub = {"src": [0] * 200, "dst": list(range(1, 201))}
        _begin(small_model(), hub, _edges(Random(1), 200)).save(saved)
        for what in names or DURABLE:
            counted = Path(workdir) / f"counted {what}"
            shutil.copytree(saved, counted)
            live = _prepared(counted, what)
            lines = count_lines(partial(DURABLE[what], live))
            live._let_go()
            for kind in KINDS:
                for at in _points(lines, most, random):
                    interrupt = partial(raise_at, at=at, kind=kind)
                    said = in_a_child(partial(_look_in_copy, saved, what, interrupt))
                    tally.take(f"durable {what}, {kind.__name__} at line {at}", said)


# ---- saving ------------------------------------------------------------------------------------------


def _save_over(live: LiveEmbedding, folder: Path, interrupt: Interrupt) -> list[str]:
    before = load(folder).digest()
    if interrupt(lambda: live.save(folder)) is None:
        return []
    found = load(folder).digest()
    wrong = [] if found in (before, live.digest()) else ["another state under the name"]
    live.save(folder)
    return wrong if load(folder).digest() == live.digest() else [*wrong, "it cannot be saved again"]


def interrupt_save(most: int, seed: int, tally: PointTally) -> None:
    """Raise at the lines of `save` over a folder that exists."""
    live, random = _begin(small_model(), _edges(Random(1), 50)), Random(seed)
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        folder = Path(workdir) / "saved"
        live.save(folder)
        live.update(add=[(1, 99)])
        lines = count_lines(partial(live.save, Path(workdir) / "counted")) + 10
        for kind in KINDS:
            for at in _points(lines, most, random):
                interrupt = partial(raise_at, at=at, kind=kind)
                tally.take(f"save, line {at}", in_a_child(partial(_save_over, live, folder, interrupt)))


# ---- the check ---------------------------------------------------------------------------------------


def interrupt_everything(most: int, seed: int) -> PointTally:
    """Raise at up to so many lines of every call, for each kind of exception."""
    tally = PointTally()
    set_threads(1)
    try:
        interrupt_plain(most, seed, tally)
        interrupt_durable(most, seed, tally)
        interrupt_save(most, seed, tally)
        interrupt_by_time(min(4 * most, 400), seed, tally)
    finally:
        set_threads(None)
    return tally


def _no_mark(self: Transaction) -> None:
    """The seeded bug: nobody knows that a change has begun."""


def _go_on(self: EventLog, error: BaseException) -> WriteFailed:
    """The seeded bug: an exception after the log was begun ends nothing."""
    del self
    return WriteFailed(str(error))


def bugs_noticed(most: int, seed: int) -> bool:
    """Say whether the seeded bugs would be noticed."""
    marks, log = PointTally(), PointTally()
    set_threads(1)
    try:
        with seeded(Transaction, "__enter__", _no_mark):
            interrupt_plain(most, seed, marks, ("newcomers",))
        with seeded(EventLog, "fail", _go_on):
            interrupt_durable(most, seed, log, ("update",))
    finally:
        set_threads(None)
    return marks.bad > 0 and log.bad > 0


def look(size: int, seed: int) -> Found:
    """Interrupt everything, then see whether seeded bugs would be noticed."""
    tally = interrupt_everything(size, seed)
    exact = tally.points - tally.refused - tally.bad
    figures = {"exact afterwards": exact, "refused, and healed": tally.refused}
    return Found(tally.points, tally.bad, bugs_noticed(30, seed), figures, tally.notes)


CHECK = Check(
    "interrupted",
    2,
    1_000_000,
    "an update happens or does not",
    "an exception at every line of every call that changes something",
    "no state is marked as torn; an exception after the log was begun ends nothing",
    look,
)
