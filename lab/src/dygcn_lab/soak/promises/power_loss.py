"""Acknowledged is durable: what a disk may hold after a loss of power, from a record of all that was written.

A killed process proves little, since the system still writes what stands in its cache. Here writers live and
die one after the other, while a library records every call that changes the disk. From any moment of the
record follows what is on disk for certain and what may be; images are drawn from that, opened, and compared.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dygcn_lab.soak.check import Check, Found
from dygcn_lab.soak.promises.disk import Disk, TraceError, files_of
from dygcn_lab.soak.promises.disk_trace import DIE, DIE_BEFORE_SYNC, ONCE, Call, compile_trace, read_trace
from dygcn_lab.soak.promises.images import Examiner, ImageTally, WriterReport, memory_folder
from dygcn_lab.soak.promises.life import Order
from dygcn_lab.soak.promises.script import History, Script
from dygcn_lab.soak.promises.writer import Writer, begin_folder, writer

_IMAGES = 400  # of one record, at most
_MUTANT_IMAGES = 900  # a bug must show within so many
_LIVES = 10
_FAULTS = (DIE, DIE_BEFORE_SYNC, DIE_BEFORE_SYNC, ONCE, "")
# Bug -> how lives end while it is there.
MUTANTS: dict[str, tuple[str, ...]] = {
    "synchronous off": _FAULTS,
    "snapshots not synced": _FAULTS,
    "recovered, not settled": (DIE_BEFORE_SYNC,),
}
_SOON = 8  # remarks
_CHANGES = ("write", "truncate", "sync", "rename", "unlink", "rmdir", "mkdir")


@dataclass(slots=True)
class RecordTally(ImageTally):
    """What was found in images, and what they were cut from."""

    records: int = 0
    calls: int = 0
    unrecorded: int = 0  # records that do not lead to the files that are there
    ends: Counter[str] = field(default_factory=Counter)

    @property
    def bad(self) -> int:
        """All that is wrong."""
        return self.refused + self.lost + self.wrong + self.unrecorded


class Recording:
    """Lives in one folder, one after the other, and what they did to the disk."""

    def __init__(self, process: Writer, workdir: Path, script: Script, seed: int, bug: str = "") -> None:
        self._process, self._bug = process, bug
        self._faults = MUTANTS.get(bug, _FAULTS)
        self._folder, self._trace = workdir / "folder", workdir / "trace"
        self.script, self._random = script, Random(seed)
        self.ends: Counter[str] = Counter()
        begin_folder(script, self._folder)
        self._trace.unlink(missing_ok=True)
        self.disk = Disk(self._folder)
        done = -1
        for i in range(_LIVES):
            done = self._live(done, last=i == _LIVES - 1)
        self.calls: list[Call] = list(read_trace(self._trace))

    def _live(self, done: int, last: bool) -> int:
        random, script = self._random, self.script
        until = done + random.randint(6, 20)
        while not script.begins(until):
            until += 1
        order = Order(str(self._folder), script.seed, script.rule, script.others, done, until)
        order.every, order.journal = random.choice((15, 40, 90)), random.choice((1, 30_000, 1 << 22))
        order.trace, order.bug = str(self._trace), self._bug
        order.close, order.leave = last or random.random() < 0.3, random.random() < 0.5
        if not last:
            order.fault, order.nth = random.choice(self._faults), random.randint(1, 90)
            if order.fault == DIE_BEFORE_SYNC:
                order.nth += 25  # behind the opening
        said = self._process.live(order)
        self.ends["closed" if said[-1].status == 0 else "killed"] += 1
        self.ends["an operation failed"] += any(one.what in ("failed", "refused") for one in said)
        return max((one.step for one in said if one.what in ("acknowledged", "recovered")), default=done)

    def is_whole(self) -> bool:
        """Say whether the record, from beginning to end, leads to the files that are there."""
        return self.disk.now() == files_of(self._folder)


def images(
    recording: Recording, count: int, random: Random
) -> Iterator[tuple[int, WriterReport, dict[str, bytes]]]:
    """Yield moment, what was said until then, and files, at random moments in their order.

    Most depends on what is on disk when something was just said, above all soon after a recovery: what the
    process before had not synced then counts as done. Each of these gets a third.
    """
    calls, report = recording.calls, WriterReport()
    said = [i for i, call in enumerate(calls) if call.kind == "note"]
    recovered = [at for at, i in enumerate(said) if b'"recovered"' in calls[i].data]
    soon = [i for at in recovered for i in said[at : at + _SOON]]
    changed = [i for i, call in enumerate(calls) if call.kind in _CHANGES]
    chosen = Counter(random.choices(changed, k=count - 2 * (count // 3)))
    for moments in (said, soon):
        chosen.update(random.choices(moments, k=count // 3))
    for i, call in enumerate(calls):
        recording.disk.apply(call)
        report.hear(call)
        for _ in range(chosen[i]):
            yield i, report, recording.disk.after_loss(random)


def cut(
    process: Writer,
    workdir: Path,
    size: int,
    seed: int,
    tally: RecordTally,
    bug: str = "",
    stop_at_bad: bool = False,
) -> None:
    """Record, cut so many images, and examine them."""
    while tally.images < size and not (stop_at_bad and tally.bad):
        record = tally.records
        rule = ("exact", "exact", "rolling")[record % 3]
        number, count = seed * 1000 + record, min(_IMAGES, -(-size // 3), size - tally.images)
        where = f"seed {seed}, record {record}, {rule}"
        recording = Recording(process, workdir, Script(number, rule, others=11), number, bug)
        examiner = Examiner(History(recording.script), workdir, tally)
        try:
            for moment, report, files in images(recording, count, Random(number)):
                examiner.examine(f"{where}, moment {moment}", report, files)
                if stop_at_bad and tally.bad:
                    return
            if not recording.is_whole():
                raise TraceError("the record does not lead to the files that are there")
        except TraceError as error:
            tally.unrecorded += 1
            tally.note(f"{where}: {error}")
        tally.calls += len(recording.calls)
        tally.ends += recording.ends
        tally.records += 1


def look(size: int, seed: int) -> Found:
    """Examine so many images; then see that seeded bugs are noticed."""
    tally, caught = RecordTally(), {}
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        workdir = Path(name).resolve()
        with writer(compile_trace(workdir)) as process:
            cut(process, workdir, size, seed, tally)
            for bug in MUTANTS:
                mutant = RecordTally()
                cut(process, workdir, _MUTANT_IMAGES, seed, mutant, bug, stop_at_bad=True)
                caught[bug] = mutant.images if mutant.bad else None
    figures = {
        "records": tally.records,
        "recorded calls": tally.calls,
        "lives": dict(sorted(tally.ends.items())),
        "acknowledged and lost": tally.lost,
        "images that do not open": tally.refused,
        "other wrong states": tally.wrong,
        "records that are not whole": tally.unrecorded,
        "images until a bug showed": caught,
    }
    noticed, all_of_them = None not in caught.values(), tally.images >= size
    return Found(tally.images, tally.bad, noticed, figures, tally.notes, all_of_them)


CHECK = Check(
    "power_loss",
    150,
    10_000,
    "acknowledged is durable",
    "images of the disk after a loss of power",
    "PRAGMA synchronous = OFF; snapshots that are not synced; a recovery that settles nothing",
    look,
)
