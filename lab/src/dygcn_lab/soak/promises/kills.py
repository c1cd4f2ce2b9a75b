"""Acknowledged is durable: kill -9 at random moments and at named points, again and again, in one folder."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises import points
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.soak.promises.life import Event, Order
from dygcn_lab.soak.promises.script import History, Script
from dygcn_lab.soak.promises.writer import Writer, begin_folder, writer

RULES = ("exact", "rolling", "aged")
# Bug -> the rule it is seeded under, and what it must lead to.
MUTANTS = {
    "commit later": ("exact", "lost"),
    "forget positions": ("exact", "doubled"),
    "forget the clock": ("aged", "wrong"),
}
_MUTANT_KILLS = 60  # a bug must show within so many
_MOST = {"before the commit": 8, "committed, not applied": 8, points.ACKNOWLEDGED: 8}
_MOST |= {"files of a snapshot are synced": 4, "a file of a snapshot is written": 2}


@dataclass(slots=True)
class KillTally(Tally):
    """What a folder went through; `wrong` counts states that are those of no step, and errors."""

    kills: int = 0
    lives: int = 0
    in_recovery: int = 0
    lost: int = 0
    doubled: int = 0
    steps: int = 0
    at: Counter[str] = field(default_factory=Counter)

    @property
    def bad(self) -> int:
        """All that is wrong."""
        return self.lost + self.doubled + self.wrong


class Campaign:
    """One folder, and the lives of those who write to it."""

    def __init__(self, process: Writer, folder: Path, script: Script, seed: int, bug: str = "") -> None:
        self._process, self._folder, self._bug = process, folder, bug
        self._script, self._history = script, History(script)
        self._random, self._seed = Random(seed), seed
        self._points = list(points.POINTS)
        self._random.shuffle(self._points)
        self._acknowledged = self._begun = self._done = -1
        self.tally = KillTally()
        begin_folder(script, folder)

    def kill(self, kills: int, until: str = "") -> None:
        """Live and die until there were so many kills; or until this was found: lost, doubled or wrong."""
        for _ in range(4 * kills + 20):
            if self.tally.kills >= kills or (until and getattr(self.tally, until)):
                return
            self._live(self._next_order())
        self.tally.check(False, f"seed {self._seed}: {self.tally.kills} kills in {self.tally.lives} lives")

    def finish(self) -> None:
        """Live once more, to the end, and compare with a run that nothing interrupted."""
        order = self._order(self._begun + 20)
        self._live(order)
        right = self._done == order.until - 1 or self.tally.bad > 0
        said = f"seed {self._seed}: it ended at step {self._done}, not at {order.until - 1}"
        self.tally.check(right, said)
        self.tally.steps = self._done + 1

    def _order(self, until: int) -> Order:
        script = self._script
        while not script.begins(until):
            until += 1
        return Order(str(self._folder), script.seed, script.rule, done=self._done, until=until, bug=self._bug)

    def _next_order(self) -> Order:
        random = self._random
        order = self._order(max(self._done, 0) + random.randint(5, 40))
        order.every, order.again = random.choice((15, 40, 90)), random.choice((0, 3, 6))
        if random.random() < 0.5:
            order.point = self._points.pop(0)
            self._points.append(order.point)  # each in its turn
            order.count = random.randint(1, _MOST.get(order.point, 1))
        else:
            order.seconds = random.uniform(0, random.choice((0.02, 0.06, 0.15)))
        return order

    def _live(self, order: Order) -> None:
        said, tally = self._process.live(order), self.tally
        tally.lives += 1
        heard = {one.what for one in said}
        killed = os.WIFSIGNALED(said[-1].status)
        if killed:
            tally.kills += 1
            tally.in_recovery += "recovered" not in heard
            tally.at[order.point or "any moment"] += 1
        elif said[-1].status or not heard & {"closed", "failed", "refused"}:
            self._wrong(f"it ended with status {said[-1].status}: {self._process.errors()}")
        self._judge(said)

    def _judge(self, said: Iterable[Event]) -> None:
        for one in said:
            if one.what == "begun":
                self._begun = max(self._begun, one.step)
            elif one.what == "acknowledged":
                self._done = self._acknowledged = max(self._acknowledged, one.step)
            elif one.what == "refused" and self._acknowledged >= 0:
                self.tally.lost += 1  # all of it, until somebody mends the folder
                self.tally.note(f"{self._where()}: it does not open: {one.error}: {self._short(one.text)}")
            elif one.what in ("failed", "refused"):
                self._wrong(f"{one.error}: {self._short(one.text)}")
            elif one.what in ("recovered", "closed"):
                self._compare(one)

    def _compare(self, one: Event) -> None:
        """Find the step after which a state is the right one, not before what was acknowledged."""
        if one.doubles:
            self.tally.doubled += one.doubles
            self.tally.note(f"{self._where()}: {one.doubles} messages stand in the log twice")
        place = self._history.place(one.digest, one.step, self._acknowledged, self._begun)
        if place is not None:
            self._done = place
        elif one.step < self._script.last_message(self._acknowledged):
            self.tally.lost += self._acknowledged - one.step
            self.tally.note(f"{self._where()}: {self._acknowledged} was acknowledged, {one.step} is there")
            self._acknowledged = self._begun = self._done = one.step
        else:
            self._wrong(f"the state at position {one.step} is that of no step")

    def _wrong(self, text: str) -> None:
        self.tally.check(False, f"{self._where()}: {text}")

    def _short(self, text: str) -> str:
        return text.replace(str(self._folder), "folder")

    def _where(self) -> str:
        return f"seed {self._seed}, {self._script.rule}, life {self.tally.lives}"


def look(size: int, seed: int) -> Found:
    """Kill a writer so many times, as often with each rule; then see that seeded bugs are noticed."""
    with writer() as process, tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        tallies = []
        for i, rule in enumerate(RULES):
            kills = size // len(RULES) + (i < size % len(RULES))
            campaign = Campaign(process, Path(workdir) / rule, Script(seed, rule), seed + i)
            campaign.kill(kills)
            campaign.finish()
            tallies.append(campaign.tally)
        caught = {}
        for bug, (rule, wanted) in MUTANTS.items():
            campaign = Campaign(process, Path(workdir) / "mutant", Script(seed, rule), seed, bug)
            campaign.kill(_MUTANT_KILLS, wanted)
            caught[bug] = campaign.tally.kills if getattr(campaign.tally, wanted) else None
    at, kills = sum((one.at for one in tallies), Counter[str]()), sum(one.kills for one in tallies)
    figures = {
        "lives": sum(one.lives for one in tallies),
        "kills during recovery": sum(one.in_recovery for one in tallies),
        "acknowledged and lost": sum(one.lost for one in tallies),
        "applied twice": sum(one.doubled for one in tallies),
        "other wrong states or errors": sum(one.wrong for one in tallies),
        "steps written": sum(one.steps for one in tallies),
        "kills by place": dict(sorted(at.items())),
        "kills until a bug showed": caught,
    }
    bad, notes = sum(one.bad for one in tallies), [note for one in tallies for note in one.notes]
    return Found(kills, bad, None not in caught.values(), figures, notes, kills >= size)


CHECK = Check(
    "kills",
    39,
    1500,
    "acknowledged is durable",
    "kill -9 at any moment and at named points, also while edges expire",
    "acknowledge before the commit; forget positions, or the clock, in recovery",
    look,
)
