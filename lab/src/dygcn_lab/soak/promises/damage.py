"""Damage is detected: flipped bits and cut files, all over a durable folder, never give a wrong vector."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dygcn.engine.events import read_events
from dygcn.engine.models import folder as folders
from dygcn.errors import DygcnError, FolderError, StorageError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage import entries
from dygcn.live.durable.storage.layout import LOG_FILE
from dygcn.live.embedding import start
from dygcn.live.files import GRAPH_FILE, MODEL_FILE, load_state
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.seeding import seeded, small_model

SAVED = (folders.MANIFEST, MODEL_FILE, GRAPH_FILE)
DETECTED, REPORTED, HARMLESS = "detected", "done without, and reported", "not needed"
_TOO_HEAVY = 1e30
_LOGS_TIMES = 4  # they are few files, and what matters most is in them
_LEAVE_OUT = shutil.ignore_patterns("*-shm", "lock")


@dataclass(frozen=True, slots=True)
class Whole:
    """What is in a folder that nobody damaged."""

    digest: str
    streams: dict[str, int]
    letters: list[tuple[str, int, int, str, str]]
    next_digest: str  # after one more update

    def is_in(self, live: DurableEmbedding) -> bool:
        """Say whether an embedding has all of it, and dead letters that are right, or said to be damaged."""
        try:
            right = letters(live) == self.letters
        except StorageError:
            right = True
        return right and (live.digest(), live.streams) == (self.digest, self.streams)


def letters(live: DurableEmbedding) -> list[tuple[str, int, int, str, str]]:
    """Return what the table of dead letters says."""
    found = [(one.stream, one.offset, one.row, one.reason, one.event) for _, one in live._log.dead_letters()]
    return sorted(found)


@dataclass(slots=True)
class DamageTally(Tally):
    """What became of images."""

    images: int = 0
    found: dict[str, Counter[str]] = field(default_factory=dict)  # by file

    def count(self, file: str, what: str) -> None:
        """Count an image that did no harm."""
        self.images += 1
        self.found.setdefault(file, Counter())[what] += 1

    def harm(self, file: str, what: str) -> None:
        """Count an image that did."""
        self.count(file, "wrong")
        self.check(False, what)


def make_folder(path: Path) -> DurableEmbedding:
    """Return a folder with snapshots, entries behind them, dead letters and a load that is in no entry."""
    live = open_folder(path, start(small_model()))
    for step in range(30):
        rows = [(step % 7, 7 + step % 5, 0, 1, 1.0 + step % 3), (step % 4, 7 + step % 3, 0, -1, 1.0)]
        if step % 10 == 4:
            rows[0] = (*rows[0][:4], _TOO_HEAVY)
        live._ingest([SourceBatch(read_events(rows), "http:ann", 2 * step + 1, 2 * step)])
        live.update(add=[(step, step + 1)], stream="kafka:clicks/0", offset=10 * step)
        if step == 9:
            live.bulk([[(50, 51), (51, 52)]])
        if step in (15, 22):
            live.snapshot()
    return live


def next_update(live: DurableEmbedding) -> str:
    """Write a little more; return the digest after it."""
    live.update(add=[(3, 60), (60, 61)])
    live._ingest([SourceBatch(read_events([(3, 9, 0, 1, _TOO_HEAVY)]), "http:bob", 0, 0)])
    return live.digest()


def look_at(live: DurableEmbedding) -> Whole:
    """Return what a folder holds; it is written to."""
    digest, streams, buried = live.digest(), dict(live.streams), letters(live)
    return Whole(digest, streams, buried, next_update(live))


class Spoiler:
    """A folder, and damage to one file of a copy of it at a time."""

    def __init__(self, workdir: Path, original: Path, seed: int, tally: DamageTally) -> None:
        self._workdir, self._original = workdir, original
        self._random, self._tally = Random(seed), tally
        files = sorted(
            str(file.relative_to(original))
            for file in original.rglob("*")
            if file.is_file() and file.stat().st_size and file.name != "lock"
        )
        self._files = files + _LOGS_TIMES * [name for name in files if name.startswith(LOG_FILE)]
        copy = shutil.copytree(original, workdir / "whole", ignore=_LEAVE_OUT)
        live = open_folder(copy)
        self._whole = look_at(live)
        live._let_go()
        shutil.rmtree(copy)

    def spoil(self) -> None:
        """Damage one file, and open the folder."""
        name = self._random.choice(self._files)
        image = shutil.copytree(self._original, self._workdir / "image", ignore=_LEAVE_OUT)
        what = f"{self._original.name}/{name}: {self._change(image / name)}"
        short = f"{self._original.name}: {Path(name).name}"
        try:
            if Path(name).name in SAVED and not is_refused((image / name).parent):
                self._tally.harm(short, f"{what}: loaded, and nobody noticed")
            else:
                self._open(image, short, what)
        except DygcnError:
            self._tally.count(short, DETECTED)
        except Exception as error:  # the promise is that there is no other
            self._tally.harm(short, f"{what}: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(image)

    def _change(self, file: Path) -> str:
        content = bytearray(file.read_bytes())
        at = self._random.randrange(len(content))
        if self._random.random() < 0.2:
            del content[at:]
            file.write_bytes(content)
            return f"cut at {at}"
        bit = self._random.randrange(8)
        content[at] ^= 1 << bit
        file.write_bytes(content)
        return f"bit {bit} of byte {at}"

    def _open(self, image: Path, short: str, what: str) -> None:
        live = open_folder(image)
        try:
            if not self._whole.is_in(live):
                self._tally.harm(short, f"{what}: another state, and nobody noticed")
                return
            figures = REPORTED if live._ahead.damage else HARMLESS
            if "log" in short and self._whole.next_digest != next_update(live):
                self._tally.harm(short, f"{what}: another state after the next update")
                return
        finally:
            live._let_go()
        if "log" in short:
            again = open_folder(image)
            same = again.digest() == self._whole.next_digest
            again._let_go()
            if not same:
                self._tally.harm(short, f"{what}: another state after the next start")
                return
        self._tally.count(short, figures)


def is_refused(place: Path) -> bool:
    """Say whether what was saved there is refused by name."""
    try:
        load_state(place)
    except FolderError:
        return True
    return False


def damage(size: int, seed: int) -> DamageTally:
    """Damage a folder that was closed, and one whose process died, half of the time each."""
    tally = DamageTally()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        workdir = Path(name)
        live = make_folder(workdir / "in use")
        shutil.copytree(live._folder, workdir / "crashed", ignore=_LEAVE_OUT)
        live.close()
        live._folder.rename(workdir / "closed")
        spoilers = [
            Spoiler(workdir, workdir / which, seed + i, tally)
            for i, which in enumerate(("closed", "crashed"))
        ]
        for number in range(size):
            spoilers[number % 2].spoil()
    return tally


def without_checksums(size: int, seed: int) -> DamageTally:
    """The seeded bug: what files say of themselves is believed."""
    with ExitStack() as bugs:
        bugs.enter_context(seeded(folders, "_checksum", lambda manifest: manifest.checksum))
        bugs.enter_context(seeded(folders.FileEntry, "__eq__", lambda self, other: True))
        bugs.enter_context(seeded(entries, "check_entry", lambda path, entry, expected, chain: entry.chain))
        return damage(size, seed)


def look(size: int, seed: int) -> Found:
    """Damage folders, then see whether it would be noticed if nothing was compared."""
    tally = damage(size, seed)
    totals: Counter[str] = sum(tally.found.values(), Counter())
    by_file = {name: dict(counts) for name, counts in sorted(tally.found.items())}
    caught = without_checksums(min(size, 300), seed).bad > 0
    return Found(tally.images, tally.bad, caught, dict(totals) | {"files": by_file}, tally.notes)


CHECK = Check(
    "damage",
    500,
    10_000,
    "damage is detected",
    "a flipped bit or a cut, in any file of a folder that was closed, or whose process died",
    "checksums are not compared",
    look,
)
