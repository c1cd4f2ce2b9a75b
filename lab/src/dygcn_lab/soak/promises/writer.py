"""A process that writes to durable folders, and dies: one life for every order that it reads.

It imports and compiles everything once and forks for each life, so that a life costs milliseconds. No thread
runs when it forks. Orders come as lines of JSON on standard input; what a life says goes to standard output,
line by line, before anything else happens.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from dygcn_lab.soak.promises.life import Event, Life, Order
from dygcn_lab.soak.promises.script import Script

_PATIENCE = 120.0  # seconds that a life may last


def serve() -> None:
    """Read orders and live them, one after the other."""
    out = sys.stdout.fileno()

    def say(said: Event) -> None:
        os.write(out, msgspec.json.encode(said) + b"\n")

    _warm_up()
    if threads := [name for name in _threads() if not name.startswith("jemalloc")]:  # it knows of forks
        raise RuntimeError(f"threads run that children would not have: {threads}")
    say(Event("ready"))
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        say(Event("ended", status=_fork(order, say)))


def _threads() -> list[str]:
    """Return the names of all threads but this one, of libraries, too."""
    others = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    return [(task / "comm").read_text().strip() for task in others]


def _warm_up() -> None:
    """Compile every loop, and import whatever is imported late."""
    for rule in ("exact", "aged", "rolling"):
        with tempfile.TemporaryDirectory() as workdir:
            folder = f"{workdir}/warm"
            Script(0, rule).begin().save(folder)
            for until in (30, 60):
                Life(Order(folder, 0, rule, until=until, every=20), lambda said: None).run()


def _fork(order: Order, say: Callable[[Event], None]) -> int:
    """Live in a process of its own; kill it when its time has come; return how it ended."""
    alive, kept = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(alive)
            Life(order, say).run()
            status = 0
        finally:
            os._exit(status)
    os.close(kept)
    limit = _PATIENCE if order.seconds is None else order.seconds
    ready, _, _ = select.select([alive], [], [], limit)  # readable when the last one who has it is gone
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(alive)
    return status


class Writer:
    """The process, seen from the one who orders lives."""

    def __init__(self, preload: Path | None = None) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        one = dict.fromkeys(("DYGCN_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        settings = os.environ | one | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
        if preload is not None:
            settings["LD_PRELOAD"] = str(preload)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=settings,
        )
        self._read()

    def live(self, order: Order) -> list[Event]:
        """Have a life lived; return what it said, the end last."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        said = [self._read()]
        while said[-1].what != "ended":
            said.append(self._read())
        return said

    def _read(self) -> Event:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the writer ended: {self.errors()}")
        return msgspec.json.decode(line, type=Event)

    def errors(self) -> str:
        """Return the end of what it wrote to standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(_PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


@contextmanager
def writer(preload: Path | None = None) -> Iterator[Writer]:
    """Start the process, and end it at the end."""
    process = Writer(preload)
    try:
        yield process
    finally:
        process.close()


def begin_folder(script: Script, folder: Path) -> None:
    """Make a new folder for a script, in place of any that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    script.begin().save(folder)


if __name__ == "__main__":
    serve()
