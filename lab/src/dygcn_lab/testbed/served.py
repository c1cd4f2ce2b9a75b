"""The service for checks: in a thread of this process, or in a process of its own.

`python -m dygcn_lab.testbed.served CONFIG.toml [MODULE:FUNCTION]` does what `dygcn run CONFIG.toml --json`
does, after it called the function: a bug to be noticed, say.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dygcn.cli.serving import open_embedding
from dygcn.errors import DygcnError
from dygcn.serving.observing.logs import configure
from dygcn.serving.service.app import make_app, run_app
from dygcn.serving.service.server import Server
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Http, ServiceSettings, Token, check_settings, read_settings

_PATIENCE = 120.0  # seconds until it answers; machines of others are slow


@dataclass(frozen=True, slots=True)
class Served:
    """A service in this process that answers."""

    service: Service
    server: Server
    address: str


@contextmanager
def served(settings: ServiceSettings) -> Iterator[Served]:
    """Serve in a thread until the end of the block, then drain."""
    service = Service(check_settings(settings), open_embedding)
    app = make_app(service)
    listens, addresses = threading.Event(), []

    def ready(address: str) -> None:
        addresses.append(address)
        listens.set()

    server = Server(app, ready)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        if not listens.wait(_PATIENCE):
            raise DygcnError("the service did not begin to answer")
        yield Served(service, server, addresses[0])
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)


def on_loopback(folder: str | Path, *, tokens: tuple[Token, ...] = ()) -> ServiceSettings:
    """Return settings for a folder, on any free port of the loopback address."""
    return ServiceSettings(folder=str(folder), http=Http(port=0, tokens=list(tokens)))


class ServedProcess:
    """A service in a process of its own.

    `address`: where it answers.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log
        self.address = self._wait_for_address()

    def _wait_for_address(self) -> str:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            ended = self._process.poll() is not None
            for line in self.said.splitlines(keepends=True):
                if line.startswith('{"address"') and line.endswith("\n"):
                    found: str = json.loads(line)["address"]
                    return found
            if ended:
                break
            time.sleep(0.02)
        raise DygcnError(f"the service did not begin: {self.said[-2000:]}")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def megabytes(self) -> float:
        """Return how much memory it has now (Linux only)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def drain(self) -> tuple[int, str]:
        """Drain and stop the service; return its exit code and its output."""
        self.send(signal.SIGTERM)
        return self.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self, seconds: float = _PATIENCE) -> tuple[int, str]:
        """Wait for the end of the process; return its exit code and its output."""
        return self._process.wait(seconds), self.said

    @property
    def said(self) -> str:
        """Its output."""
        return self._log.read_text(errors="replace")


@contextmanager
def served_process(
    folder: Path,
    limits: Mapping[str, float] | None = None,
    tokens: tuple[Token, ...] = (),
    bug: str = "",
    settings: str = "",
    tables: str = "",
    readers: int = 0,
) -> Iterator[ServedProcess]:
    """Serve a folder in a process of its own, on any free port; it is killed at the end, if it still runs.

    `bug`: ``"module:function"`` that the process calls before it begins; `settings`, `tables`: further TOML:
    of the process itself, and tables such as ``[[sinks]]``.
    """
    config = folder.with_name(f"{folder.name}.toml")
    lines = [f'folder = "{folder.name}"', settings, "[http]", "port = 0", f"readers = {readers}"]
    for token in tokens:
        lines += ["[[http.tokens]]", f'name = "{token.name}"', f'sha256 = "{token.sha256}"']
        lines.append(f"scopes = {json.dumps(token.scopes)}")
    lines += ["[limits]", *(f"{name} = {value}" for name, value in (limits or {}).items()), tables]
    config.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "dygcn_lab.testbed.served", str(config), *([bug] if bug else [])]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
    try:
        yield ServedProcess(process, log)
    finally:
        process.kill()
        process.wait()


def main(config: str, bug: str = "") -> None:
    """Serve with the settings of a file."""
    if bug:
        module, _, name = bug.partition(":")
        getattr(importlib.import_module(module), name)()

    def ready(address: str) -> None:
        sys.stdout.write(json.dumps({"address": address}) + "\n")
        sys.stdout.flush()

    settings = read_settings(config)
    configure(settings.log.format, settings.log.level)
    run_app(Service(settings, open_embedding), ready, reread=lambda: read_settings(config))


if __name__ == "__main__":
    main(*sys.argv[1:])
