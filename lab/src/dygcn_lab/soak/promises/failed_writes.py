"""A failed write is never hidden: every operation on the disk fails once, in a run that is always the same.

After it nothing more may be acknowledged, every write is refused with a named error within a second, reads go
on; and what was acknowledged before is there when the folder is opened again, even after a loss of power.
Only a snapshot may fail and be tried again, since the log has what it holds.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dygcn.live.durable.storage.layout import SNAPSHOTS
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.disk import Disk
from dygcn_lab.soak.promises.disk_trace import FULL, ONCE, SHORT, compile_trace, read_trace
from dygcn_lab.soak.promises.images import Examiner, ImageTally, WriterReport, memory_folder
from dygcn_lab.soak.promises.life import Event, Order
from dygcn_lab.soak.promises.script import History, Script
from dygcn_lab.soak.promises.writer import Writer, begin_folder, writer

KINDS = (ONCE, FULL, SHORT)
BEGINNINGS = ("new", "used")  # a folder that was never opened; one whose last writer died
MUTANTS = ("swallow errors", "journal left to SQLite")
HARMLESS = {
    "fdatasync ": "SQLite syncs the names of its folder and does not tell; the log syncs them, too, and does",
    "mkdir snapshots": "it is there already",
}
_MUTANT_CASES = 120  # a bug must show within so many
_SECOND = 1.0
_USED, _STEPS = 10, 26  # steps before, and until the end
_IMAGES = 3  # of each case
_NEVER = 1_000_000
_SNAPSHOT = "any operation of a snapshot, which is tried again"


@dataclass(frozen=True, slots=True)
class Case:
    """Which operation fails, how, and in what folder."""

    beginning: str
    kind: str
    nth: int

    def __str__(self) -> str:
        return f"operation {self.nth} of a {self.beginning} folder, {self.kind}"


@dataclass(slots=True)
class WriteTally(Tally):
    """What became of the cases; `wrong` counts other wrong states or errors."""

    cases: int = 0
    named: int = 0  # writes were refused from then on, by a named error
    not_opened: int = 0  # the folder was not opened, by a named error
    short: int = 0  # short writes that were completed
    survived: Counter[str] = field(default_factory=Counter)  # failures without any consequence, by operation
    hidden: int = 0  # failures after which more was acknowledged
    lost: int = 0
    accepted: int = 0  # writes behind a failure
    late: int = 0
    slowest: float = 0.0
    images: ImageTally = field(default_factory=ImageTally)

    @property
    def bad(self) -> int:
        """All that is wrong."""
        return self.lost + self.hidden + self.accepted + self.late + self.wrong + self.images.bad


class Trial:
    """One scripted run, over and over, with another operation failing each time."""

    def __init__(self, process: Writer, workdir: Path, seed: int, bug: str = "") -> None:
        self._process, self._workdir, self._bug, self._seed = process, workdir, bug, seed
        self._script = Script(seed, others=11)
        self._history = History(self._script)
        self._folder, self._trace = workdir / "folder", workdir / "trace"
        self._done = {"new": -1, "used": self._whole(_USED) - 1}
        self.tally = WriteTally()
        self._examiner = Examiner(self._history, workdir, self.tally.images)
        begin_folder(self._script, workdir / "new")
        self._restore("new")
        process.live(self._order(-1, _USED, close=False, every=20))
        shutil.rmtree(workdir / "used", ignore_errors=True)
        shutil.copytree(self._folder, workdir / "used")

    def _whole(self, until: int) -> int:
        while not self._script.begins(until):
            until += 1
        return until

    def _order(self, done: int, until: int = _STEPS, close: bool = True, every: int = 25) -> Order:
        script = self._script
        return Order(
            str(self._folder),
            script.seed,
            others=script.others,
            done=done,
            until=self._whole(until),
            every=every,
            close=close,
            journal=25_000,
        )

    def _restore(self, beginning: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._workdir / beginning, self._folder)
        self._trace.unlink(missing_ok=True)

    def all_cases(self) -> list[Case]:
        """Return every operation of every run, in each way to fail."""
        found = []
        for beginning in BEGINNINGS:
            self._restore(beginning)
            order = self._order(self._done[beginning])
            order.fault, order.nth = ONCE, _NEVER
            count = next(one.operations for one in self._process.live(order) if one.what == "closed")
            found += [Case(beginning, kind, nth + 1) for nth in range(count) for kind in KINDS]
        return found

    def run(self, case: Case) -> None:
        """Let one operation fail, and look at what follows."""
        self._restore(case.beginning)
        disk, done = Disk(self._folder), self._done[case.beginning]
        order = self._order(done)
        order.fault, order.nth, order.bug, order.trace = case.kind, case.nth, self._bug, str(self._trace)
        order.leave = case.nth % 2 == 1
        report, said = WriterReport(done, done), self._process.live(order)
        for one in said:
            report.take(one)
        if self._judge(case, said):
            self.tally.cases += 1
            self._open_again(case, report)
            self._lose_power(case, disk)

    def _judge(self, case: Case, said: list[Event]) -> bool:
        """Look at what the writer said; return whether the operation was there to fail."""
        tally = self.tally
        report = next((one for one in said if one.what in ("failed", "refused", "closed")), None)
        if report is None or said[-1].status:
            self._wrong(case, f"it ended with status {said[-1].status}: {self._process.errors()}")
            return True
        if not report.on:
            return False
        if report.what == "closed" and case.kind == SHORT:
            tally.short += 1
        elif report.what == "closed":
            tally.survived[_SNAPSHOT if _of_a_snapshot(report.on) else report.on] += 1
            self._look_for_hidden(case)
        elif report.what == "refused":
            tally.not_opened += 1
        else:
            self._judge_failure(case, report)
        return True

    def _judge_failure(self, case: Case, report: Event) -> None:
        tally = self.tally
        tally.slowest = max(tally.slowest, report.seconds)
        if report.error != "WriteFailed" or "a write to" not in report.text:
            self._wrong(case, f"{report.error}: {report.text}")
        elif report.accepted or report.refused != 2:
            tally.accepted += 1
            tally.note(f"{self._where(case)}: {report.accepted} writes were accepted after {report.on}")
        elif report.seconds > _SECOND:
            tally.late += 1
            tally.note(f"{self._where(case)}: writes went on for {report.seconds:.1f} s after {report.on}")
        elif not report.answered:
            self._wrong(case, f"reads were not answered after {report.on}")
        else:
            tally.named += 1

    def _look_for_hidden(self, case: Case) -> None:
        """See that nothing was acknowledged behind a failure that nobody was told of; some are harmless."""
        failed, behind = "", WriterReport()
        for call in read_trace(self._trace):
            if failed:
                behind.hear(call)
            elif call.kind == "fault":
                failed = call.path
        if behind.acknowledged >= 0 and failed not in HARMLESS and not _of_a_snapshot(failed):
            self.tally.hidden += 1
            self.tally.note(f"{self._where(case)}: {failed} failed, and more was acknowledged")

    def _open_again(self, case: Case, report: WriterReport) -> None:
        """Open the folder without faults: whatever was acknowledged is there, and the state is right."""
        order = self._order(report.acknowledged, _STEPS + 3)
        order.trace = str(self._trace)
        said = self._process.live(order)
        found = next((one for one in said if one.what == "recovered"), None)
        if found is None:
            self._wrong(case, f"it does not open again: {said[0].error}: {said[0].text}")
            return
        place = self._history.place(found.digest, found.step, report.acknowledged, report.begun)
        if place is None and found.step < self._script.last_message(report.acknowledged):
            self.tally.lost += 1
            self.tally.note(f"{self._where(case)}: {report.acknowledged} acknowledged, {found.step} is there")
        elif place is None:
            self._wrong(case, f"the state at position {found.step} is that of no step")

    def _lose_power(self, case: Case, disk: Disk) -> None:
        """LoggedBatch images from what both writers did: a sync that failed may show only then."""
        random, done = Random(f"{self._seed} {case}"), self._done[case.beginning]
        report, calls = WriterReport(done, done), list(read_trace(self._trace))
        moments = Counter(random.choices(range(len(calls)), k=_IMAGES))
        for i, call in enumerate(calls):
            disk.apply(call)
            report.hear(call)
            for _ in range(moments[i]):
                where = f"{self._where(case)}, moment {i}"
                self._examiner.examine(where, report, disk.after_loss(random))

    def _wrong(self, case: Case, text: str) -> None:
        self.tally.check(False, f"{self._where(case)}: {text}".replace(str(self._workdir), ""))

    def _where(self, case: Case) -> str:
        return f"seed {self._seed}, {case}"


def _of_a_snapshot(operation: str) -> bool:
    return operation.partition(" ")[2].startswith(f"{SNAPSHOTS}/") or operation == f"fsync {SNAPSHOTS}"


def spread(cases: list[Case], size: int) -> list[Case]:
    """Return so many cases, evenly over all of them; all, if there are not more."""
    if size >= len(cases):
        return cases
    return [cases[i * len(cases) // size] for i in range(size)]


def look(size: int, seed: int) -> Found:
    """Let up to so many operations fail, each in a run of its own; then see that a seeded bug is noticed."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        workdir = Path(name).resolve()
        with writer(compile_trace(workdir)) as process:
            trial = Trial(process, workdir, seed)
            cases = trial.all_cases()
            for case in spread(cases, size):
                trial.run(case)
            Random(seed).shuffle(cases)
            caught = {bug: _cases_until_noticed(Trial(process, workdir, seed, bug), cases) for bug in MUTANTS}
    tally = trial.tally
    figures = {
        "operations x ways to fail": len(cases),
        "writes refused by a named error": tally.named,
        "folder not opened, by a named error": tally.not_opened,
        "short writes that were completed": tally.short,
        "failures without consequence": dict(sorted(tally.survived.items())),
        "acknowledged and lost": tally.lost,
        "failures that were hidden": tally.hidden,
        "writes accepted after a failure": tally.accepted,
        "refused later than a second": tally.late,
        "slowest refusal, seconds": round(tally.slowest, 3),
        "other wrong states or errors": tally.wrong,
        "images after a loss of power": tally.images.images,
        "images that are wrong": tally.images.bad,
        "cases until a bug showed": caught,
    }
    notes = tally.notes + tally.images.notes
    return Found(tally.cases, tally.bad, None not in caught.values(), figures, notes, tally.cases > 0)


def _cases_until_noticed(mutant: Trial, cases: list[Case]) -> int | None:
    """Return how many operations had to fail until a bug showed; None: it did not."""
    for case in [case for case in cases if case.kind == ONCE][:_MUTANT_CASES]:
        mutant.run(case)
        if mutant.tally.bad:
            return mutant.tally.cases
    return None


CHECK = Check(
    "failed_writes",
    45,
    10_000,
    "a failed write is never hidden",
    "operations on the disk that fail, one in each run",
    "go on when a commit fails; leave the journal to SQLite, which hides that it failed",
    look,
)
