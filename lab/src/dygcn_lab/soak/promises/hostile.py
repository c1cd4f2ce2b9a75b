"""No code from files: a folder of hostile files is refused by name, quickly and in little memory."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import dygcn
from dygcn.engine.models import folder as folders
from dygcn.errors import DygcnError
from dygcn_lab.soak.check import Check, Found
from dygcn_lab.soak.promises.hostile_files import EXPLODED, READERS, Build, Trap, cases, good_things
from dygcn_lab.soak.promises.images import memory_folder
from dygcn_lab.testbed.unsafe_code import unsafe_code

MOST_SECONDS, MOST_BYTES = 2.0, 256 << 20
_PATIENCE = 20  # seconds after which a case is given up
_ROOM = 6 << 30  # bytes of address space that a case may ask for
_LIMITLESS = "a manifest of any length is read"
_SEEDED = {
    "np.load": "import numpy as np\nx = np.load('x', allow_pickle=True)",
    "torch.load": "import torch\nx = torch.load('x')",
    "pickle": "def read(f):\n    from pickle import loads\n    return loads(f)",
    "yaml": "import yaml\nx = yaml.load(open('x'))",
    "eval": "x = eval(open('x').read())",
}


class Outcome(msgspec.Struct):
    """What became of one hostile thing."""

    name: str
    how: str  # "refused", or what happened instead
    said: str = ""
    seconds: float = 0.0
    grown: int = 0  # bytes

    @property
    def good(self) -> bool:
        """Whether it was refused by name, in time and in little memory."""
        return self.how == "refused" and self.seconds <= MOST_SECONDS and self.grown <= MOST_BYTES


# ---- in a process of its own -------------------------------------------------------------------------


def _memory(field: str) -> int:
    """Return a field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def _watched(outcome: Outcome) -> Iterator[None]:
    """Measure processor time and the greatest growth of memory; give up after a while."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, begun = _memory("VmRSS"), time.process_time()
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        outcome.seconds = round(time.process_time() - begun, 3)
        outcome.grown = max(_memory("VmHWM") - before, 0)


def attempt(name: str, reader: str, path: str) -> Outcome:
    """Read something hostile."""
    outcome = Outcome(name, "refused")
    try:
        with _watched(outcome):
            found = READERS[reader](Path(path))
        outcome.how = "taken"
        if isinstance(found, dygcn.DurableEmbedding):
            found.close()
    except DygcnError as error:
        outcome.said = f"{type(error).__name__}: {error}"[:300]
    except TimeoutError:
        outcome.how = "it took too long"
    except BaseException as error:  # any other kind is what must not be
        outcome.how = f"{type(error).__name__}: {error}"[:300]
    if Path(EXPLODED).exists():
        outcome.how = "code was run"
    return outcome


def serve(workdir: str, limits: bool) -> None:
    """Read what is named on standard input, one thing after the other, and say what became of it."""
    if not limits:
        folders._LARGEST_MANIFEST = 1 << 62
    os.chdir(workdir)
    for line in sys.stdin:
        wanted = msgspec.json.decode(line, type=tuple[str, str, str])
        most = _memory("VmSize") + _ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        outcome = attempt(*wanted)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.flush()


class Reader:
    """The process that reads; a new one after it died."""

    def __init__(self, workdir: Path, limits: bool = True) -> None:
        self._workdir, self._limits = workdir, limits
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, name: str, build: Build) -> Outcome:
        """Have one thing made here, and read there."""
        if self._process is None:
            self._start()
        place = self._workdir / "case"
        trap = build(place)
        try:
            return self._ask(name, trap)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _ask(self, name: str, trap: Trap) -> Outcome:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode((name, trap.reader, str(trap.path))) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if line:
            return msgspec.json.decode(line, type=Outcome)
        self.stop()
        return Outcome(name, f"the process ended with {process.returncode}")

    def _start(self) -> None:
        command = [sys.executable, "-m", __name__, str(self._workdir), "limits" if self._limits else ""]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for name, build in good_things().items():
            if (outcome := self.read(name, build)).how != "taken":
                raise AssertionError(f"{name}: {outcome}")

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None


# ---- the check ---------------------------------------------------------------------------------------


def read_all(names: list[str], limits: bool = True) -> list[Outcome]:
    """Have hostile things read, one after the other."""
    known = cases()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as workdir:
        reader = Reader(Path(workdir), limits)
        try:
            return [reader.read(name, known[name]) for name in names]
        finally:
            reader.stop()


def unsafe_sources() -> list[str]:
    """Return every place in the library that would run what it reads."""
    root = Path(dygcn.__file__).parent
    return [
        f"{path.relative_to(root)}, {what}"
        for path in sorted(root.rglob("*.py"))
        for what in unsafe_code(path.read_text())
    ]


def look(size: int, seed: int) -> Found:
    """Read so many of the hostile files, look through the library's own code, and see that both can fail."""
    names = list(cases())
    Random(seed).shuffle(names)
    outcomes = read_all(names[:size])
    bad = [one for one in outcomes if not one.good]
    unsafe = unsafe_sources()
    [limitless] = read_all(["manifest: a gigabyte"], limits=False)
    caught = not limitless.good and all(map(unsafe_code, _SEEDED.values()))
    figures: dict[str, Any] = {
        "slowest, s": max((one.seconds for one in outcomes), default=0.0),
        "most memory, MB": max((one.grown for one in outcomes), default=0) >> 20,
        "files of the library": len(list(Path(dygcn.__file__).parent.rglob("*.py"))),
    }
    notes = [f"{one.name}: {one.how}, {one.seconds} s, {one.grown >> 20} MB" for one in bad] + unsafe
    return Found(len(outcomes), len(bad) + len(unsafe), caught, figures, notes[:5])


CHECK = Check(
    "hostile",
    200,
    200,
    "no code from files",
    "hostile files are read; the library's own code is looked through",
    f"{_LIMITLESS}; {', '.join(_SEEDED)} in the code",
    look,
)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] == "limits")
